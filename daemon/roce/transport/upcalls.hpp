// SPDX-License-Identifier: Apache-2.0

// Requests to the transports, and the upcalls that they make to the adapter around them. The
// transports use no clock, no I/O and no memory of their own accord. The engine implements the
// upcalls on tenant memory and ports; tests implement them on vectors and a virtual link.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "daemon/base/atomic_step.hpp"
#include "daemon/base/refusal.hpp"
#include "daemon/base/time.hpp"
#include "daemon/base/types.hpp"
#include "daemon/base/verdict.hpp"
#include "daemon/roce/transport/reliability.hpp"
#include "daemon/roce/wire/headers.hpp"
#include "daemon/roce/wire/opcode.hpp"

namespace softhca::transport {

enum class RequestKind : std::uint8_t {
  kSend,
  kSendImm,
  kSendInvalidate,
  kWrite,
  kWriteImm,
  kRead,
  kCompareSwap,
  kFetchAdd,
  kAtomicWrite,
  kFlush,
};

/// One command as the transport sees it: validated, private to the daemon, with its scatter/gather
/// list in the PCB `pcb`.
struct Request {
  RequestKind kind = RequestKind::kSend;
  bool solicited = false;
  bool fence = false;
  bool begun = false;         ///< it was started before, perhaps by an earlier engine
  std::uint32_t length = 0;   ///< bytes of the message (8 for atomics)
  PcbId pcb;                  ///< unique among the requests in progress
  std::uint32_t imm = 0;      ///< network byte order
  Rkey rkey;                  ///< of the remote region; for kSendInvalidate the key to invalidate
  std::uint32_t xrc_srq = 0;  ///< XRC: number of the destination shared receive queue
  std::uint64_t remote_addr = 0;
  std::uint64_t compare_add = 0;  ///< flush: bytes
  std::uint64_t swap = 0;         ///< flush: Headers::flush
};

/// Where the payload of an outgoing packet comes from.
struct PayloadSource {
  enum class From : std::uint8_t {
    kNone,
    kRequest,  ///< bytes [offset, offset+length) of the message of the request in `pcb`
    kRemote,   ///< memory of this side that the peer named by `rkey` and `addr` (read response)
    kOwn,      ///< `own`, memory of the engine
  };
  From from = From::kNone;
  PcbId pcb;
  std::uint32_t offset = 0;
  std::uint32_t length = 0;
  Rkey rkey;
  std::uint64_t addr = 0;
  std::uint32_t xrc_srq = 0;  ///< kRemote, XRC: shared receive queue named by the request
  const std::byte* own = nullptr;
  /// True if the memory should not change before the peer has answered, and the packet is sent
  /// again if it does. The payload may then be gathered when the packet leaves, after its ICRC was
  /// computed.
  bool is_held = false;
};

enum class SendResult : std::uint8_t {
  kSent,
  kNoBuffer,  ///< the port is full: stop, try again at the next poll step
  kNoAccess,  ///< the payload's memory is no longer accessible
};

enum class RemoteAccess : std::uint8_t {
  kWrite,
  kRead,
  kAtomic,
  kFlush,
  kFlushRegion,  ///< the whole region; address and length are ignored
};

/// Bytes before the payload of a UD message (InfiniBand specification 11.4.2.1, annex A17).
inline constexpr std::uint32_t kRoutingHeaderBytes = 40;

/// Contents of a receive completion.
struct ReceiveCompletion {
  Verdict verdict = Verdict::kOk;
  std::uint32_t byte_len = 0;
  bool from_write = false;  ///< RDMA write with immediate
  bool has_imm = false;
  bool invalidated = false;
  bool solicited = false;
  bool has_grh = false;  ///< UD
  bool is_ipv4 = false;  ///< with has_grh; set by the environment, not by the responder
  /// Network byte order, or the invalidated key. If the receive failed: vendor_error(), which the
  /// environment sets.
  std::uint32_t imm = 0;
  Qpn source;  ///< UD
};

enum class AsyncEvent : std::uint8_t {
  kCommunicationEstablished,  ///< first request while in RTR
  kQpFatal,
  kInvalidRequest,  ///< responder answered NAK invalid request
  kAccessError,     ///< responder answered NAK remote access
};

enum class Count : std::uint8_t {
  kRetransmittedPackets,
  kAckTimeouts,
  kEarlyRetries,  ///< retransmitted because of the round-trip time, before the timeout
  kDuplicateRequests,
  kOutOfSequence,  ///< request packets beyond the expected PSN
  kWriteRequests,  ///< from peers, completely executed, as are the next two
  kReadRequests,
  kAtomicRequests,
  kImpliedNak,     ///< read or atomic response skipped
  kProbes,         ///< retransmitted after two round trips of silence
  kSparedPackets,  ///< not retransmitted, since the peer has buffered them
  kRnrNakSent,
  kRnrNakReceived,
  kSequenceNakSent,
  kSequenceNakReceived,
  kInvalidNakSent,
  kInvalidNakReceived,
  kAccessNakSent,
  kAccessNakReceived,
  kOperationNakSent,
  kOperationNakReceived,
  kAcksSent,
  kAcksReceived,
  kBadOpcode,       ///< opcode not valid here (dropped)
  kBadState,        ///< queue pair does not receive (dropped)
  kBadLength,       ///< payload does not fit opcode or path MTU
  kBadQkey,         ///< UD
  kGhostAck,        ///< response outside the window (dropped)
  kReceiveDropped,  ///< UC, UD: no receive work request (dropped)
  kRateNakSent,     ///< RNR NAK: requests came faster than the inbound rate
  kRateDropped,     ///< UC, UD: requests came faster than the inbound rate (dropped)
  kBadAccess,       ///< UC: a write with a key or range that the peer may not use (dropped)
  kCount,
};

/// Most bad accesses on an unreliable connection. The responder drops them silently, so without a
/// limit the peer could try keys for ever. After this many, two in a million of all keys, the queue
/// pair goes to the error state.
inline constexpr std::uint16_t kMostBadAccesses = 4096;

// --- upcalls. Packets, commands and `now` enter through the calls of the transports. All output
// goes through these interfaces; each transport uses those that it needs.

class PacketSink {
 public:
  /// Makes and queues one packet of this queue pair to its peer. The implementation fills in
  /// `h.pad`, addresses and ICRC. Called only from transmit(), never from receive(), expire() or
  /// flush(). Messages within this daemon do not come here (local/local.hpp).
  virtual SendResult send(const wire::Headers& h, const PayloadSource& payload) = 0;

