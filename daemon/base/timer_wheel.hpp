// SPDX-License-Identifier: Apache-2.0

// Timers for queue pairs: up to millions, rearmed with each acknowledgement.
//
// Nine wheels of 64 slots, one per 6 bits of the deadline counted in ticks of 1024 ns. A timer is
// in the wheel of the highest 6-bit digit in which its deadline differs from the present, in the
// slot of that digit. So each timer in a lower wheel is due before all timers in higher ones, no
// wheel wraps around, and two bit scans find the earliest slot. When time reaches a slot, its
// timers fire or move to lower wheels.
//
// A timer moves lazily: arming it later, or cancelling it, only changes its deadline, and the wheel
// checks the deadline when time reaches the slot. Only arming it earlier moves it.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstdint>
#include <vector>

#include "daemon/base/intrusive_queue.hpp"
#include "daemon/base/time.hpp"
#include "daemon/base/types.hpp"

namespace softhca {

/// Timer n is entry n of the wheel's table. The owner of the wheel assigns the entries.
using TimerId = Id<struct TimerTag, std::uint32_t>;

class TimerWheel {
 public:
  static constexpr Duration kTick{1024};

  explicit TimerWheel(Time start = Time{}) : now_(floor_tick(start)) {}

  /// Makes timers 0..timers-1; set-up only. Timers that are armed stay armed.
  void reserve(std::uint32_t timers) {
    if (timers > timers_.size()) timers_.resize(timers);
  }
  std::uint32_t capacity() const { return static_cast<std::uint32_t>(timers_.size()); }

  /// Arms or rearms a timer. It fires at the first advance() to `deadline` or later: never early,
  /// late by at most one tick of rounding. A deadline already past fires one tick after the
  /// present. kNever cancels.
  void arm(TimerId id, Time deadline) {
    if (deadline == kNever) return cancel(id);
    Timer& t = timers_[id.value];
    t.deadline = std::max(ceil_tick(deadline), now_ + 1);
    if (t.link.linked()) {
      if (t.deadline >= t.slot_time) return;
      unlink(id.value);
    }
    insert(id.value);
  }

  /// Disarms the timer, if it is armed.
  void cancel(TimerId id) { timers_[id.value].deadline = kNotArmed; }

  bool armed(TimerId id) const { return timers_[id.value].deadline != kNotArmed; }

  /// Advances the present to `now` (never back) and calls fire(TimerId) for each timer due, in
  /// order of deadline by tick. A timer that fires is no longer armed. `fire` may arm and cancel
  /// any timer. Returns how many fired.
  template <class Fire>
  std::uint32_t advance(Time now, Fire&& fire) {
    const std::uint64_t target = floor_tick(now);
    std::uint32_t fired = 0;
    while (wheels_in_use_ != 0) {
      const unsigned slot = first_slot();
      if (slot_time(slot) > target) break;
      now_ = slot_time(slot);
      // The timers leave one by one, because `fire` may move or cancel those still in the slot.
      // Timers that it arms go to a later slot.
      while (!slots_[slot].empty()) {
        const std::uint32_t i = slots_[slot].front();
        unlink(i);
        Timer& t = timers_[i];
        if (t.deadline == kNotArmed) continue;
        if (t.deadline > now_) {
          insert(i);
          continue;
        }
        t.deadline = kNotArmed;
        ++fired;
        fire(TimerId(i));
      }
    }
    now_ = std::max(now_, target);
    return fired;
  }

  /// Returns a time before which no timer fires; kNever if the wheel is empty. It may be too early:
  /// timers in higher wheels count at the time when they must move down. Cancelled and postponed
  /// timers count until time reaches their slot.
  Time next_deadline() const {
    if (wheels_in_use_ == 0) return kNever;
    return Time(kTick * static_cast<Duration::rep>(slot_time(first_slot())));
  }

 private:
  static constexpr unsigned kDigitBits = 6;
  static constexpr unsigned kSlots = 1 << kDigitBits;
  static constexpr unsigned kWheels = 9;  // 54 bits of ticks: every Time from 0 on
  static constexpr std::uint64_t kNotArmed = ~std::uint64_t{0};

  struct Timer {
    std::uint64_t deadline = kNotArmed;  ///< tick
    std::uint64_t slot_time = 0;         ///< while linked: tick at which its slot is reached
    IndexLink link;
    std::uint32_t slot = 0;
  };
  using Slot = IndexList<Timer, &Timer::link>;

  // Times before 0 count as 0.
  static std::uint64_t floor_tick(Time t) {
    const auto ns = t.time_since_epoch().count();
    return ns <= 0 ? 0 : static_cast<std::uint64_t>(ns) / kTick.count();
  }
  static std::uint64_t ceil_tick(Time t) {
    const auto ns = t.time_since_epoch().count();
    return ns <= 0 ? 0 : (static_cast<std::uint64_t>(ns) - 1) / kTick.count() + 1;
  }

  unsigned first_slot() const {
    const auto wheel = static_cast<unsigned>(std::countr_zero(wheels_in_use_));
    return wheel * kSlots + static_cast<unsigned>(std::countr_zero(slots_in_use_[wheel]));
  }

  /// Returns the tick at which a slot in use is reached: the present with the slot's digit, lower
  /// digits 0.
  std::uint64_t slot_time(unsigned slot) const {
    const unsigned shift = slot / kSlots * kDigitBits;
    const std::uint64_t above = now_ >> shift >> kDigitBits << kDigitBits;
    return (above | slot % kSlots) << shift;
  }

  void insert(std::uint32_t i) {
    Timer& t = timers_[i];
    assert(t.deadline > now_);
    const auto highest = static_cast<unsigned>(std::bit_width(t.deadline ^ now_)) - 1;
    const unsigned wheel = highest / kDigitBits;
    const unsigned digit = t.deadline >> (wheel * kDigitBits) & (kSlots - 1);
    t.slot = wheel * kSlots + digit;
    t.slot_time = t.deadline >> (wheel * kDigitBits) << (wheel * kDigitBits);
    slots_[t.slot].push_back(timers_.data(), i);
    slots_in_use_[wheel] |= std::uint64_t{1} << digit;
    wheels_in_use_ |= 1u << wheel;
  }

  void unlink(std::uint32_t i) {
    const unsigned slot = timers_[i].slot;
    slots_[slot].remove(timers_.data(), i);
    if (!slots_[slot].empty()) return;
    std::uint64_t& in_use = slots_in_use_[slot / kSlots];
    in_use &= ~(std::uint64_t{1} << slot % kSlots);
    if (in_use == 0) wheels_in_use_ &= ~(1u << slot / kSlots);
  }

  std::uint64_t now_;  ///< tick; the slot of each linked timer is reached later
  std::uint32_t wheels_in_use_ = 0;
  std::array<std::uint64_t, kWheels> slots_in_use_{};
  std::array<Slot, std::size_t{kWheels} * kSlots> slots_;
  std::vector<Timer> timers_;
};

}  // namespace softhca
