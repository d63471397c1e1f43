// Requester: what may be sent next, and as which packet.
#include "daemon/transport/read_or_atomic.hpp"
#include "daemon/transport/requester.hpp"
#include "daemon/transport/segment.hpp"

namespace softhca::transport {

bool Requester::transmit(const RequesterUpcalls& up, Time now, unsigned packet_budget) {
  if (timer_.must_hold(now)) return false;
  timer_.release();
  if (!queue_.empty()) {
    if (exhausted_) fail(up, Verdict::kRetryExceeded);
    if (acknowledged_.is_after(unacked_)) acknowledge_before(up, acknowledged_, now);
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
  const std::uint32_t index = slot.index_of(next_psn_);
  if (awaits_response(slot.request.kind) && attributes_.max_rd_atomic == 0)
    return refuse_request(up, Verdict::kLocalQpOperation);
  if (obstacle(slot, index) != SendObstacle::kNone) return Step::kWait;
  const wire::Headers h = make_headers(slot, index);
  const PayloadSource payload = stores_response(slot.request.kind)
                                    ? PayloadSource()
                                    : segment_payload(slot.request, index, mtu_shift_);
  switch (up.packets.send(h, payload)) {
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

SendObstacle Requester::obstacle(const Slot& slot, std::uint32_t index) const {
  const Request& r = slot.request;
  if (in_flight() >= flight_.size()) return SendObstacle::kWindow;
  // A fenced request waits for all reads and atomics before it (10.8.3.3).
  if (r.fence && index == 0 && reads_in_flight_ > 0) return SendObstacle::kOrder;
  if (awaits_response(r.kind) && reads_in_flight_ >= attributes_.max_rd_atomic)
    return SendObstacle::kOrder;
  return has_credit(slot, index) ? SendObstacle::kNone : SendObstacle::kReceiver;
}

SendProgress Requester::progress() const {
  SendProgress out;
  if (!queue_.empty()) {
    const auto packets = [&](Psn from) {
      return static_cast<std::uint32_t>(queued_end_.distance_from(from));
    };
    out.outstanding = packets(unacked_);
    out.unsent = next_ == SendQueue::kEnd ? 0 : packets(next_psn_);
  }
  if (is_held()) {
    out.obstacle = timer_.rests() ? SendObstacle::kPeer : SendObstacle::kReceiver;
    out.unsent = out.outstanding;
  } else if (out.unsent != 0) {
    const Slot& slot = queue_[next_];
    out.obstacle = obstacle(slot, slot.index_of(next_psn_));
  }
  return out;
}

/// Out of credits one message may go as a probe: its first packet when nothing else is
/// outstanding, the rest when that one is acknowledged, that is, has a receive (9.7.7.2.5).
bool Requester::has_credit(const Slot& slot, std::uint32_t index) const {
  return credits_.permit(slot) || index > 1 || in_flight() == 0;
}

/// Asks for an acknowledgement on the last packet of a message, on a probe, on the last packet the
/// window permits, and now and then, so that a long message neither stalls nor is sent again from
/// its start.
bool Requester::wants_ack(const Slot& slot, std::uint32_t index) const {
  if (index + 1 == slot.packets || awaits_response(slot.request.kind)) return true;
  if (unasked_ + 1 >= attributes_.ack_interval || unasked_ + 1 >= flight_.size() / 4) return true;
  if (in_flight() + 1 >= flight_.size()) return true;
  return index == 0 && !credits_.permit(slot);
}

wire::Headers Requester::make_headers(const Slot& slot, std::uint32_t index) const {
  const Request& r = slot.request;
  wire::Headers h;
  h.destination = attributes_.destination;
  h.pkey = attributes_.pkey;
  h.psn = next_psn_;
  h.ack_request = wants_ack(slot, index);
  if (awaits_response(r.kind))
    fill_read_or_atomic(h, r, slot.packets, index, mtu_shift_);
  else
    fill_segment(h, r, index, slot.packets);
  if (attributes_.xrc) {
    h.opcode |= wire::kXrcBits;
    h.xrc_srq = r.xrc_srq;
  }
  return h;
}

void Requester::note_sent(const RequesterUpcalls& up, const Slot& slot, std::uint32_t index,
                          bool asked, Time now) {
  const bool is_read = slot.request.kind == RequestKind::kRead;
  const std::uint32_t end = is_read ? read_part_end(slot.packets, index) : index + 1;
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
  timer_.sent(now, round_trip_.rto());
}

}  // namespace softhca::transport
