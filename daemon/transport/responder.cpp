#include "daemon/transport/responder.hpp"

#include <bit>
#include <cassert>

#include "daemon/transport/codes.hpp"

namespace softhca::transport {

void Responder::configure(const RcAttributes& attributes, ReplayStore& store) {
  assert(std::has_single_bit(attributes.mtu));
  if (!replays_.is_open(attributes.max_dest_rd_atomic)) {
    replays_.open(store, attributes.max_dest_rd_atomic);
    due_ = 0;
    oldest_due_ = kNoIndex;
  }
  attributes_ = attributes;
  mtu_shift_ = static_cast<std::uint32_t>(std::countr_zero(attributes.mtu));
}

std::size_t Responder::memory_for(std::uint8_t max_dest_rd_atomic) {
  return max_dest_rd_atomic * sizeof(Replay);
}

void Responder::release() {
  forget_debts();
  replays_.close();
}

void Responder::reset(Psn rq_psn) {
  expected_ = rq_psn;
  sequence_ = Psn();
  message_ = Message::kNone;
  drawn_ = ack_due_ = failed_ = established_ = false;
  nak_ = 0;
  due_ = 0;
  oldest_due_ = kNoIndex;
  refusal_ = Refusal::kNone;
  replays_.clear();
}

void Responder::resume(Psn expected, Psn sequence) {
  reset(expected);
  sequence_ = sequence;
}

void Responder::flush(const ResponderUpcalls& up) {
  end_receive(up, Verdict::kFlushed);
  forget_debts();
  failed_ = true;
}

void Responder::forget_debts() {
  for (std::uint32_t i = replays_.oldest(); i != kNoIndex; i = replays_[i].younger)
    replays_[i].due = false;
  due_ = 0;
  oldest_due_ = kNoIndex;
  ack_due_ = false;
  nak_ = 0;
}

bool Responder::draw(const ResponderUpcalls& up) {
  assert(!drawn_);
  const std::optional<std::uint64_t> capacity = up.receives.draw_receive();
  if (!capacity) return false;
  capacity_ = *capacity;
  drawn_ = true;
  return true;
}

void Responder::end_receive(const ResponderUpcalls& up, Verdict verdict) {
  if (!drawn_) return;
  drawn_ = false;
  ReceiveCompletion c;
  c.verdict = verdict;
  up.receives.complete_receive(c);
}

/// The packet at `expected_` cannot be executed.
void Responder::refuse(const ResponderUpcalls& up, Verdict verdict) {
  nak_psn_ = expected_;
  if (verdict == Verdict::kReceiverNotReady) {
    refusal_ = Refusal::kNotReady;
    nak_ = wire::kSyndromeRnr | (attributes_.min_rnr_timer & 0x1f);
    return;
  }
  refusal_ = Refusal::kFatal;
  nak_ = nak_syndrome(verdict);
  message_ = Message::kNone;
  end_receive(up, verdict);
}

/// A place for a new read or atomic, at the cost of the oldest one if there is no other; none when
/// that one has not been answered yet, so that the peer has more in flight than was agreed
/// (9.7.5.1.4).
Replay* Responder::remember() {
  if (replays_.limit() == 0) return nullptr;
  if (replays_.full()) {
    Replay& oldest = replays_[replays_.oldest()];
    if (oldest.due && !oldest.replay) return nullptr;
    settle(oldest);
    replays_.pop();
  }
  return &replays_.push();
}

void Responder::owe(Replay& r, std::uint32_t from, std::uint32_t end) {
  if (r.replay)
    oldest_due_ = kNoIndex;
  else if (due_ == 0)
    oldest_due_ = replays_.youngest();
  if (!r.due) ++due_;
  r.due = true;
  r.start = r.next = from;
  r.end = end;
}

/// REQUIRES: none older is due.
void Responder::settle(Replay& r) {
  if (!r.due) return;
  r.due = false;
  oldest_due_ = kNoIndex;
  if (--due_ == 0) return;
  oldest_due_ = r.younger;
  while (!replays_[oldest_due_].due) oldest_due_ = replays_[oldest_due_].younger;
}

}  // namespace softhca::transport
