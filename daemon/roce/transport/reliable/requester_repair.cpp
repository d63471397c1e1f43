// SPDX-License-Identifier: Apache-2.0

// Requester: retransmission without going back (selective_repeat.hpp).
#include "daemon/roce/transport/reliable/requester.hpp"

namespace softhca::transport {

/// Returns false if it could continue right away.
bool Requester::send_again(const RequesterUpcalls& up, Time now, unsigned& packet_budget) {
  const SendResult result = repeat_.send(format_, up, queue_, packet_budget);
  moved_ = true;
  if (result == SendResult::kNoBuffer) return false;
  if (result == SendResult::kNoAccess) go_back();  // fails when all before it are complete
  timer_.restart_probe(now, repeat_.patience(round_trip_));
  pause_.after_packet(now, flight_, round_trip_);
  return true;
}

/// Handles a missing packet at `unacked_`, as the peer reports. If `discarded`, the peer has none
/// of the packets behind the retransmitted ones.
void Requester::miss_request(const RequesterUpcalls& up, bool discarded, Time now) {
  if (in_flight() == 0) return;  // counted already
  const Repair& repair = repeat_.repair();
  // A read is answered by responses, which do not show that a packet was not buffered.
  const bool is_doubtful = repair.peer() == Repair::Peer::kUnknown &&
                           (discarded || awaits_response(queue_.front().kind));
  if (!format_.attributes.selective_repeat || repair.peer() == Repair::Peer::kDiscards ||
      is_doubtful)
    return retry_as_told(up, now);
  if (repair.has_begun(unacked_) || !may_retry_as_told(up)) return;
  round_trip_.distrust();
  repeat_.send_missing(queue_, unacked_, next_psn_);
  flight_.lose(repair.length(), sent_.end, round_trip_, format_.attributes.flight);
  timer_.goes_on(now, round_trip_.rto());
}

/// Handles proof that a response to a read or atomic was lost: an implied NAK. Retries once until
/// there is progress, because the rest of the old responses is still on the way (9.7.6.1.1).
void Requester::miss_response(const RequesterUpcalls& up, Time now) {
  if (response_missed_) return;
  up.events.count_at(Count::kImpliedNak, unacked_);
  response_missed_ = true;
  if (!format_.attributes.selective_repeat) return retry_as_told(up, now);
  if (!may_retry_as_told(up)) return;
  round_trip_.distrust();
  repeat_.ask_for_missing(queue_, unacked_);
  flight_.lose(1, sent_.end, round_trip_, format_.attributes.flight);
  timer_.goes_on(now, round_trip_.rto());
}

/// After progress: applies the stored responses and the acknowledgements received before them.
/// Requests the next missing packet, if any.
void Requester::catch_up(const RequesterUpcalls& up, Time now) {
  const auto oldest_awaits_response = [&] { return awaits_response(queue_.front().kind); };
  while (!failed_ && !queue_.empty()) {
    if (repeat_.has_early(unacked_))
      advance(up, 1, unacked_ + 1, now);
    else if (acknowledged_.is_after(unacked_) && !oldest_awaits_response())
      acknowledge_before(up, acknowledged_, now);
    else
      break;
  }
  if (failed_ || queue_.empty() || unacked_.is_before(repeat_.parts_end())) return;
  if (repeat_.has_early() || acknowledged_.is_after(unacked_)) return miss_response(up, now);
  if (repeat_.is_gap(unacked_)) miss_request(up, false, now);
}

/// Sends a probe: no answer for two round trips, although one was requested. The last packet, the
/// answer or the retransmission may be lost.
void Requester::probe(const RequesterUpcalls& up, Time now) {
  if (queue_.empty() || in_flight() == 0) return;
  if (pause_.runs())
    return timer_.await_probe(now, pause_.until() - now + repeat_.patience(round_trip_));
  up.events.count_at(Count::kProbes, unacked_);
  round_trip_.distrust();
  response_missed_ = false;
  repeat_.probe(queue_, unacked_, next_psn_);
  timer_.restart_probe(now, repeat_.patience(round_trip_));
}

}  // namespace softhca::transport