 protected:
  ~PacketSink() = default;
};

/// The memory that the requests of this side refer to.
class LocalMemory {
 public:
  /// Stores `payload` at `offset` of the scatter list of a request (read, atomic).
  virtual Verdict store_response(PcbId pcb, std::uint32_t offset,
                                 std::span<const std::byte> payload) = 0;

 protected:
  ~LocalMemory() = default;
};

/// The memory of this side that a peer accesses by its keys.
class RemoteMemory {
 public:
  /// XRC: selects the shared receive queue for the calls that follow: its receives, and the memory
  /// of its protection domain. Called for every request packet. Returns kRemoteInvalidRequest if
  /// the domain of the queue pair has no queue of this number.
  virtual Verdict choose_receive_queue(std::uint32_t /*xrc_srq*/) {
    return Verdict::kRemoteInvalidRequest;
  }
  /// Checks whether the peer has this access, which the calls below check too. Returns kOk or
  /// kRemoteAccess; kOk if the length is 0.
  virtual Verdict check_remote(Rkey rkey, std::uint64_t addr, std::uint64_t length,
                               RemoteAccess access) = 0;
  virtual Verdict write_remote(Rkey rkey, std::uint64_t addr,
                               std::span<const std::byte> payload) = 0;
  /// Runs an atomic on 8 aligned bytes, in host byte order. The step of `log` has the value before.
  /// kAtomicWrite stores `swap`.
  virtual Verdict atomic_remote(Rkey rkey, std::uint64_t addr, RequestKind kind,
                                std::uint64_t compare_add, std::uint64_t swap, AtomicLog log) = 0;
  /// Returns whether an atomic of an earlier engine has run. `writes`: it is an atomic write.
  virtual WasRun recall_atomic(Rkey /*rkey*/, std::uint64_t /*addr*/, bool /*writes*/,
                               const AtomicStep& /*step*/) {
    return WasRun::kUnknown;
  }
  /// Invalidates a key for a send with invalidate. Returns kOk or kRemoteAccess.
  virtual Verdict invalidate_key(Rkey rkey) = 0;

