// SPDX-License-Identifier: Apache-2.0

#include "daemon/tenant_memory/key_table.hpp"

#include <sys/random.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <type_traits>
#include <utility>

namespace softhca::memory {

/// getrandom() cannot fail once the machine has booted; a call that a signal interrupted is
/// repeated.
std::uint32_t random_bits() {
  std::uint32_t bits = 0;
  while (::getrandom(&bits, sizeof bits, 0) != static_cast<ssize_t>(sizeof bits)) {
  }
  return bits;
}

/// Waits for accesses under way: the program may reuse the memory as soon as the key has ended.
void KeyTable::settle(const Region& region) {
  if (region.process() != nullptr) region.process()->settle();
}

KeyTable::KeyTable(std::uint32_t capacity, const RegionMarks& marks)
    : capacity_(capacity),
      mask_(std::bit_ceil(std::max(capacity, 1u)) - 1),
      last_serial_(marks.last_serial != nullptr ? *marks.last_serial : 0),
      slots_(mask_ + 1),
      marks_(marks),
      ended_(std::make_unique_for_overwrite<std::byte[]>(slots_.size() * sizeof(Ended))) {
  static_assert(std::is_trivially_copyable_v<Ended>);
  assert(capacity <= kMaxCapacity && (marks.all.empty() || marks.all.size() >= capacity));
  for (std::uint32_t i = 0; i < capacity; ++i) free_.push_back(i);
}

Expected<Region*> KeyTable::insert(std::unique_ptr<Region> region) {
  if (size_ == capacity_)
    return Error{"memory keys: all " + std::to_string(capacity_) + " are in use", ENOMEM};
  const std::uint32_t index =
      take_random(free_, [&](std::uint32_t i) { return slots_[i].region != nullptr; });
  std::uint32_t key = 0;
  do {
    key = (random_bits() & ~mask_ & ~kWindowKeyBit) | index;
  } while (key == slots_[index].key || key == 0);
  return enter(std::move(region), key, next_serial());
}

Expected<Region*> KeyTable::insert(std::unique_ptr<Region> region, std::uint32_t key) {
  const std::uint32_t index = key & mask_;
  if (key == 0 || (key & kWindowKeyBit) != 0 || index >= capacity_)
    return Error{
        "memory key " + std::to_string(key) + ": not of a table of " + std::to_string(capacity_),
        EINVAL};
  if (slots_[index].region != nullptr)
    return Error{"memory key " + std::to_string(key) + ": its slot is in use", EEXIST};
  const bool is_marked = !marks_.all.empty() && marks_.all[index].key == key;
  return enter(std::move(region), key, is_marked ? marks_.all[index].serial : next_serial());
}

/// REQUIRES: the slot of the key has no region.
Region* KeyTable::enter(std::unique_ptr<Region> region, std::uint32_t key, std::uint64_t serial) {
  Slot& slot = slots_[key & mask_];
  slot.key = key;
  slot.region = std::move(region);
  slot.region->key_ = key;
  slot.region->serial_ = serial;
  ++size_;
  mark(*slot.region);
  return slot.region.get();
}

std::uint64_t KeyTable::next_serial() {
  ++last_serial_;
  if (marks_.last_serial != nullptr) *marks_.last_serial = last_serial_;
  return last_serial_;
}

void KeyTable::mark(const Region& region) {
  if (!marks_.all.empty())
    marks_.all[region.key() & mask_] = {
        .serial = region.serial(), .key = region.key(), .reserved = 0};
}

std::unique_ptr<Region> KeyTable::replace(std::uint32_t key, std::unique_ptr<Region> region) {
  const Region* const before = lookup(key);
  if (before == nullptr) return nullptr;
  settle(*before);
  region->key_ = key;
  region->serial_ = next_serial();
  mark(*region);
  return std::exchange(slots_[key & mask_].region, std::move(region));
}

std::unique_ptr<Region> KeyTable::remove(std::uint32_t key, Time now) {
  const Region* const region = lookup(key);
  if (region == nullptr) return nullptr;
  settle(*region);
  const std::uint32_t index = key & mask_;
  const Ended end{region->tenant(), now};
  std::memcpy(&ended_[index * sizeof end], &end, sizeof end);
  free_.push_back(index);
  --size_;
  return std::move(slots_[index].region);
}

std::optional<KeyTable::Ended> KeyTable::ended(std::uint32_t key) const {
  const std::uint32_t index = key & mask_;
  if (key == 0 || slots_[index].key != key || slots_[index].region != nullptr) return std::nullopt;
  Ended out;
  std::memcpy(&out, &ended_[index * sizeof out], sizeof out);
  return out;
}

}  // namespace softhca::memory
