// Reaching the memory of a tenant's process through the kernel: works on any memory, costs a system
// call. For memory that could not be shared.
#pragma once

#include <sys/uio.h>

#include <span>

#include "daemon/base/verdict.hpp"

namespace softhca::memory {

class ProcessMemory {
 public:
  virtual ~ProcessMemory() = default;
  ProcessMemory(const ProcessMemory&) = delete;
  ProcessMemory& operator=(const ProcessMemory&) = delete;

  /// Moves bytes between `local` (ours) and `remote` (the process's addresses), both of the same
  /// total length, at most IOV_MAX entries each; the entries are used up. kLocalProtection: part
  /// of the range is not mapped, or the address space is gone or out of reach; what came before the
  /// fault may have been moved.
  virtual Verdict read(std::span<iovec> local, std::span<iovec> remote) = 0;
  virtual Verdict write(std::span<iovec> local, std::span<iovec> remote) = 0;

 protected:
  ProcessMemory() = default;
};

/// Drops the first `bytes` bytes of a vector, and entries that are empty then.
void skip_bytes(std::span<iovec>& vector, std::size_t bytes);

}  // namespace softhca::memory