 protected:
  ~RemoteMemory() = default;
};

/// The receive queue or shared receive queue. One receive is in progress at a time.
class ReceiveSource {
 public:
  /// Draws a receive work request. Returns the bytes that its scatter list holds; nothing if none
  /// is available.
  virtual std::optional<std::uint64_t> draw_receive() = 0;
  /// Returns why draw_receive() found none for a message: kReceiverNotReady, or kRemoteOperation if
  /// there will be none and the connection is to end.
  virtual Verdict refusal() { return Verdict::kReceiverNotReady; }
  virtual Verdict store_receive(std::uint64_t offset, std::span<const std::byte> payload) = 0;
  /// UD: stores the 40 bytes of routing header of the current packet at offset 0. store_receive()
  /// stores the payload at offset kRoutingHeaderBytes.
  virtual Verdict store_routing_header() = 0;
  virtual void complete_receive(const ReceiveCompletion& completion) = 0;
  /// Returns the number of receive work requests available, for the credit field of
  /// acknowledgements; nothing for a shared receive queue.
  virtual std::optional<std::uint32_t> receive_credits() = 0;

 protected:
  ~ReceiveSource() = default;
};

/// Limits on the rate of what the peer sends to this side and reads from it.
class PeerLimits {
 public:
  /// Returns how long the peer must wait before it sends the current request packet again; zero: it
  /// is accepted. `reads`: the packet is a read, otherwise it brings data.
  virtual Duration request_wait(bool reads) = 0;
  /// True if the current request packet is to be dropped because of the rate limit.
  virtual bool drops_request() = 0;
  /// Records a request packet that brought `bytes` bytes.
  virtual void took_request(std::uint32_t bytes, bool begins_message) = 0;
  /// True if the next response to a read must wait. transmit() is then called again when it may be
  /// sent.
  virtual bool holds_response() = 0;
  virtual void sent_response(std::uint32_t bytes, bool begins_message) = 0;

 protected:
  ~PeerLimits() = default;
};

/// Receives the results of requests.
class CompletionSink {
 public:
  /// The first packet of the request was sent; for local delivery, the request begins. May be
  /// called again.
  virtual void request_begun(PcbId /*pcb*/) {}
  /// RC: the last packet of the request was sent, and it now waits for the peer (mechanism A11).
  /// Local delivery: it waits for a receive, as if it were sent. May be called again.
  virtual void request_sent(PcbId /*pcb*/) {}
  /// The request is over. Called once for each, in order. `pcb` is free afterwards.
  virtual void complete_request(PcbId pcb, Verdict verdict) = 0;

 protected:
  ~CompletionSink() = default;
};

/// Events of the queue pair as a whole.
class QueuePairEvents {
 public:
  /// The queue pair must go to the error state after the current call. `event` is set if the
  /// consumer is to be notified asynchronously.
  virtual void enter_error(std::optional<AsyncEvent> event) = 0;
  virtual void raise_event(AsyncEvent event) = 0;
  /// A packet or local message of the peer was executed, or refused for good. It is recorded for
  /// the next engine now, before the peer is answered.
  virtual void executed() {}
  /// Names the check that fails next, with the value found and the limit.
  virtual void explain(RefusalCause /*cause*/, std::uint64_t /*value*/ = 0,
                       std::uint64_t /*limit*/ = 0) {}
  virtual void count(Count what, std::uint32_t n = 1) = 0;
  /// Like count(), with the PSN of the packet, if it is not the current one, and a figure:
  /// kAckTimeouts: retries left; kRnrNakReceived: microseconds to wait.
  virtual void count_at(Count what, std::optional<Psn> /*psn*/, std::uint32_t /*figure*/ = 0) {
    count(what);
  }

