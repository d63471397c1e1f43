// SPDX-License-Identifier: Apache-2.0

// Requester: which packet may be sent next. Short questions for each packet are inline.
#include "daemon/roce/transport/reliable/requester.hpp"

namespace softhca::transport {

bool Requester::transmit(const RequesterUpcalls& up, Time now, unsigned packet_budget) {
  moved_ = false;
  if (timer_.must_hold(now)) return false;
  timer_.release();
  if (!queue_.empty()) {
    if (exhausted_) fail(up, Verdict::kRetryExceeded);
    if (acknowledged_.is_after(unacked_)) acknowledge_before(up, acknowledged_, now);
  }
  if (pause_.runs()) {
    if (!pause_.is_over(now)) return false;
    if (in_flight() == 0) timer_.wait_for_next();
    pause_.end();
  }
  if (repeat_.repair().due() && !failed_ && !send_again(up, now, packet_budget)) return true;
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
  if (awaits_response(slot.request.kind) && format_.attributes.max_rd_atomic == 0)
    return refuse_request(up, Verdict::kLocalQpOperation);
  if (obstacle(slot, index) != SendObstacle::kNone) return Step::kWait;
  wire::Headers h = make_request(format_, slot, index, packet_end(slot, index));
  h.ack_request = wants_ack(slot, index);
  PayloadSource payload = request_payload(format_, slot, index);
  // A retransmitted payload is copied first, so that memory that keeps changing gets through.
  payload.is_held = !next_psn_.is_before(sent_.end);
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

/// Handles a request at the cursor that cannot be sent. It fails once all before it are complete,
/// so that completions stay in order. Until then transmit() comes here again.
Requester::Step Requester::refuse_request(const RequesterUpcalls& up, Verdict verdict) {
  if (next_ == queue_.oldest()) fail(up, verdict);
  return Step::kWait;
}

inline SendObstacle Requester::obstacle(const Slot& slot, std::uint32_t index) const {
  const Request& r = slot.request;
  if (pause_.runs()) return SendObstacle::kPace;
  if (in_flight() >= flight_.size() || repeat_.repair().holds()) return SendObstacle::kWindow;
  // A fenced request waits for all earlier reads and atomics (10.8.3.3).
  if (r.fence && index == 0 && reads_in_flight_ > 0) return SendObstacle::kOrder;
  if (awaits_response(r.kind) && reads_in_flight_ >= format_.attributes.max_rd_atomic)
    return SendObstacle::kOrder;
  // Without credits, one message may be sent as a probe: its first packet when nothing else is
  // outstanding, the rest when that one is acknowledged and thus has a receive (9.7.7.2.5).
  const bool has_credit = credits_.permit(slot) || index > 1 || in_flight() == 0;
  return has_credit ? SendObstacle::kNone : SendObstacle::kReceiver;
}

SendProgress Requester::progress() const {
  SendProgress out;
  out.moved = moved_;
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
  } else if (next_ != SendQueue::kEnd) {
    const Slot& slot = queue_[next_];
    const std::uint32_t index = slot.index_of(next_psn_);
    out.obstacle = obstacle(slot, index);
    if (index == 0)
      out.next = out.obstacle;
    else
      out.half_sent = next_;
  } else if (withdrawn_.any) {
    Slot slot;
    slot.request.kind = withdrawn_.kind;
    slot.request.fence = withdrawn_.fence;
    slot.sequence = queued_sequence_;
    out.obstacle = out.next = obstacle(slot, 0);
  }
  return out;
}

/// True if the packet should request an acknowledgement: the last one of a message, a probe, the
/// last one that the window permits, and one at regular intervals. The latter keeps a long message
/// from stalling and from being retransmitted from its start.
inline bool Requester::wants_ack(const Slot& slot, std::uint32_t index) const {
  if (index + 1 == slot.packets || awaits_response(slot.request.kind)) return true;
  if (unasked_ + 1u >= format_.attributes.ack_interval || unasked_ + 1u >= flight_.size() / 4)
    return true;
  if (in_flight() + 1 >= flight_.size()) return true;
  return index == 0 && !credits_.permit(slot);
}

void Requester::note_sent(const RequesterUpcalls& up, const Slot& slot, std::uint32_t index,
                          bool asked, Time now) {
  const std::uint32_t end = packet_end(slot, index);
  if (next_psn_.is_before(sent_.end))
    up.events.count(Count::kRetransmittedPackets);
  else if (asked && repeat_.is_undisturbed())
    round_trip_.sent(next_psn_, now);
  moved_ = true;
  next_psn_ = next_psn_ + (end - index);
  repeat_.sent(next_);
  if (next_psn_.is_after(sent_.end)) sent_.end = next_psn_;
  if (awaits_response(slot.request.kind)) ++reads_in_flight_;
  if (index == 0) up.commands.request_begun(slot.request.pcb);
  if (end == slot.packets) {
    next_ = queue_.next(next_);
    up.commands.request_sent(slot.request.pcb);
  }
  unasked_ = asked ? 0 : static_cast<std::uint16_t>(unasked_ + 1);
  if (timer_.needs_wait()) timer_.sent(now, round_trip_.rto());
  if (asked && format_.attributes.selective_repeat && !timer_.awaits_probe())
    timer_.await_probe(now, repeat_.patience(round_trip_));
  pause_.after_packet(now, flight_, round_trip_);
}

}  // namespace softhca::transport
