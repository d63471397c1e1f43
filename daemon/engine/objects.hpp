// The objects a tenant process makes and the engine works on. The control thread creates and owns
// them; once installed, only the engine thread touches their mutable parts until they are removed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/intrusive_queue.hpp"
#include "daemon/base/linked_list.hpp"
#include "daemon/base/net.hpp"
#include "daemon/base/quota.hpp"
#include "daemon/base/time.hpp"
#include "daemon/base/types.hpp"
#include "daemon/collect/pcb_pool.hpp"
#include "daemon/engine/counters.hpp"
#include "daemon/engine/qp_attributes.hpp"
#include "daemon/management/connection_counters.hpp"
#include "daemon/memory/key_table.hpp"
#include "daemon/receive/provisioner.hpp"
#include "daemon/resource/accounts.hpp"
#include "daemon/schedule/rate_limiter.hpp"
#include "daemon/shm/completion_ring.hpp"
#include "daemon/shm/receive_ring.hpp"
#include "daemon/shm/send_ring.hpp"
#include "daemon/shm/session_view.hpp"
#include "daemon/transport/reaction_point.hpp"
#include "daemon/transport/requester.hpp"
#include "daemon/transport/responder.hpp"
#include "daemon/transport/uc.hpp"
#include "daemon/transport/ud.hpp"
#include "daemon/wire/frame.hpp"
#include "daemon/wire/source_port.hpp"

namespace softhca::engine {

/// A level: a part of a tenant's allocation, with a name, for some of its processes (mechanism A3).
struct Level {
  LevelId id;
  std::string name;
  collect::GroupId group;
  Quota vcbs;               ///< held by its sessions; written by the control thread
  Counter vcbs_refused;     ///< likewise; VCBs that a session asked for and did not get
  bool is_default = false;  ///< for processes that nothing assigns to another
  bool leaving = false;     ///< removed: takes no new sessions; written by the control thread
  bool kick_blocked = false;
  LevelCounters counters;
};

/// A tenant as the engine sees it.
struct Tenant {
  TenantId id;
  std::string name;
  collect::GroupId group;
  /// Without levels: held by its sessions. With levels: the part that these share, and what they
  /// have drawn from it and beyond. Written by the control thread.
  Quota vcbs;
  Gauge all_vcbs_in_use;      ///< with those of its levels
  Gauge all_vcbs_high_water;  ///< most at once
  Counter vcbs_refused;       ///< VCBs that a session asked for and did not get
  Counter link_downed;        ///< times its link went down; written by the control thread
  /// None: the tenant is not divided, all its sessions draw on what it has as a whole.
  std::vector<std::unique_ptr<Level>> levels;
  bool kick_blocked = false;  ///< a queue pair waits for room in the dedicated kick list
  struct Address {
    Gid gid;
    std::optional<PortId> port;  ///< none: reachable only inside this daemon
    bool operator==(const Address&) const = default;
  };
  std::vector<Address> addresses;  ///< the GID table, by index
  /// Not in the table any more, and kept by queue pairs and address handles made before.
  std::vector<Address> former_addresses;
  /// Has it an address on the network of `port`; none: inside this daemon alone?
  bool is_on(std::optional<PortId> port) const {
    return std::any_of(addresses.begin(), addresses.end(),
                       [&](const Address& address) { return address.port == port; });
  }
  /// Is it one of either, on `port` if one is named?
  bool has_address(const Gid& gid, std::optional<PortId> port = {}) const {
    return is_in(addresses, gid, port) || is_in(former_addresses, gid, port);
  }
  /// May a peer name `named` to reach a queue pair whose address is `used`? Only that one; but when
  /// it is since a change of addresses that the two differ, either: a program tells its peer the
  /// address that it reads, connects by the index it has read, and the change may come between.
  bool goes_by(const Gid& used, const Gid& named, std::optional<PortId> port) const {
    return used == named ||
           ((is_in(former_addresses, used, port) || is_in(former_addresses, named, port)) &&
            has_address(named, port));
  }
  static bool is_in(const std::vector<Address>& list, const Gid& gid, std::optional<PortId> port) {
    return std::any_of(list.begin(), list.end(), [&](const Address& address) {
      return address.gid == gid && (!port || address.port == port);
    });
  }
  bool leaving = false;            ///< removed: no new sessions; written by the control thread
  bool lends = false;              ///< guarantees that it leaves idle (A10)
  receive::Policy receive_policy;  ///< of its shared receive queues
  TenantCounters counters;
  schedule::RateLimiter rate;
  bool throttled() const { return throttled_since != kNever; }
  Time throttled_since = kNever;  ///< its rate is used up: nothing of it is collected
  resource::Accounts accounts;    ///< what its sessions have taken; written by the control thread
  management::ConnectionCounters connections;  ///< likewise
};

/// What the engine knows of the VCBs and doorbells of a session.
struct IntakeState {
  std::uint32_t slot = 0;           ///< in the tables of Intake
  std::uint32_t place = kNoIndex;   ///< among those of its party that are looked at
  std::uint64_t looked = 0;         ///< engine work done when nothing was left here
  std::uint64_t looked_before = 0;  ///< and the time before: what is taken in came since then
  bool waiting = false;             ///< something was here, and not all of it is taken in
  std::uint32_t next_vcb = 0;       ///< to be taken in first
  /// VCBs handed over before their commands were whole: not work, and looked at again ever later.
  std::uint64_t unfinished = 0;
  Time unfinished_due{};
  Duration unfinished_interval{};
};

/// One opened device context of a process.
struct Session {
  Session(SessionId session, Tenant& owner, shm::SessionView memory, VcbId first)
      : id(session), tenant(&owner), view(memory), first_vcb(first) {}

