// SPDX-License-Identifier: Apache-2.0

// Selective repeat at a requester: tracks the packets in flight after a loss, and retransmits
// packets without moving the cursor.
//
// - Requests: retransmits what the peer reports missing (repair.hpp).
// - Responses: stores those behind a missing one (early_responses.hpp), and requests the missing
//   ones up to the next stored one. The peer has executed the read, so a part of it is a duplicate
//   request like any other (InfiniBand specification, volume 1, 9.7.5.1.4).
// - Silence: after two round trips, sends a probe (tail loss probe, RFC 8985, 7). The probe is the
//   oldest packet, to which a peer that has it answers with all it has, and the last packet sent,
//   which makes the peer report what it lacks.
#pragma once

#include <cstdint>

#include "daemon/roce/transport/pace.hpp"
#include "daemon/roce/transport/reliable/early_responses.hpp"
#include "daemon/roce/transport/reliable/repair.hpp"
#include "daemon/roce/transport/reliable/request_packets.hpp"
#include "daemon/roce/transport/upcalls.hpp"

namespace softhca::transport {

class SelectiveRepeat {
 public:
  /// `sent_end`: an earlier engine has sent what is before it.
  void reset(Psn psn, Psn sent_end);
  /// Cancels the repair, since the requester sends everything from the oldest packet on again.
  void go_back();
  /// Drops the stored responses, since the requests are withdrawn.
  void forget_responses() { early_.clear(); }

  // --- what happened
  /// Records that a packet of request `pcb` was sent at the cursor.
  void sent(PcbId pcb) { last_sent_ = pcb; }
  /// Records that `packets` more were acknowledged. Everything before `unacked`, which belongs to
  /// the `oldest` request, is now acknowledged.
  void acknowledged(std::uint32_t packets, Psn unacked, PcbId oldest);
  /// Records that the peer has everything before `end`. Returns true if the peer had buffered
  /// nothing behind the retransmitted packets.
  bool learn(QueuePairEvents& events, Psn end);
  /// Same for a response. A response beyond the repaired packets proves that the peer buffered;
  /// another response does not prove that it discarded.
  void learn_from_response(QueuePairEvents& events, Psn psn) {
    if (!psn.is_before(repair_.end())) learn(events, psn + 1);
  }
  /// Stores a response that arrived while an earlier one is missing, if it fits its request.
  /// Otherwise the requester judges it when it comes in order.
  void take_early(const RequestFormat& format, LocalMemory& memory, const SendQueue& queue,
                  Psn unacked, const ResponsePacket& p);
  /// Records that the peer reported this packet missing while a response before it is missing.
  void note_gap(Psn psn) {
    gap_ = psn;
    gap_told_ = true;
  }

  // --- what is known
  const Repair& repair() const { return repair_; }
  bool has_early() const { return !early_.empty(); }
  bool has_early(Psn psn) const { return !early_.empty() && early_.has(psn); }
  bool is_gap(Psn psn) const { return gap_told_ && gap_ == psn; }
  bool was_told_of_gap() const { return gap_told_; }
  Psn parts_end() const { return parts_end_; }
  /// Responses before it may be the last one of a partial read. An earlier engine may have asked
  /// for any part of what it had sent.
  Psn last_part_end() const {
    return resumed_end_.is_after(parts_end_) ? resumed_end_ : parts_end_;
  }
  /// True if no retransmission distorts the measured response time.
  bool is_undisturbed() const { return !repair_.awaits() && early_.empty(); }
  /// Returns the wait before a probe; Duration::max(): send no probe.
  Duration patience(const RoundTrip& round_trip) const;

  // --- what is to be sent again
  /// Retransmits the packet at `unacked`, which the peer lacks, and as many behind it as repair.hpp
  /// suggests.
  void send_missing(const SendQueue& queue, Psn unacked, Psn sent_end) {
    repair_.begin(queue.oldest(), unacked, sent_end);
  }
  /// Requests the missing responses from `unacked` on.
  void ask_for_missing(const SendQueue& queue, Psn unacked);
  /// Chooses the packets of a probe.
  void probe(const SendQueue& queue, Psn unacked, Psn sent_end);
  /// Sends the chosen packets, at most `packet_budget`. Returns kNoBuffer if more could be sent
  /// right away.
  SendResult send(const RequestFormat& format, const RequesterUpcalls& up, const SendQueue& queue,
                  unsigned& packet_budget);

 private:
  Repair repair_;
  EarlyResponses early_;
  Psn parts_end_;    ///< the end of the latest partial read
  Psn resumed_end_;  ///< the end of what an earlier engine had sent
  Psn gap_;
  bool gap_told_ = false;
  std::uint8_t probes_ = 0;  ///< since the last progress
  PcbId last_sent_;          ///< request of the packet before the cursor
};

}  // namespace softhca::transport
