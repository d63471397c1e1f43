// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/transport/reliable/selective_repeat.hpp"

#include <algorithm>

namespace softhca::transport {
namespace {

constexpr std::uint8_t kMostProbes = 3;  ///< without progress; then retries take over
// A peer may need this long for its own work before it answers, however short the path is.
constexpr Duration kShortestPatience = std::chrono::microseconds(20);
constexpr unsigned kRequestsLookedAt = 64;  ///< when searching the request of a response

}  // namespace

void SelectiveRepeat::reset(Psn psn, Psn sent_end) {
  repair_.reset();
  early_.clear();
  parts_end_ = psn;
  resumed_end_ = sent_end;
  gap_told_ = false;
  probes_ = 0;
}

void SelectiveRepeat::go_back() {
  repair_.cancel();
  gap_told_ = false;
}

void SelectiveRepeat::acknowledged(std::uint32_t packets, Psn unacked, PcbId oldest) {
  if (!early_.empty()) early_.forget(unacked - packets, packets);
  if (!parts_end_.is_after(unacked)) parts_end_ = unacked;
  if (!resumed_end_.is_after(unacked)) resumed_end_ = unacked;
  repair_.acknowledge(unacked, oldest);
  probes_ = 0;
}

bool SelectiveRepeat::learn(QueuePairEvents& events, Psn end) {
  const Repair::Outcome outcome = repair_.learn(end);
  if (outcome == Repair::Outcome::kKept) events.count(Count::kSparedPackets, repair_.spared());
  return outcome == Repair::Outcome::kDiscarded;
}

void SelectiveRepeat::take_early(const RequestFormat& format, LocalMemory& memory,
                                 const SendQueue& queue, Psn unacked, const ResponsePacket& p) {
  const auto ahead = static_cast<std::uint32_t>(p.h.psn.distance_from(unacked));
  if (!format.attributes.selective_repeat || ahead >= EarlyResponses::kSpan) return;
  PcbId pcb = queue.oldest();
  for (unsigned i = 0; pcb != SendQueue::kEnd; pcb = queue.next(pcb)) {
    if (queue[pcb].index_of(p.h.psn) < queue[pcb].packets) break;
    if (++i == kRequestsLookedAt) return;
  }
  if (pcb != SendQueue::kEnd && is_response_to(format, queue[pcb], p, last_part_end()) &&
      store_response(format, memory, queue[pcb], p) == Verdict::kOk)
    early_.add(p.h.psn);
}

Duration SelectiveRepeat::patience(const RoundTrip& round_trip) const {
  const Duration one = round_trip.probe_after();
  if (probes_ >= kMostProbes || one == Duration::max()) return Duration::max();
  return std::max(one, kShortestPatience) * (1u << probes_);
}

void SelectiveRepeat::ask_for_missing(const SendQueue& queue, Psn unacked) {
  const RequestSlot& slot = queue[queue.oldest()];
  parts_end_ = slot.first + packet_end(slot, slot.index_of(unacked));
  if (!early_.empty()) {
    const Psn next = early_.first(unacked);
    if (next.is_before(parts_end_)) parts_end_ = next;
  }
  repair_.send(queue.oldest(), unacked, parts_end_);
}

void SelectiveRepeat::probe(const SendQueue& queue, Psn unacked, Psn sent_end) {
  ++probes_;
  if (repair_.awaits()) return repair_.begin(queue.oldest(), unacked, sent_end);
  ask_for_missing(queue, unacked);
  const Psn last = sent_end - 1;
  // A read would be executed again as a whole.
  if (!last.is_before(repair_.end()) && !awaits_response(queue[last_sent_].request.kind))
    repair_.add_last(last_sent_, last);
}

SendResult SelectiveRepeat::send(const RequestFormat& format, const RequesterUpcalls& up,
                                 const SendQueue& queue, unsigned& packet_budget) {
  for (; repair_.due(); --packet_budget) {
    if (packet_budget == 0) return SendResult::kNoBuffer;
    const PcbId pcb = repair_.pcb();
    const RequestSlot& slot = queue[pcb];
    const std::uint32_t index = slot.index_of(repair_.next());
    // If the peer may lack a read request, request all of its responses.
    const std::uint32_t whole = packet_end(slot, index);
    const std::uint32_t end =
        repair_.awaits() ? whole : std::min(whole, (repair_.end() - slot.first.value()).value());
    wire::Headers h = make_request(format, slot, index, end);
    h.ack_request = !(slot.first + end).is_before(repair_.end());
    const SendResult result = up.packets.send(h, request_payload(format, slot, index));
    if (result != SendResult::kSent) return result;
    up.events.count(Count::kRetransmittedPackets);
    repair_.pass(slot.first + end, end == slot.packets ? queue.next(pcb) : pcb);
  }
  return SendResult::kSent;
}

}  // namespace softhca::transport
