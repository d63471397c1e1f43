// SPDX-License-Identifier: Apache-2.0

// A memory region: a range of a tenant's address space that keys refer to, the access that it
// allows, and how the daemon reaches it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/base/expected.hpp"
#include "daemon/base/types.hpp"
#include "daemon/base/verdict.hpp"
#include "daemon/tenant_memory/process_memory.hpp"
#include "daemon/tenant_memory/shared_buffer.hpp"

namespace softhca::memory {

/// Protection domain. Unique in the adapter, not only in a session: it keeps the queue pairs of one
/// tenant away from the regions of another.
using PdId = Id<struct PdTag, std::uint32_t>;

/// Values of enum ibv_access_flags. Local reading is always allowed.
enum Access : std::uint32_t {
  kLocalRead = 0,
  kLocalWrite = 1 << 0,
  kRemoteWrite = 1 << 1,
  kRemoteRead = 1 << 2,
  kRemoteAtomic = 1 << 3,
  kBindWindow = 1 << 4,
  kZeroBased = 1 << 5,
  kOnDemand = 1 << 6,  ///< allows nothing
  kFlushGlobal = 1 << 8,
};

/// Bytes [start, start + length): start is an address, or an offset in a message.
struct ByteRange {
  std::uint64_t start;
  std::uint64_t length;
};

/// Part of a region. `mapped` is the address of its first byte in the daemon, or null if the daemon
/// reaches the bytes through the process.
struct Extent {
  std::uint64_t addr;    ///< in the process
  std::uint64_t length;  ///< bytes, > 0
  std::byte* mapped;
};

/// All attributes of a region except its key.
struct RegionSpec {
  TenantId tenant;
  PdId pd;
  std::uint32_t access = 0;  ///< Access
  std::uint64_t addr = 0;    ///< of the first byte, in the process
  std::uint64_t length = 0;  ///< bytes
  std::uint64_t iova = 0;    ///< address of the first byte for users of the keys; 0 if zero-based
  std::vector<Extent> extents;  ///< ascending, adjoining, covering exactly [addr, addr + length)
  std::shared_ptr<ProcessMemory> process;              ///< for extents that are not mapped
  std::vector<std::shared_ptr<SharedBuffer>> buffers;  ///< what `mapped` points into, kept alive
};

class Region {
 public:
  /// A run of bytes that are reached in the same way.
  struct Run {
    std::byte* mapped;     ///< null: reached through the process
    std::uint64_t addr;    ///< in the process, if there is one
    std::uint64_t length;  ///< bytes
  };

  /// Errors: EINVAL if the extents or the addresses are inconsistent, or if the flags allow remote
  /// writes or atomics without local writes.
  static Expected<std::unique_ptr<Region>> make(RegionSpec spec);
  /// Makes a region without memory, for local use at any address: reads give zeros, writes are
  /// dropped.
  static std::unique_ptr<Region> make_null(TenantId tenant, PdId pd);

  std::uint64_t length() const { return length_; }
  std::uint64_t iova() const { return iova_; }
  std::uint32_t access() const { return access_; }
  PdId pd() const { return pd_; }
  TenantId tenant() const { return spec_.tenant; }
  std::uint32_t key() const { return key_; }
  /// Returns a number that no other region has or had.
  std::uint64_t serial() const { return serial_; }
  const RegionSpec& spec() const { return spec_; }
  ProcessMemory* process() const { return spec_.process.get(); }
  bool is_null() const { return length_ != 0 && spec_.extents.empty(); }

  /// Returns the offset of `addr` (as users of the keys give it) in the region. It exceeds length()
  /// if `addr` is outside.
  std::uint64_t offset_of(std::uint64_t addr) const { return addr - iova_; }

  bool contains(std::uint64_t offset, std::uint64_t bytes) const {
    return offset <= length_ && bytes <= length_ - offset;
  }

  /// Returns the address of [offset, offset + bytes) if it is contiguous in memory mapped here,
  /// else null (also when out of bounds). The fast path.
  std::byte* direct(std::uint64_t offset, std::uint64_t bytes) const {
    const std::uint64_t in_main = offset - main_offset_;
    if (in_main <= main_length_ && bytes <= main_length_ - in_main) return main_mapped_ + in_main;
    return direct_elsewhere(offset, bytes);
  }

  /// Returns the longest run that starts at `offset`. REQUIRES: offset < length().
  Run run_at(std::uint64_t offset) const;

 private:
  friend class KeyTable;
  explicit Region(RegionSpec spec);
  std::byte* direct_elsewhere(std::uint64_t offset, std::uint64_t bytes) const;

  // The fields that every access reads, in one cache line.
  std::uint64_t iova_;
  std::uint64_t length_;
  std::uint64_t main_offset_ = 0;  ///< start in the region of the largest mapped extent
  std::uint64_t main_length_ = 0;  ///< its bytes
  std::byte* main_mapped_ = nullptr;
  PdId pd_;
  std::uint32_t access_;
  std::uint32_t key_ = 0;
  std::uint64_t serial_ = 0;

  RegionSpec spec_;
};

/// Checks whether a user of domain `pd` may access [addr, addr + bytes) of the region as `needed`
/// (Access bits). Returns kOk or kLocalProtection. With 0 bytes, only the domain and the flags
/// count.
inline Verdict check(const Region& region, std::uint64_t addr, std::uint64_t bytes,
                     std::uint32_t needed, PdId pd) {
  const bool allowed = region.pd() == pd && (region.access() & needed) == needed;
  if (!allowed) return Verdict::kLocalProtection;
  if (bytes != 0 && !region.contains(region.offset_of(addr), bytes))
    return Verdict::kLocalProtection;
  return Verdict::kOk;
}

/// Returns the verdict as a remote peer is notified of it.
inline Verdict as_remote(Verdict verdict) {
  return verdict == Verdict::kOk || verdict == Verdict::kBusy ? verdict : Verdict::kRemoteAccess;
}

}  // namespace softhca::memory
