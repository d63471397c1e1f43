// SPDX-License-Identifier: Apache-2.0

// Maps a key to its region. Keys are unguessable. The engine looks a key up again for every packet
// or chunk that it moves, so deregistration in flight is safe: the next access fails. The engine
// keeps no Region* beyond one step. Belongs to one engine and its thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "daemon/base/expected.hpp"
#include "daemon/base/time.hpp"
#include "daemon/tenant_memory/region.hpp"

namespace softhca::memory {

/// Set in keys of memory windows (window_table.hpp), clear in keys of regions.
inline constexpr std::uint32_t kWindowKeyBit = 1u << 31;

/// Returns random bits from the kernel's generator.
std::uint32_t random_bits();
/// Takes a random slot out of the list of free ones, so that the index part of a key reveals
/// nothing about other keys. Drops slots that are in use. REQUIRES: it has one that is not.
template <class IsInUse>
std::uint32_t take_random(std::vector<std::uint32_t>& free, IsInUse&& is_in_use) {
  for (;;) {
    std::uint32_t& chosen = free[random_bits() % free.size()];
    const std::uint32_t index = chosen;
    chosen = free.back();
    free.pop_back();
    if (!is_in_use(index)) return index;
  }
}

/// What outlives a table of the region in a slot, so that windows of it stay bound.
struct RegionMark {
  std::uint64_t serial;
  std::uint32_t key;  ///< of the region, or of the previous one in this slot
  std::uint32_t reserved;
};
static_assert(sizeof(RegionMark) == 16);

/// By slot; no elements: nothing outlives the table.
struct RegionMarks {
  std::span<RegionMark> all;
  std::uint64_t* last_serial = nullptr;
};

class KeyTable {
 public:
  /// Holds up to `capacity` regions, at most 2^18 (so that 13 bits of each key stay random).
  static constexpr std::uint32_t kMaxCapacity = 1 << 18;
  /// `marks`: zero, or those of an earlier table. They outlive the table.
  explicit KeyTable(std::uint32_t capacity, const RegionMarks& marks = {});

  /// Takes the region and assigns its key, which serves as lkey and rkey. A key is never 0 and
  /// differs from the previous key of its slot. The slot and the remaining bits are random. Errors:
  /// ENOMEM (table full).
  Expected<Region*> insert(std::unique_ptr<Region> region);
  /// Does the same with a key that an earlier table of this size assigned. If its mark is there,
  /// the region also has the serial number that it had. Errors: EEXIST (its slot
  /// is in use), EINVAL (no table of this size assigns it).
  Expected<Region*> insert(std::unique_ptr<Region> region, std::uint32_t key);

  /// Returns the region of a key, or null. A few ns: one load from the table.
  Region* lookup(std::uint32_t key) const {
    const Slot& slot = slots_[key & mask_];
    return slot.key == key ? slot.region.get() : nullptr;
  }

  /// Replaces the region of this key and returns the old one; null if the key is unknown.
  std::unique_ptr<Region> replace(std::uint32_t key, std::unique_ptr<Region> region);

  /// Ends the key and returns its region, so that the caller can unmap its memory outside the
  /// engine; null if the key is unknown.
  std::unique_ptr<Region> remove(std::uint32_t key, Time now = {});
  /// Ends the key and the region. Returns false if the key is unknown.
  bool erase(std::uint32_t key) { return remove(key) != nullptr; }

  /// The end of a key.
  struct Ended {
    TenantId tenant;
    Time at{};
  };
  /// Returns when the key ended. Nothing: it has not, or its slot has another region.
  std::optional<Ended> ended(std::uint32_t key) const;

  std::uint32_t size() const { return size_; }
  std::uint32_t capacity() const { return capacity_; }

 private:
  static void settle(const Region& region);
  Region* enter(std::unique_ptr<Region> region, std::uint32_t key, std::uint64_t serial);
  std::uint64_t next_serial();
  void mark(const Region& region);

  struct Slot {
    std::uint32_t key = 0;  ///< of the region, or of the previous one if there is none now
    std::unique_ptr<Region> region;
  };

  std::uint32_t capacity_;
  std::uint32_t mask_;
  std::uint32_t size_ = 0;
  std::uint64_t last_serial_ = 0;
  std::vector<Slot> slots_;
  RegionMarks marks_;
  /// By slot, of the key in it. Not constructed: the slots of keys that have not ended touch no
  /// memory here.
  std::unique_ptr<std::byte[]> ended_;
  std::vector<std::uint32_t> free_;  ///< may also have slots in use, and slots twice
};

}  // namespace softhca::memory
