#include "daemon/transport/responder.hpp"

#include <bit>
#include <cassert>

#include "daemon/transport/codes.hpp"

namespace softhca::transport {

void Responder::configure(const RcAttributes& attributes) {
  assert(std::has_single_bit(attributes.mtu));
  if (!resources_ || attributes.max_dest_rd_atomic != resource_count_) {
    resource_count_ = attributes.max_dest_rd_atomic;
    resources_ = std::make_unique<Resource[]>(resource_count_);
    oldest_resource_ = due_ = 0;
  }
  attributes_ = attributes;
  mtu_shift_ = static_cast<std::uint32_t>(std::countr_zero(attributes.mtu));
}

std::size_t Responder::memory_for(std::uint8_t max_dest_rd_atomic) {
  return max_dest_rd_atomic * sizeof(Resource);
}

void Responder::release() {
  forget_debts();
  resources_.reset();
  resource_count_ = oldest_resource_ = 0;
}

void Responder::reset(Psn rq_psn) {
  expected_ = rq_psn;
  sequence_ = Psn();
  message_ = Message::kNone;
  drawn_ = ack_due_ = failed_ = established_ = false;
  nak_ = 0;
  due_ = oldest_resource_ = 0;
  refusal_ = Refusal::kNone;
  for (std::uint32_t i = 0; i < resource_count_; ++i) resources_[i] = Resource();
}

void Responder::flush(Environment& env) {
  end_receive(env, Verdict::kFlushed);
  forget_debts();
  failed_ = true;
}

void Responder::forget_debts() {
  for (std::uint32_t i = 0; i < resource_count_; ++i) resources_[i].due = false;
  due_ = 0;
  ack_due_ = false;
  nak_ = 0;
}

bool Responder::draw(Environment& env) {
  assert(!drawn_);
  const std::optional<ReceiveTicket> ticket = env.draw_receive();
  if (!ticket) return false;
  ticket_ = *ticket;
  drawn_ = true;
  return true;
}

void Responder::end_receive(Environment& env, Verdict verdict) {
  if (!drawn_) return;
  drawn_ = false;
  ReceiveCompletion c;
  c.verdict = verdict;
  c.cookie = ticket_.cookie;
  env.complete_receive(c);
}

/// The packet at `expected_` cannot be executed.
void Responder::refuse(Environment& env, Verdict verdict) {
  nak_psn_ = expected_;
  if (verdict == Verdict::kReceiverNotReady) {
    refusal_ = Refusal::kNotReady;
    nak_ = wire::kSyndromeRnr | (attributes_.min_rnr_timer & 0x1f);
    return;
  }
  refusal_ = Refusal::kFatal;
  nak_ = nak_syndrome(verdict);
  message_ = Message::kNone;
  end_receive(env, verdict);
}

/// The place of the oldest remembered read or atomic, for a new one; none when that one has not
/// been answered yet, so that the peer has more in flight than was agreed (9.7.5.1.4).
Responder::Resource* Responder::take_resource() {
  if (resource_count_ == 0) return nullptr;
  Resource& r = resources_[oldest_resource_];
  if (r.due && !r.replay) return nullptr;
  settle(r);
  oldest_resource_ = oldest_resource_ + 1 == resource_count_ ? 0 : oldest_resource_ + 1;
  r = Resource();
  return &r;
}

void Responder::owe(Resource& r, std::uint32_t from, std::uint32_t end) {
  if (!r.due) ++due_;
  r.due = true;
  r.start = r.next = from;
  r.end = end;
}

void Responder::settle(Resource& r) {
  if (!r.due) return;
  r.due = false;
  --due_;
}

}  // namespace softhca::transport
