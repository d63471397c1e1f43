#include "daemon/control/sockets/sealer.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <span>

#include "daemon/base/sealed_memory.hpp"
#include "daemon/base/system_error.hpp"
#include "daemon/control/sockets/unix_socket.hpp"

namespace softhca::control {
namespace {

enum Passed : std::size_t { kMemory, kAnswer, kPassed };

/// The descriptors of the next request, or none: the daemon has gone.
std::array<UniqueFd, kPassed> receive(int socket) {
  std::byte byte;
  iovec part{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kPassed)];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t got;
  do got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  while (got < 0 && errno == EINTR);
  const cmsghdr* header = got > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (header == nullptr || header->cmsg_len != CMSG_LEN(sizeof(int) * kPassed)) return {};
  int fds[kPassed];
  std::memcpy(fds, CMSG_DATA(header), sizeof fds);
  return {UniqueFd(fds[kMemory]), UniqueFd(fds[kAnswer])};
}

void answer(const UniqueFd& to, int error) { ::send(to.get(), &error, sizeof error, MSG_NOSIGNAL); }

/// What the process does that start() makes.
[[noreturn]] void serve(int socket) {
  ::prctl(PR_SET_NAME, "softhca-sealer");
  // One that waits is not to hold what the daemon was started with.
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(nothing, fd);
  if (::chdir("/") != 0) ::_exit(1);
  ::signal(SIGCHLD, SIG_IGN);  // nobody waits for those that seal
  for (;;) {
    const auto request = receive(socket);
    if (!request[kMemory]) ::_exit(0);
    const pid_t child = ::fork();
    if (child < 0) answer(request[kAnswer], errno);
    if (child != 0) continue;
    ::close(socket);  // one that waits would keep it open when this process has gone
    const auto sealed = SealedMemory::seal_holes(request[kMemory].get());
    answer(request[kAnswer], sealed ? 0 : sealed.error().code);
    ::_exit(0);
  }
}

}  // namespace

Expected<std::shared_ptr<const Sealer>> Sealer::start() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return system_error("the process that seals memory");
  UniqueFd ours(ends[0]);
  const UniqueFd theirs(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) return system_error("the process that seals memory");
  if (child == 0) {
    ours.reset();
    serve(theirs.get());
  }
  return std::shared_ptr<const Sealer>(new Sealer(std::move(ours)));
}

Outcome Sealer::seal(int fd) const {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return system_error("sealing memory");
  const UniqueFd ours(ends[0]);
  UniqueFd theirs(ends[1]);
  const std::byte record{};
  while (!send_record(socket_.get(), {&record, 1}, std::array{fd, theirs.get()})) {
    if (errno != EAGAIN) return system_error("the process that seals memory");
    pollfd room{socket_.get(), POLLOUT, 0};
    ::poll(&room, 1, -1);
  }
  theirs.reset();
  int error = 0;
  ssize_t got;
  do got = ::recv(ours.get(), &error, sizeof error, 0);
  while (got < 0 && errno == EINTR);
  if (got != sizeof error) error = EIO;
  if (error == 0) return {};
  return Error{std::string("F_SEAL_FUTURE_WRITE: ") + std::strerror(error), error};
}

Outcome seal(const std::shared_ptr<const Sealer>& sealer, int fd) {
  return sealer != nullptr ? sealer->seal(fd) : SealedMemory::seal_holes(fd);
}

}  // namespace softhca::control
