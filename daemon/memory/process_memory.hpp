// Reaching the memory of a tenant's process through the kernel: works on any memory, costs a system
// call. For memory that could not be shared.
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

  /// Moves bytes between `local` (ours) and `remote` (the process's addresses), both of the same
  /// total length, at most IOV_MAX entries each; the entries are used up. kLocalProtection: part
  /// of the range is not mapped, or the address space is gone or out of reach; what came before the
  /// fault may have been moved. kBusy: nothing has happened yet, and the caller is to ask for the
  /// same again; only where the caller has said that it can (engine::MemoryWaits::Step).
  virtual Verdict read(std::span<iovec> local, std::span<iovec> remote) = 0;
  virtual Verdict write(std::span<iovec> local, std::span<iovec> remote) = 0;
  /// Runs an atomic on the 8 bytes at `addr`, as memory::atomic(); atomic towards other calls.
  virtual Verdict atomic(std::uint64_t addr, AtomicOp op, std::uint64_t compare_add,
                         std::uint64_t swap, std::uint64_t& original);
  /// Returns once nothing that was asked for before writes to the memory any more.
  virtual void settle() {}

 protected:
  ProcessMemory() = default;
};

/// Drops the first `bytes` bytes of a vector, and entries that are empty then.
void skip_bytes(std::span<iovec>& vector, std::size_t bytes);

}  // namespace softhca::memory
