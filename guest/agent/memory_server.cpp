// SPDX-License-Identifier: Apache-2.0

#include "guest/agent/memory_server.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "daemon/base/passed_descriptors.hpp"
#include "daemon/base/system_error.hpp"
#include "daemon/tenant_memory/memory_proxy_process.hpp"

namespace softhca::guest {
namespace {

struct Pair {
  UniqueFd ours;
  UniqueFd theirs;
};

Expected<Pair> make_pair_of_sockets() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
    return system_error("process that accesses programs' memory");
  return Pair{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

}  // namespace

Expected<UniqueFd> MemoryServer::start(const abi::MemoryPlace& area) {
  stop();
  const bool is_inside = area.bytes >= sizeof(memory::ProxyArea) && area.offset % 4096 == 0 &&
                         area.offset <= region_.bytes() &&
                         area.bytes <= region_.bytes() - area.offset;
  if (!is_inside) return Error{"the daemon has named memory that is not in the region", EPROTO};
  void* const at = ::mmap(nullptr, sizeof(memory::ProxyArea), PROT_READ | PROT_WRITE, MAP_SHARED,
                          region_.fd(), static_cast<off_t>(area.offset));
  if (at == MAP_FAILED) return system_error("cannot map the region");
  area_ = static_cast<memory::ProxyArea*>(at);
  auto to_process = make_pair_of_sockets();
  if (!to_process) return to_process.error();
  auto bell = make_pair_of_sockets();
  if (!bell) return bell.error();
  UniqueFd region(::fcntl(region_.fd(), F_DUPFD_CLOEXEC, 0));
  ::signal(SIGCHLD, SIG_IGN);  // one that has ended is not waited for
  const pid_t parent = ::getpid();
  process_ = ::fork();
  if (process_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::prctl(PR_SET_NAME, "softhca-memory");
    if (::getppid() != parent) ::_exit(0);
    to_process->ours.reset();
    memory::serve_memory_proxy(std::move(region), std::move(to_process->theirs), area.offset);
  }
  if (process_ < 0) return system_error("process that accesses programs' memory");
  socket_ = std::move(to_process->ours);
  bell_ = std::move(bell->ours);
  watch_.ready = [this](std::uint32_t) { rung(); };
  loop_.arm(bell_.get(), watch_, EPOLLIN);
  return std::move(bell->theirs);
}

void MemoryServer::stop() {
  if (bell_) loop_.arm(bell_.get(), watch_, 0);
  bell_.reset();
  socket_.reset();
  if (process_ > 0) ::kill(process_, SIGKILL);
  process_ = -1;
  if (area_ != nullptr) ::munmap(area_, sizeof *area_);
  area_ = nullptr;
}

bool MemoryServer::add(std::uint32_t memory, const UniqueFd& offered) {
  const int fd = offered.get();
  return area_ != nullptr && tell({.memory = memory, .adds = 1}, {&fd, 1});
}

bool MemoryServer::tell(const memory::ProxyMessage& message, std::span<const int> fds) {
  if (send_with_descriptors(socket_.get(), std::as_bytes(std::span{&message, 1}), fds) < 0)
    return false;
  area_->messages.fetch_add(1, std::memory_order_release);
  wake();
  return true;
}

void MemoryServer::wake() {
  area_->wake.fetch_add(1, std::memory_order_seq_cst);
  memory::futex_wake(area_->wake);
}

/// Takes records of the daemon's bell. If the process has no room for one, it keeps the memory.
void MemoryServer::rung() {
  abi::MachineBell record{};
  ssize_t got = 0;
  while ((got = ::recv(bell_.get(), &record, sizeof record, MSG_DONTWAIT)) > 0) {
    if (static_cast<std::size_t>(got) != sizeof record || record.ended == 0) continue;
    tell({.memory = record.ended, .adds = 0}, {});
  }
  if (got == 0) return loop_.arm(bell_.get(), watch_, 0);
  memory::futex_wake(area_->wake);
}

}  // namespace softhca::guest
