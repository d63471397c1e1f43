// What transports are asked for and what they ask of the adapter around them. No clock, no I/O, no
// memory access in transport itself: the engine implements the upcalls on tenant memory and ports;
// tests implement them on vectors and a virtual link.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "daemon/base/reliability.hpp"
#include "daemon/base/time.hpp"
#include "daemon/base/types.hpp"
#include "daemon/base/verdict.hpp"
#include "daemon/wire/headers.hpp"
#include "daemon/wire/opcode.hpp"

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

/// One command as the transport sees it: validated, private to the daemon, its scatter/gather
/// list in the PCB `pcb`.
struct Request {
  RequestKind kind = RequestKind::kSend;
  bool solicited = false;
  bool fence = false;
  std::uint32_t length = 0;   ///< bytes of the message (8 for atomics)
  PcbId pcb;                  ///< unlike that of any other request under way
  std::uint32_t imm = 0;      ///< network byte order
  Rkey rkey;                  ///< of the remote region; for kSendInvalidate the key to invalidate
  std::uint32_t xrc_srq = 0;  ///< XRC: number of the shared receive queue it is for
  std::uint64_t remote_addr = 0;
  std::uint64_t compare_add = 0;  ///< flush: bytes
  std::uint64_t swap = 0;         ///< flush: Headers::flush
};

/// Where the payload of an outgoing packet comes from.
struct PayloadSource {
  enum class From : std::uint8_t {
    kNone,
    kRequest,  ///< bytes [offset, offset+length) of the message of the request in `pcb`
    kRemote,   ///< memory of this side named by the peer's `rkey` and `addr` (read response)
    kOwn,      ///< `own`, of the engine's
  };
  From from = From::kNone;
  PcbId pcb;
  std::uint32_t offset = 0;
  std::uint32_t length = 0;
  Rkey rkey;
  std::uint64_t addr = 0;
  std::uint32_t xrc_srq = 0;  ///< kRemote, XRC: the queue that the request named
  const std::byte* own = nullptr;
  /// The memory is not to change before the peer has answered, and if it does, the packet is sent
  /// again: it may be gathered when the packet leaves, after its ICRC was made.
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
  kFlushRegion,  ///< all of it, whatever address and length are
};

/// Bytes before the payload of a UD message (InfiniBand specification 11.4.2.1, annex A17).
inline constexpr std::uint32_t kRoutingHeaderBytes = 40;

/// What a receive completion tells the consumer.
struct ReceiveCompletion {
  Verdict verdict = Verdict::kOk;
  std::uint32_t byte_len = 0;
  bool from_write = false;  ///< RDMA write with immediate
  bool has_imm = false;
  bool invalidated = false;
  bool solicited = false;
  bool has_grh = false;   ///< UD
  bool is_ipv4 = false;   ///< with has_grh; known to the environment, not to the responder
  std::uint32_t imm = 0;  ///< network byte order, or the invalidated key
  Qpn source;             ///< UD
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
  kEarlyRetries,  ///< sent again on round-trip time, before the timeout
  kDuplicateRequests,
  kOutOfSequence,  ///< request packets beyond the expected PSN
  kWriteRequests,  ///< of peers, executed whole; so are the next two
  kReadRequests,
  kAtomicRequests,
  kImpliedNak,     ///< read or atomic response skipped over
  kProbes,         ///< sent again after two round trips of silence
  kSparedPackets,  ///< not sent again, since the peer has kept them
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
  kReceiveDropped,  ///< UC, UD: no receive work request
  kRateNakSent,     ///< RNR NAK: requests came faster than the inbound rate
  kRateDropped,     ///< UC, UD: likewise (dropped)
  kBadAccess,       ///< UC: a write with a key or range that is not its peer's to use (dropped)
  kCount,
};

/// An unreliable connection drops what a peer may not write and says nothing, which would let the
/// peer try keys for ever. After so many, two in a million of all keys, the queue pair ends.
inline constexpr std::uint16_t kMostBadAccesses = 4096;

// --- upcalls. Packets, commands and `now` go in by the calls of the transports; all that comes out
// goes through these interfaces, of which each transport takes what it uses.

class PacketSink {
 public:
  /// Makes and queues one packet of this queue pair to its peer. `h.pad`, addresses, ICRC are
  /// filled in below. Called from transmit() only, never from receive(), expire() or flush(). What
  /// stays in this daemon does not come here (local/local.hpp).
  virtual SendResult send(const wire::Headers& h, const PayloadSource& payload) = 0;

 protected:
  ~PacketSink() = default;
};

/// The memory that the requests of this side name.
class LocalMemory {
 public:
  /// Puts `payload` at `offset` of the scatter list of a request (read, atomic).
  virtual Verdict store_response(PcbId pcb, std::uint32_t offset,
                                 std::span<const std::byte> payload) = 0;

 protected:
  ~LocalMemory() = default;
};

/// The memory of this side that a peer names by its keys.
class RemoteMemory {
 public:
  /// XRC: what follows is for this shared receive queue: its receives, and the memory of its
  /// protection domain. Asked for every request packet. kRemoteInvalidRequest: there is none of
  /// this number in the domain of the queue pair.
  virtual Verdict choose_receive_queue(std::uint32_t /*xrc_srq*/) {
    return Verdict::kRemoteInvalidRequest;
  }
  /// May this queue pair's peer do that? kOk or kRemoteAccess. length 0 is always kOk.
  virtual Verdict check_remote(Rkey rkey, std::uint64_t addr, std::uint64_t length,
                               RemoteAccess access) = 0;
  virtual Verdict write_remote(Rkey rkey, std::uint64_t addr,
                               std::span<const std::byte> payload) = 0;
  /// Runs an atomic on 8 aligned bytes; the value before goes to `original`. Host byte order.
  /// kAtomicWrite: stores `swap`.
  virtual Verdict atomic_remote(Rkey rkey, std::uint64_t addr, RequestKind kind,
                                std::uint64_t compare_add, std::uint64_t swap,
                                std::uint64_t& original) = 0;
  /// Invalidates a key on behalf of send with invalidate: kOk or kRemoteAccess.
  virtual Verdict invalidate_key(Rkey rkey) = 0;

