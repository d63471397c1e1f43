// SPDX-License-Identifier: Apache-2.0

#include "daemon/frontend/unix/sockets/peer_process.hpp"

#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <utility>

#include "daemon/base/unique_fd.hpp"

namespace softhca::control {
namespace {

// A path of a cgroup is at most 4 KiB long, and there are at most some 15 hierarchies.
constexpr std::size_t kMostBytes = std::size_t{64} << 10;

std::optional<std::string> read_bounded(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return std::nullopt;
  std::string text;
  for (char part[4096];;) {
    const ssize_t n = ::read(file.get(), part, sizeof part);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return std::nullopt;
    if (n == 0) return text;
    text.append(part, static_cast<std::size_t>(n));
    if (text.size() > kMostBytes) return std::nullopt;
  }
}

/// True if the process has ended: then its pidfd is readable. Until then no other process has its
/// number. Without a pidfd, which is negative, it may have ended.
bool has_ended(int pidfd) {
  if (pidfd < 0) return true;
  pollfd process{.fd = pidfd, .events = POLLIN, .revents = 0};
  return ::poll(&process, 1, 0) != 0;
}

bool in_our_user_namespace(pid_t pid) {
  const std::string theirs_path = "/proc/" + std::to_string(pid) + "/ns/user";
  struct stat ours, theirs;
  return ::stat("/proc/self/ns/user", &ours) == 0 && ::stat(theirs_path.c_str(), &theirs) == 0 &&
         ours.st_ino == theirs.st_ino;
}

/// Returns what follows "KEY:" in the text of /proc/PID/status, to the end of its line.
std::optional<std::string_view> value_of(std::string_view status, std::string_view key) {
  const std::size_t at = status.find(key);
  if (at == status.npos) return std::nullopt;
  const std::string_view value = status.substr(at + key.size());
  return value.substr(0, value.find('\n'));
}

/// Returns the text of /proc/`pid`/`file`, if the process of `pidfd` still has the number.
std::optional<std::string> read_of(pid_t pid, int pidfd, const char* file) {
  auto text = read_bounded("/proc/" + std::to_string(pid) + "/" + file);
  return has_ended(pidfd) ? std::nullopt : std::move(text);
}

}  // namespace

std::optional<std::string> cgroup_of(pid_t pid, int pidfd) {
  const auto text = read_of(pid, pidfd, "cgroup");
  return text ? cgroup_in(*text) : std::nullopt;
}

bool is_in_our_pid_namespace(pid_t pid, int pidfd) {
  const auto text = read_of(pid, pidfd, "status");
  return text && has_one_number(*text);
}

bool has_one_number(std::string_view status) {
  const auto numbers = value_of(status, "\nNSpid:");
  if (!numbers) return false;
  constexpr const char* kSpace = " \t";
  const std::size_t first = numbers->find_first_not_of(kSpace);
  return first != numbers->npos && numbers->find_first_of(kSpace, first) == numbers->npos;
}

bool may_bind_low_ports(pid_t pid, int pidfd) {
  const auto status = read_bounded("/proc/" + std::to_string(pid) + "/status");
  const bool may = status && (capabilities_in(*status) >> CAP_NET_BIND_SERVICE & 1) != 0 &&
                   in_our_user_namespace(pid);
  return may && !has_ended(pidfd);
}

std::uint64_t capabilities_in(std::string_view status) {
  const auto text = value_of(status, "\nCapEff:\t");
  std::uint64_t capabilities = 0;
  if (!text) return 0;
  const auto [end, error] =
      std::from_chars(text->data(), text->data() + text->size(), capabilities, 16);
  return error == std::errc() && end == text->data() + text->size() ? capabilities : 0;
}

std::optional<std::string> cgroup_in(std::string_view text) {
  std::optional<std::string> of_systemd;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const std::size_t number = line.find(':');
    const std::size_t controllers = number == line.npos ? line.npos : line.find(':', number + 1);
    if (controllers == line.npos) continue;
    const std::string_view names = line.substr(number + 1, controllers - number - 1);
    const std::string path(line.substr(controllers + 1));
    if (!path.starts_with('/')) continue;
    if (line.substr(0, number) == "0" && names.empty()) return path;
    if (names == "name=systemd") of_systemd = path;
  }
  return of_systemd;
}

}  // namespace softhca::control
