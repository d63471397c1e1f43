// SPDX-License-Identifier: Apache-2.0

// A child process that plays a tenant: it has pages of its own at an address known here, filled
// with a pattern, which the process itself never touches again.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <stdexcept>

#include "daemon/base/passed_descriptors.hpp"
#include "daemon/base/unique_fd.hpp"
#include "daemon/tenant_memory/offered_memory.hpp"

namespace softhca::memory {

/// As a process opens its memory to offer it.
inline UniqueFd own_memory() {
  UniqueFd memory(::open("/proc/self/mem", O_RDWR | O_CLOEXEC));
  if (!memory) throw std::runtime_error("/proc/self/mem");
  return memory;
}
/// The end of a socket at which `passed` has been sent.
inline UniqueFd offer(const UniqueFd& passed) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    throw std::runtime_error("socketpair");
  UniqueFd ours(ends[0]);
  const UniqueFd theirs(ends[1]);
  const std::byte byte{};
  const int fd = passed.get();
  if (send_with_descriptors(theirs.get(), {&byte, 1}, {&fd, 1}) != 1)
    throw std::runtime_error("sendmsg");
  return ours;
}
inline std::shared_ptr<ProcessMemory> offered(const UniqueFd& passed) {
  return std::make_shared<OfferedMemory>(offer(passed));
}

class TenantProcess {
 public:
  /// `bytes` of private memory, byte i holding pattern(i), followed by a page that is not mapped.
  explicit TenantProcess(std::size_t bytes) : bytes_(bytes) {
    void* at =
        ::mmap(nullptr, bytes + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED || ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ready_) != 0)
      throw std::runtime_error("tenant set-up");
    memory_ = static_cast<std::uint8_t*>(at);
    ::munmap(memory_ + bytes, kPage);
    pid_ = ::fork();
    if (pid_ == 0) live();
    std::byte byte{};
    std::array<UniqueFd, 1> passed;
    if (receive_with_descriptors(ready_[0], {&byte, 1}, passed) != 1)
      throw std::runtime_error("tenant did not start");
    opened_ = std::move(passed[0]);
  }
  ~TenantProcess() {
    end();
    ::munmap(memory_, bytes_);
    ::close(ready_[0]);
    ::close(ready_[1]);
  }
  TenantProcess(const TenantProcess&) = delete;
  TenantProcess& operator=(const TenantProcess&) = delete;

  static std::uint8_t pattern(std::size_t i) { return static_cast<std::uint8_t>(i * 7 + i / 256); }

  pid_t pid() const { return pid_; }
  /// The same in both processes, as the child was forked after the mapping was made.
  std::uint64_t addr() const { return reinterpret_cast<std::uint64_t>(memory_); }
  std::size_t bytes() const { return bytes_; }

  std::shared_ptr<ProcessMemory> memory() const { return offered(opened_); }
  /// /proc/PID/mem, as the process has opened it.
  const UniqueFd& opened() const { return opened_; }

  /// Kills the process and waits for it.
  void end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  static constexpr std::size_t kPage = 4096;

  [[noreturn]] void live() {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (std::size_t i = 0; i < bytes_; ++i) memory_[i] = pattern(i);
    const std::byte byte{};
    const int memory = own_memory().release();
    if (send_with_descriptors(ready_[1], {&byte, 1}, {&memory, 1}) != 1) ::_exit(1);
    for (;;) ::pause();
  }

  std::size_t bytes_;
  std::uint8_t* memory_ = nullptr;
  int ready_[2] = {-1, -1};
  pid_t pid_ = -1;
  UniqueFd opened_;
};

}  // namespace softhca::memory
