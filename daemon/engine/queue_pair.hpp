// A queue pair as the engine sees it, and what it remembers of its commands.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "daemon/base/intrusive_queue.hpp"
#include "daemon/base/linked_list.hpp"
#include "daemon/engine/events.hpp"
#include "daemon/engine/qp_attributes.hpp"
#include "daemon/engine/qp_failure.hpp"
#include "daemon/engine/route.hpp"
#include "daemon/engine/shared_receive_queue.hpp"
#include "daemon/engine/tenant.hpp"
#include "daemon/engine/wait_causes.hpp"
#include "daemon/shm/send_ring.hpp"
#include "daemon/transport/local/local.hpp"
#include "daemon/transport/rc.hpp"
#include "daemon/transport/reaction_point.hpp"
#include "daemon/transport/uc.hpp"
#include "daemon/transport/ud.hpp"

namespace softhca::engine {

struct QueuePair;
struct Session;

/// What the engine remembers of a command beside its PCB.
struct CommandContext {
  IndexLink link;                   ///< in QueuePair::kicked or QueuePair::held
  std::uint32_t slot = kNoIndex;    ///< queue pair; kNoIndex: not a command yet
  std::uint32_t length = 0;         ///< bytes of the message
  std::uint32_t charged_bytes = 0;  ///< to rates, if `charged`
  Time kicked_at{};
  std::uint64_t time_when_seen = 0;  ///< engine time spent when it could first have been seen
  TvlId tvl;                         ///< whose credits it holds
  bool execution_held = false;
  bool completion_held = false;
  bool by_doorbell = false;      ///< fetched from its send queue
  bool dedicated_waits = false;  ///< in a dedicated PCB, and only the peer is awaited
  bool charged = false;          ///< to the rates that it goes through
};

/// What a queue pair sent again and why. Belongs to the engine's thread.
struct RetryCounters {
  std::uint32_t packets = 0;        ///< sent again
  std::uint32_t timeouts = 0;       ///< acknowledgement timers that ran out
  std::uint32_t early = 0;          ///< retries and probes before the timeout
  std::uint32_t rnr_naks = 0;       ///< the peer had no receive
  std::uint32_t sequence_naks = 0;  ///< the peer missed a packet

  void add(transport::Count what, std::uint32_t n) {
    using transport::Count;
    if (what == Count::kRetransmittedPackets) packets += n;
    if (what == Count::kAckTimeouts) timeouts += n;
    if (what == Count::kEarlyRetries || what == Count::kProbes) early += n;
    if (what == Count::kRnrNakReceived) rnr_naks += n;
    if (what == Count::kSequenceNakReceived) sequence_naks += n;
  }
};

/// What happened to a queue pair. Belongs to the engine's thread.
struct QpRecord {
  Time state_since{};
  RetryCounters retries;
  std::uint32_t place = kNoIndex;  ///< in QpHistory, if it had trouble
};

/// An XRC target's share of a shared receive queue other than the one it is using.
struct XrcMember {
  SharedReceiveQueue* srq = nullptr;
  receive::Member member;
};

/// A process that is told of the events of a queue pair.
struct QpHolder {
  Session* session = nullptr;
  std::uint64_t user_handle = 0;
  bool operator==(const QpHolder&) const = default;
};

/// The processes that have opened an XRC target, beside its session's, and the events that not all
/// of them have been told of (AsyncEvents).
struct QpHolders {
  explicit QpHolders(const QueuePair& qp) : target(qp) {}

  const QueuePair& target;
  std::vector<QpHolder> all;
  std::vector<EventType> events;  ///< the oldest first; each at most once that nobody was told of
  std::size_t told = 0;           ///< so many of `all` know of the first event
  ListLink<QpHolders> of_tenant;  ///< while there are events
};

/// The number that datagrams for all members of a multicast group are sent to; no queue pair has it
/// (IBA 10.5).
inline constexpr Qpn kMulticastQpn(0xffffff);

class DatagramService;

/// Why a queue pair was set aside, see QpStall.
enum class SetAside : std::uint8_t {
  kNo,
  kTransport,  ///< for requests before the next one (fence, reads under way), or the peer's credits
  kHeld,       ///< for all requests before the next command, which is one of memory windows
  kPace,       ///< for the pace that congestion notifications have set
  kNeighbour,  ///< for the link address of the next hop
};

/// What was in the way of the commands of a queue pair lately, for WaitCensus.
struct WaitNotes {
  WaitCause fetch = WaitCause::kEngine;  ///< of its last turn to fetch; kEngine: nothing
  WaitCause port = WaitCause::kEngine;   ///< of a packet of it, at `refused`
  bool no_vcb = false;                   ///< its process had no VCB when it rang last
  Time refused{};
  Time counted{};  ///< the waits of its commands are counted up to then
};

/// The send queue of a queue pair, and what the engine has of its commands.
struct QpSendQueue {
  using CommandList = IndexList<CommandContext, &CommandContext::link>;

