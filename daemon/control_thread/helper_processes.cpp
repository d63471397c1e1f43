// SPDX-License-Identifier: Apache-2.0

#include "daemon/control_thread/helper_processes.hpp"

#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>

#include "daemon/base/passed_descriptors.hpp"
#include "daemon/base/sealed_memory.hpp"
#include "daemon/base/system_error.hpp"
#include "daemon/tenant_memory/memory_proxy_process.hpp"

namespace softhca::control {
namespace {

constexpr const char* kHelper = "helper process";
constexpr std::size_t kIdleSealers = 4;  // kept for later seals

// The requests, and the descriptors that come with them.
constexpr char kSeal = 's';   // the memory, the socket of the sealer
constexpr char kProxy = 'p';  // ProxyArea, the socket of the MemoryProxy

/// Sends a one-byte request with descriptors. Returns false with errno set if it was not sent.
bool send_request(int socket, char what, std::span<const int> fds) {
  return send_with_descriptors(socket, std::as_bytes(std::span{&what, 1}), fds) == 1;
}

void answer(const UniqueFd& to, int error) { ::send(to.get(), &error, sizeof error, MSG_NOSIGNAL); }

/// Drops all capabilities that it may: the filter of the service leaves it those for ports.
void give_up_capabilities() {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct none[2] = {};
  ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  ::syscall(SYS_capset, &header, none);
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

/// Closes what this process has inherited: a socket has no end as long as any process has it.
void keep_open_only(int fd) {
  ::close_range(STDERR_FILENO + 1, static_cast<unsigned>(fd) - 1, 0);
  ::close_range(static_cast<unsigned>(fd) + 1, ~0u, 0);
}

/// Seals the memory, then other memory that comes by `socket`, until that is closed.
[[noreturn]] void serve_seals(UniqueFd memory, const UniqueFd& socket) {
  for (;;) {
    const auto sealed = SealedMemory::seal_holes(memory.get());
    memory.reset();
    answer(socket, sealed ? 0 : sealed.error().code);
    char what = 0;
    std::array<UniqueFd, 1> next;
    const ssize_t got =
        receive_with_descriptors(socket.get(), std::as_writable_bytes(std::span{&what, 1}), next);
    if (got <= 0) ::_exit(0);
    memory = std::move(next[0]);
  }
}

[[noreturn]] void run(char what, std::array<UniqueFd, 2> passed) {
  if (what == kProxy) {
    ::prctl(PR_SET_NAME, "softhca-memory");
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    give_up_capabilities();
    memory::serve_memory_proxy(std::move(passed[0]), std::move(passed[1]));
  }
  ::prctl(PR_SET_NAME, "softhca-sealer");
  serve_seals(std::move(passed[0]), passed[1]);
}

/// Runs the process that start() makes.
[[noreturn]] void serve(int socket) {
  ::prctl(PR_SET_NAME, "softhca-helper");
  // A process in a wait must not hold the standard descriptors of the daemon.
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(nothing, fd);
  if (::chdir("/") != 0) ::_exit(1);
  ::signal(SIGCHLD, SIG_IGN);  // this process does not wait for its children
  for (;;) {
    char what = 0;
    std::array<UniqueFd, 2> passed;
    const ssize_t got =
        receive_with_descriptors(socket, std::as_writable_bytes(std::span{&what, 1}), passed);
    if (got <= 0) ::_exit(0);                // the daemon has gone
    if (!passed[0] || !passed[1]) continue;  // this process has run out of descriptors
    const pid_t child = ::fork();
    if (child < 0 && what == kSeal) answer(passed[1], errno);
    if (child != 0) continue;
    ::close(socket);  // a child in a wait would keep it open after this process has ended
    run(what, std::move(passed));
  }
}

}  // namespace

Expected<std::shared_ptr<const HelperProcesses>> HelperProcesses::start() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return system_error(kHelper);
  UniqueFd ours(ends[0]);
  const UniqueFd theirs(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) return system_error(kHelper);
  if (child == 0) {
    keep_open_only(theirs.get());
    serve(theirs.get());
  }
  return std::shared_ptr<const HelperProcesses>(new HelperProcesses(std::move(ours)));
}

Outcome HelperProcesses::ask(char what, int first, int second) const {
  while (!send_request(socket_.get(), what, std::array{first, second})) {
    if (errno != EAGAIN) return system_error(kHelper);
    pollfd room{socket_.get(), POLLOUT, 0};
    ::poll(&room, 1, -1);
  }
  return {};
}

UniqueFd HelperProcesses::take_sealer() const {
  const std::lock_guard lock(mutex_);
  if (idle_sealers_.empty()) return {};
  UniqueFd sealer = std::move(idle_sealers_.back());
  idle_sealers_.pop_back();
  return sealer;
}

/// Starts a process that seals this memory first.
Expected<UniqueFd> HelperProcesses::start_sealer(int fd) const {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return system_error("sealing memory");
  UniqueFd ours(ends[0]);
  const UniqueFd theirs(ends[1]);
  if (auto asked = ask(kSeal, fd, theirs.get()); !asked) return asked.error();
  return ours;
}

Outcome HelperProcesses::seal(int fd) const {
  UniqueFd sealer = take_sealer();
  for (bool fresh = false;; sealer.reset()) {
    if (!sealer || !send_request(sealer.get(), kSeal, std::array{fd})) {
      auto started = start_sealer(fd);
      if (!started) return started.error();
      sealer = std::move(*started);
      fresh = true;
    }
    int error = 0;
    ssize_t got;
    do got = ::recv(sealer.get(), &error, sizeof error, 0);
    while (got < 0 && errno == EINTR);
    if (got != sizeof error && !fresh) continue;  // the sealer was killed while it was idle
    if (got != sizeof error) error = EIO;
    if (const std::lock_guard lock(mutex_); error != EIO && idle_sealers_.size() < kIdleSealers)
      idle_sealers_.push_back(std::move(sealer));
    if (error == 0) return {};
    return Error{std::string("F_SEAL_FUTURE_WRITE: ") + std::strerror(error), error};
  }
}

Outcome HelperProcesses::start_memory_proxy(int area, int socket) const {
  return ask(kProxy, area, socket);
}

Outcome seal(const std::shared_ptr<const HelperProcesses>& helpers, int fd) {
  return helpers != nullptr ? helpers->seal(fd) : SealedMemory::seal_holes(fd);
}

}  // namespace softhca::control
