// The cgroup of a process at the other end of a socket.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

namespace softhca::control {

/// The path of the process in the unified hierarchy, or, where there is none, in that of systemd;
/// as this process sees it. `pidfd`: of the process, so that none that has got its number is asked.
/// Nothing: it has ended, or its cgroup cannot be told.
std::optional<std::string> cgroup_of(pid_t pid, int pidfd);

/// The same of what /proc/PID/cgroup says (cgroups(7)).
std::optional<std::string> cgroup_in(std::string_view text);

/// Is `path` that cgroup, or one below it?
bool is_in_cgroup(std::string_view path, std::string_view cgroup);

}  // namespace softhca::control
