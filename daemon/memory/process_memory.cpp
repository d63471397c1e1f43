#include "daemon/memory/process_memory.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

namespace softhca::memory {

namespace {

/// Drops the first `bytes` bytes of a vector, and entries that are empty.
void skip(std::span<iovec>& vector, std::size_t bytes) {
  while (!vector.empty() && bytes >= vector.front().iov_len) {
    bytes -= vector.front().iov_len;
    vector = vector.subspan(1);
  }
  if (vector.empty()) return;
  vector.front().iov_base = static_cast<std::byte*>(vector.front().iov_base) + bytes;
  vector.front().iov_len -= bytes;
}

}  // namespace

Expected<std::shared_ptr<ProcessMemory>> ProcessMemory::open(pid_t pid) {
  const int fd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (fd < 0) {
    const int code = errno;
    return Error{"process " + std::to_string(pid) + ": pidfd_open: " + std::strerror(code), code};
  }
  return std::shared_ptr<ProcessMemory>(new ProcessMemory(pid, fd));
}

ProcessMemory::~ProcessMemory() { ::close(pidfd_); }

Verdict ProcessMemory::read(std::span<iovec> local, std::span<iovec> remote) {
  return transfer(&::process_vm_readv, local, remote);
}

Verdict ProcessMemory::write(std::span<iovec> local, std::span<iovec> remote) {
  return transfer(&::process_vm_writev, local, remote);
}

Verdict ProcessMemory::transfer(Call call, std::span<iovec> local, std::span<iovec> remote) {
  if (gone_) return Verdict::kLocalProtection;
  skip(local, 0);
  skip(remote, 0);
  while (!local.empty()) {
    const ssize_t moved = call(pid_, local.data(), local.size(), remote.data(), remote.size(), 0);
    if (moved < 0 && errno == EINTR) continue;
    if (moved < 0 && errno == ESRCH) gone_ = true;
    if (moved <= 0) return Verdict::kLocalProtection;
    // Short: a fault further on, or more than the kernel moves in one call. The next call tells.
    skip(local, static_cast<std::size_t>(moved));
    skip(remote, static_cast<std::size_t>(moved));
  }
  return Verdict::kOk;
}

}  // namespace softhca::memory
