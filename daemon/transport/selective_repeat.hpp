// Selective repeat at a requester: what it knows of a flight of which something was lost, and what
// of it is to be sent again with the cursor where it is.
//
//   - Of requests: what the peer says it lacks (repair.hpp).
//   - Of responses: those that come behind a missing one are taken (early_responses.hpp), and the
//     read is asked for what is missing up to the next of them. The peer has executed it, so a part
//     of it is a repeated request like any other (InfiniBand specification, volume 1, 9.7.5.1.4).
//   - After two round trips of silence, a probe (tail loss probe, RFC 8985, 7): the oldest packet,
//     to which a peer that has it answers with all it has, and the last one that was sent, which
//     makes it say what it lacks.
#pragma once

#include <cstdint>

#include "daemon/transport/early_responses.hpp"
#include "daemon/transport/pace.hpp"
#include "daemon/transport/repair.hpp"
#include "daemon/transport/request_packets.hpp"
#include "daemon/transport/upcalls.hpp"

namespace softhca::transport {

class SelectiveRepeat {
 public:
  void reset(Psn psn);
  /// The peer is sent all from the oldest packet on.
  void go_back();
  /// The requests are withdrawn.
  void forget_responses() { early_.clear(); }

  // --- what happened
  /// A packet of request `pcb` was sent at the cursor.
  void sent(PcbId pcb) { last_sent_ = pcb; }
  /// `packets` more were acknowledged: all before `unacked` now, which is of the `oldest` request.
  void acknowledged(std::uint32_t packets, Psn unacked, PcbId oldest);
  /// The peer says that it has all before `end`. True: it had nothing of what came behind the
  /// packets that were sent again.
  bool learn(QueuePairEvents& events, Psn end);
  /// A response came. That one was kept before it, it may show; that none was, it does not.
  void learn_from_response(QueuePairEvents& events, Psn psn) {
    if (!psn.is_before(repair_.end())) learn(events, psn + 1);
  }
  /// A response before `end`, and behind the oldest, is missing. Takes it if it fits the request it
  /// should belong to; otherwise it is judged when it comes in its turn.
  void take_early(const RequestFormat& format, LocalMemory& memory, const SendQueue& queue,
                  Psn unacked, const ResponsePacket& p);
  /// The peer has said that it lacks this packet, while a response before it is missing.
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
  /// Nothing blurs how long an answer takes.
  bool is_undisturbed() const { return !repair_.awaits() && early_.empty(); }
  /// How long to wait before a probe; Duration::max(): there is none.
  Duration patience(const RoundTrip& round_trip) const;

  // --- what is to be sent again
  /// The packet at `unacked`, as the peer lacks it, and as many behind it as repair.hpp says.
  void send_missing(const SendQueue& queue, Psn unacked, Psn sent_end) {
    repair_.begin(queue.oldest(), unacked, sent_end);
  }
  /// The request for the responses from `unacked` on that are missing.
  void ask_for_missing(const SendQueue& queue, Psn unacked);
  /// What a probe consists of.
  void probe(const SendQueue& queue, Psn unacked, Psn sent_end);
  /// Sends it, `packet_budget` packets at most. kNoBuffer: it could go on right away.
  SendResult send(const RequestFormat& format, const RequesterUpcalls& up, const SendQueue& queue,
                  unsigned& packet_budget);

 private:
  Repair repair_;
  EarlyResponses early_;
  Psn parts_end_;  ///< responses before it may be the last of a part
  Psn gap_;
  bool gap_told_ = false;
  std::uint8_t probes_ = 0;  ///< since there was progress
  PcbId last_sent_;          ///< the request of the packet before the cursor
};

}  // namespace softhca::transport
