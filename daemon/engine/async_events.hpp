// Asynchronous events on their way to processes (IBA 11.6.3): of queue pairs, completion queues,
// shared receive queues and the port. One that finds its process's socket full waits, in order.
//
// Each session has a queue of its own and is tried again after a pause of its own, which doubles
// while nobody reads. A step tries few, however many wait, and what a try costs is the session's:
// processes that read nothing, or one event at a time, take no time of others.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "daemon/base/linked_list.hpp"
#include "daemon/engine/clock.hpp"
#include "daemon/engine/cpu_scheduler.hpp"
#include "daemon/engine/events.hpp"
#include "daemon/engine/objects.hpp"

namespace softhca::engine {

class AsyncEvents {
 public:
  /// Events of a session that does not read are kept up to this many, then dropped and counted.
  static constexpr std::size_t kMostDeferred = 256;

  AsyncEvents(EventSink& sink, const StepClock& clock, CpuScheduler& cpu)
      : sink_(sink), clock_(clock), cpu_(cpu) {}

  /// Allocates, for the events of a session that comes.
  static void reserve(Session& session) { session.deferred.events.reserve(kMostDeferred); }
  /// `element` is the user handle of the object, or the port number.
  void raise(Session& session, std::uint64_t element, EventType type);
  /// Raises the event for all processes that hold the queue pair.
  void raise(const QueuePair& qp, EventType type);
  /// Drops events not delivered yet of an object that is going (IBA 11.6.3.2).
  void forget(Session& session, std::uint64_t element);
  /// Drops all events of a session that is going.
  void forget(Session& session);

  Time next_deadline() const { return due_; }
  /// REQUIRES: next_deadline() has come.
  void retry();

 private:
  using Sessions = LinkedList<Session, &Session::of_deferring>;
  static constexpr std::size_t kPauses = 7;  ///< of 1 to 64 ms

  void wait(Session& session, std::size_t pause);
  void stop_waiting(Session& session);
  Session* first_due() const;
  std::size_t try_again(Session& session, std::size_t most);

  EventSink& sink_;
  const StepClock& clock_;
  CpuScheduler& cpu_;
  std::array<Sessions, kPauses> waiting_;  ///< by their pause, so each in the order of `due`
  Time due_ = kNever;                      ///< the first of them
};

}  // namespace softhca::engine
