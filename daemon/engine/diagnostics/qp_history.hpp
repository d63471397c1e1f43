// SPDX-License-Identifier: Apache-2.0

// The last events of queue pairs that had errors or retries. They show afterwards what led to a
// failure.
//
// A queue pair takes a place with its first error or retry and keeps it until it is removed. Idle
// queue pairs, and those without errors or retries, have none. There is a place for each queue pair
// that can exist, so a place is always available and nothing is allocated after set-up. Places that
// are not in use occupy no pages. Changes of state alone take no place.
//
// Repeated events are one event with a count. Otherwise a lossy link would push out all earlier
// events.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "daemon/base/intrusive_queue.hpp"
#include "daemon/base/refusal.hpp"
#include "daemon/engine/records/qp_event.hpp"
#include "daemon/engine/records/queue_pair.hpp"
#include "daemon/engine/records/step_clock.hpp"

namespace softhca::engine {

/// The contents of an event, apart from its kind and time.
struct QpEventAbout {
  std::uint32_t detail = 0;
  std::optional<Psn> psn{};
  std::uint32_t count = 1;
};

class QpHistory {
 public:
  /// `queue_pairs`: the most queue pairs that can have a history.
  QpHistory(const StepClock& clock, std::uint32_t queue_pairs);
  QpHistory(const QpHistory&) = delete;
  QpHistory& operator=(const QpHistory&) = delete;

  /// Adds an event. Gives the queue pair a place if it has none.
  void add(QueuePair& qp, QpEventKind kind, const QpEventAbout& about = {});
  /// Adds an event only if the queue pair has a place.
  void add_if_any(QueuePair& qp, QpEventKind kind, const QpEventAbout& about = {}) {
    if (qp.record.place != kNoIndex) add(qp, kind, about);
  }
  /// Counts for the tenant of the queue pair, and adds the event of the counter, if it has one.
  void count(QueuePair& qp, transport::Count what, std::uint32_t n = 1,
             std::optional<Psn> psn = std::nullopt, std::uint32_t detail = 0);
  /// True if the counter has an event. If not, QueuePair::count() does all that count() does.
  static bool has_event(transport::Count what) {
    return (kHaveEvents >> static_cast<unsigned>(what) & 1) != 0;
  }
  /// Sets the state of the queue pair, and records the change.
  void enter(QueuePair& qp, QpState state);
  /// Stores the latest check that failed for the queue pair. Gives it a place if it has none.
  void refuse(QueuePair& qp, const Refusal& refusal);
  /// Returns the latest check that failed since the queue pair left RESET; none if none did.
  const Refusal& refusal(const QueuePair& qp) const;
  /// Drops it.
  void forget_refusal(const QueuePair& qp);
  /// Frees the place of a queue pair that is removed.
  void forget(QueuePair& qp);

  /// Returns the events, oldest first.
  QpPast past(const QueuePair& qp) const;
  std::uint32_t in_use() const { return in_use_; }
  /// Returns the time of the engine's step.
  Time now() const { return clock_.now; }

 private:
  static const std::uint64_t kHaveEvents;  ///< bits of the counters that have an event

  /// A ring of events.
  struct Place {
    QpPast past;  ///< if it is full, the oldest event is at `next`
    Refusal refusal;
    std::uint32_t next = 0;  ///< index of the next event; of an unused place: next free place
  };

  Place& place(std::uint32_t index) const { return reinterpret_cast<Place*>(places_.get())[index]; }
  Place& place_of(QueuePair& qp);
  static void push(Place& to, const QpEvent& event);

  const StepClock& clock_;
  /// Not constructed: that would touch its pages. The place that was freed last is reused first.
  std::unique_ptr<std::byte[]> places_;
  std::uint32_t size_;
  std::uint32_t fresh_ = 0;        ///< places from this one on were never used
  std::uint32_t free_ = kNoIndex;  ///< the place that was freed last
  std::uint32_t in_use_ = 0;
};

}  // namespace softhca::engine
