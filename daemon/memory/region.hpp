// A memory region: a stretch of a tenant's address space that keys name, with what may be done to
// it, and how the daemon reaches it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/base/expected.hpp"
#include "daemon/base/types.hpp"
#include "daemon/base/verdict.hpp"
#include "daemon/memory/process_memory.hpp"
#include "daemon/memory/shared_buffer.hpp"

namespace softhca::memory {

/// Protection domain. Unique in the adapter, not only in a session: it is what keeps one tenant's
/// queue pairs off another's regions.
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

/// Part of a region. `mapped` is where its first byte lies in the daemon, null when the bytes are
/// reached through the process.
struct Extent {
  std::uint64_t addr;    ///< in the process
  std::uint64_t length;  ///< bytes, > 0
  std::byte* mapped;
};

/// Everything about a region but its key.
struct RegionSpec {
  TenantId tenant;
  PdId pd;
  std::uint32_t access = 0;     ///< Access
  std::uint64_t addr = 0;       ///< of the first byte, in the process
  std::uint64_t length = 0;     ///< bytes
  std::uint64_t iova = 0;       ///< by which keys refer to the first byte; 0 when zero-based
  std::vector<Extent> extents;  ///< ascending, adjoining, covering exactly [addr, addr + length)
  std::shared_ptr<ProcessMemory> process;              ///< needed by extents that are not mapped
  std::vector<std::shared_ptr<SharedBuffer>> buffers;  ///< kept alive: those `mapped` points into
};

class Region {
 public:
  /// A run of bytes reached in one way.
  struct Run {
    std::byte* mapped;     ///< or null
    std::uint64_t addr;    ///< in the process, if there is one
    std::uint64_t length;  ///< bytes
  };

  /// Errors: EINVAL when the extents or the addresses do not fit together, or when the flags allow
  /// remote writing or atomics without local writing.
  static Expected<std::unique_ptr<Region>> make(RegionSpec spec);
  /// A region without memory, for local use at any address: reading gives zeros, what is written is
  /// dropped.
  static std::unique_ptr<Region> make_null(TenantId tenant, PdId pd);

  std::uint64_t length() const { return length_; }
  std::uint64_t iova() const { return iova_; }
  std::uint32_t access() const { return access_; }
  PdId pd() const { return pd_; }
  TenantId tenant() const { return spec_.tenant; }
  std::uint32_t key() const { return key_; }
  /// Differs from that of every other region there ever was.
  std::uint64_t serial() const { return serial_; }
  const RegionSpec& spec() const { return spec_; }
  ProcessMemory* process() const { return spec_.process.get(); }
  bool is_null() const { return length_ != 0 && spec_.extents.empty(); }

  /// Offset of `addr` (as keys refer to it) in the region; beyond length() when it is outside.
  std::uint64_t offset_of(std::uint64_t addr) const { return addr - iova_; }

  bool contains(std::uint64_t offset, std::uint64_t bytes) const {
    return offset <= length_ && bytes <= length_ - offset;
  }

  /// Where [offset, offset + bytes) lies when it is contiguous in memory mapped here, else null
  /// (also when out of bounds). The fast path.
  std::byte* direct(std::uint64_t offset, std::uint64_t bytes) const {
    const std::uint64_t in_main = offset - main_offset_;
    if (in_main <= main_length_ && bytes <= main_length_ - in_main) return main_mapped_ + in_main;
    return direct_elsewhere(offset, bytes);
  }

  /// The longest run that starts at `offset`. REQUIRES: offset < length().
  Run run_at(std::uint64_t offset) const;

 private:
  friend class KeyTable;
  explicit Region(RegionSpec spec);
  std::byte* direct_elsewhere(std::uint64_t offset, std::uint64_t bytes) const;

  // What every access reads, in one cache line.
  std::uint64_t iova_;
  std::uint64_t length_;
  std::uint64_t main_offset_ = 0;  ///< the largest mapped extent: start in the region,
  std::uint64_t main_length_ = 0;  ///< bytes,
  std::byte* main_mapped_ = nullptr;
  PdId pd_;
  std::uint32_t access_;
  std::uint32_t key_ = 0;
  std::uint64_t serial_ = 0;

  RegionSpec spec_;
};

/// May a user of domain `pd` do `needed` (Access bits) to [addr, addr + bytes) of the region?
/// kOk or kLocalProtection. 0 bytes: only domain and flags count.
inline Verdict check(const Region& region, std::uint64_t addr, std::uint64_t bytes,
                     std::uint32_t needed, PdId pd) {
  const bool allowed = region.pd() == pd && (region.access() & needed) == needed;
  if (!allowed) return Verdict::kLocalProtection;
  if (bytes != 0 && !region.contains(region.offset_of(addr), bytes))
    return Verdict::kLocalProtection;
  return Verdict::kOk;
}

/// The same finding as a remote peer is told it.
inline Verdict as_remote(Verdict verdict) {
  return verdict == Verdict::kOk || verdict == Verdict::kBusy ? verdict : Verdict::kRemoteAccess;
}

}  // namespace softhca::memory
