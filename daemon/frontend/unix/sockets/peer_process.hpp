// SPDX-License-Identifier: Apache-2.0

// Reads from /proc about a process at the other end of a socket, and what it may do beyond its
// user's rights.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace softhca::control {

/// Returns the path of its cgroup in the unified hierarchy or, if that has none, in that of
/// systemd, as this process sees it. `pidfd`: of the process, so that another process with its
/// number is not read. Nothing: the process has ended, or its cgroup is unknown.
std::optional<std::string> cgroup_of(pid_t pid, int pidfd);

/// Returns the same from the text of /proc/PID/cgroup (cgroups(7)).
std::optional<std::string> cgroup_in(std::string_view text);

/// True if the process is in the daemon's PID namespace, and not in one below it, as that of a
/// container. False also if it has ended, or the namespace is unknown. `pidfd`: as for cgroup_of().
bool is_in_our_pid_namespace(pid_t pid, int pidfd);

/// Returns the same from the text of /proc/PID/status, which lists the process's number in each
/// namespace that has it (NSpid, proc_pid_status(5)).
bool has_one_number(std::string_view status);

/// True if the process may bind ports below 1024, as for sockets: it has CAP_NET_BIND_SERVICE, in
/// the user namespace of the daemon. False also if it has ended, or this is unknown. `pidfd`: as
/// for cgroup_of().
bool may_bind_low_ports(pid_t pid, int pidfd);

/// Returns the effective capabilities in the text of /proc/PID/status.
std::uint64_t capabilities_in(std::string_view status);

}  // namespace softhca::control
