// SPDX-License-Identifier: Apache-2.0

// Responder: the chain of checks on a request packet (InfiniBand specification, volume 1, 9.6 and
// 9.7.4). Short checks that each packet passes are inline.
#include "daemon/roce/transport/codes.hpp"
#include "daemon/roce/transport/flush.hpp"
#include "daemon/roce/transport/reliable/responder.hpp"
#include "daemon/roce/transport/segment.hpp"

namespace softhca::transport {
namespace {

bool fits_announcement(const IncomingMessage& message, const RequestPacket& p) {
  constexpr std::size_t kWord = sizeof(std::uint64_t);
  if (p.mask.has_all(wire::kAtomic)) return p.h.remote_addr % kWord == 0;
  if (p.mask.has_all(wire::kAtomicWrite))
    return p.payload.size() == kWord && p.h.dma_length == kWord && p.h.remote_addr % kWord == 0;
  if (p.mask.has_all(wire::kFlush) && flushes_region(p.h.flush)) return true;
  if (p.mask.has_all(wire::kReth) && p.h.dma_length > kMaxMessageBytes) return false;
  return !p.mask.has_all(wire::kWrite) || message.fits_announcement(p);
}

/// 9.7.4.1.2: a message is one first, any number of middles and one last, or one only packet,
/// without other packets in between.
Verdict check_sequence(const IncomingMessage& message, const RequestPacket& p) {
  const bool fits = p.starts() ? !message.in_progress() : message.goes_on_with(p);
  return fits ? Verdict::kOk : Verdict::kRemoteInvalidRequest;
}

/// Checks whether this packet can be the one that has begun. A buffered copy of it may differ.
Verdict check_resumed(const IncomingMessage& message, const RequestPacket& p) {
  const bool of_message = p.mask.has_any(wire::kSend | wire::kWrite);
  const bool fits = of_message
                        ? message.in_progress() && message.is_send() == p.mask.has_all(wire::kSend)
                        : !message.in_progress();
  return fits ? Verdict::kOk : Verdict::kRemoteInvalidRequest;
}

/// Explains and counts that the packet has a length or an address that does not fit.
void explain_length(QueuePairEvents& events, const RequestPacket& p, std::uint32_t mtu) {
  if (p.mask.has_any(wire::kAtomic | wire::kAtomicWrite) &&
      p.h.remote_addr % sizeof(std::uint64_t) != 0)
    events.explain(RefusalCause::kNotAligned, p.h.remote_addr);
  else
    events.explain(RefusalCause::kPayloadLength, p.payload.size(), mtu);
  events.count(Count::kBadLength);
}

/// Returns the bytes that a packet brings. The operands of an atomic are not in the payload.
std::uint32_t brought_bytes(const RequestPacket& p) {
  return p.mask.has_all(wire::kAtomic) ? sizeof(std::uint64_t)
                                       : static_cast<std::uint32_t>(p.payload.size());
}

}  // namespace

void Responder::receive(const ResponderUpcalls& up, const wire::Headers& h,
                        std::span<const std::byte> payload, Time) {
  const wire::OpcodeInfo& info = wire::opcode_info(h.opcode);
  if (failed_ || refusal_ == Refusal::kFatal) return up.events.count(Count::kBadState);
  if (info.transport != attributes_.transport() || !info.mask.has_all(wire::kRequest))
    return up.events.count(Count::kBadOpcode);
  const RequestPacket p{h, payload, info.mask};
  if (check_psn(up, p)) take(up, p);
}

/// Executes the next packet in order. Returns false if it was refused or its memory is busy.
bool Responder::take(const ResponderUpcalls& up, const RequestPacket& p) {
  const Psn first = expected_;
  Verdict verdict = resumes_ ? check_resumed(message_, p) : check_sequence(message_, p);
  if (verdict != Verdict::kOk) up.events.explain(RefusalCause::kPacketOrder);
  if (verdict == Verdict::kOk) verdict = check_length(up, p);
  if (verdict == Verdict::kOk) verdict = choose_receive_queue(up, p);
  if (verdict == Verdict::kOk && !resumes_ && !check_rate(up, p)) return false;
  if (verdict == Verdict::kOk) verdict = execute(up, p);
  resumes_ = verdict == Verdict::kBusy;
  if (resumes_) return false;
  if (verdict != Verdict::kOk) {
    refuse(up, verdict, verdict);
    return false;
  }
  if (!p.mask.has_all(wire::kRead)) up.limits.took_request(brought_bytes(p), p.starts());
  accept(up, p);
  up.events.executed();
  if (!kept_.empty()) kept_.forget(first, expected_);
  return true;
}

/// 9.7.4.1.1: the packet is the expected one, a duplicate (behind), or beyond a gap (ahead). Sends
/// one NAK per gap (9.7.5.2.2), and one more if the peer has evidently gone back and the expected
/// packet was lost again: that saves the wait for the peer's timeout. After an RNR NAK the
/// following packets are dropped silently. Packets ahead are buffered if there is room (mechanism
/// D3). The specification has them dropped, but the peer notices only that it need not repeat them.
bool Responder::check_psn(const ResponderUpcalls& up, const RequestPacket& p) {
  const std::int32_t distance = p.h.psn.distance_from(expected_);
  if (distance == 0) return true;
  if (distance < 0) {
    receive_duplicate(up, p);
    return false;
  }
  if (refusal_ == Refusal::kNotReady || refusal_ == Refusal::kOverRate) return false;
  up.events.count(Count::kOutOfSequence);
  if (kept_.is_open() && distance <= attributes_.out_of_order) kept_.keep(p);
  if (refusal_ == Refusal::kSequence && p.h.psn.is_after(gap_seen_)) return false;
  miss(p.h.psn);
  return false;
}

/// Executes buffered packets that are next in order, at most `packet_budget`. Returns true if more
/// remain. If the run ends before another gap, reports that gap: otherwise a peer that sends only
/// what is reported missing would never learn of it.
bool Responder::take_kept(const ResponderUpcalls& up, unsigned packet_budget) {
  KeptPackets::Packet next;
  while (kept_.find(expected_, next)) {
    if (packet_budget-- == 0) return true;
    const RequestPacket p{*next.h, next.payload, wire::opcode_info(next.h->opcode).mask};
    if (!take(up, p)) return false;
  }
  if (!kept_.empty() && refusal_ == Refusal::kNone) miss(kept_.last());
  return false;
}

/// Annex A14: each XRC request names a shared receive queue, the same for all packets of a message.
inline Verdict Responder::choose_receive_queue(const ResponderUpcalls& up, const RequestPacket& p) {
  if (!attributes_.xrc) return Verdict::kOk;
  if (!p.starts() && p.h.xrc_srq != xrc_srq_) {
    up.events.explain(RefusalCause::kPacketOrder);
    return Verdict::kRemoteInvalidRequest;
  }
  xrc_srq_ = p.h.xrc_srq;
  return up.memory.choose_receive_queue(xrc_srq_);
}

/// 9.7.4.1.6: checks the payload against opcode and path MTU, and against the length in the RETH.
inline Verdict Responder::check_length(const ResponderUpcalls& up, const RequestPacket& p) const {
  const bool fits = p.fits_opcode(attributes_.mtu);
  if (fits && fits_announcement(message_, p)) return Verdict::kOk;
  explain_length(up.events, p, attributes_.mtu);
  return Verdict::kRemoteInvalidRequest;
}

/// Refuses a packet that exceeds the rate limits of this side, as if there were no receive, even in
/// the middle of a message: the peer then sends it again later. Returns false if it was refused.
inline bool Responder::check_rate(const ResponderUpcalls& up, const RequestPacket& p) {
  const Duration wait = up.limits.request_wait(p.mask.has_all(wire::kRead));
  if (wait == Duration::zero()) return true;
  refuse_for_now(Refusal::kOverRate, rnr_timer(wait));
  return false;
}

/// Advances to the next packet after an execution. A sequence NAK not yet sent moves along while
/// the packet that showed the gap, dropped on arrival, is still ahead; otherwise the NAK is
/// cancelled.
void Responder::accept(const ResponderUpcalls& up, const RequestPacket& p) {
  const bool read = p.mask.has_all(wire::kRead);
  expected_ = expected_ + (read ? packets_of(p.h.dma_length, mtu_shift_) : 1);
  if (nak_ == wire::kSyndromeSequence && !gap_seen_.is_before(expected_)) {
    nak_psn_ = expected_;
  } else {
    refusal_ = Refusal::kNone;
    nak_ = 0;
  }
  if (p.ends()) {
    message_.end();
    ++sequence_;
    if (const auto counted = request_count(p.mask)) up.events.count(*counted);
  }
  if (p.mask.has_any(wire::kAnswered))
    ack_due_ = false;
  else if (p.h.ack_request)
    ack_due_ = true;
  if (established_) return;
  established_ = true;
  up.events.raise_event(AsyncEvent::kCommunicationEstablished);
}

}  // namespace softhca::transport
