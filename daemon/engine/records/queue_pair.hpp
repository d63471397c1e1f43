// SPDX-License-Identifier: Apache-2.0

// A queue pair as the engine sees it, and the engine's state of its commands.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "daemon/base/intrusive_queue.hpp"
#include "daemon/base/linked_list.hpp"
#include "daemon/base/pulse.hpp"
#include "daemon/engine/records/events.hpp"
#include "daemon/engine/records/qp_attributes.hpp"
#include "daemon/engine/records/qp_durable.hpp"
#include "daemon/engine/records/qp_failure.hpp"
#include "daemon/engine/records/route.hpp"
#include "daemon/engine/records/shared_receive_queue.hpp"
#include "daemon/engine/records/tenant.hpp"
#include "daemon/engine/records/wait_causes.hpp"
#include "daemon/roce/transport/local/local.hpp"
#include "daemon/roce/transport/reaction_point.hpp"
#include "daemon/roce/transport/reliable/rc.hpp"
#include "daemon/roce/transport/uc.hpp"
#include "daemon/roce/transport/ud.hpp"
#include "daemon/tenant_memory/send_ring_overflow_buffer.hpp"

namespace softhca::engine {

struct QueuePair;
struct Session;

/// The engine's state of a command, besides its PCB.
struct CommandContext {
  IndexLink link;                   ///< in QueuePair::kicked or QueuePair::held
  std::uint32_t slot = kNoIndex;    ///< slot of its queue pair; kNoIndex: not a command yet
  std::uint32_t length = 0;         ///< bytes of the message
  std::uint32_t charged_bytes = 0;  ///< to rates, if `charged`
  Time kicked_at{};
  std::uint64_t time_when_seen = 0;  ///< engine time when it could first have been seen
  TvlId tvl;                         ///< the TVL of the credits that it holds
  bool execution_held = false;
  bool completion_held = false;
  bool by_doorbell = false;      ///< fetched from its send queue
  bool dedicated_waits = false;  ///< in a dedicated PCB, waits only for the peer
  bool charged = false;          ///< to the rates that apply to it
};

/// What a queue pair retransmitted and why. Belongs to the engine's thread.
struct RetryCounters {
  std::uint32_t packets = 0;        ///< retransmitted
  std::uint32_t timeouts = 0;       ///< acknowledgement timers that ran out
  std::uint32_t early = 0;          ///< retries and probes before the timeout
  std::uint32_t rnr_naks = 0;       ///< the peer had no receive
  std::uint32_t sequence_naks = 0;  ///< the peer missed a packet

  void add(transport::Count what, std::uint32_t n) {
    using transport::Count;
    switch (what) {
      case Count::kRetransmittedPackets:
        packets += n;
        break;
      case Count::kAckTimeouts:
        timeouts += n;
        break;
      case Count::kEarlyRetries:
      case Count::kProbes:
        early += n;
        break;
      case Count::kRnrNakReceived:
        rnr_naks += n;
        break;
      case Count::kSequenceNakReceived:
        sequence_naks += n;
        break;
      default:
        break;
    }
  }
};

/// The history of a queue pair. Belongs to the engine's thread.
struct QpRecord {
  /// What the next engine needs of it, in DurableState; set by QpTable.
  QpDurable* durable = nullptr;
  Time state_since{};
  RetryCounters retries;
  std::uint32_t place = kNoIndex;  ///< in QpHistory; kNoIndex: no errors or retries
};

/// The share of an XRC target in a shared receive queue that is not the one in use.
struct XrcMember {
  SharedReceiveQueue* srq = nullptr;
  receive::Member member;
};

/// A process that receives the events of a queue pair.
struct QpHolder {
  Session* session = nullptr;
  std::uint64_t user_handle = 0;
  bool operator==(const QpHolder&) const = default;
};

/// The processes that have opened an XRC target, apart from its session's process, and the events
/// that not all of them have received (AsyncEvents).
struct QpHolders {
  explicit QpHolders(const QueuePair& qp) : target(qp) {}