  SessionId id;
  Tenant* tenant;
  Level* level = nullptr;  ///< none: the tenant has no levels
  shm::SessionView view;
  TenantId party;             ///< whose turns it shares: its level's, else its tenant's
  VcbId first_vcb;            ///< of the adapter's VCB range; the process sees them from 0
  std::uint32_t process = 0;  ///< its id, for reports
  int async_fd = -1;
  int wake_fd = -1;
  Time last_active{};
  IntakeState intake;
  std::uint32_t events_deferred = 0;  ///< asynchronous events that wait for room in its socket
  Time events_refused{};              ///< when the socket was last found full
  bool parked = false;
  bool failed = false;  ///< its session memory was found corrupt; not read any more

  /// Are its VCBs and doorbells looked at?
  bool is_collected() const { return !parked && !failed && !tenant->throttled(); }
  LevelId level_id() const { return level != nullptr ? level->id : kNoLevel; }
  collect::GroupId group() const { return level != nullptr ? level->group : tenant->group; }
  /// A queue pair waits for room in the kick list of dedicated PCBs.
  bool& kick_blocked() { return level != nullptr ? level->kick_blocked : tenant->kick_blocked; }
  void count_send_queue_mode(SendQueueCause cause) {
    tenant->counters.send_queue_mode.add();
    tenant->counters.send_queue_cause[static_cast<std::size_t>(cause)].add();
    if (level != nullptr) level->counters.send_queue_mode.add();
  }
};

struct CompletionQueue {
  Session* session = nullptr;
  shm::CompletionRing ring;
  std::uint64_t user_handle = 0;
  int channel_fd = -1;
  bool failed = false;       ///< overflowed
  bool users_go_on = false;  ///< overflowed just now: its queue pairs are still to fail
  ListLink<CompletionQueue> overflowed;
  ListLink<CompletionQueue> dirty;     ///< has elements whose event is not decided yet
  ListLink<CompletionQueue> deferred;  ///< a completion event waits for room in its channel
  // Moderation of events: off without a timer.
  std::uint32_t moderation_timer = kNoIndex;
  std::uint32_t moderation_count = 0;
  Duration moderation_period{};
  std::uint32_t unannounced = 0;  ///< completions since an event was last decided on
  Time announce_by = kNever;      ///< held back until then
  ListLink<CompletionQueue> due;  ///< then is now
};

/// A domain of extended reliable connected service (XRC); unique in the adapter, 0 is none.
using XrcDomainId = Id<struct XrcDomainTag, std::uint32_t>;

struct SharedReceiveQueue {
  Session* session = nullptr;
  shm::ReceiveRing ring;
  std::uint64_t user_handle = 0;
  memory::PdId pd;
  std::uint32_t limit = 0;  ///< 0 = not armed
  std::uint32_t users = 0;  ///< queue pairs
  bool failed = false;
  std::uint32_t number = 0;       ///< names it in reports and to peers of XRC, 24 bits
  XrcDomainId xrc_domain;         ///< none: not of XRC
  CompletionQueue* cq = nullptr;  ///< XRC: where its receives complete
  std::unique_ptr<receive::Provisioner> provisioner;  ///< none: no limit
  std::uint32_t accounted = 0;  ///< posts the provisioner knows of, a counter of the ring
};

/// For shared receive queues that have none.
using Provisioners =
    std::vector<std::pair<SharedReceiveQueue*, std::unique_ptr<receive::Provisioner>>>;

/// The way to one remote address, from an address vector.
struct AddressPath {
  Gid source;
  Gid destination;
  std::optional<PortId> port;  ///< none: inside this daemon
  std::uint32_t flow_label = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;
};

/// A path and the headers below the transport for it, as far as they are known.
struct Route {
  AddressPath path;
  std::uint16_t udp_source_port = wire::kSourcePortBase;
  bool reacts = false;  ///< who sends here slows down when told of congestion
  wire::FrameTemplate frame;
  Time valid_until{};              ///< the next hop's address is to be looked up again then
  Time unresolved_since = kNever;  ///< the next hop does not answer
  Time last_unresolved{};          ///< when that was last found