 protected:
  ~QueuePairEvents() = default;
};

// The upcalls of each state machine. Each struct can be made from any object with all interfaces.

/// Upcalls of the requester of an acknowledged service.
struct RequesterUpcalls {
  template <std::derived_from<LocalMemory> All>
  RequesterUpcalls(All& all) : packets(all), memory(all), commands(all), events(all) {}
  PacketSink& packets;
  LocalMemory& memory;
  CompletionSink& commands;
  QueuePairEvents& events;
};

struct ResponderUpcalls {
  template <std::derived_from<ReceiveSource> All>
  ResponderUpcalls(All& all) : packets(all), memory(all), receives(all), limits(all), events(all) {}
  PacketSink& packets;
  RemoteMemory& memory;
  ReceiveSource& receives;
  PeerLimits& limits;
  QueuePairEvents& events;
};

/// Upcalls of a reliable connection.
struct RcUpcalls {
  template <std::derived_from<LocalMemory> All>
  RcUpcalls(All& all) : requester(all), responder(all) {}
  RequesterUpcalls requester;
  ResponderUpcalls responder;
};

/// Upcalls of the sender of an unreliable connection or of datagrams.
struct SenderUpcalls {
  template <std::derived_from<PacketSink> All>
  SenderUpcalls(All& all) : packets(all), commands(all), events(all) {}
  PacketSink& packets;
  CompletionSink& commands;
  QueuePairEvents& events;
};

/// Upcalls of the receiver of an unreliable connection.
struct ReceiverUpcalls {
  template <std::derived_from<ReceiveSource> All>
  ReceiverUpcalls(All& all) : memory(all), receives(all), limits(all), events(all) {}
  RemoteMemory& memory;
  ReceiveSource& receives;
  PeerLimits& limits;
  QueuePairEvents& events;
};

/// Upcalls of an unreliable connection.
struct UcUpcalls {
  template <std::derived_from<PacketSink> All>
  UcUpcalls(All& all) : sender(all), receiver(all) {}
  SenderUpcalls sender;
  ReceiverUpcalls receiver;
};

struct DatagramReceiverUpcalls {
  template <std::derived_from<ReceiveSource> All>
  DatagramReceiverUpcalls(All& all) : receives(all), limits(all), events(all) {}
  ReceiveSource& receives;
  PeerLimits& limits;
  QueuePairEvents& events;
};

struct UdUpcalls {
  template <std::derived_from<CompletionSink> All>
  UdUpcalls(All& all) : commands(all), receiver(all) {}
  CompletionSink& commands;
  DatagramReceiverUpcalls receiver;
};

/// Next PSN and sequence number in both directions: enough to resume a connection that has nothing
/// in flight.
struct WirePosition {
  Psn send;
  Psn send_sequence{1};  ///< SSN
  Psn receive;
  Psn receive_sequence;  ///< MSN
};

/// Attributes of a connected queue pair that the transport uses (struct ibv_qp_attr).
struct RcAttributes {
  bool xrc = false;                ///< end of an extended reliable connected service (annex A14)
  bool selective_repeat = false;   ///< retransmits only what the peer lacks
  std::uint16_t out_of_order = 0;  ///< packets ahead of the expected one that are buffered (D3)
  std::uint32_t mtu = 1024;        ///< path MTU in bytes, a power of two
  Qpn destination;
  std::uint16_t pkey = 0xffff;
  std::uint8_t max_rd_atomic = 1;       ///< reads and atomics in flight as requester
  std::uint8_t max_dest_rd_atomic = 1;  ///< replayable as responder
  std::uint8_t timeout = 14;            ///< 4.096 us * 2^t, 0 = never
  std::uint8_t retry_count = 7;
  std::uint8_t rnr_retry = 7;       ///< 7 = forever
  std::uint8_t min_rnr_timer = 12;  ///< code in the RNR timer table
  std::uint16_t psn_window = 256;   ///< most packets sent and not acknowledged; at least 1
  std::uint16_t ack_interval = 32;  ///< packets after which an acknowledgement is requested
  FlightParameters flight;

  wire::Transport transport() const { return xrc ? wire::Transport::kXrc : wire::Transport::kRc; }
};

/// Attributes of an unreliable connected queue pair.
struct UcAttributes {
  std::uint32_t mtu = 1024;  ///< path MTU in bytes, a power of two
  Qpn destination;
  std::uint16_t pkey = 0xffff;
};

/// Attributes of an unreliable datagram queue pair.
struct UdAttributes {
  std::uint32_t mtu = 1024;  ///< MTU of the port in bytes: the longest message
  Qpn self;
  std::uint32_t qkey = 0;
  std::uint16_t pkey = 0xffff;
};

}  // namespace softhca::transport
