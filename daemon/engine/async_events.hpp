// Asynchronous events on their way to processes (IBA 11.6.3): of queue pairs, completion queues,
// shared receive queues and the port. One that finds its process's socket full waits, in order.
//
// Each session has a queue of its own and is tried again after a pause of its own, which doubles
// while nobody reads. A step tries few, however many wait, and what a try costs is the session's:
// processes that read nothing, or one event at a time, take no time of others.
//
// An XRC target may be open in many processes. Its session is told of an event at once, the others
// a few in each step, while the tenant is within its share of the engine. An event that occurs
// again before any of the others has been told of it is told them once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

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

  /// Processes that are told of events of XRC targets in one step, at most.
  static constexpr std::size_t kToldPerStep = 8;

  AsyncEvents(EventSink& sink, const StepClock& clock, CpuScheduler& cpu, std::uint16_t tenants)
      : sink_(sink), clock_(clock), cpu_(cpu), tenants_(tenants) {}

  /// Allocates, for the events of a session that comes.
  static void reserve(Session& session) { session.deferred.events.reserve(kMostDeferred); }
  /// `element` is the user handle of the object, or the port number.
  void raise(Session& session, std::uint64_t element, EventType type);
  /// Raises the event for all processes that hold the queue pair.
  void raise(const QueuePair& qp, EventType type);
  /// A process opens the target. Allocates.
  static void add_holder(QueuePair& qp, const QpHolder& holder);
  /// One that has opened it lets go. Nothing happens if it has not.
  void remove_holder(QpHolders& holders, const QpHolder& holder);
  /// The process that has held it for longest, which knows of all its events now, is removed.
  QpHolder take_heir(QpHolders& holders);
  /// Tells some processes of events of XRC targets. Returns how many.
  std::size_t tell_holders();
  /// Processes are still to be told.
  bool has_work() const { return !telling_.empty(); }
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
  /// The targets of a tenant with processes to be told.
  struct Telling {
    LinkedList<QpHolders, &QpHolders::of_tenant> targets;
    ListLink<Telling> of_all;
  };

  void wait(Session& session, std::size_t pause);
  void stop_waiting(Session& session);
  Session* first_due() const;
  std::size_t try_again(Session& session, std::size_t most);
  void tell_next(QpHolders& holders);
  void remove_holder(QpHolders& holders, std::size_t index);
  void settle(QpHolders& holders);

  EventSink& sink_;
  const StepClock& clock_;
  CpuScheduler& cpu_;
  std::array<Sessions, kPauses> waiting_;  ///< by their pause, so each in the order of `due`
  Time due_ = kNever;                      ///< the first of them
  std::vector<Telling> tenants_;           ///< by number
  LinkedList<Telling, &Telling::of_all> telling_;
};

}  // namespace softhca::engine
