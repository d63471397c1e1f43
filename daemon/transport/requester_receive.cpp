// Requester: acknowledgements and responses (InfiniBand specification, volume 1, 9.7.5, 9.7.6).
#include <cstring>

#include "daemon/transport/codes.hpp"
#include "daemon/transport/read_or_atomic.hpp"
#include "daemon/transport/requester.hpp"
#include "daemon/transport/segment.hpp"
#include "daemon/wire/opcode.hpp"

namespace softhca::transport {
namespace {

constexpr std::uint8_t kSyndromeClass = 0xe0;

bool is_ack(std::uint8_t syndrome) { return (syndrome & kSyndromeClass) == wire::kSyndromeAck; }

}  // namespace

void Requester::receive(const RequesterUpcalls& up, const wire::Headers& h,
                        std::span<const std::byte> payload, Time now) {
  if (failed_) return up.events.count(Count::kBadState);
  const wire::OpcodeInfo& info = wire::opcode_info(h.opcode);
  if (info.transport != attributes_.transport() || !info.mask.has_all(wire::kResponse))
    return up.events.count(Count::kBadOpcode);
  const bool is_expected = !h.psn.is_before(unacked_) && h.psn.is_before(sent_end_);
  if (is_expected && queue_.empty() && timer_.rests()) return hear_while_resting(h);
  // 9.7.5.1.1: an acknowledgement outside of what is outstanding is a ghost or a duplicate. A
  // repetition of the newest one may carry fresh credits.
  if (!is_expected || queue_.empty()) {
    const bool newest =
        wire::does(h.opcode, wire::Opcode::kRcAck) && is_ack(h.syndrome) && h.psn == unacked_ - 1;
    return newest ? credits_.update(h) : up.events.count(Count::kGhostAck);
  }
  if (info.mask.has_all(wire::kRead)) return receive_read_response(up, h, payload, info.mask, now);
  if (info.mask.has_all(wire::kAtomic)) return receive_atomic_response(up, h, now);
  receive_acknowledge(up, h, now);
}

/// The peer is there. Its acknowledgement holds when the requests start again; all else it says
/// when they have been sent again.
void Requester::hear_while_resting(const wire::Headers& h) {
  if (wire::does(h.opcode, wire::Opcode::kRcAck) && is_ack(h.syndrome)) {
    acknowledged_ = h.psn + 1;
    credits_.update(h);
  }
  exhausted_ = false;
  silence_.end();
  retries_left_ = attributes_.retry_count;
  timer_.stop();
}

void Requester::receive_acknowledge(const RequesterUpcalls& up, const wire::Headers& h, Time now) {
  switch (h.syndrome & kSyndromeClass) {
    case wire::kSyndromeAck:
      up.events.count(Count::kAcksReceived);
      if (!acknowledge_before(up, h.psn + 1, now)) return miss_response(up, now);
      return credits_.update(h);
    case wire::kSyndromeRnr:
      return receive_rnr(up, h, now);
    case wire::kSyndromeSequence& kSyndromeClass:
      return receive_nak(up, h, now);
    default:
      return up.events.count(Count::kGhostAck);
  }
}

/// Everything before `end` is acknowledged, or all there is where `end` lies behind that, in
/// requests that were withdrawn. False when the response to a read or atomic is missing before
/// that; what precedes it is acknowledged nevertheless.
bool Requester::acknowledge_before(const RequesterUpcalls& up, Psn end, Time now) {
  while (unacked_ != end && !queue_.empty()) {
    const Slot& slot = queue_[queue_.oldest()];
    if (awaits_response(slot.request.kind)) return false;
    const std::uint32_t covered = (end - unacked_.value()).value();
    const std::uint32_t left = slot.packets - slot.index_of(unacked_);
    advance(up, covered < left ? covered : left, now);
  }
  return true;
}

void Requester::receive_read_response(const RequesterUpcalls& up, const wire::Headers& h,
                                      std::span<const std::byte> payload, wire::OpcodeMask mask,
                                      Time now) {
  if (!acknowledge_before(up, h.psn, now)) return miss_response(up, now);
  if (queue_.empty()) return up.events.count(Count::kGhostAck);
  const Slot& slot = queue_[queue_.oldest()];
  const RequestKind kind = slot.request.kind;
  if (kind != RequestKind::kRead && kind != RequestKind::kAtomicWrite)
    return fail(up, Verdict::kBadResponse);
  const std::uint32_t length = stores_response(kind) ? slot.request.length : 0;
  const std::uint32_t index = slot.index_of(h.psn);
  // First and middle are not told apart: after a retry both an old and a new run of responses may
  // be under way, and only one of them starts here.
  const bool last = index + 1 == read_part_end(slot.packets, index);
  if (mask.has_all(wire::kEnd) != last || payload.size() != bytes_of(length, index, mtu_shift_) ||
      (mask.has_all(wire::kAeth) && !is_ack(h.syndrome)))
    return fail(up, Verdict::kBadResponse);
  if (!payload.empty()) {
    const Verdict stored = up.memory.store_response(slot.request.pcb, index << mtu_shift_, payload);
    if (stored != Verdict::kOk) return fail(up, stored);
  }
  if (mask.has_all(wire::kAeth)) credits_.update(h);
  advance(up, 1, now);
}

void Requester::receive_atomic_response(const RequesterUpcalls& up, const wire::Headers& h,
                                        Time now) {
  if (!acknowledge_before(up, h.psn, now)) return miss_response(up, now);
  if (queue_.empty()) return up.events.count(Count::kGhostAck);
  const Slot& slot = queue_[queue_.oldest()];
  if (!is_atomic(slot.request.kind) || !is_ack(h.syndrome)) return fail(up, Verdict::kBadResponse);
  std::byte original[sizeof h.original];
  std::memcpy(original, &h.original, sizeof original);
  const Verdict stored = up.memory.store_response(slot.request.pcb, 0, original);
  if (stored != Verdict::kOk) return fail(up, stored);
  credits_.update(h);
  advance(up, 1, now);
}

/// `packets` more of the oldest request are acknowledged: progress, which renews retries and timer.
void Requester::advance(const RequesterUpcalls& up, std::uint32_t packets, Time now) {
  const Slot& slot = queue_[queue_.oldest()];
  const std::uint32_t done = slot.index_of(unacked_) + packets;
  const bool done_all = done == slot.packets;
  const bool sent = !next_psn_.is_before(unacked_ + packets);
  // A read answered without having been sent again after the cursor went back is not counted.
  if (awaits_response(slot.request.kind) && sent && done == read_part_end(slot.packets, done - 1))
    --reads_in_flight_;
  unacked_ = unacked_ + packets;
  if (!acknowledged_.is_after(unacked_)) acknowledged_ = unacked_;
  const PcbId pcb = slot.request.pcb;
  if (done_all) queue_.pop();
  if (!sent) {
    next_psn_ = unacked_;
    next_ = queue_.oldest();
  }
  flight_.grow(packets, unacked_);
  round_trip_.acknowledged(unacked_, now);
  response_missed_ = false;
  silence_.end();
  retries_left_ = attributes_.retry_count;
  rnr_retries_left_ = attributes_.rnr_retry;
  timer_.stop();
  if (unacked_ != sent_end_ && !queue_.empty()) timer_.start(now, round_trip_.rto());
  if (done_all) up.commands.complete_request(pcb, Verdict::kOk);
}

}  // namespace softhca::transport
