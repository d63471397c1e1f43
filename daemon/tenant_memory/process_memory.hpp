// SPDX-License-Identifier: Apache-2.0

// Access to the memory of a tenant's process through the kernel. It works on any memory but costs a
// system call. Used for memory that could not be shared.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <span>

#include "daemon/base/verdict.hpp"

namespace softhca::memory {

enum class AtomicOp : std::uint8_t { kCompareSwap, kFetchAdd, kStore };

class ProcessMemory {
 public:
  virtual ~ProcessMemory() = default;
  ProcessMemory(const ProcessMemory&) = delete;
  ProcessMemory& operator=(const ProcessMemory&) = delete;

  /// Moves bytes between `local` (the daemon's) and `remote` (addresses of the process). Both have
  /// the same total length and at most IOV_MAX entries; the call modifies the entries. Returns
  /// kLocalProtection if part of the range is not mapped, or if the address space is gone or
  /// inaccessible; bytes before the fault may have been moved. Returns kBusy if nothing has
  /// happened yet and the caller must make the same call again; only to callers that announced that
  /// they can (engine::MemoryWaits::Step).
  virtual Verdict read(std::span<iovec> local, std::span<iovec> remote) = 0;
  virtual Verdict write(std::span<iovec> local, std::span<iovec> remote) = 0;
  /// Runs an atomic on the 8 bytes at `addr`, like memory::atomic(); atomic towards other calls.
  virtual Verdict atomic(std::uint64_t addr, AtomicOp op, std::uint64_t compare_add,
                         std::uint64_t swap, std::uint64_t& original);
  /// Returns when no earlier call can write to the memory any more.
  virtual void settle() {}

 protected:
  ProcessMemory() = default;
};

/// Drops the first `bytes` bytes of a vector, and the entries that this leaves empty.
void skip_bytes(std::span<iovec>& vector, std::size_t bytes);

}  // namespace softhca::memory
