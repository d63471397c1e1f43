// Responder: the chain of checks a request packet goes through (InfiniBand specification, volume 1,
// 9.6 and 9.7.4).
#include "daemon/transport/codes.hpp"
#include "daemon/transport/flush.hpp"
#include "daemon/transport/responder.hpp"
#include "daemon/transport/segment.hpp"

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

/// 9.7.4.1.2: a message is one first, any middles, one last, or one only; nothing comes between.
Verdict check_sequence(const IncomingMessage& message, const RequestPacket& p) {
  const bool fits = p.starts() ? !message.in_progress() : message.goes_on_with(p);
  return fits ? Verdict::kOk : Verdict::kRemoteInvalidRequest;
}

/// Whether this can be the packet that has begun. A copy of it that was kept may differ.
Verdict check_resumed(const IncomingMessage& message, const RequestPacket& p) {
  const bool of_message = p.mask.has_any(wire::kSend | wire::kWrite);
  const bool fits = of_message
                        ? message.in_progress() && message.is_send() == p.mask.has_all(wire::kSend)
                        : !message.in_progress();
  return fits ? Verdict::kOk : Verdict::kRemoteInvalidRequest;
}

/// An atomic's operands are not payload.
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

/// Executes the packet whose turn it is. False: it was refused, or its memory is busy.
bool Responder::take(const ResponderUpcalls& up, const RequestPacket& p) {
  const Psn first = expected_;
  Verdict verdict = resumes_ ? check_resumed(message_, p) : check_sequence(message_, p);
  if (verdict == Verdict::kOk) verdict = check_length(up, p);
  if (verdict == Verdict::kOk) verdict = choose_receive_queue(up, p);
  if (verdict == Verdict::kOk && !resumes_ && !check_rate(up, p)) return false;
  if (verdict == Verdict::kOk) verdict = execute(up, p);
  resumes_ = verdict == Verdict::kBusy;
  if (resumes_) return false;
  if (verdict != Verdict::kOk) {
    refuse(up, verdict);
    return false;
  }
  if (!p.mask.has_all(wire::kRead)) up.limits.took_request(brought_bytes(p), p.starts());
  accept(up, p);
  if (!kept_.empty()) kept_.forget(first, expected_);
  return true;
}

/// 9.7.4.1.1: expected, duplicate (behind) or beyond a gap (ahead). One NAK per gap (9.7.5.2.2),
/// and one more when the peer has evidently gone back and the expected packet was lost again: it
/// saves the wait for the peer's timeout. After an RNR NAK what follows is dropped silently. What
/// is ahead is kept if there is room (mechanism D3): the specification has it dropped, but the peer
/// sees no difference, except for what it need not repeat.
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

/// Executes what was kept and has its turn now, `packet_budget` packets at most; true: there is
/// more. Where it ends before another gap, that one is told: nothing else would show it, if the
/// peer sends nothing but what it is told.
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

/// Annex A14: each request of XRC names a shared receive queue, and a message only one.
Verdict Responder::choose_receive_queue(const ResponderUpcalls& up, const RequestPacket& p) {
  if (!attributes_.xrc) return Verdict::kOk;
  if (!p.starts() && p.h.xrc_srq != xrc_srq_) return Verdict::kRemoteInvalidRequest;
  xrc_srq_ = p.h.xrc_srq;
  return up.memory.choose_receive_queue(xrc_srq_);
}

/// 9.7.4.1.6: payload against opcode and path MTU, and against the length the RETH announced.
Verdict Responder::check_length(const ResponderUpcalls& up, const RequestPacket& p) const {
  if (p.fits_opcode(attributes_.mtu) && fits_announcement(message_, p)) return Verdict::kOk;
  up.events.count(Count::kBadLength);
  return Verdict::kRemoteInvalidRequest;
}

/// What comes faster than the rates of this side allow is refused as if there were no receive, in
/// the middle of a message, too: the peer keeps it and sends it again in time. False: refused.
bool Responder::check_rate(const ResponderUpcalls& up, const RequestPacket& p) {
  const Duration wait = up.limits.request_wait(p.mask.has_all(wire::kRead));
  if (wait == Duration::zero()) return true;
  refuse_for_now(Refusal::kOverRate, rnr_timer(wait));
  return false;
}

/// Executed: the next packet is expected. A sequence NAK not yet sent is moved along while the
/// packet that showed the gap, dropped when it came, is still ahead; otherwise its reason is gone.
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
