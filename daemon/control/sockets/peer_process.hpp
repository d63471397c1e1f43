// What /proc says of a process at the other end of a socket, and what it may do beyond its user's
// rights.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace softhca::control {

/// The path of its cgroup in the unified hierarchy, or, where there is none, in that of systemd;
/// as this process sees it. `pidfd`: of the process, so that none that has got its number is asked.
/// Nothing: the process has ended, or its cgroup cannot be told.
std::optional<std::string> cgroup_of(pid_t pid, int pidfd);

/// The same of what /proc/PID/cgroup says (cgroups(7)).
std::optional<std::string> cgroup_in(std::string_view text);

/// Is `path` that cgroup, or one below it?
bool is_in_cgroup(std::string_view path, std::string_view cgroup);

/// Is the process in our PID namespace, and not in one below it, as that of a container? False also
/// if it has ended, or that cannot be told. `pidfd`: likewise.
bool is_in_our_pid_namespace(pid_t pid, int pidfd);

/// The same of what /proc/PID/status says: it lists the process's number in each namespace that has
/// it (NSpid, proc_pid_status(5)).
bool has_one_number(std::string_view status);

/// May the process bind ports below 1024? As for sockets: CAP_NET_BIND_SERVICE, in the user
/// namespace of the daemon. False also if it has ended, or that cannot be told. `pidfd`: likewise.
bool may_bind_low_ports(pid_t pid, int pidfd);

/// The effective capabilities in what /proc/PID/status says.
std::uint64_t capabilities_in(std::string_view status);

}  // namespace softhca::control
