// Responder: the chain of checks a request packet goes through (InfiniBand specification, volume 1,
// 9.6 and 9.7.4).
#include "daemon/transport/responder.hpp"
#include "daemon/transport/segment.hpp"

namespace softhca::transport {

void Responder::receive(const ResponderUpcalls& up, const wire::Headers& h,
                        std::span<const std::byte> payload, Time) {
  const wire::OpcodeInfo& info = wire::opcode_info(h.opcode);
  if (!check_transport(up, info)) return;
  const RequestPacket p{h, payload, info.mask};
  if (!check_psn(up, p)) return;
  Verdict verdict = check_sequence(p);
  if (verdict == Verdict::kOk) verdict = check_length(up, p);
  if (verdict == Verdict::kOk) verdict = choose_receive_queue(up, p);
  if (verdict == Verdict::kOk) verdict = execute(up, p);
  if (verdict != Verdict::kOk) return refuse(up, verdict);
  accept(up, p);
}

/// A request of a reliable connection, while we listen.
bool Responder::check_transport(const ResponderUpcalls& up, const wire::OpcodeInfo& info) {
  if (failed_ || refusal_ == Refusal::kFatal) {
    up.events.count(Count::kBadState);
    return false;
  }
  if (info.transport == attributes_.transport() && info.mask.has_all(wire::kRequest)) return true;
  up.events.count(Count::kBadOpcode);
  return false;
}

/// 9.7.4.1.1: expected, duplicate (behind) or beyond a gap (ahead). One NAK per gap (9.7.5.2.2),
/// and one more when the peer has evidently gone back and the expected packet was lost again: it
/// saves the wait for the peer's timeout. After an RNR NAK what follows is dropped silently.
bool Responder::check_psn(const ResponderUpcalls& up, const RequestPacket& p) {
  const std::int32_t distance = p.h.psn.distance_from(expected_);
  if (distance == 0) return true;
  if (distance < 0) {
    receive_duplicate(up, p);
    return false;
  }
  if (refusal_ == Refusal::kNotReady) return false;
  up.events.count(Count::kOutOfSequence);
  if (refusal_ == Refusal::kSequence && p.h.psn.is_after(gap_seen_)) return false;
  refusal_ = Refusal::kSequence;
  gap_seen_ = p.h.psn;
  nak_ = wire::kSyndromeSequence;
  nak_psn_ = expected_;
  return false;
}

/// 9.7.4.1.2: a message is one first, any middles, one last, or one only; nothing comes between.
Verdict Responder::check_sequence(const RequestPacket& p) const {
  const bool fits = p.starts() ? !message_.in_progress() : message_.goes_on_with(p);
  return fits ? Verdict::kOk : Verdict::kRemoteInvalidRequest;
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
  if (p.fits_opcode(attributes_.mtu) && fits_announcement(p)) return Verdict::kOk;
  up.events.count(Count::kBadLength);
  return Verdict::kRemoteInvalidRequest;
}

bool Responder::fits_announcement(const RequestPacket& p) const {
  constexpr std::size_t kWord = sizeof(std::uint64_t);
  if (p.mask.has_all(wire::kAtomic)) return p.h.remote_addr % kWord == 0;
  if (p.mask.has_all(wire::kAtomicWrite))
    return p.payload.size() == kWord && p.h.dma_length == kWord && p.h.remote_addr % kWord == 0;
  if (p.mask.has_all(wire::kReth) && p.h.dma_length > kMaxMessageBytes) return false;
  return !p.mask.has_all(wire::kWrite) || message_.fits_announcement(p);
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
  // The response to a read or atomic acknowledges it and all before it.
  if (p.mask.has_any(wire::kRead | wire::kAtomic | wire::kAtomicWrite))
    ack_due_ = false;
  else if (p.h.ack_request)
    ack_due_ = true;
  if (established_) return;
  established_ = true;
  up.events.raise_event(AsyncEvent::kCommunicationEstablished);
}

}  // namespace softhca::transport
