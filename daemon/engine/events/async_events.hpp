// SPDX-License-Identifier: Apache-2.0

// Asynchronous events on their way to processes (IBA 11.6.3): of queue pairs, completion queues,
// shared receive queues and the port. If a process's socket is full, its events wait in order.
//
// Each session has its own queue and its own retry pause, which doubles while the process does not
// read. A poll step makes a bounded number of tries, however many sessions wait, and charges each
// to its session. So processes that read nothing, or one event at a time, take no time from others.
//
// Several processes may open an XRC target. The engine notifies the session of the target at once.
// It notifies the other processes a few in each step, while the tenant is within its share of the
// engine. An event that is raised again before any of these processes was notified is reported to
// them once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "daemon/base/linked_list.hpp"
#include "daemon/engine/records/events.hpp"
#include "daemon/engine/records/objects.hpp"
#include "daemon/engine/records/step_clock.hpp"
#include "daemon/engine/turns/cpu_scheduler.hpp"

namespace softhca::engine {

class AsyncEvents {
 public:
  /// Most events kept for a session that does not read; further ones are dropped and counted.
  static constexpr std::size_t kMostDeferred = 256;

  /// Most processes that are notified of events of XRC targets in one step.
  static constexpr std::size_t kToldPerStep = 8;

  AsyncEvents(EventSink& sink, const StepClock& clock, CpuScheduler& cpu, std::uint16_t tenants)
      : sink_(sink), clock_(clock), cpu_(cpu), tenants_(tenants) {}

  /// Allocates room for the events of a new session.
  static void reserve(Session& session) { session.deferred.events.reserve(kMostDeferred); }
  /// Reports an event. `element` is the user handle of the object, or the port number.
  void raise(Session& session, std::uint64_t element, EventType type);
  /// Raises the event for all processes that hold the queue pair.
  void raise(const QueuePair& qp, EventType type);
  /// Records a process that opens the XRC target. Allocates.
  static void add_holder(QueuePair& qp, const QpHolder& holder);
  /// Removes a process that closes the XRC target. Does nothing if it is not a holder.
  void remove_holder(QpHolders& holders, const QpHolder& holder);
  /// Removes and returns the process that has held the target for longest, after reporting to it
  /// all events that it was not notified of.
  QpHolder take_heir(QpHolders& holders);
  /// Notifies some processes of events of XRC targets. Returns how many.
  std::size_t tell_holders();
  /// True if processes are still to be notified.
  bool has_work() const { return !telling_.empty(); }
  /// Drops undelivered events of an object that is destroyed (IBA 11.6.3.2).
  void forget(Session& session, std::uint64_t element);
  /// Drops all events of a session that is removed.
  void forget(Session& session);

  Time next_deadline() const { return due_; }
  /// REQUIRES: next_deadline() has come.
  void retry();

 private:
  using Sessions = LinkedList<Session, &Session::of_deferring>;
  static constexpr std::size_t kPauses = 7;  ///< of 1 to 64 ms
  /// The XRC targets of a tenant that have processes to be notified.
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
  Time due_ = kNever;                      ///< earliest of them
  std::vector<Telling> tenants_;           ///< by number
  LinkedList<Telling, &Telling::of_all> telling_;
};

}  // namespace softhca::engine