  void invalidate() { valid_until = Time{}; }
};

struct AddressHandle {
  Session* session = nullptr;
  memory::PdId pd;
  Route route;
};

/// Message under way between two queue pairs of this daemon (see local_path.cpp).
struct LocalProgress {
  std::uint32_t offset = 0;  ///< bytes moved
  bool begun = false;        ///< checks done, receive drawn
  bool waiting = false;      ///< receiver not ready, or peer absent
  Time waiting_since{};
  Time wait_until{};
  std::uint8_t rnr_retries = 0;  ///< used up
  std::uint8_t retries = 0;      ///< used up
};

/// Requests started and not finished on a queue pair whose peer is in this daemon: a ring.
class LocalQueue {
 public:
  explicit LocalQueue(std::uint32_t capacity) : slots_(capacity) {}
  bool empty() const { return count_ == 0; }
  bool full() const { return count_ == slots_.size(); }
  transport::Request& front() { return slots_[head_]; }
  void push(const transport::Request& request) {
    std::size_t tail = head_ + count_;
    if (tail >= slots_.size()) tail -= slots_.size();
    slots_[tail] = request;
    ++count_;
  }
  /// Puts back what pop() took.
  void push_front(const transport::Request& request) {
    head_ = head_ == 0 ? slots_.size() - 1 : head_ - 1;
    slots_[head_] = request;
    ++count_;
  }
  void pop() {
    if (++head_ == slots_.size()) head_ = 0;
    --count_;
  }

 private:
  std::vector<transport::Request> slots_;
  std::size_t head_ = 0;
  std::size_t count_ = 0;
};

/// What the engine remembers of a command beside its PCB.
struct CommandContext {
  IndexLink link;                 ///< in QueuePair::kicked or QueuePair::held
  std::uint32_t slot = kNoIndex;  ///< queue pair; kNoIndex: not a command yet
  std::uint32_t length = 0;       ///< bytes of the message
  Time kicked_at{};
  std::uint64_t seen_effort = 0;  ///< engine work done when it could first have been seen
  TvlId tvl;                      ///< whose credits it holds
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
  Tenant* tenant = nullptr;
  TenantId party;  ///< its session's
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
  bool local = false;             ///< the peer is in this daemon; connected ones
  transport::ReactionPoint flow;  ///< likewise: how fast it may send to the wire
  Time next_cnp{};                ///< the peer is not told of congestion before

  transport::Requester requester;  ///< RC, XRC initiator
  transport::Responder responder;  ///< RC, XRC target
  transport::UcRequester uc_requester;
  transport::UcResponder uc_responder;
  transport::UdRequester ud_requester;
  transport::UdResponder ud_responder;

  LocalQueue queue;  ///< connected with a local peer; UD: datagrams waiting for the port
  LocalProgress progress;

  shm::ReceiveWork receive;  ///< drawn for the message under way, and not yet completed
  bool receive_drawn = false;
  using CommandList = IndexList<CommandContext, &CommandContext::link>;
  CommandList kicked;           ///< commands that wait for credits, in order
  CommandList held;             ///< have credits, and are not to start yet, in order
  std::uint32_t commands = 0;   ///< prepared and not released
  std::uint32_t fetched = 0;    ///< of them in dedicated PCBs
  std::uint32_t started = 0;    ///< of them handed to the transport
  std::uint32_t not_begun = 0;  ///< sequence of the first never handed to it
  bool stalled = false;         ///< its commands were given back, see Engine::give_back()
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

  /// Takes commands of its program.
  bool sends() const { return type != QpType::kXrcReceive; }
  /// Has a receive queue of its own.
  bool receives() const { return srq == nullptr && !is_xrc(type); }

  explicit QueuePair(std::uint32_t send_entries) : queue(send_entries) {}
};

}  // namespace softhca::engine
