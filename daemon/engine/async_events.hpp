// Asynchronous events on their way to processes (IBA 11.6.3): of queue pairs, completion queues,
// shared receive queues and the port. One that finds its process's socket full waits, in order.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "daemon/engine/clock.hpp"
#include "daemon/engine/event_retry.hpp"
#include "daemon/engine/events.hpp"
#include "daemon/engine/objects.hpp"

namespace softhca::engine {

class AsyncEvents {
 public:
  /// Events of a session that does not read are kept up to this many, then dropped and counted.
  static constexpr std::uint32_t kMostDeferred = 256;

  AsyncEvents(EventSink& sink, const StepClock& clock) : sink_(sink), clock_(clock) {}

  /// Allocates, for the events of so many sessions.
  void reserve(std::size_t sessions) { deferred_.reserve(std::bit_ceil(sessions) * kMostDeferred); }
  /// `element` is the user handle of the object, or the port number.
  void raise(Session& session, std::uint64_t element, EventType type);
  /// Raises the event for all processes that hold the queue pair.
  void raise(const QueuePair& qp, EventType type);
  /// Drops events not delivered yet of an object that is going (IBA 11.6.3.2).
  void forget(Session& session, std::uint64_t element);
  /// Drops all events of a session that is going.
  void forget(const Session& session);

  Time next_deadline() const { return retry_.due(); }
  /// REQUIRES: next_deadline() has come.
  void retry();

 private:
  struct Deferred {
    Session* session;
    std::uint64_t element;
    std::uint32_t type;
  };

  EventSink& sink_;
  const StepClock& clock_;
  std::vector<Deferred> deferred_;
  EventRetry retry_;
};

}  // namespace softhca::engine
