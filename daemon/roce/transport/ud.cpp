// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/transport/ud.hpp"

#include "daemon/roce/transport/segment.hpp"
#include "daemon/roce/wire/mad.hpp"
#include "daemon/roce/wire/opcode.hpp"

namespace softhca::transport {
namespace {

Verdict check_request(const Request& r, std::uint32_t mtu) {
  if (r.kind != RequestKind::kSend && r.kind != RequestKind::kSendImm)
    return Verdict::kLocalQpOperation;
  return r.length > mtu ? Verdict::kLocalLength : Verdict::kOk;
}

}  // namespace

Verdict UdRequester::transmit(const SenderUpcalls& up, const Request& request, Qpn remote,
                              std::uint32_t remote_qkey) {
  const Verdict verdict = send(up, request, remote, remote_qkey);
  if (verdict == Verdict::kBusy) return verdict;
  up.commands.complete_request(request.pcb, verdict);
  if (verdict != Verdict::kOk) up.events.enter_error(std::nullopt);
  return verdict;
}

Verdict UdRequester::send(const SenderUpcalls& up, const Request& request, Qpn remote,
                          std::uint32_t remote_qkey) {
  if (const Verdict verdict = check_request(request, attributes_.mtu); verdict != Verdict::kOk)
    return verdict;
  const bool imm = request.kind == RequestKind::kSendImm;
  wire::Headers h;
  h.opcode = wire::raw(imm ? wire::Opcode::kUdSendOnlyImm : wire::Opcode::kUdSendOnly);
  h.solicited = request.solicited;
  h.destination = remote;
  h.pkey = attributes_.pkey;
  h.psn = next_psn_;
  h.qkey = wire::is_controlled_qkey(remote_qkey) ? attributes_.qkey : remote_qkey;
  h.source = attributes_.self;
  if (imm) h.imm = request.imm;
  PayloadSource payload;
  if (request.length > 0) {
    payload.from = PayloadSource::From::kRequest;
    payload.pcb = request.pcb;
    payload.length = request.length;
  }
  switch (up.packets.send(h, payload)) {
    case SendResult::kSent:
      break;
    case SendResult::kNoBuffer:
      return Verdict::kBusy;
    case SendResult::kNoAccess:
      return Verdict::kLocalProtection;
  }
  ++next_psn_;
  up.commands.request_begun(request.pcb);
  return Verdict::kOk;
}

void UdResponder::reset() { drawn_ = failed_ = false; }

void UdResponder::receive(const DatagramReceiverUpcalls& up, const wire::Headers& h,
                          std::span<const std::byte> payload) {
  if (failed_) return up.events.count(Count::kBadState);
  const wire::OpcodeInfo& info = wire::opcode_info(h.opcode);
  if (info.transport != wire::Transport::kUd) return up.events.count(Count::kBadOpcode);
  // 9.6.1.5: the key of a datagram must be that of the queue pair.
  if (h.qkey != attributes_.qkey) return up.events.count(Count::kBadQkey);
  if (payload.size() > attributes_.mtu) return up.events.count(Count::kBadLength);
  if (up.limits.drops_request()) return up.events.count(Count::kRateDropped);
  if (!draw(up)) return up.events.count(Count::kReceiveDropped);
  // 9.8.3.2.2: a message too long for the receive is dropped, and the receive is used for the next.
  const std::size_t bytes = kRoutingHeaderBytes + payload.size();
  if (bytes > capacity_) {
    up.events.explain(RefusalCause::kReceiveTooShort, bytes, capacity_);
    return up.events.count(Count::kBadLength);
  }

  ReceiveCompletion c;
  c.verdict = up.receives.store_routing_header();
  if (c.verdict == Verdict::kOk && !payload.empty())
    c.verdict = up.receives.store_receive(kRoutingHeaderBytes, payload);
  if (c.verdict == Verdict::kBusy) return;
  c.byte_len = static_cast<std::uint32_t>(bytes);
  c.has_imm = info.mask.has_all(wire::kImmDt);
  c.imm = h.imm;
  c.solicited = h.solicited;
  c.has_grh = true;
  c.source = h.source;
  drawn_ = false;
  failed_ = c.verdict != Verdict::kOk;
  up.limits.took_request(static_cast<std::uint32_t>(payload.size()), true);
  up.receives.complete_receive(c);
  if (failed_) up.events.enter_error(std::nullopt);
}

bool UdResponder::draw(const DatagramReceiverUpcalls& up) {
  if (drawn_) return true;
  const std::optional<std::uint64_t> capacity = up.receives.draw_receive();
  if (!capacity) return false;
  capacity_ = *capacity;
  drawn_ = true;
  return true;
}

void UdResponder::flush(const DatagramReceiverUpcalls& up) {
  failed_ = true;
  if (!drawn_) return;
  drawn_ = false;
  ReceiveCompletion c;
  c.verdict = Verdict::kFlushed;
  up.receives.complete_receive(c);
}

}  // namespace softhca::transport
