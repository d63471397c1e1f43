// SPDX-License-Identifier: Apache-2.0

// Bounds how many commands are fetched ahead of their start, and lists the queue pairs that wait to
// fetch more (mechanism B2). Commands that wait for credits can wait as well in their send
// queues, where they cost nothing. So only some are fetched into the kick list of a TVL. A queue
// pair that finds the list full waits until half of its commands have started. The queue pairs that
// wait then get one turn each, in the order in which they came. A turn that finds the list full
// again would be wasted, and with thousands of queue pairs all turns would be.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "daemon/base/intrusive_queue.hpp"
#include "daemon/base/types.hpp"
#include "daemon/qos/schedule/doorbell_overflow.hpp"

namespace softhca::schedule {

class FetchAhead {
 public:
  /// Most fetched commands in the kick list of one TVL.
  static constexpr std::uint32_t kMost = 32;

  FetchAhead(std::size_t tvls, std::uint32_t queue_pairs, std::size_t classes)
      : lists_(tvls), waiters_(queue_pairs), waiting_(classes) {}

  // --- fetched commands in kick lists

  bool has_room(TvlId tvl) const { return lists_[tvl.value].fetched < kMost; }
  void came(TvlId tvl) {
    ++lists_[tvl.value].fetched;
    sort(tvl.value);
  }
  /// REQUIRES: there was one.
  void left(TvlId tvl) {
    --lists_[tvl.value].fetched;
    sort(tvl.value);
  }

  // --- queue pairs that wait

  /// Makes the queue pair wait until half of the commands there have left; `first`: before those
  /// that wait. If it waits already, it keeps its place.
  void wait(QpSlot slot, TvlId tvl, QosClassId qos_class, bool first = false) {
    if (waits(slot)) return;
    List& list = lists_[tvl.value];
    if (list.waiters.empty()) list.enough = list.fetched / 2;
    waiters_[slot.value].tvl = tvl;
    waiters_[slot.value].qos_class = qos_class;
    list.waiters.push(waiters_.data(), slot.value, first);
    ++waiting_[qos_class.value];
    sort(tvl.value);
  }
  bool waits(QpSlot slot) const { return waiters_[slot.value].link.linked(); }
  void forget(QpSlot slot) {
    if (waits(slot)) remove(slot);
  }
  /// True if a queue pair of the class waits.
  bool any_waits(QosClassId qos_class) const { return waiting_[qos_class.value] != 0; }

  /// True if wake() has something to do.
  bool has_work() const { return !half_empty_.empty(); }
  /// Ends the wait of as many queue pairs as there is room for, at least one for each list that is
  /// half empty. `resume(slot)` returns how many commands the queue pair may fetch in its turn. To
  /// be called in each poll step. So a queue pair that does not use its turn takes it from no
  /// other.
  template <class Resume>
  void wake(Resume&& resume) {
    for (std::uint32_t i = half_empty_.front(), after; i != kNoIndex; i = after) {
      after = half_empty_.next(lists_.data(), i);
      wake(i, resume);
    }
  }

 private:
  struct Waiter {
    IndexLink link;
    TvlId tvl;
    QosClassId qos_class;
  };
  struct List {
    IndexLink half_empty;
    IndexList<Waiter, &Waiter::link> waiters;
    std::uint32_t fetched = 0;
    std::uint32_t enough = 0;  ///< with at most so many, those that wait get turns
  };

  /// Lists the list if it is half empty and queue pairs wait for it, else takes it out.
  void sort(std::uint32_t index) {
    List& list = lists_[index];
    const bool is_one = list.fetched <= list.enough && !list.waiters.empty();
    if (is_one == list.half_empty.linked()) return;
    is_one ? half_empty_.push_back(lists_.data(), index) : half_empty_.remove(lists_.data(), index);
  }
  void remove(QpSlot slot) {
    const Waiter& waiter = waiters_[slot.value];
    List& list = lists_[waiter.tvl.value];
    --waiting_[waiter.qos_class.value];
    list.waiters.remove(waiters_.data(), slot.value);
    sort(waiter.tvl.value);
  }
  template <class Resume>
  void wake(std::uint32_t index, Resume& resume) {
    const List& list = lists_[index];
    const std::uint32_t most = std::max(2 * list.enough, 1u);
    for (std::uint32_t expected = list.fetched; expected < most && !list.waiters.empty();) {
      const QpSlot slot(list.waiters.front());
      remove(slot);
      expected += std::max<std::uint32_t>(resume(slot), 1);
    }
  }

  std::vector<List> lists_;                        ///< by TVL
  IndexList<List, &List::half_empty> half_empty_;  ///< those that queue pairs wait for
  std::vector<Waiter> waiters_;                    ///< by slot
  std::vector<std::uint32_t> waiting_;             ///< queue pairs, by class
};

}  // namespace softhca::schedule
