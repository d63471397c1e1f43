// SPDX-License-Identifier: Apache-2.0

// One opened device context of a process, as the engine sees it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "daemon/base/intrusive_queue.hpp"
#include "daemon/base/linked_list.hpp"
#include "daemon/engine/records/event_log.hpp"
#include "daemon/engine/records/queue_pair.hpp"
#include "daemon/engine/records/tenant.hpp"
#include "daemon/engine/records/unfinished_vcbs.hpp"
#include "daemon/tenant_memory/session_view.hpp"

namespace softhca::engine {

/// The engine's state for the VCBs and doorbells of a session.
struct PollState {
  std::uint32_t slot = kNoIndex;    ///< in the tables of SessionPoller; kNoIndex: not polled yet
  std::uint32_t place = kNoIndex;   ///< index among the polled sessions of its class
  std::uint64_t last_scan = 0;      ///< engine time when all was last fetched
  std::uint64_t previous_scan = 0;  ///< engine time of the scan before
  bool waiting = false;             ///< a scan found something, and not all is fetched yet
  std::uint32_t next_vcb = 0;       ///< the VCB that is fetched first
  UnfinishedVcbs unfinished;        ///< handed over before their commands were complete
  Time counted{};                   ///< the waits of its commands are counted until then
};

/// Asynchronous events that wait for room in the process's socket, oldest first.
struct DeferredEvents {
  struct Event {
    std::uint64_t element;
    std::uint32_t type;
  };
  std::vector<Event> events;
  std::uint8_t pause = 0;  ///< index of the pause in AsyncEvents before the next attempt
  Time due{};              ///< time of the next attempt
};

/// How many objects of a session failed_sessions.hpp has still to check.
struct Unseen {
  std::uint32_t queue_pairs = 0;
  std::uint32_t receive_queues = 0;
};

/// One opened device context of a process.
struct Session {
  Session(SessionId session, Tenant& owner, shm::SessionView memory, VcbId first)
      : id(session), tenant(&owner), view(memory), first_vcb(first) {}

  SessionId id;
  Tenant* tenant;
  Level* level = nullptr;  ///< null: the tenant has no levels
  shm::SessionView view;
  QosClassId qos_class;       ///< that of its level, else of its tenant
  VcbId first_vcb;            ///< in the adapter's VCB range; the process numbers VCBs from 0
  std::uint32_t process = 0;  ///< process id, for reports
  std::uint32_t user = 0;     ///< user id of the process
  int async_end = -1;         ///< for EventSink
  int wake_fd = -1;
  Time last_active{};
  PollState poll;
  LinkedList<QueuePair, &QueuePair::of_session> queue_pairs;  ///< the installed ones
  std::uint32_t queue_pair_count = 0;
  LinkedList<SharedReceiveQueue, &SharedReceiveQueue::of_session> receive_queues;  ///< shared ones
  std::uint32_t receive_queue_count = 0;
  std::uint32_t queue_pairs_elsewhere = 0;  ///< on levels other than its own, see LevelAssignment
  std::vector<std::pair<const Level*, std::uint32_t>> elsewhere;  ///< how many on each other level
  DeferredEvents deferred;
  ListLink<Session> of_deferring;  ///< among sessions that are tried again after the same pause
  Counter vcbs_missed;             ///< posts that found too few free VCBs
  bool parked = false;
  bool failed = false;           ///< its session memory is corrupt and is no longer read
  ListLink<Session> of_failing;  ///< among sessions with objects to be checked
  Unseen unseen;                 ///< its objects that are still to be checked

  /// True if its VCBs and doorbells are polled.
  bool is_collected() const { return !parked && !failed && !held_by_rate(); }
  /// True if the rate that applies to all its queue pairs is used up: that of its tenant, or that
  /// of its level.
  bool held_by_rate() const {
    return tenant->rate.closed() ||
           (level != nullptr && level->rate.closed() && queue_pairs_elsewhere == 0);
  }
  /// Counts a queue pair that joins another level, or leaves it if `one` = -1. May allocate.
  void count_elsewhere(const Level& of, std::uint32_t one) {
    queue_pairs_elsewhere += one;
    auto at = std::ranges::find(elsewhere, &of, &std::pair<const Level*, std::uint32_t>::first);
    if (at == elsewhere.end()) at = elsewhere.insert(at, {&of, 0});
    at->second += one;
    if (at->second == 0) elsewhere.erase(at);
  }
  /// True if the session has queue pairs on `of`, which is not its own level.
  bool is_elsewhere_on(const Level& of) const {
    return std::ranges::any_of(elsewhere, [&](const auto& each) { return each.first == &of; });
  }
  /// Returns the counters for the waits of its commands.
  WaitCounters& waits() const {
    return level != nullptr ? level->counters.waits : tenant->counters.waits;
  }
  /// Counts a command in send-queue mode. `of`: the level of the command; null for none.
  void count_send_queue_mode(SendQueueCause cause, Level* of) {
    tenant->counters.send_queue_mode.add();
    tenant->counters.send_queue_cause[static_cast<std::size_t>(cause)].add();
    if (of != nullptr) of->counters.send_queue_mode.add();
  }
};

/// Returns the level of the queue pair's commands: that of its process, unless the queue pair was
/// assigned to another. Null: none.
inline Level* level_of(const QueuePair& qp) {
  return qp.qos_class == qp.session->qos_class ? qp.session->level
                                               : qp.tenant->find_level(qp.qos_class);
}
/// Returns the counters for the waits of the queue pair's commands.
inline WaitCounters& waits_of(const QueuePair& qp) {
  Level* const level = level_of(qp);
  return level != nullptr ? level->counters.waits : qp.tenant->counters.waits;
}
/// True if the rate of its tenant or level is used up.
inline bool held_by_rate(const QueuePair& qp) {
  const Level* const level = level_of(qp);
  return qp.tenant->rate.closed() || (level != nullptr && level->rate.closed());
}

/// Names the session as what a thread works on.
inline Subject subject_of(const Session& session) {
  return {Subject::Kind::kSession, session.id.value};
}

/// Returns an event about a process. `cause` is static text.
inline DaemonEvent event_of(DaemonEventKind kind, const Session& session, Qpn qpn,
                            const char* cause) {
  return {.kind = kind,
          .tenant = session.tenant->id,
          .process = session.process,
          .qpn = qpn,
          .cause = cause};
}

}  // namespace softhca::engine
