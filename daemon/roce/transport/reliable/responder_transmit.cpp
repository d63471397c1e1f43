// SPDX-License-Identifier: Apache-2.0

// Responder: sending what is owed (InfiniBand specification, volume 1, 9.7.5.1).
#include "daemon/roce/transport/codes.hpp"
#include "daemon/roce/transport/reliable/responder.hpp"
#include "daemon/roce/transport/segment.hpp"

namespace softhca::transport {
namespace {

Count count_of(std::uint8_t syndrome) {
  switch (syndrome) {
    case wire::kSyndromeSequence:
      return Count::kSequenceNakSent;
    case wire::kSyndromeInvalidRequest:
      return Count::kInvalidNakSent;
    case wire::kSyndromeRemoteAccess:
      return Count::kAccessNakSent;
    case wire::kSyndromeRemoteOperation:
      return Count::kOperationNakSent;
    default:
      return Count::kRnrNakSent;
  }
}

/// Returns the event for a fatal NAK. A remote operation error needs none: a receive completion has
/// its cause.
std::optional<AsyncEvent> event_of(std::uint8_t syndrome) {
  switch (syndrome) {
    case wire::kSyndromeInvalidRequest:
      return AsyncEvent::kInvalidRequest;
    case wire::kSyndromeRemoteAccess:
      return AsyncEvent::kAccessError;
    default:
      return std::nullopt;
  }
}

/// Returns the payload of the next response.
PayloadSource response_payload(const Replay& r, std::uint32_t mtu_shift) {
  PayloadSource p;
  if (r.atomic || r.answer_length == 0) return p;
  p.from = PayloadSource::From::kRemote;
  p.rkey = r.rkey;
  p.xrc_srq = r.xrc_srq;
  p.addr = r.addr + (std::uint64_t{r.next} << mtu_shift);
  p.length = bytes_of(r.answer_length, r.next, mtu_shift);
  // Programs may write to memory that is being read. So a read of one packet, like a flag that a
  // peer polls, is copied at once, and so is a repeated one.
  p.is_held = r.packets > 1 && !r.replay;
  return p;
}

}  // namespace

bool Responder::transmit(const ResponderUpcalls& up, unsigned packet_budget) {
  // A packet that has begun is delivered again separately, and may be buffered too.
  const bool more_kept = !resumes_ && !kept_.empty() && take_kept(up, packet_budget);
  while (replays_.any_due()) {
    Replay& next = replays_.oldest_due();
    if (next.reads() && up.limits.holds_response()) {
      // A peer that asks again and gets no answer would assume that this side is gone, and would
      // discard the later response. So it gets an acknowledgement without news: everything before
      // the oldest read that it may wait for. (Some requesters take the acknowledgement of a read
      // for its response, and some take one between two responses for their end.)
      if (asked_again_ && next.next == next.start && send_ack(up, replays_[0].first - 1))
        return true;
      asked_again_ = false;
      return more_kept;
    }
    if (packet_budget-- == 0) return true;
    switch (send_response(up, next)) {
      case SendResult::kSent:
        break;
      case SendResult::kNoBuffer:
        return true;
      case SendResult::kNoAccess:
        refuse_response(up);
        break;
    }
  }
  if (nak_ != 0 && !more_kept) return send_nak(up);
  if (ack_due_ && send_ack(up, expected_ - 1)) return true;
  ack_due_ = false;
  return more_kept;
}

SendResult Responder::send_response(const ResponderUpcalls& up, Replay& r) {
  using wire::Opcode;
  const bool first = r.next == r.start;
  const bool last = r.next + 1 == r.end;
  Opcode opcode = Opcode::kRcAtomicAck;
  if (!r.atomic) {
    opcode = first ? Opcode::kRcReadResponseFirst : Opcode::kRcReadResponseMiddle;
    if (last) opcode = first ? Opcode::kRcReadResponseOnly : Opcode::kRcReadResponseLast;
  }
  wire::Headers h = make_headers(opcode, r.first + r.next);
  if (first || last) set_aeth(up, h);
  if (r.atomic) h.original = r.step.before;
  const PayloadSource payload = response_payload(r, mtu_shift_);
  const SendResult result = up.packets.send(h, payload);
  if (result != SendResult::kSent) return result;
  if (r.reads()) up.limits.sent_response(payload.length, !r.begun);
  r.begun = true;
  asked_again_ = false;
  ++r.next;
  if (last && !r.resume()) replays_.settle(r);
  return result;
}

/// Refuses the rest of the oldest read after its memory is gone. Earlier responses remain valid.
void Responder::refuse_response(const ResponderUpcalls& up) {
  const Replay& r = replays_.oldest_due();
  const Psn psn = r.first + r.next;
  owe_nothing();
  refuse(up, Verdict::kRemoteAccess, Verdict::kRemoteAccess);
  nak_psn_ = psn;
}

bool Responder::send_nak(const ResponderUpcalls& up) {
  wire::Headers h = make_headers(wire::Opcode::kRcAck, nak_psn_);
  h.syndrome = nak_;
  h.msn = sequence_.value();
  if (up.packets.send(h, {}) != SendResult::kSent) return true;
  // The NAK also acknowledges everything before it.
  ack_due_ = false;
  nak_ = 0;
  up.events.count_at(refusal_ == Refusal::kOverRate ? Count::kRateNakSent : count_of(h.syndrome),
                     nak_psn_);
  if (refusal_ != Refusal::kFatal) return false;
  failed_ = true;
  up.events.enter_error(event_of(h.syndrome));
  return false;
}

/// Acknowledges everything up to and including `of`. Returns true if the port is full.
bool Responder::send_ack(const ResponderUpcalls& up, Psn of) {
  if (up.packets.send(make_acknowledgement(up, of), {}) != SendResult::kSent) return true;
  up.events.count(Count::kAcksSent);
  return false;
}

wire::Headers Responder::make_acknowledgement(const ResponderUpcalls& up, Psn of) const {
  wire::Headers h = make_headers(wire::Opcode::kRcAck, of);
  set_aeth(up, h);
  return h;
}

std::optional<wire::Headers> Responder::last_acknowledgement(const ResponderUpcalls& up) const {
  if (!established_ || failed_ || refusal_ == Refusal::kFatal) return std::nullopt;
  return make_acknowledgement(up, expected_ - 1);
}

wire::Headers Responder::make_headers(wire::Opcode opcode, Psn psn) const {
  wire::Headers h;
  h.opcode = wire::raw(opcode) | (attributes_.xrc ? wire::kXrcBits : 0);
  h.destination = attributes_.destination;
  h.pkey = attributes_.pkey;
  h.psn = psn;
  return h;
}

void Responder::set_aeth(const ResponderUpcalls& up, wire::Headers& h) const {
  const std::optional<std::uint32_t> receives = up.receives.receive_credits();
  h.syndrome = receives ? encode_credits(*receives) : wire::kSyndromeNoCreditLimit;
  h.msn = sequence_.value();
}

}  // namespace softhca::transport
