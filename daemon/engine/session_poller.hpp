// Decides which session memory the engine scans, and whose commands it takes in next.
//
// Both are bounded in a poll step, and neither follows how much anybody posts. Looks are divided
// equally between the classes (tenants, or their levels) that have processes awake, and go round
// the processes of each. Among those in which something was found, turns to be taken in from go by
// what taking in costs: start-time fair queuing, as with the queue pairs that have work
// (schedule/run_queue.hpp), so that a class that posts little waits only for the turn in service.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "daemon/engine/objects.hpp"
#include "daemon/schedule/run_queue.hpp"

namespace softhca::engine {

class SessionPoller {
 public:
  /// Looks in a step, and between two pieces of work in it: with more, a look costs more than it
  /// saves. Each class has at least one.
  static constexpr std::size_t kLooks = 64;

  /// Set-up only. Classes are numbered as in the run queue of the engine.
  void reserve(std::uint16_t tenants, std::uint16_t classes);

  /// add(): the session is there, awake; allocates. remove(): it goes.
  void add(Session& session);
  void remove(Session& session);
  /// wake(): the session is to be looked at; rest(): no longer. Nothing happens if that is so
  /// already.
  void wake(Session& session);
  void rest(Session& session);

  /// Calls visit(session) for the sessions whose turn it is to be looked at, except those of one
  /// class.
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

  /// Something was found in the session. Nothing happens if that is known.
  void push(const Session& session) { order_.push(session.poll.slot, session.qos_class); }
  /// The session to be taken in from next, null: there is none; served() is to follow.
  Session* pop();
  /// What taking in from the session popped last cost, and whether something was left.
  void served(const Session& session, std::uint64_t cost, bool more) {
    order_.served(session.poll.slot, cost, more);
  }
  bool empty() const { return order_.empty(); }
  /// The order of turns: says whose turns are contended, and takes weights.
  schedule::RunQueue& order() { return order_; }

 private:
  struct QosClass {
    std::vector<std::uint32_t> awake;  ///< slots of sessions, in no order
    std::size_t next = 0;              ///< place in `awake` of the next to be looked at
  };
  void share_looks();

  std::vector<Session*> sessions_;  ///< by slot
  std::vector<std::uint32_t> free_slots_;
  std::vector<QosClass> classes_;
  std::vector<std::uint16_t> present_;  ///< classes with sessions awake
  std::size_t looks_ = kLooks;          ///< of each class
  schedule::RunQueue order_;
  std::uint16_t tenants_ = 0;
};

}  // namespace softhca::engine
