// SPDX-License-Identifier: Apache-2.0

// Start-time fair queuing: selects the competitor that is served next (Goyal, Vin, Cheng, SIGCOMM
// 1996).
//
// Each competitor has a start tag and a finish tag. The one with work and the least start tag is
// served, and that tag becomes the virtual time. The cost of serving it, divided by its weight, is
// added to its finish tag, where its next service starts. A competitor that had no work starts at
// the present virtual time. It is owed nothing and owes nothing, and is behind by no more than the
// piece being served. So the service of any two competitors that always have work differs by no
// more than the largest piece of each, whatever their number. The cost of a piece need be known
// only afterwards.
//
// Virtual time stands still while several competitors with the same tag have their turns, then it
// jumps. Meanwhile one that takes less than its share seems to be ahead. So a competitor that was
// idle comes first even if it is ahead by a little, about a piece (as with the warp of borrowed
// virtual time: Duda, Cheriton, SOSP 1999). Its tags do not change, so it gains nothing in the long
// run.
//
// The owner keeps the competitors in a table, which it passes to each call. A competitor is named
// by its index. Every operation costs O(log n) in the number of competitors with work, and next to
// nothing for a single one.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "daemon/base/intrusive_queue.hpp"

namespace softhca::schedule {

struct FairShare {
  /// A tag is a cost, in units of 1 / kScale, of a competitor of weight 1.
  static constexpr std::uint64_t kScale = 1000;
  /// The cost, for weight 1, by which a competitor that was idle may be ahead and still comes
  /// first.
  static constexpr std::uint64_t kSlack = 6 << 10;

  std::uint64_t start = 0;   ///< of its next service
  std::uint64_t order = 0;   ///< start, or a little before it; the least is first
  std::uint64_t finish = 0;  ///< start, and its cost since then outside its services
  /// kScale / weight, as a fixed-point number. Every command needs it several times, and a division
  /// takes as long as a good part of the other work for a command.
  std::uint64_t unit = unit_of(1);
  std::uint32_t place = kNoIndex;  ///< in the heap

  bool waits() const { return place != kNoIndex; }
  void set_weight(std::uint32_t weight) { unit = unit_of(weight); }
  std::uint32_t weight() const {
    return static_cast<std::uint32_t>(((kScale << kUnitBits) + unit / 2) / unit);
  }
  std::uint64_t tag_of(std::uint64_t cost) const {
    return static_cast<std::uint64_t>(static_cast<unsigned __int128>(cost) * unit >> kUnitBits);
  }

 private:
  static constexpr unsigned kUnitBits = 32;
  static constexpr std::uint64_t unit_of(std::uint32_t weight) {
    return (kScale << kUnitBits) / weight;
  }
};

template <class T, FairShare T::*share>
class FairOrder {
 public:
  /// Set-up only: allocates room for so many competitors with work.
  void reserve(std::size_t competitors) { heap_.resize(std::max(heap_.size(), competitors)); }

  bool empty() const { return size_ == 0; }
  std::uint64_t now() const { return now_; }
  /// REQUIRES: not empty.
  std::uint32_t first() const { return heap_.front(); }
  /// True if several competitors have work.
  bool contended() const { return size_ > 1; }
  /// True if a competitor other than `i` has work.
  bool others(const T* items, std::uint32_t i) const {
    return size_ > ((items[i].*share).waits() ? 1u : 0u);
  }

  /// Adds a competitor that has work now. Among equals it is first, so that one that asks for
  /// little waits only for the piece being served. A competitor that was idle comes before those
  /// that were not, unless it is ahead of them by more than the slack. REQUIRES: it does not wait
  /// yet.
  void enter(T* items, std::uint32_t i, bool rested) {
    FairShare& s = items[i].*share;
    assert(!s.waits() && size_ < heap_.size());
    lift(s);
    s.order = rested ? s.start - kSlackTag : s.start;
    s.place = size_++;
    heap_[s.place] = i;
    rise(items, s.place);
  }