  shm::SendRing ring;
  CompletionQueue* cq = nullptr;
  TvlId tvl;                         ///< of commands in ordinary PCBs
  TvlId dedicated_tvl;               ///< of commands in dedicated PCBs
  std::uint32_t first_sequence = 0;  ///< of its commands since it was in RESET
  CommandList kicked;                ///< commands that wait for credits, in order
  CommandList held;                  ///< have credits, and are not to start yet, in order
  std::uint32_t commands = 0;        ///< prepared and not released
  std::uint32_t dedicated = 0;       ///< of them in dedicated PCBs
  std::uint32_t started = 0;         ///< of them handed to the transport
  std::uint32_t not_begun = 0;       ///< sequence of the first never handed to it
  bool stalled = false;              ///< its commands were given back, see QpStall
  bool probing = false;              ///< after that, until one has succeeded: one at a time
  SetAside aside = SetAside::kNo;    ///< those of which nothing was sent were given back
  bool sparing = false;              ///< after that, until one has succeeded: one unsent at a time
  bool releasing = false;            ///< CommandExecution::release_held() is at work
  bool discarding = false;           ///< being reset or removed: nothing is completed
  bool sqd_notify = false;           ///< its program wants to hear when it has drained
  std::unique_ptr<QpRates> rates;    ///< null: the queue pair has none of its own
  WaitNotes waits;
  /// If its commands still wait then they are set aside, or, if they are, it is tried again.
  Time look_at = kNever;

  /// Has the command been handed to the transport before? If so, it was given back since.
  bool has_begun(std::uint32_t sequence) const { return ring_distance(sequence, not_begun) < 0; }
};

/// Where the receives of a queue pair come from, except for its shared receive queue.
struct QpReceiveQueue {
  shm::ReceiveRing ring;
  CompletionQueue* cq = nullptr;
  receive::Member member;  ///< of the shared receive queue
  /// XRC target: shares of those it was told of, except the one in use.
  std::vector<XrcMember> xrc_members;
  /// Drawn for the message under way, and not yet completed; lies in QpTable.
  shm::ReceiveWork* work = nullptr;
  bool drawn = false;
  /// UD: the queue pair that is writing a datagram to it in steps (MemoryWaits), by slot.
  std::uint32_t writer = kNoIndex;
  bool given_up = false;      ///< its next message is refused, and ends the connection
  std::uint32_t drought = 0;  ///< of its shared receive queue, in which it found no receive
};

/// The peer of a connected queue pair, and the way there.
struct QpConnection {
  Qpn destination;
  bool peer_seen = false;           ///< a packet of its peer has come
  bool established_raised = false;  ///< IBV_EVENT_COMM_EST
  Route route;
  transport::ReactionPoint flow;     ///< how fast it may send to the wire
  Time next_cnp{};                   ///< the peer is not told of congestion before then
  transport::WirePosition position;  ///< where it goes on after local delivery
};

/// What is kept of a queue pair on its way to the error state, and in it.
struct QpError {
  bool pending = false;  ///< to be flushed after the current call
  bool last_wqe_raised = false;
  std::chrono::duration<std::uint32_t, std::milli> flush_interval{};  ///< of receives
  QpFailure cause = QpFailure::kNone;
};

// Members are in the order that leaves no gaps: there may be a hundred thousand queue pairs
// (tests/system/idle-queue-pairs.test).
struct QueuePair {
  Qpn qpn;
  std::uint32_t slot = 0;  ///< index in the engine's tables and of its timer
  QpType type = QpType::kRc;
  QpState state = QpState::kReset;
  bool signal_all = false;
  QosClassId qos_class;  ///< its session's, or another level's: LevelAssignment
  Session* session = nullptr;
  ListLink<QueuePair> of_session;  ///< in Session::queue_pairs
  Tenant* tenant = nullptr;
  std::uint64_t user_handle = 0;
  memory::PdId pd;
  XrcDomainId xrc_domain;  ///< XRC target: its srq is what the last request named
  SharedReceiveQueue* srq = nullptr;
  std::vector<Gid> groups;             ///< UD: multicast groups it is a member of
  DatagramService* clients = nullptr;  ///< UD, of the daemon's own: what shares it
  std::unique_ptr<QpHolders> holders;  ///< null: only `session` has it

  std::uint32_t access = 0;  ///< enum ibv_access_flags of the queue pair
  std::uint32_t qkey = 0;
  transport::RcAttributes rc;

  using Transport = std::variant<transport::Rc, transport::Uc, transport::Ud, transport::Local>;
  Transport transport;  ///< the one it is; of its type, or local, see is_local()

  QpSendQueue sq;
  QpReceiveQueue rq;
  QpConnection connection;
  QpError error;

  QpRecord record;
  void count(transport::Count what, std::uint32_t n = 1) {
    tenant->counters.transport[static_cast<std::size_t>(what)].add(n);
    record.retries.add(what, n);
  }

  /// True: it is connected, and the peer is in this daemon.
  bool is_local() const { return std::holds_alternative<transport::Local>(transport); }
  /// True: it takes commands of its program.
  bool sends() const { return type != QpType::kXrcReceive; }
  /// True: it has a receive queue of its own.
  bool receives() const { return srq == nullptr && !is_xrc(type); }

  /// The domain whose memory a peer's keys may name; for an XRC target that of the queue in use
  /// (annex A14).
  memory::PdId remote_pd() const {
    if (type != QpType::kXrcReceive) return pd;
    return srq != nullptr ? srq->pd : memory::PdId();
  }
};

}  // namespace softhca::engine
