// SPDX-License-Identifier: Apache-2.0

// Requester: reactions to loss and refusal (InfiniBand specification, volume 1, 9.7.6, 9.9.2).
#include <cassert>

#include "daemon/roce/transport/codes.hpp"
#include "daemon/roce/transport/reliable/requester.hpp"

namespace softhca::transport {

/// Handles a NAK. A NAK of PSN n acknowledges everything before n (9.7.5.2.2).
void Requester::receive_nak(const RequesterUpcalls& up, const wire::Headers& h, Time now) {
  const bool is_gap = h.syndrome == wire::kSyndromeSequence;
  const bool discarded = is_gap && repeat_.learn(up.events, h.psn);
  if (!acknowledge_before(up, h.psn, now)) {
    if (is_gap) repeat_.note_gap(h.psn);
    return miss_response(up, now);
  }
  if (queue_.empty()) return up.events.count(Count::kGhostAck);
  switch (h.syndrome) {
    case wire::kSyndromeSequence:
      up.events.count(Count::kSequenceNakReceived);
      return miss_request(up, discarded, now);
    case wire::kSyndromeInvalidRequest:
      up.events.count(Count::kInvalidNakReceived);
      break;
    case wire::kSyndromeRemoteAccess:
      up.events.count(Count::kAccessNakReceived);
      break;
    case wire::kSyndromeRemoteOperation:
      up.events.count(Count::kOperationNakReceived);
      break;
    default:
      break;
  }
  fail(up, nak_verdict(h.syndrome));
}

void Requester::receive_rnr(const RequesterUpcalls& up, const wire::Headers& h, Time now) {
  if (!acknowledge_before(up, h.psn, now)) return miss_response(up, now);
  if (queue_.empty()) return up.events.count(Count::kGhostAck);
  const Duration wait = rnr_delay(h.syndrome);
  up.events.count_at(Count::kRnrNakReceived, h.psn, in_microseconds(wait));
  if (timer_.is_held()) return;
  if (format_.attributes.rnr_retry != kRnrRetryForEver) {
    if (rnr_retries_left_ == 0) return fail(up, Verdict::kRnrRetryExceeded);
    --rnr_retries_left_;
  }
  retries_left_ = format_.attributes.retry_count;  // the retries are for a silent peer
  go_back();
  timer_.hold_until(now + wait);
}

/// Sent packets may still be acknowledged, if a retry has overtaken the refusal: `sent_.end` stays.
void Requester::begin_withdrawal() {
  assert(is_held());
  repeat_.forget_responses();
  if (queue_.empty()) return;
  go_back();
  const Slot& oldest = queue_[queue_.oldest()];
  queued_end_ = oldest.first;
  queued_sequence_ = oldest.sequence;
  withdrawn_.awaits_response = awaits_response(oldest.request.kind);
}

/// Handles an expired timer. Timeouts use up the retries (9.7.6.1.3, 9.9.2.4.1). Progress restores
/// them, and so does an RNR NAK: while a receive is missing for long, a few lost answers do not
/// mean that the peer is gone. An early retry doubles the wait for the next one, because the
/// silence was longer than any before; the timeout of the queue pair continues.
void Requester::expire(const RequesterUpcalls& up, Time now) {
  if (now < deadline() || now < timer_.deadline()) return;
  if (!is_held() && pause_.runs() && in_flight() == 0) return;
  const bool was_refused = timer_.is_held() && !timer_.rests();
  timer_.release();
  if (was_refused) return;
  if (timer_.take_probe(now)) return probe(up, now);
  response_missed_ = false;
  if (timer_.is_early(now)) {
    up.events.count_at(Count::kEarlyRetries, unacked_);
    round_trip_.is_known() ? flight_.time_out(sent_.end) : flight_.begin_again();
    go_back();
    round_trip_.back_off();
    timer_.await_again(now, round_trip_.rto());
    silence_.early_retry();
  } else {
    up.events.count_at(Count::kAckTimeouts, unacked_, retries_left_);
    silence_.timeout();
    if (retries_left_ == 0) {
      exhausted_ = queue_.empty();
      if (!exhausted_) fail(up, Verdict::kRetryExceeded);
    } else {
      --retries_left_;
      flight_.time_out(sent_.end);
      go_back();
      timer_.start(now, round_trip_.rto());
    }
  }
  if (queue_.empty()) timer_.wait_for_next();
}

/// Goes back because the peer reports a missing packet.
void Requester::retry_as_told(const RequesterUpcalls& up, Time now) {
  if (!may_retry_as_told(up)) return;
  flight_.lose_rest(sent_.end, round_trip_, format_.attributes.flight);
  go_back();
  timer_.goes_on(now, round_trip_.rto());
}

/// True if another retransmission at the peer's request is allowed. Such a peer is alive, and a
/// full queue may drop the same packet many times. So the retry is not counted while the timeout
/// runs, which bounds it. The timeout does not run in a pause.
bool Requester::may_retry_as_told(const RequesterUpcalls& up) {
  if (timer_.has_timeout() && !pause_.runs()) return true;
  if (retries_left_ == 0) {
    fail(up, Verdict::kRetryExceeded);
    return false;
  }
  --retries_left_;
  return true;
}

void Requester::go_back() {
  round_trip_.distrust();
  repeat_.go_back();
  next_ = queue_.oldest();
  next_psn_ = unacked_;
  reads_in_flight_ = unasked_ = 0;
}

/// Completes the oldest request with an error and the queue pair enters the error state; the engine
/// flushes the rest.
void Requester::fail(const RequesterUpcalls& up, Verdict verdict) {
  failed_ = true;
  up.commands.complete_request(queue_.pop(), verdict);
  up.events.enter_error(std::nullopt);
}

}  // namespace softhca::transport
