// A queue pair as the engine sees it, and what it remembers of its commands.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "daemon/base/intrusive_queue.hpp"
#include "daemon/base/linked_list.hpp"
#include "daemon/engine/qp_attributes.hpp"
#include "daemon/engine/route.hpp"
#include "daemon/engine/shared_receive_queue.hpp"
#include "daemon/engine/tenant.hpp"
#include "daemon/shm/send_ring.hpp"
#include "daemon/transport/local/local.hpp"
#include "daemon/transport/rc.hpp"
#include "daemon/transport/reaction_point.hpp"
#include "daemon/transport/uc.hpp"
#include "daemon/transport/ud.hpp"

namespace softhca::engine {

struct Session;

/// What the engine remembers of a command beside its PCB.
struct CommandContext {
  IndexLink link;                 ///< in QueuePair::kicked or QueuePair::held
  std::uint32_t slot = kNoIndex;  ///< queue pair; kNoIndex: not a command yet
  std::uint32_t length = 0;       ///< bytes of the message
  Time kicked_at{};
  std::uint64_t cost_when_seen = 0;  ///< engine work done when it could first have been seen
  TvlId tvl;                         ///< whose credits it holds
  bool execution_held = false;
  bool completion_held = false;
  bool dedicated_waits = false;  ///< in a dedicated PCB, and only the peer is awaited
};

/// What a queue pair sent again and why. Belongs to the engine's thread.
struct RetryCounters {
  std::uint32_t packets = 0;        ///< sent again
  std::uint32_t timeouts = 0;       ///< acknowledgement timers that ran out
  std::uint32_t early = 0;          ///< retries before the timeout
  std::uint32_t rnr_naks = 0;       ///< the peer had no receive
  std::uint32_t sequence_naks = 0;  ///< the peer missed a packet

  void add(transport::Count what, std::uint32_t n) {
    using transport::Count;
    if (what == Count::kRetransmittedPackets) packets += n;
    if (what == Count::kAckTimeouts) timeouts += n;
    if (what == Count::kEarlyRetries) early += n;
    if (what == Count::kRnrNakReceived) rnr_naks += n;
    if (what == Count::kSequenceNakReceived) sequence_naks += n;
  }
};

/// An XRC target's share of a shared receive queue other than the one it is using.
struct XrcMember {
  SharedReceiveQueue* srq = nullptr;
  receive::Member member;
};

/// Who is told of the events of a queue pair.
struct QpHolder {
  Session* session = nullptr;
  std::uint64_t user_handle = 0;
  bool operator==(const QpHolder&) const = default;
};

/// Where datagrams for all members of a multicast group are sent; no queue pair's number
/// (IBA 10.5).
inline constexpr Qpn kMulticastQpn(0xffffff);

class DatagramService;

struct QueuePair {
  Qpn qpn;
  std::uint32_t slot = 0;  ///< index in the engine's tables and of its timer
  QpType type = QpType::kRc;
  Session* session = nullptr;
  ListLink<QueuePair> of_session;  ///< in Session::queue_pairs
  Tenant* tenant = nullptr;
  QosClassId qos_class;  ///< its session's
  std::uint64_t user_handle = 0;
  memory::PdId pd;
  bool signal_all = false;

  shm::SendRing send_ring;
  shm::ReceiveRing receive_ring;
  SharedReceiveQueue* srq = nullptr;
  receive::Member member;  ///< of srq
  XrcDomainId xrc_domain;  ///< XRC target: its srq is what the last request named
  std::vector<XrcMember> xrc_members;
  std::vector<Gid> groups;              ///< UD: multicast groups it is a member of
  DatagramService* clients = nullptr;   ///< UD, of the daemon's own: what shares it
  std::vector<QpHolder> other_holders;  ///< XRC target: who opened it, besides `session`
  /// For the provisioning of srq; kByTrafficClass: the class selector of its path.
  static constexpr std::uint8_t kByTrafficClass = 0xff;
  std::uint8_t importance = kByTrafficClass;
  CompletionQueue* send_cq = nullptr;
  CompletionQueue* receive_cq = nullptr;
  TvlId tvl;            ///< of commands collected from VCBs
  TvlId dedicated_tvl;  ///< of commands fetched by the send queue scheduler

  QpState state = QpState::kReset;
  std::uint32_t first_sequence = 0;  ///< of its commands since it was in RESET
  std::uint32_t access = 0;          ///< enum ibv_access_flags of the queue pair
  std::uint32_t qkey = 0;
  Qpn destination;
  transport::RcAttributes rc;
  Route route;                    ///< connected ones
  transport::ReactionPoint flow;  ///< connected ones: how fast it may send to the wire
  Time next_cnp{};                ///< the peer is not told of congestion before

  using Transport = std::variant<transport::Rc, transport::Uc, transport::Ud, transport::Local>;
  Transport transport;               ///< the one it is; of its type, or local, see is_local()
  transport::WirePosition position;  ///< where it goes on when it is of its type again

  shm::ReceiveWork receive;  ///< drawn for the message under way, and not yet completed
  bool receive_drawn = false;
  using CommandList = IndexList<CommandContext, &CommandContext::link>;
  CommandList kicked;           ///< commands that wait for credits, in order
  CommandList held;             ///< have credits, and are not to start yet, in order
  std::uint32_t commands = 0;   ///< prepared and not released
  std::uint32_t fetched = 0;    ///< of them in dedicated PCBs
  std::uint32_t started = 0;    ///< of them handed to the transport
  std::uint32_t not_begun = 0;  ///< sequence of the first never handed to it
  bool stalled = false;         ///< its commands were given back, see QpStall
  bool probing = false;         ///< after that, until one has succeeded: one at a time
  Duration flush_interval{};    ///< of receives, in the error state
  bool sqd_notify = false;
  bool error_pending = false;  ///< to be flushed after the current call
  bool releasing = false;      ///< release_held() is at work
  bool discarding = false;     ///< being reset or removed: nothing is completed
  bool last_wqe_raised = false;
  bool established_raised = false;
  bool heard = false;             ///< a packet of its peer has come
  const char* failure = nullptr;  ///< why it is in the error state, or on its way there

  RetryCounters retries;
  void count(transport::Count what, std::uint32_t n = 1) {
    tenant->counters.transport[static_cast<std::size_t>(what)].add(n);
    retries.add(what, n);
  }

  /// Has the command been handed to the transport before? If so, it was given back since.
  bool has_begun(std::uint32_t sequence) const { return ring_distance(sequence, not_begun) < 0; }
  /// Connected, and the peer is in this daemon.
  bool is_local() const { return std::holds_alternative<transport::Local>(transport); }
  /// Takes commands of its program.
  bool sends() const { return type != QpType::kXrcReceive; }
  /// Has a receive queue of its own.
  bool receives() const { return srq == nullptr && !is_xrc(type); }

  /// Whose memory a peer's keys may name: of an XRC target, that of the queue in use (annex A14).
  memory::PdId remote_pd() const {
    if (type != QpType::kXrcReceive) return pd;
    return srq != nullptr ? srq->pd : memory::PdId();
  }
};

}  // namespace softhca::engine
