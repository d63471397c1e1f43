// One opened device context of a process, as the engine sees it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "daemon/base/intrusive_queue.hpp"
#include "daemon/base/linked_list.hpp"
#include "daemon/engine/event_log.hpp"
#include "daemon/engine/queue_pair.hpp"
#include "daemon/engine/tenant.hpp"
#include "daemon/engine/unfinished_vcbs.hpp"
#include "daemon/shm/session_view.hpp"

namespace softhca::engine {

/// What the engine knows of the VCBs and doorbells of a session.
struct PollState {
  std::uint32_t slot = kNoIndex;    ///< in the tables of SessionPoller; kNoIndex: not polled yet
  std::uint32_t place = kNoIndex;   ///< among those of its class that are polled
  std::uint64_t last_scan = 0;      ///< engine work done when nothing was left here
  std::uint64_t previous_scan = 0;  ///< and at the scan before: what is taken in came since then
  bool waiting = false;             ///< something was here, and not all of it is taken in
  std::uint32_t next_vcb = 0;       ///< to be taken in first
  UnfinishedVcbs unfinished;        ///< handed over before their commands were whole
  Time counted{};                   ///< the waits of what is here are counted up to then
};

/// Asynchronous events that wait for room in the process's socket, oldest first.
struct DeferredEvents {
  struct Event {
    std::uint64_t element;
    std::uint32_t type;
  };
  std::vector<Event> events;
  std::uint8_t pause = 0;  ///< which of AsyncEvents' pauses comes before the next try
  Time due{};              ///< when that is
};

/// How many objects of a session are still to be looked at (failed_sessions.hpp).
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
  Level* level = nullptr;  ///< none: the tenant has no levels
  shm::SessionView view;
  QosClassId qos_class;       ///< its level's, else its tenant's
  VcbId first_vcb;            ///< of the adapter's VCB range; the process sees them from 0
  std::uint32_t process = 0;  ///< its id, for reports
  std::uint32_t user = 0;     ///< of the process
  int async_fd = -1;
  int wake_fd = -1;
  Time last_active{};
  PollState poll;
  LinkedList<QueuePair, &QueuePair::of_session> queue_pairs;  ///< installed ones
  std::uint32_t queue_pair_count = 0;
  LinkedList<SharedReceiveQueue, &SharedReceiveQueue::of_session> receive_queues;  ///< shared ones
  std::uint32_t receive_queue_count = 0;
  std::uint32_t queue_pairs_elsewhere = 0;  ///< on other levels than its own, see LevelAssignment
  std::vector<std::pair<const Level*, std::uint32_t>> elsewhere;  ///< how many on which level
  DeferredEvents deferred;
  ListLink<Session> of_deferring;  ///< among those that are tried again after the same pause
  Counter vcbs_missed;             ///< posts that found too few VCBs free
  bool parked = false;
  bool failed = false;           ///< its session memory was found corrupt, and is no longer read
  ListLink<Session> of_failing;  ///< among those that are looked through
  Unseen unseen;                 ///< of what is looked at then

  /// Are its VCBs and doorbells looked at?
  bool is_collected() const { return !parked && !failed && !held_by_rate(); }
  /// Is the rate used up of all that its queue pairs may be on: of its tenant, or of its level?
  bool held_by_rate() const {
    return tenant->rate.closed() ||
           (level != nullptr && level->rate.closed() && queue_pairs_elsewhere == 0);
  }
  /// Counts a queue pair in on another level, or, with `one` = -1, out. May allocate.
  void count_elsewhere(const Level& of, std::uint32_t one) {
    queue_pairs_elsewhere += one;
    auto at = std::ranges::find(elsewhere, &of, &std::pair<const Level*, std::uint32_t>::first);
    if (at == elsewhere.end()) at = elsewhere.insert(at, {&of, 0});
    at->second += one;
    if (at->second == 0) elsewhere.erase(at);
  }
  /// True if queue pairs of it are on `of`, which is not its own level.
  bool is_elsewhere_on(const Level& of) const {
    return std::ranges::any_of(elsewhere, [&](const auto& each) { return each.first == &of; });
  }
  /// What its commands wait for is counted there.
  WaitCounters& waits() const {
    return level != nullptr ? level->counters.waits : tenant->counters.waits;
  }
  /// `of`: the level of the command, null for none.
  void count_send_queue_mode(SendQueueCause cause, Level* of) {
    tenant->counters.send_queue_mode.add();
    tenant->counters.send_queue_cause[static_cast<std::size_t>(cause)].add();
    if (of != nullptr) of->counters.send_queue_mode.add();
  }
};

/// The level that the commands of a queue pair are of: its process's, unless it was assigned to
/// another. Null: none.
inline Level* level_of(const QueuePair& qp) {
  return qp.qos_class == qp.session->qos_class ? qp.session->level
                                               : qp.tenant->find_level(qp.qos_class);
}
/// What the commands of a queue pair wait for is counted there.
inline WaitCounters& waits_of(const QueuePair& qp) {
  Level* const level = level_of(qp);
  return level != nullptr ? level->counters.waits : qp.tenant->counters.waits;
}
/// Is the rate of its tenant or level used up?
inline bool held_by_rate(const QueuePair& qp) {
  const Level* const level = level_of(qp);
  return qp.tenant->rate.closed() || (level != nullptr && level->rate.closed());
}

/// The event that something happened to a process. `cause` is static text.
inline DaemonEvent event_of(DaemonEventKind kind, const Session& session, Qpn qpn,
                            const char* cause) {
  return {.kind = kind,
          .tenant = session.tenant->id,
          .process = session.process,
          .qpn = qpn,
          .cause = cause};
}

}  // namespace softhca::engine
