// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/transport/reliable/responder.hpp"

#include <bit>
#include <cassert>

#include "daemon/roce/transport/codes.hpp"

namespace softhca::transport {

void Responder::configure(const RcAttributes& attributes, const ResponderStores& stores) {
  assert(std::has_single_bit(attributes.mtu));
  if (!replays_.is_open(attributes.max_dest_rd_atomic))
    replays_.open(stores.replays, attributes.max_dest_rd_atomic);
  if (stores.kept != nullptr && !kept_.is_open()) kept_.open(*stores.kept, *stores.account);
  attributes_ = attributes;
  mtu_shift_ = static_cast<std::uint32_t>(std::countr_zero(attributes.mtu));
}

std::size_t Responder::memory_for(std::uint8_t max_dest_rd_atomic) {
  return max_dest_rd_atomic * sizeof(Replay);
}

void Responder::release() {
  owe_nothing();
  replays_.close();
  kept_.close();
}

void Responder::reset(Psn rq_psn) {
  expected_ = rq_psn;
  sequence_ = Psn();
  message_.reset();
  kept_.clear();
  ack_due_ = failed_ = established_ = asked_again_ = resumes_ = false;
  nak_ = 0;
  refusal_ = Refusal::kNone;
  replays_.clear();
}

void Responder::resume(Psn expected, Psn sequence) {
  reset(expected);
  sequence_ = sequence;
}

TakenPosition Responder::position() const {
  TakenPosition out{.expected = expected_,
                    .sequence = sequence_,
                    .established = established_,
                    .refused = refusal_ == Refusal::kFatal ? nak_ : std::uint8_t{0},
                    .message = message_.part()};
  out.message.xrc_srq = xrc_srq_;
  return out;
}

void Responder::resume(const TakenPosition& position, const ReplayPlaces& places,
                       const ResponderUpcalls& up) {
  resume(position.expected, position.sequence);
  established_ = position.established;
  xrc_srq_ = position.message.xrc_srq;
  replays_.resume(places, expected_);
  if (position.refused != 0) {
    nak_psn_ = expected_;
    nak_ = position.refused;
    refusal_ = Refusal::kFatal;
    return;
  }
  message_.resume(position.message, up.receives);
  // An atomic that an earlier engine has begun.
  if (!replays_.empty() && replays_.youngest().first == expected_) {
    Replay& r = replays_.youngest();
    WasRun run = WasRun::kYes;
    if (r.state == AtomicState::kIntent) {
      if (attributes_.xrc) up.memory.choose_receive_queue(r.xrc_srq);
      run = up.memory.recall_atomic(r.rkey, r.addr, r.empty, r.step);
    }
    if (run == WasRun::kYes) {
      r.state = AtomicState::kDone;
      ++expected_;
      ++sequence_;
      replays_.owe(r, 0, 1);
      up.events.executed();
    } else {
      replays_.drop_youngest();
      if (run == WasRun::kUnknown) up.events.enter_error(AsyncEvent::kQpFatal);
    }
  }
  // A read or atomic is answered by its response, and the peer asks for that again.
  const bool is_answered =
      !replays_.empty() && replays_.youngest().first + replays_.youngest().packets == expected_;
  ack_due_ = established_ && !is_answered;
}

void Responder::flush(const ResponderUpcalls& up) {
  message_.fail_receive(up.receives, Verdict::kFlushed);
  kept_.clear();
  owe_nothing();
  resumes_ = false;
  failed_ = true;
}

void Responder::owe_nothing() {
  replays_.settle_all();
  ack_due_ = asked_again_ = false;
  nak_ = 0;
}

/// Records that the packet at `expected_` is missing.
void Responder::miss(Psn shown_by) {
  refusal_ = Refusal::kSequence;
  gap_seen_ = shown_by;
  nak_ = wire::kSyndromeSequence;
  nak_psn_ = expected_;
}

/// Refuses the packet at `expected_`, which cannot be executed. A receive that was drawn fails with
/// `of_receive`; the NAK that is owed is recorded with it.
void Responder::refuse(const ResponderUpcalls& up, Verdict verdict, Verdict of_receive) {
  if (verdict == Verdict::kReceiverNotReady)
    return refuse_for_now(Refusal::kNotReady, attributes_.min_rnr_timer);
  kept_.clear();
  nak_psn_ = expected_;
  refusal_ = Refusal::kFatal;
  nak_ = nak_syndrome(verdict);
  message_.end();
  message_.fail_receive(up.receives, of_receive);
  up.events.executed();
}

/// Refuses the packet at `expected_`, which cannot be executed yet.
void Responder::refuse_for_now(Refusal why, std::uint8_t rnr_timer) {
  kept_.clear();
  nak_psn_ = expected_;
  refusal_ = why;
  nak_ = wire::kSyndromeRnr | (rnr_timer & 0x1f);
}

}  // namespace softhca::transport
