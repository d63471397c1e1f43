// A child process that plays a tenant: it has pages of its own at an address known here, filled
// with a pattern, which the process itself never touches again.
#pragma once

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <stdexcept>

#include "daemon/base/unique_fd.hpp"
#include "daemon/memory/process_memory.hpp"

namespace softhca::memory {

class TenantProcess {
 public:
  /// `bytes` of private memory, byte i holding pattern(i), followed by a page that is not mapped.
  explicit TenantProcess(std::size_t bytes) : bytes_(bytes) {
    void* at =
        ::mmap(nullptr, bytes + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED || ::pipe(ready_) != 0) throw std::runtime_error("tenant set-up");
    memory_ = static_cast<std::uint8_t*>(at);
    ::munmap(memory_ + bytes, kPage);
    pid_ = ::fork();
    if (pid_ == 0) live();
    pidfd_ = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
    char byte = 0;
    if (::read(ready_[0], &byte, 1) != 1) throw std::runtime_error("tenant did not start");
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

  /// As the daemon opens it.
  std::shared_ptr<ProcessMemory> memory() const {
    return *ProcessMemory::open(pid_, ::getuid(), pidfd_.get());
  }
  int pidfd() const { return pidfd_.get(); }

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
    if (::write(ready_[1], "r", 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }

  std::size_t bytes_;
  std::uint8_t* memory_ = nullptr;
  int ready_[2] = {-1, -1};
  pid_t pid_ = -1;
  UniqueFd pidfd_;
};

}  // namespace softhca::memory
