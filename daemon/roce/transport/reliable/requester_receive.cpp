// SPDX-License-Identifier: Apache-2.0

// Requester: acknowledgements and responses (InfiniBand specification, volume 1, 9.7.5, 9.7.6).
#include "daemon/roce/transport/codes.hpp"
#include "daemon/roce/transport/reliable/requester.hpp"
#include "daemon/roce/wire/opcode.hpp"

namespace softhca::transport {
namespace {

constexpr std::uint8_t kSyndromeClass = 0xe0;

bool acknowledges(const wire::Headers& h) {
  return wire::does(h.opcode, wire::Opcode::kRcAck) && is_ack(h.syndrome);
}

}  // namespace

void Requester::receive(const RequesterUpcalls& up, const wire::Headers& h,
                        std::span<const std::byte> payload, Time now) {
  if (failed_) return up.events.count(Count::kBadState);
  const wire::OpcodeInfo& info = wire::opcode_info(h.opcode);
  if (info.transport != format_.attributes.transport() || !info.mask.has_all(wire::kResponse))
    return up.events.count(Count::kBadOpcode);
  const bool is_expected = !h.psn.is_before(unacked_) && sent_.may_have_left(h.psn);
  if (is_expected && queue_.empty() && timer_.rests()) return hear_peer(h);
  // 9.7.5.1.1: an acknowledgement outside of the outstanding PSNs is a ghost or a duplicate. A
  // duplicate of the newest one may carry new credits. While a response is awaited, any duplicate
  // means that the peer delays the response because of its rate limit.
  if (!is_expected || queue_.empty()) {
    const bool repeats = acknowledges(h) && h.psn.is_before(unacked_);
    const bool awaits = queue_.empty() ? timer_.rests() && withdrawn_.awaits_response
                                       : awaits_response(queue_.front().kind);
    if (repeats && h.psn == unacked_ - 1)
      credits_.update(h);
    else if (!repeats || !awaits)
      return up.events.count(Count::kGhostAck);
    return awaits ? hear_peer(h) : void();
  }
  if (info.mask.has_any(wire::kRead | wire::kAtomic))
    receive_response(up, {h, payload, info.mask}, now);
  else
    receive_acknowledge(up, h, now);
  if (format_.attributes.selective_repeat &&
      (repeat_.has_early() || repeat_.was_told_of_gap() || acknowledged_.is_after(unacked_)))
    catch_up(up, now);
}

/// Records that the peer is alive. While the requests are withdrawn, an acknowledgement is recorded
/// for their restart. The peer repeats everything else when they are sent again.
void Requester::hear_peer(const wire::Headers& h) {
  if (acknowledges(h) && h.psn.is_after(acknowledged_ - 1)) {
    acknowledged_ = h.psn + 1;
    credits_.update(h);
  }
  exhausted_ = false;
  silence_.end();
  retries_left_ = format_.attributes.retry_count;
  if (timer_.rests()) timer_.stop();
}

void Requester::receive_acknowledge(const RequesterUpcalls& up, const wire::Headers& h, Time now) {
  bool discarded = false;
  switch (h.syndrome & kSyndromeClass) {
    case wire::kSyndromeAck:
      up.events.count(Count::kAcksReceived);
      discarded = repeat_.learn(up.events, h.psn + 1);
      if (!acknowledge_before(up, h.psn + 1, now)) return miss_response(up, now);
      credits_.update(h);
      if (discarded && !queue_.empty()) miss_request(up, true, now);
      return;
    case wire::kSyndromeRnr:
      return receive_rnr(up, h, now);
    case wire::kSyndromeSequence& kSyndromeClass:
      return receive_nak(up, h, now);
    default:
      return up.events.count(Count::kGhostAck);
  }
}

/// Acknowledges everything before `end`, or all requests if `end` lies behind them, in withdrawn
/// ones. Returns false if the response to a read or atomic before `end` is missing. The requests
/// before that one are acknowledged; those behind it follow when the response has arrived.
bool Requester::acknowledge_before(const RequesterUpcalls& up, Psn end, Time now) {
  while (unacked_ != end && !queue_.empty()) {
    const Slot& slot = queue_[queue_.oldest()];
    if (awaits_response(slot.request.kind)) {
      if (end.is_after(acknowledged_) && format_.attributes.selective_repeat) acknowledged_ = end;
      return false;
    }
    const std::uint32_t covered = (end - unacked_.value()).value();
    const std::uint32_t left = slot.packets - slot.index_of(unacked_);
    advance(up, covered < left ? covered : left, end, now);
  }
  return true;
}

void Requester::receive_response(const RequesterUpcalls& up, const ResponsePacket& p, Time now) {
  repeat_.learn_from_response(up.events, p.h.psn);
  if (!acknowledge_before(up, p.h.psn, now)) {
    repeat_.take_early(format_, up.memory, queue_, unacked_, p);
    return miss_response(up, now);
  }
  if (queue_.empty()) return up.events.count(Count::kGhostAck);
  const Slot& slot = queue_[queue_.oldest()];
  if (!is_response_to(format_, slot, p, repeat_.last_part_end()))
    return fail(up, Verdict::kBadResponse);
  const Verdict stored = store_response(format_, up.memory, slot, p);
  if (stored == Verdict::kBusy) return;
  if (stored != Verdict::kOk) return fail(up, stored);
  if (p.mask.has_all(wire::kAeth)) credits_.update(p.h);
  advance(up, 1, unacked_ + 1, now);
}

/// Records that `packets` more of the oldest request are acknowledged, and with them everything
/// before `end`.
void Requester::advance(const RequesterUpcalls& up, std::uint32_t packets, Psn end, Time now) {
  const Slot& slot = queue_[queue_.oldest()];
  const std::uint32_t done = slot.index_of(unacked_) + packets;
  const bool done_all = done == slot.packets;
  const bool sent = !next_psn_.is_before(unacked_ + packets);
  // After the cursor went back, a read that is answered before it was sent again is not counted.
  if (awaits_response(slot.request.kind) && sent && done == read_part_end(slot.packets, done - 1))
    --reads_in_flight_;
  unacked_ = unacked_ + packets;
  sent_.acknowledged(unacked_);
  if (!acknowledged_.is_after(unacked_)) acknowledged_ = unacked_;
  const PcbId pcb = slot.request.pcb;
  if (done_all) queue_.pop();
  if (!sent) {
    next_psn_ = unacked_;
    next_ = queue_.oldest();
  }
  repeat_.acknowledged(packets, unacked_, queue_.oldest());
  flight_.grow(packets, unacked_, format_.attributes.flight);
  // One acknowledgement may complete many requests. The last of them restarts retries and timer.
  if (unacked_ == end || queue_.empty() || awaits_response(queue_.front().kind)) {
    round_trip_.acknowledged(unacked_, now);
    response_missed_ = false;
    silence_.end();
    retries_left_ = format_.attributes.retry_count;
    rnr_retries_left_ = format_.attributes.rnr_retry;
    timer_.stop();
    if (unacked_ != sent_.end && !queue_.empty()) {
      timer_.start(now, round_trip_.rto());
      // An answer was requested and has not arrived.
      if (format_.attributes.selective_repeat && (next_psn_ - unasked_).is_after(unacked_))
        timer_.await_probe(now, repeat_.patience(round_trip_));
    }
  }
  if (done_all) up.commands.complete_request(pcb, Verdict::kOk);
}

}  // namespace softhca::transport
