// SPDX-License-Identifier: Apache-2.0

// A small table with an entry for each way of datagrams: source, destination and traffic class. Its
// size is fixed, so that made-up addresses cannot make it grow. It consists of sets, so that a
// lookup costs the same however many entries there are.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "daemon/base/net.hpp"
#include "daemon/roce/wire/frame.hpp"

namespace softhca::engine {

struct FlowKey {
  Gid source;
  Gid destination;
  std::uint8_t traffic_class = 0;  ///< without ECN
  bool operator==(const FlowKey&) const = default;
};

constexpr std::uint8_t without_ecn(std::uint8_t traffic_class) {
  return static_cast<std::uint8_t>(traffic_class & ~wire::kEcnMask);
}

/// `Entry` has a member `way`.
template <class Entry>
class FlowTable {
 public:
  /// `seed` decides which ways share a set.
  explicit FlowTable(std::uint64_t seed) : seed_(seed) {}

  /// Calls use(entry) for the ways from one address to the other, with any traffic class.
  template <class Use>
  void for_each_between(const Gid& source, const Gid& destination, Use&& use) {
    for (Entry& entry : set_of({source, destination}))
      if (entry.way.source == source && entry.way.destination == destination) use(entry);
  }
  /// Returns null if there is none.
  Entry* find(const FlowKey& way) {
    for (Entry& entry : set_of(way))
      if (entry.way == way) return &entry;
    return nullptr;
  }
  /// Returns a place for a way that is not in the table: a free one, or one that may_go(entry)
  /// gives up. Null: there is none.
  template <class MayGo>
  Entry* place_for(const FlowKey& way, MayGo&& may_go) {
    for (Entry& entry : set_of(way))
      if (entry.way == FlowKey{}) return &entry;
    for (Entry& entry : set_of(way))
      if (may_go(entry)) return &entry;
    return nullptr;
  }

 private:
  static constexpr std::size_t kSets = 16;
  using Set = std::array<Entry, 4>;

  Set& set_of(const FlowKey& way) {
    using Halves = std::array<std::uint64_t, 2>;
    constexpr std::uint64_t kScatter = 0x9e3779b97f4a7c15;  // 2^64 divided by the golden ratio
    std::uint64_t hash = seed_;
    for (const Gid* gid : {&way.source, &way.destination})
      for (const std::uint64_t half : std::bit_cast<Halves>(gid->bytes)) {
        hash = (hash ^ half) * kScatter;
        hash ^= hash >> 29;
      }
    return sets_[hash >> 32 & (kSets - 1)];
  }

  std::uint64_t seed_;
  std::array<Set, kSets> sets_{};
};

}  // namespace softhca::engine