 protected:
  ~RemoteMemory() = default;
};

/// The receive queue or shared receive queue. One receive is under way at a time.
class ReceiveSource {
 public:
  /// Draws a receive work request. Bytes that its scatter list holds; none: there is none to draw.
  virtual std::optional<std::uint64_t> draw_receive() = 0;
  /// Why there was none to draw for a message: kReceiverNotReady; kRemoteOperation: there will be
  /// none, and the connection is to end.
  virtual Verdict refusal() { return Verdict::kReceiverNotReady; }
  virtual Verdict store_receive(std::uint64_t offset, std::span<const std::byte> payload) = 0;
  /// UD: puts the 40 bytes of routing header of the packet at hand at offset 0; the payload follows
  /// by store_receive at offset kRoutingHeaderBytes.
  virtual Verdict store_routing_header() = 0;
  virtual void complete_receive(const ReceiveCompletion& completion) = 0;
  /// Receive work requests at hand, for the credit field of acknowledgements; none for a shared
  /// receive queue.
  virtual std::optional<std::uint32_t> receive_credits() = 0;

 protected:
  ~ReceiveSource() = default;
};

/// The rates of what the peer sends to this side and reads from it.
class PeerLimits {
 public:
  /// How long the peer is to wait before it sends the request packet at hand again, which `reads`
  /// or brings something; zero: it may come.
  virtual Duration request_wait(bool reads) = 0;
  /// Is the request packet at hand to be dropped, since too much came?
  virtual bool drops_request() = 0;
  /// A request packet that brings so many bytes was taken.
  virtual void took_request(std::uint32_t bytes, bool begins_message) = 0;
  /// Is the next response to a read to wait? Then transmit() is called again when it may go.
  virtual bool holds_response() = 0;
  virtual void sent_response(std::uint32_t bytes, bool begins_message) = 0;

 protected:
  ~PeerLimits() = default;
};

/// Where requests end.
class CompletionSink {
 public:
  /// The first packet of the request has gone; local delivery: it begins. May come again.
  virtual void request_begun(PcbId /*pcb*/) {}
  /// RC: the last packet of the request has gone; it now waits for the peer (mechanism A11). Local
  /// delivery: it waits for a receive, as if it had gone. May come again.
  virtual void request_sent(PcbId /*pcb*/) {}
  /// The request is over; called once for each, in order. `pcb` is free afterwards.
  virtual void complete_request(PcbId pcb, Verdict verdict) = 0;

 protected:
  ~CompletionSink() = default;
};

/// What happens to the queue pair as a whole.
class QueuePairEvents {
 public:
  /// The queue pair must go to the error state after the current call; `event` when the consumer
  /// is to hear of it asynchronously.
  virtual void enter_error(std::optional<AsyncEvent> event) = 0;
  virtual void raise_event(AsyncEvent event) = 0;
  virtual void count(Count what, std::uint32_t n = 1) = 0;
  /// count(), with the packet that it is about, if it is not the one at hand, and a figure:
  /// kAckTimeouts: retries left; kRnrNakReceived: microseconds to wait.
  virtual void count_at(Count what, std::optional<Psn> /*psn*/, std::uint32_t /*figure*/ = 0) {
    count(what);
  }

 protected:
  ~QueuePairEvents() = default;
};

// What each state machine uses. Each of these can be made of any object that has all of it.

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

/// What the peer expects next, and what it gets next: enough to go on with a connection on which
/// nothing is under way.
struct WirePosition {
  Psn send;
  Psn send_sequence{1};  ///< SSN
  Psn receive;
  Psn receive_sequence;  ///< MSN
};

/// Attributes of a connected queue pair the transport works by (struct ibv_qp_attr).
struct RcAttributes {
  bool xrc = false;                ///< an end of extended reliable connected service (annex A14)
  bool selective_repeat = false;   ///< sends again what is missing where the peer keeps the rest
  std::uint16_t out_of_order = 0;  ///< packets ahead of the expected one that are kept (D3)
  std::uint32_t mtu = 1024;        ///< path MTU in bytes, a power of two
  Qpn destination;
  std::uint16_t pkey = 0xffff;
  std::uint8_t max_rd_atomic = 1;       ///< reads and atomics in flight as requester
  std::uint8_t max_dest_rd_atomic = 1;  ///< replayable as responder
  std::uint8_t timeout = 14;            ///< 4.096 us * 2^t, 0 = never
  std::uint8_t retry_count = 7;
  std::uint8_t rnr_retry = 7;       ///< 7 = forever
  std::uint8_t min_rnr_timer = 12;  ///< code of the timer table
  std::uint16_t psn_window = 256;   ///< packets sent and not yet acknowledged, at most; at least 1
  std::uint16_t ack_interval = 32;  ///< packets after which an acknowledgement is asked for
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
  std::uint32_t mtu = 1024;  ///< of the port, in bytes: the longest message
  Qpn self;
  std::uint32_t qkey = 0;
  std::uint16_t pkey = 0xffff;
};

}  // namespace softhca::transport