  /// Removes a competitor that has no work any more. REQUIRES: it waits.
  void leave(T* items, std::uint32_t i) {
    const std::uint32_t at = (items[i].*share).place;
    (items[i].*share).place = kNoIndex;
    const std::uint32_t last = heap_[--size_];
    if (last == i) return;
    put(items, at, last);
    rise(items, at);
    sink(items, (items[last].*share).place);
  }

  /// Serves the first: moves virtual time to its start, or to the place of the second if that is
  /// earlier.
  void serve(const T* items) {
    std::uint64_t start = (items[first()].*share).start;
    for (std::uint32_t at = 1; at < std::min(size_, 3u); ++at)
      start = std::min(start, order_at(items, at));
    now_ = std::max(now_, start);
  }

  /// Charges the competitor for its service. It may have left meanwhile.
  void served(T* items, std::uint32_t i, std::uint64_t cost) {
    FairShare& s = items[i].*share;
    s.order = s.start = s.finish += s.tag_of(cost);
    if (s.waits()) sink(items, s.place);
  }

  /// Charges the competitor for a cost outside its turns, which defers the turn after the next. If
  /// no competitor waits, the cost defers none of them, and virtual time advances.
  void charge(T* items, std::uint32_t i, std::uint64_t cost) {
    FairShare& s = items[i].*share;
    if (!s.waits()) lift(s);
    s.finish += s.tag_of(cost);
    if (empty()) now_ = std::max(now_, s.finish);
  }

  /// Returns the cost, for weight 1, by which the competitor is ahead of the others, beyond the
  /// slack.
  std::uint64_t lead(const T* items, std::uint32_t i) const {
    const FairShare& s = items[i].*share;
    return s.finish <= now_ + kSlackTag ? 0 : (s.finish - now_ - kSlackTag) / FairShare::kScale;
  }

  /// Sets virtual time back before tags overflow. The competitors of this order are those of `all`
  /// that `competes` accepts.
  template <class Items, class Competes>
  void restart(Items& all, Competes&& competes) {
    const std::uint64_t past = now_ - kSlackTag;
    for (T& item : all) {
      if (!competes(item)) continue;
      FairShare& s = item.*share;
      for (std::uint64_t* tag : {&s.start, &s.order, &s.finish}) *tag -= std::min(*tag, past);
    }
    now_ = kSlackTag;
  }

 private:
  static constexpr std::uint64_t kSlackTag = FairShare::kSlack * FairShare::kScale;

  void lift(FairShare& s) {
    s.start = std::max(s.start, now_);
    s.finish = std::max(s.finish, s.start);
  }

  std::uint64_t order_at(const T* items, std::uint32_t at) const {
    return (items[heap_[at]].*share).order;
  }
  void put(T* items, std::uint32_t at, std::uint32_t i) {
    heap_[at] = i;
    (items[i].*share).place = at;
  }
  void swap(T* items, std::uint32_t a, std::uint32_t b) {
    const std::uint32_t i = heap_[a];
    put(items, a, heap_[b]);
    put(items, b, i);
  }
  void rise(T* items, std::uint32_t at) {
    for (; at != 0 && order_at(items, at) <= order_at(items, (at - 1) / 2); at = (at - 1) / 2)
      swap(items, at, (at - 1) / 2);
  }
  void sink(T* items, std::uint32_t at) {
    for (;;) {
      std::uint32_t child = 2 * at + 1;
      if (child >= size_) return;
      if (child + 1 < size_ && order_at(items, child + 1) < order_at(items, child)) ++child;
      if (order_at(items, at) < order_at(items, child)) return;
      swap(items, at, child);
      at = child;
    }
  }

  std::vector<std::uint32_t> heap_;  ///< the first size_ elements
  std::uint32_t size_ = 0;           ///< competitors with work
  std::uint64_t now_ = kSlackTag;    ///< virtual time; begins here so that no tag is below 0
};

}  // namespace softhca::schedule
