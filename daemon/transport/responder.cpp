#include "daemon/transport/responder.hpp"

#include <bit>
#include <cassert>

#include "daemon/transport/codes.hpp"

namespace softhca::transport {

void Responder::configure(const RcAttributes& attributes, ReplayStore& store) {
  assert(std::has_single_bit(attributes.mtu));
  if (!replays_.is_open(attributes.max_dest_rd_atomic))
    replays_.open(store, attributes.max_dest_rd_atomic);
  attributes_ = attributes;
  mtu_shift_ = static_cast<std::uint32_t>(std::countr_zero(attributes.mtu));
}

std::size_t Responder::memory_for(std::uint8_t max_dest_rd_atomic) {
  return max_dest_rd_atomic * sizeof(Replay);
}

void Responder::release() {
  owe_nothing();
  replays_.close();
}

void Responder::reset(Psn rq_psn) {
  expected_ = rq_psn;
  sequence_ = Psn();
  message_.reset();
  ack_due_ = failed_ = established_ = false;
  nak_ = 0;
  refusal_ = Refusal::kNone;
  replays_.clear();
}

void Responder::resume(Psn expected, Psn sequence) {
  reset(expected);
  sequence_ = sequence;
}

void Responder::flush(const ResponderUpcalls& up) {
  message_.fail_receive(up.receives, Verdict::kFlushed);
  owe_nothing();
  failed_ = true;
}

void Responder::owe_nothing() {
  replays_.settle_all();
  ack_due_ = false;
  nak_ = 0;
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
  message_.end();
  message_.fail_receive(up.receives, verdict);
}

}  // namespace softhca::transport
