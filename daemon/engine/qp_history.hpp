// The last events of queue pairs that had trouble, so that it can be seen afterwards what led to a
// failure.
//
// A queue pair takes its place with its first trouble and keeps it until it is gone: one that is
// idle, or that all goes well with, has none. There is a place for each queue pair that there may
// be, in memory that no page stands behind until it is used; so none is ever lacking, and nothing
// is allocated after set-up. Changes of state alone take no place.
//
// What repeats itself is one event with a count: else a lossy link would push out all that came
// before it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "daemon/base/intrusive_queue.hpp"
#include "daemon/engine/clock.hpp"
#include "daemon/engine/qp_event.hpp"
#include "daemon/engine/queue_pair.hpp"

namespace softhca::engine {

/// What an event is about; its kind and time are beside it.
struct QpEventAbout {
  std::uint32_t detail = 0;
  std::optional<Psn> psn{};
  std::uint32_t count = 1;
};

class QpHistory {
 public:
  /// `queue_pairs`: as many can have a past.
  QpHistory(const StepClock& clock, std::uint32_t queue_pairs);
  QpHistory(const QpHistory&) = delete;
  QpHistory& operator=(const QpHistory&) = delete;

  /// Trouble.
  void add(QueuePair& qp, QpEventKind kind, const QpEventAbout& about = {});
  /// What matters only after trouble.
  void add_if_any(QueuePair& qp, QpEventKind kind, const QpEventAbout& about = {}) {
    if (qp.record.place != kNoIndex) add(qp, kind, about);
  }
  /// Counts for its tenant, and adds the event that it is, if it is one.
  void count(QueuePair& qp, transport::Count what, std::uint32_t n = 1,
             std::optional<Psn> psn = std::nullopt, std::uint32_t detail = 0);
  /// It is in this state from now on.
  void enter(QueuePair& qp, QpState state);
  /// The queue pair is gone.
  void forget(QueuePair& qp);

  /// Oldest first.
  QpPast past(const QueuePair& qp) const;
  std::uint32_t in_use() const { return in_use_; }

 private:
  /// A ring of events.
  struct Place {
    QpPast past;             ///< from the place of `next` on, if it is full
    std::uint32_t next = 0;  ///< index of the next event; while unused: of the next free place
  };

  Place& place(std::uint32_t index) const { return reinterpret_cast<Place*>(places_.get())[index]; }
  Place& place_of(QueuePair& qp);
  static void push(Place& to, const QpEvent& event);

  const StepClock& clock_;
  /// Not constructed: that would touch its pages. Places given back are the first to be taken
  /// again.
  std::unique_ptr<std::byte[]> places_;
  std::uint32_t size_;
  std::uint32_t fresh_ = 0;        ///< never taken: this place and those behind it
  std::uint32_t free_ = kNoIndex;  ///< given back last
  std::uint32_t in_use_ = 0;
};

}  // namespace softhca::engine
