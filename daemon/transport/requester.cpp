#include "daemon/transport/requester.hpp"

#include <algorithm>
#include <bit>
#include <cassert>

#include "daemon/transport/codes.hpp"
#include "daemon/transport/read_or_atomic.hpp"
#include "daemon/transport/segment.hpp"

namespace softhca::transport {

void Requester::configure(const RcAttributes& attributes) {
  assert(std::has_single_bit(attributes.mtu));
  attributes_ = attributes;
  attributes_.psn_window = std::max<std::uint16_t>(attributes.psn_window, 1);
  attributes_.ack_interval = std::max<std::uint16_t>(attributes.ack_interval, 1);
  flight_.set_limit(attributes_.psn_window);
  mtu_shift_ = static_cast<std::uint32_t>(std::countr_zero(attributes.mtu));
  timer_.configure(ack_timeout(attributes.timeout));
  retries_left_ = attributes.retry_count;
  rnr_retries_left_ = attributes.rnr_retry;
}

void Requester::reset(Psn sq_psn) {
  queue_.clear();
  next_ = SendQueue::kEnd;
  next_psn_ = unacked_ = sent_end_ = queued_end_ = acknowledged_ = sq_psn;
  queued_sequence_ = Psn(1);
  reads_in_flight_ = unasked_ = 0;
  response_missed_ = failed_ = exhausted_ = false;
  silence_.end();
  credits_.reset();
  retries_left_ = attributes_.retry_count;
  rnr_retries_left_ = attributes_.rnr_retry;
  flight_.reset(attributes_.psn_window);
  round_trip_.reset();
  timer_.reset();
}

void Requester::resume(Psn next, Psn sequence) {
  reset(next);
  queued_sequence_ = sequence;
}

void Requester::start(const Request& request) {
  assert(request.length <= kMaxMessageBytes);
  const bool alone = queue_.empty();
  Slot& slot = queue_.push(request);
  if (next_ == SendQueue::kEnd) next_ = request.pcb;
  slot.first = queued_end_;
  slot.packets = is_atomic(request.kind) ? 1 : packets_of(request.length, mtu_shift_);
  slot.sequence = queued_sequence_;
  // After withdraw(), not the one that it was: the peer has taken more packets than it has.
  if (alone && slot.index_of(unacked_) >= slot.packets) slot.first = unacked_;
  queued_end_ = slot.first + slot.packets;
  const bool is_read = request.kind == RequestKind::kRead;
  queued_sequence_ = queued_sequence_ + (is_read ? read_parts(slot.packets) : 1);
}

void Requester::flush(const RequesterUpcalls& up) {
  failed_ = true;
  while (!queue_.empty()) up.commands.complete_request(queue_.pop(), Verdict::kFlushed);
}

}  // namespace softhca::transport
