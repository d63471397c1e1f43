// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/transport/reliable/requester.hpp"

#include <algorithm>
#include <bit>
#include <cassert>

#include "daemon/roce/transport/codes.hpp"

namespace softhca::transport {

void Requester::configure(const RcAttributes& attributes) {
  assert(std::has_single_bit(attributes.mtu));
  // A program that changes other attributes does not give a silent peer more time.
  const RcAttributes& before = format_.attributes;
  if (attributes.retry_count != before.retry_count) retries_left_ = attributes.retry_count;
  if (attributes.rnr_retry != before.rnr_retry) rnr_retries_left_ = attributes.rnr_retry;
  format_.attributes = attributes;
  RcAttributes& ours = format_.attributes;
  ours.psn_window = std::max<std::uint16_t>(attributes.psn_window, 1);
  ours.ack_interval = std::max<std::uint16_t>(attributes.ack_interval, 1);
  // Without a timer, the loss of a retransmitted packet would go unnoticed.
  if (attributes.timeout == 0) ours.selective_repeat = false;
  flight_.set_limit(ours.psn_window);
  timer_.configure(ack_timeout(attributes.timeout));
}

void Requester::reset(const SentPosition& position, bool resumes) {
  queue_.clear();
  next_ = SendQueue::kEnd;
  next_psn_ = unacked_ = acknowledged_ = position.unacked;
  sent_.end = position.end;
  sent_.former_end = unacked_;
  sent_.resumes = resumes;
  queued_end_ = position.psn;
  queued_sequence_ = position.sequence;
  reads_in_flight_ = unasked_ = 0;
  repeat_.reset(unacked_, sent_.end);
  response_missed_ = failed_ = exhausted_ = withdrawn_.any = false;
  silence_.end();
  credits_.reset();
  retries_left_ = format_.attributes.retry_count;
  rnr_retries_left_ = format_.attributes.rnr_retry;
  flight_.reset(format_.attributes.psn_window, format_.attributes.flight);
  round_trip_.reset();
  timer_.reset();
  pause_.end();
}

void Requester::start(const Request& request) {
  assert(request.length <= kMaxMessageBytes);
  const bool alone = queue_.empty();
  withdrawn_.any = false;
  Slot& slot = queue_.push(request);
  if (next_ == SendQueue::kEnd) next_ = request.pcb;
  slot.first = queued_end_;
  slot.packets = is_atomic(request.kind) ? 1 : packets_of(request.length, format_.mtu_shift());
  slot.sequence = queued_sequence_;
  // After withdraw(): not the same request, since the peer has taken more packets than it has.
  if (alone && slot.index_of(unacked_) >= slot.packets) slot.first = unacked_;
  if (sent_.resumes && !request.begun) {
    sent_.resumes = false;
    sent_.former_end = slot.first;
    if (acknowledged_.is_after(slot.first)) acknowledged_ = slot.first;
  }
  queued_end_ = slot.first + slot.packets;
  const bool is_read = request.kind == RequestKind::kRead;
  queued_sequence_ = queued_sequence_ + (is_read ? read_parts(slot.packets) : 1);
}

void Requester::flush(const RequesterUpcalls& up) {
  failed_ = true;
  while (!queue_.empty()) up.commands.complete_request(queue_.pop(), Verdict::kFlushed);
}

}  // namespace softhca::transport
