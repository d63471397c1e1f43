// SPDX-License-Identifier: Apache-2.0

// Decides which session memory the engine polls, and from which session it fetches commands next.
//
// Both are bounded in a poll step and do not depend on how much a process posts. Polls are divided
// equally between the classes (tenants, or their levels) with processes awake, and rotate among the
// processes of each class. Sessions in which a poll found something get turns to be fetched from,
// in the order of start-time fair queuing by the cost of fetching. Queue pairs with work are
// scheduled the same way (run_queue.hpp). A class that posts little therefore waits only
// for the turn in service.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "daemon/engine/records/objects.hpp"
#include "daemon/qos/schedule/run_queue.hpp"

namespace softhca::engine {

class SessionPoller {
 public:
  /// Polls in a step, and between two pieces of work in it. With more, a poll costs more than it
  /// saves. Each class has at least one.
  static constexpr std::size_t kLooks = 64;

  /// Allocates. For set-up only. Classes are numbered as in the engine's run queue.
  void reserve(std::uint16_t tenants, std::uint16_t classes);

  /// add() adds a session, awake, and allocates. remove() removes it.
  void add(Session& session);
  void remove(Session& session);
  /// wake() starts polling the session, rest() stops it. They do nothing if that is so already.
  void wake(Session& session);
  void rest(Session& session);

  /// Calls visit(session) for the sessions that are to be polled next, except those of one class.
  template <class Visit>
  void look(Visit&& visit, QosClassId except = kNoQosClass) {
    for (const std::uint16_t id : present_) {
      if (id == except.value) continue;
      QosClass& qos_class = classes_[id];
      const std::size_t size = qos_class.awake.size(), count = std::min(looks_, size);
      for (std::size_t i = 0; i < count; ++i) {
        visit(*sessions_[qos_class.awake[qos_class.next]]);
        if (++qos_class.next == size) qos_class.next = 0;
      }
    }
  }

  /// Queues the session for fetching: a poll found something. Does nothing if it is queued.
  void push(const Session& session) { order_.push(session.poll.slot, session.qos_class); }
  /// Returns the session to fetch from next; null if there is none. served() must follow.
  Session* pop();
  /// Reports the cost of fetching from the session that pop() returned, and whether something was
  /// left.
  void served(const Session& session, std::uint64_t cost, bool more) {
    order_.served(session.poll.slot, cost, more);
  }
  bool empty() const { return order_.empty(); }
  /// Returns the order of turns: it tells whether turns are contended, and takes weights.
  schedule::RunQueue& order() { return order_; }

 private:
  struct QosClass {
    std::vector<std::uint32_t> awake;  ///< slots of sessions, in no particular order
    std::size_t next = 0;              ///< index in `awake` of the next to poll
  };
  void share_looks();

  std::vector<Session*> sessions_;  ///< by slot
  std::vector<std::uint32_t> free_slots_;
  std::vector<QosClass> classes_;
  std::vector<std::uint16_t> present_;  ///< classes with sessions awake
  std::size_t looks_ = kLooks;          ///< polls of each class
  schedule::RunQueue order_;
  std::uint16_t tenants_ = 0;
};

}  // namespace softhca::engine
