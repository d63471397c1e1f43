#include "daemon/control/sockets/peer_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
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

/// A pidfd is readable once its process has ended. Until then nobody else has its number.
bool has_ended(int pidfd) {
  pollfd process{.fd = pidfd, .events = POLLIN, .revents = 0};
  return ::poll(&process, 1, 0) != 0;
}

/// What /proc/`pid`/`file` says, if it is the process of `pidfd` that has the number.
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
  constexpr std::string_view kNumbers = "\nNSpid:";
  const std::size_t at = status.find(kNumbers);
  if (at == status.npos) return false;
  std::string_view numbers = status.substr(at + kNumbers.size());
  numbers = numbers.substr(0, numbers.find('\n'));
  constexpr const char* kSpace = " \t";
  const std::size_t first = numbers.find_first_not_of(kSpace);
  return first != numbers.npos && numbers.find_first_of(kSpace, first) == numbers.npos;
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

bool is_in_cgroup(std::string_view path, std::string_view cgroup) {
  if (cgroup == "/") return true;
  return path.starts_with(cgroup) && (path.size() == cgroup.size() || path[cgroup.size()] == '/');
}

}  // namespace softhca::control
