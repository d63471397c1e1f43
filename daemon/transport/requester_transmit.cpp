// Requester: what may be sent next, and as which packet.
#include "daemon/transport/requester.hpp"
#include "daemon/transport/segment.hpp"

namespace softhca::transport {

bool Requester::transmit(const RequesterUpcalls& up, Time now, unsigned packet_budget) {
  if (rnr_until_ != kNever) {
    if (now < rnr_until_) return false;
    rnr_until_ = kNever;
  }
  while (!failed_ && next_ != SendQueue::kEnd) {
    if (packet_budget-- == 0) return true;
    switch (send_next(up, now)) {
      case Step::kSent:
        break;
      case Step::kWait:
        return false;
      case Step::kPortFull:
        return true;
    }
  }
  return false;
}

Requester::Step Requester::send_next(const RequesterUpcalls& up, Time now) {
  const Slot& slot = queue_[next_];
  const std::uint32_t index = index_of(slot, next_psn_);
  if (awaits_response(slot.request.kind) && attributes_.max_rd_atomic == 0)
    return refuse_request(up, Verdict::kLocalQpOperation);
  if (!may_send(slot, index)) return Step::kWait;
  const wire::Headers h = make_headers(slot, index);
  switch (up.packets.send(h, make_payload(slot, index))) {
    case SendResult::kSent:
      break;
    case SendResult::kNoBuffer:
      return Step::kPortFull;
    case SendResult::kNoAccess:
      return refuse_request(up, Verdict::kLocalProtection);
  }
  note_sent(up, slot, index, h.ack_request, now);
  return Step::kSent;
}

/// The request at the cursor cannot be sent. It fails when all before it are complete, so that
/// completions stay in order; until then transmit() comes by here again.
Requester::Step Requester::refuse_request(const RequesterUpcalls& up, Verdict verdict) {
  if (next_ == queue_.oldest()) fail(up, verdict);
  return Step::kWait;
}

bool Requester::may_send(const Slot& slot, std::uint32_t index) const {
  const Request& r = slot.request;
  if (in_flight() >= flight_.size()) return false;
  // A fenced request waits for all reads and atomics before it (10.8.3.3).
  if (r.fence && index == 0 && reads_in_flight_ > 0) return false;
  if (awaits_response(r.kind) && reads_in_flight_ >= attributes_.max_rd_atomic) return false;
  return has_credit(slot, index);
}

/// Out of credits one message may go as a probe: its first packet when nothing else is
/// outstanding, the rest when that one is acknowledged, that is, has a receive (9.7.7.2.5).
bool Requester::has_credit(const Slot& slot, std::uint32_t index) const {
  return is_permitted(slot) || index > 1 || nothing_outstanding();
}

bool Requester::is_permitted(const Slot& slot) const {
  return !credits_limited_ || !draws_receive(slot.request.kind) ||
         !slot.sequence.is_after(last_permitted_);
}

/// On the last packet of a message, on a probe, on the last packet the window permits, and now and
/// then, so that a long message neither stalls nor is sent again from its start.
bool Requester::wants_ack(const Slot& slot, std::uint32_t index) const {
  if (index + 1 == slot.packets || awaits_response(slot.request.kind)) return true;
  if (unasked_ + 1 >= attributes_.ack_interval || unasked_ + 1 >= flight_.size() / 4) return true;
  if (in_flight() + 1 >= flight_.size()) return true;
  return index == 0 && !is_permitted(slot);
}

wire::Headers Requester::make_headers(const Slot& slot, std::uint32_t index) const {
  const Request& r = slot.request;
  wire::Headers h;
  h.destination = attributes_.destination;
  h.pkey = attributes_.pkey;
  h.psn = next_psn_;
  h.ack_request = wants_ack(slot, index);
  if (awaits_response(r.kind))
    fill_question(h, slot, index);
  else
    fill_segment(h, r, index, slot.packets);
  if (attributes_.xrc) {
    h.opcode |= wire::kXrcBits;
    h.xrc_srq = r.xrc_srq;
  }
  return h;
}

/// Opcode and extended headers of the request packet of a read, atomic or atomic write.
void Requester::fill_question(wire::Headers& h, const Slot& slot, std::uint32_t index) const {
  const Request& r = slot.request;
  h.opcode = wire::raw(request_opcode(r.kind, true, true));
  h.rkey = r.rkey;
  h.remote_addr = r.remote_addr;
  if (r.kind == RequestKind::kRead) {
    const std::uint32_t from = index << mtu_shift_;
    const std::uint32_t end = chunk_end(slot, index);
    h.remote_addr += from;
    h.dma_length = (end == slot.packets ? r.length : end << mtu_shift_) - from;
  } else if (r.kind == RequestKind::kAtomicWrite) {
    h.dma_length = r.length;
  } else {
    // The addend of fetch-and-add travels in the swap field (9.2.8).
    h.swap_add = r.kind == RequestKind::kCompareSwap ? r.swap : r.compare_add;
    h.compare = r.kind == RequestKind::kCompareSwap ? r.compare_add : 0;
  }
}

PayloadSource Requester::make_payload(const Slot& slot, std::uint32_t index) const {
  if (stores_response(slot.request.kind)) return {};
  return segment_payload(slot.request, index, mtu_shift_);
}

void Requester::note_sent(const RequesterUpcalls& up, const Slot& slot, std::uint32_t index,
                          bool asked, Time now) {
  const bool is_read = slot.request.kind == RequestKind::kRead;
  const std::uint32_t end = is_read ? chunk_end(slot, index) : index + 1;
  if (next_psn_.is_before(sent_end_))
    up.events.count(Count::kRetransmittedPackets);
  else if (asked)
    round_trip_.sent(next_psn_, now);
  next_psn_ = next_psn_ + (end - index);
  if (next_psn_.is_after(sent_end_)) sent_end_ = next_psn_;
  if (awaits_response(slot.request.kind)) ++reads_in_flight_;
  if (end == slot.packets) {
    next_ = queue_.next(next_);
    up.commands.request_sent(slot.request.pcb);
  }
  unasked_ = asked ? 0 : unasked_ + 1;
  if (ack_deadline_ == kNever) start_timer(now);
}

}  // namespace softhca::transport