  const QueuePair& target;
  std::vector<QpHolder> all;
  /// Oldest first. Each type occurs at most once among the events that no process has received.
  std::vector<EventType> events;
  std::size_t told = 0;           ///< the first `told` of `all` have received the first event
  ListLink<QpHolders> of_tenant;  ///< while there are events
};

/// The queue pair number for datagrams to all members of a multicast group. No queue pair has it
/// (IBA 10.5).
inline constexpr Qpn kMulticastQpn(0xffffff);

class SharedQp;

/// Why a queue pair was suspended, see QpStall.
enum class SetAside : std::uint8_t {
  kNo,
  /// It waits for earlier requests (fence, reads in progress), or for the peer's credits.
  kTransport,
  /// It waits for all earlier requests: the next command is one of memory windows.
  kHeld,
  kPace,       ///< it waits for the pace that congestion notifications have set
  kNeighbour,  ///< it waits for the link address of the next hop
};

/// What delayed the commands of a queue pair recently, for WaitCensus.
struct WaitNotes {
  WaitCause fetch = WaitCause::kEngine;  ///< in its last turn to fetch; kEngine: nothing
  WaitCause port = WaitCause::kEngine;   ///< for one of its packets, at `refused`
  bool no_vcb = false;                   ///< its process had no VCB at the last doorbell
  Time refused{};
  Time counted{};  ///< the waits of its commands are counted until then
};

/// The send queue of a queue pair, and the engine's state of its commands.
struct QpSendQueue {
  using CommandList = IndexList<CommandContext, &CommandContext::link>;

  shm::SendRing ring;
  CompletionQueue* cq = nullptr;
  TvlId tvl;                         ///< of commands in ordinary PCBs
  TvlId dedicated_tvl;               ///< of commands in dedicated PCBs
  std::uint32_t first_sequence = 0;  ///< of its first command since RESET
  CommandList kicked;                ///< commands that wait for credits, in order
  CommandList held;                  ///< commands with credits that may not start yet, in order
  std::uint32_t commands = 0;        ///< prepared and not released
  std::uint32_t dedicated = 0;       ///< of `commands`, those in dedicated PCBs
  std::uint32_t started = 0;         ///< of `commands`, those handed to the transport
  std::uint32_t not_begun = 0;       ///< sequence of the first never handed to the transport
  std::uint32_t done = 0;            ///< sequence of the first that is not complete
  bool stalled = false;              ///< its commands were given back, see QpStall
  bool probing = false;              ///< one at a time, from then until one has succeeded
  SetAside aside = SetAside::kNo;    ///< the unsent ones were given back
  bool sparing = false;              ///< one unsent at a time, until one has succeeded
  bool releasing = false;            ///< CommandExecution::release_held() is running
  bool discarding = false;           ///< being reset or removed: no command completes
  bool resumed = false;              ///< no command has completed since QpLifecycle::resume()
  bool skips_first = false;          ///< the first command may have been sent by the earlier engine
  bool sqd_notify = false;           ///< its program requests an event when it has drained
  std::unique_ptr<QpRates> rates;    ///< null: the queue pair has no limits of its own
  WaitNotes waits;
  /// If its commands still wait at this time, the engine suspends the queue pair. If it is
  /// suspended, the engine tries again.
  Time look_at = kNever;

