// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/queue_pairs/captured_link.hpp"

#include <bit>
#include <cstring>

#include "daemon/roce/transport/codes.hpp"
#include "daemon/roce/transport/reliable/request_packets.hpp"

namespace softhca::engine {

using transport::PayloadSource;
using transport::Request;
using transport::RequestKind;

CapturedLink::CapturedLink(const TransportParts& parts, QueuePair& qp, QpLocalLink& link,
                           QpEnvironment& env, Time now)
    : parts_(parts),
      qp_(qp),
      link_(link),
      env_(env),
      now_(now),
      mtu_shift_(static_cast<std::uint32_t>(std::countr_zero(qp.rc.mtu))),
      flow_(parts.captures.flow_of(qp)) {}

// --- calls of the transport

/// The transport calls this first in every step of a request.
const transport::LocalPeer* CapturedLink::find_peer() {
  peer_ = link_.find_peer();
  if (local().idle()) return peer_;
  request_ = local().oldest();
  told_ = arrived_ = false;
  watch_.emplace(nullptr, &qp_.tenant->counters,
                 peer_ != nullptr ? &link_.peer()->tenant->counters : nullptr);
  const bool waits = local().state() == transport::Local::State::kWaiting;
  unanswered_ =
      (peer_ == nullptr || local().misses(*peer_)) && !(waits && now_ < local().deadline());
  return peer_;
}

void CapturedLink::end_turn() {
  if (unanswered_) show_request(0, unanswered_remark());
}

CaptureRemark CapturedLink::unanswered_remark() const {
  return link_.was_lost() ? injected_remark(FaultKind::kDrop) : remark_of(Verdict::kRetryExceeded);
}

void CapturedLink::begins(const Request& request) {
  link_.begins(request);
  begin_message();
}

transport::LocalLink::Moved CapturedLink::move(const Request& request, std::uint32_t offset,
                                               std::uint32_t bytes) {
  const Moved moved = link_.move(request, offset, bytes);
  if (flow_.packets == 0) begin_message();  // it began before there were captures
  if (moved.verdict() == Verdict::kOk) {
    show_moved(offset, bytes);
  } else if (moved.peer_at_fault()) {
    const Verdict told =
        transport::is_send(request.kind) ? Verdict::kRemoteOperation : moved.verdict();
    show_request(request.kind == RequestKind::kRead ? 0 : offset >> mtu_shift_, remark_of(told));
    told_ = true;
  }
  return moved;
}

transport::LocalLink::Moved CapturedLink::run_atomic(const Request& request) {
  const Moved moved = link_.run_atomic(request);
  if (flow_.packets == 0) begin_message();
  if (moved.verdict() == Verdict::kOk) {
    show_request(0);
    told_ = true;
  }
  return moved;
}

void CapturedLink::arrived(const Request& request) {
  link_.arrived(request);
  if (flow_.packets == 0) begin_message();
  arrived_ = true;
  if (request.length == 0) {
    show_request(0);
    if (request.kind == RequestKind::kRead) show_response(0);
  }
  ++flow_.sequence;
  if (transport::awaits_response(request.kind) && request.kind != RequestKind::kRead)
    show_atomic_response();
  else if (request.kind != RequestKind::kRead && is_reliable(qp_.type))
    show_acknowledgement(psn(packets() - 1), credits());
  flow_.packets = 0;
}

void CapturedLink::complete_request(PcbId pcb, Verdict verdict) {
  const bool refused = verdict == Verdict::kRemoteInvalidRequest ||
                       verdict == Verdict::kRemoteAccess || verdict == Verdict::kRemoteOperation;
  if (refused) {
    if (!told_) show_request(0, remark_of(verdict));
    show_acknowledgement(psn(0), transport::nak_syndrome(verdict));
  } else if (verdict == Verdict::kOk && !arrived_ && !told_) {
    // An unreliable connection dropped the message.
    show_request(0, unanswered_ ? unanswered_remark() : watch_->remark());
  }
  unanswered_ = false;
  flow_.packets = 0;
  env_.complete_request(pcb, verdict);
}

void CapturedLink::count(transport::Count what, std::uint32_t n) {
  env_.count(what, n);
  show_refused(what);
}

void CapturedLink::count_at(transport::Count what, std::optional<Psn> psn, std::uint32_t figure) {
  env_.count_at(what, psn, figure);
  show_refused(what);
}

void CapturedLink::show_refused(transport::Count what) {
  if (what != transport::Count::kRnrNakReceived || local().idle()) return;
  show_request(0, remark_of(Verdict::kReceiverNotReady));
  show_acknowledgement(psn(0), wire::kSyndromeRnr | peer_->min_rnr_timer);
}

// --- the packets that captures see

/// Returns the number of PSNs that the current request takes.
std::uint32_t CapturedLink::packets() const {
  return transport::is_indivisible(request_.kind)
             ? 1
             : transport::packets_of(request_.length, mtu_shift_);
}

Psn CapturedLink::psn(std::uint32_t index) const {
  return (flow_.packets != 0 ? flow_.message : flow_.next) + index;
}

/// A message that begins again gets the same PSNs.
void CapturedLink::begin_message() {
  if (flow_.packets == 0) flow_.message = flow_.next;
  flow_.packets = packets();
  flow_.next = flow_.message + flow_.packets;
}

/// Reports the packets that end within the moved bytes.
void CapturedLink::show_moved(std::uint32_t offset, std::uint32_t bytes) {
  const std::uint32_t end = offset + bytes;
  for (std::uint32_t i = offset >> mtu_shift_; i < packets(); ++i) {
    if ((i << mtu_shift_) + transport::bytes_of(request_.length, i, mtu_shift_) > end) break;
    if (request_.kind != RequestKind::kRead) {
      show_request(i);
      continue;
    }
    if (i % transport::kReadPartPackets == 0) show_request(i);
    show_response(i);
  }
  told_ = end == request_.length;
}

wire::Headers CapturedLink::make_request(std::uint32_t index) const {
  transport::RequestSlot slot;
  slot.request = request_;
  slot.first = psn(0);
  slot.packets = packets();
  const transport::RequestFormat format{qp_.rc};
  wire::Headers h =
      transport::make_request(format, slot, index, transport::packet_end(slot, index));
  h.destination = qp_.connection.destination;
  if (qp_.type == QpType::kUc) h.opcode |= wire::raw(wire::Opcode::kUcSendFirst);
  const bool last = index + 1 == packets() || request_.kind == RequestKind::kRead;
  h.ack_request = last && is_reliable(qp_.type);
  return h;
}

void CapturedLink::show_request(std::uint32_t index, CaptureRemark remark) {
  const wire::Headers h = make_request(index);
  const PayloadSource payload = transport::stores_response(request_.kind)
                                    ? PayloadSource()
                                    : transport::segment_payload(request_, index, mtu_shift_);
  const QueuePair* const peer = link_.peer();
  parts_.captures.local(qp_.tenant, peer_ != nullptr ? peer->tenant : nullptr,
                        build(qp_.connection.route, h, payload), remark);
}

/// Makes the headers that Responder::send_response() would make.
void CapturedLink::show_response(std::uint32_t index) {
  using wire::Opcode;
  const bool first = index % transport::kReadPartPackets == 0;
  const bool last = index + 1 == transport::read_part_end(packets(), index);
  Opcode opcode = first ? Opcode::kRcReadResponseFirst : Opcode::kRcReadResponseMiddle;
  if (last) opcode = first ? Opcode::kRcReadResponseOnly : Opcode::kRcReadResponseLast;
  wire::Headers h;
  h.psn = psn(index);
  h.syndrome = credits();
  h.msn = (flow_.sequence + 1).value();  // a read counts when it is accepted
  answer(opcode, h, transport::segment_payload(request_, index, mtu_shift_));
}

void CapturedLink::show_atomic_response() {
  wire::Headers h;
  h.psn = psn(0);
  h.syndrome = credits();
  h.msn = flow_.sequence.value();
  if (transport::awaits_empty_response(request_.kind))
    return answer(wire::Opcode::kRcReadResponseOnly, h, {});
  parts_.memory.gather(qp_, parts_.pcbs.pcb(request_.pcb), 0,
                       std::as_writable_bytes(std::span(&h.original, 1)));
  answer(wire::Opcode::kRcAtomicAck, h, {});
}

/// Reports an ACK or NAK with this PSN; an ACK covers all packets up to it.
void CapturedLink::show_acknowledgement(Psn psn, std::uint8_t syndrome) {
  wire::Headers h;
  h.psn = psn;
  h.syndrome = syndrome;
  h.msn = flow_.sequence.value();
  answer(wire::Opcode::kRcAck, h, {});
}

std::uint8_t CapturedLink::credits() const {
  const std::optional<std::uint32_t> receives = peer_->receives.receive_credits();
  return receives ? transport::encode_credits(*receives) : wire::kSyndromeNoCreditLimit;
}

/// Reports a packet of the peer. The caller sets the PSN and the fields of AETH and AtomicAckETH in
/// `h`; the rest is set here.
void CapturedLink::answer(wire::Opcode opcode, wire::Headers h, const PayloadSource& payload) {
  const QueuePair& peer = *link_.peer();
  h.opcode = wire::raw(opcode) | (is_xrc(qp_.type) ? wire::kXrcBits : 0);
  h.destination = qp_.qpn;
  h.pkey = peer.rc.pkey;
  parts_.captures.local(peer.tenant, qp_.tenant, build(peer.connection.route, h, payload),
                        CaptureRemark::kNone);
}

std::span<const std::byte> CapturedLink::build(const Route& route, const wire::Headers& h,
                                               const PayloadSource& payload) {
  return parts_.captures.build({.source = route.path.source,
                                .destination = route.path.destination,
                                .traffic_class = route.path.traffic_class,
                                .hop_limit = route.path.hop_limit,
                                .udp_source_port = route.udp_source_port,
                                .flow_label = route.path.flow_label},
                               h, payload.length, [&](std::span<std::byte> out) {
                                 return parts_.memory.gather(qp_, parts_.pcbs.pcb(payload.pcb),
                                                             payload.offset, out) == Verdict::kOk;
                               });
}

}  // namespace softhca::engine