  /// True if the command was handed to the transport before. If it is fetched again, it was given
  /// back in between.
  bool has_begun(std::uint32_t sequence) const { return ring_distance(sequence, not_begun) < 0; }
};

/// The receive queue of a queue pair, and its share of a shared receive queue.
struct QpReceiveQueue {
  shm::ReceiveRing ring;
  CompletionQueue* cq = nullptr;
  receive::Member member;  ///< share of its shared receive queue
  /// XRC target: shares of the queues that requests have named, except the one in use.
  std::vector<XrcMember> xrc_members;
  /// The receive that was drawn for the message in progress, in QpTable.
  shm::ReceiveWork* work = nullptr;
  bool drawn = false;
  std::uint8_t device = 0;  ///< of its tenant; UD: it receives at the addresses of this device
  /// UD: slot of the queue pair that is writing a datagram to it in steps (MemoryWaits).
  std::uint32_t writer = kNoIndex;
  bool given_up = false;      ///< its next message is refused and ends the connection
  bool resumed = false;       ///< none has completed since QpLifecycle::resume()
  std::uint32_t drought = 0;  ///< starvation of its SRQ in which it found no receive
};

/// The peer of a connected queue pair, and the path to it.
struct QpConnection {
  Qpn destination;
  bool peer_seen = false;           ///< a packet of its peer has arrived
  bool established_raised = false;  ///< IBV_EVENT_COMM_EST
  Route route;
  Gid named_source;                  ///< the tenant's address that its program named
  transport::ReactionPoint flow;     ///< its rate on the wire
  Time next_cnp{};                   ///< no congestion notification is sent to the peer before then
  transport::WirePosition position;  ///< PSNs with which it continues after local delivery
};

/// The state of a queue pair that enters the error state or is in it.
struct QpError {
  bool pending = false;  ///< to be flushed after the current call
  bool last_wqe_raised = false;
  std::chrono::duration<std::uint32_t, std::milli> flush_interval{};  ///< of receives
  QpFailure cause = QpFailure::kNone;
};

// Members are in the order that leaves no gaps: there may be a hundred thousand queue pairs
// (tests/system/verbs/idle-queue-pairs.test).
struct QueuePair {
  Qpn qpn;
  std::uint32_t slot = 0;  ///< index in the engine's tables and of its timer
  QpType type = QpType::kRc;
  QpState state = QpState::kReset;
  bool signal_all = false;
  QosClassId qos_class;  ///< its session's, or that of another level: LevelAssignment
  Session* session = nullptr;
  ListLink<QueuePair> of_session;  ///< in Session::queue_pairs
  Tenant* tenant = nullptr;
  std::uint64_t user_handle = 0;
  memory::PdId pd;
  XrcDomainId xrc_domain;  ///< XRC target: `srq` is the queue that the last request named
  SharedReceiveQueue* srq = nullptr;
  std::vector<Gid> groups;             ///< UD: multicast groups of which it is a member
  SharedQp* clients = nullptr;         ///< UD, of the daemon's own: its part for the clients
  std::unique_ptr<QpHolders> holders;  ///< null: only `session` has it open

  std::uint32_t access = 0;  ///< enum ibv_access_flags of the queue pair
  std::uint32_t qkey = 0;
  transport::RcAttributes rc;

  using Transport = std::variant<transport::Rc, transport::Uc, transport::Ud, transport::Local>;
  Transport transport;  ///< the transport of its type, or the local one: is_local()

  QpSendQueue sq;
  QpReceiveQueue rq;
  QpConnection connection;
  QpError error;

  QpRecord record;
  void count(transport::Count what, std::uint32_t n = 1) {
    tenant->counters.transport[static_cast<std::size_t>(what)].add(n);
    record.retries.add(what, n);
  }

  /// True if it is connected and the peer is in this daemon.
  bool is_local() const { return std::holds_alternative<transport::Local>(transport); }
  // For the next engine.
  /// Stores how far its requests have come.
  void store_sent() {
    std::visit([this](const auto& now) { record.durable->store_sent(sq.done, sent_position(now)); },
               transport);
  }
  /// Stores how far the requests of its peer have come.
  void store_taken() {
    std::visit(
        [this](const auto& now) { record.durable->store_taken(taken_position(now), rc.mtu); },
        transport);
  }

  /// Returns the stored word (qp_durable.hpp) behind the command that completes now.
  std::uint64_t sent_behind(std::uint32_t sequence) const {
    return std::visit(
        [&](const auto& now) { return QpDurable::sent_word(sequence + 1, sent_position(now)); },
        transport);
  }
  /// Returns the stored word behind the message that a receive ends now. A reliable connection over
  /// the wire counts it when the receive has completed.
  std::uint64_t taken_behind(bool succeeds) const {
    transport::TakenPosition position =
        std::visit([](const auto& now) { return taken_position(now); }, transport);
    position.message = {};
    if (succeeds && std::holds_alternative<transport::Rc>(transport)) {
      ++position.expected;
      ++position.sequence;
      position.established = true;
    }
    return QpDurable::taken_word(position);
  }

  /// True if it accepts commands of its program.
  bool sends() const { return type != QpType::kXrcReceive; }
  /// True if it has a receive queue of its own.
  bool receives() const { return srq == nullptr && !is_xrc(type); }

  /// Returns the protection domain of memory that a peer's keys may name. For an XRC target this is
  /// the domain of the queue in use (annex A14).
  memory::PdId remote_pd() const {
    if (type != QpType::kXrcReceive) return pd;
    return srq != nullptr ? srq->pd : memory::PdId();
  }
};

/// Names the queue pair as what a thread works on.
inline Subject subject_of(const QueuePair& qp) { return {Subject::Kind::kQueuePair, qp.qpn.value}; }

}  // namespace softhca::engine
