// What a requester sends again of a flight of which something was lost, when it does not go back:
// the packet that is missing, and not those behind it, which the peer may have kept.
//
// Whether it has, no bit on the wire says. Its next acknowledgement does: one that goes beyond what
// was sent again shows a peer that keeps; one that ends right there, with more outstanding, shows
// that nothing behind it was kept. Until a peer has shown that it keeps, nothing else is sent
// meanwhile, and one that has not after some losses is believed to have no such thing. A peer that
// keeps and still lacks the next packet as well has lost many in a row, or given up what it had:
// four times as many are sent then.
#pragma once

#include <algorithm>
#include <cstdint>

#include "daemon/base/types.hpp"
#include "daemon/transport/send_queue.hpp"

namespace softhca::transport {

class Repair {
 public:
  enum class Peer : std::uint8_t { kUnknown, kKeeps, kDiscards };
  enum class Outcome : std::uint8_t { kNothing, kKept, kDiscarded };

  /// Nothing is known of the peer.
  void reset() { *this = Repair(); }
  Peer peer() const { return peer_; }

  /// Packets [from, end) are to be sent again, the first of them of request `pcb`.
  void send(PcbId pcb, Psn from, Psn end) {
    pcb_ = pcb;
    next_ = from;
    end_ = end;
    due_ = true;
    awaits_ = has_last_ = false;
  }
  /// After that the packet `psn`, of request `pcb`, which lies behind.
  void add_last(PcbId pcb, Psn psn) {
    last_pcb_ = pcb;
    last_ = psn;
    has_last_ = true;
  }
  /// As send(), of what the peer has said it lacks: as many as the last outcome suggests. All
  /// before `sent_end` have been sent.
  void begin(PcbId pcb, Psn from, Psn sent_end) {
    const auto most = static_cast<std::uint32_t>(sent_end.distance_from(from));
    first_ = from;
    send(pcb, from, from + std::min<std::uint32_t>(run_, most));
    covers_ = sent_end;
    awaits_ = true;
  }
  /// Nothing is to be sent again, and no outcome is awaited.
  void cancel() { due_ = awaits_ = has_last_ = false; }

  /// The outcome of begin() is awaited. Until then nothing else is sent to a peer of which nothing
  /// is known.
  bool awaits() const { return awaits_; }
  bool holds() const { return awaits_ && peer_ == Peer::kUnknown; }
  /// That this packet is missing has been acted on.
  bool has_begun(Psn missing) const { return awaits_ && first_ == missing; }
  /// An acknowledgement covers all before `end`, and its meaning is learnt.
  Outcome learn(Psn end) {
    if (!awaits_ || end.is_before(end_)) return Outcome::kNothing;
    awaits_ = due_ = false;
    if (end.is_after(end_)) {
      peer_ = Peer::kKeeps;
      run_ = 1;
      return Outcome::kKept;
    }
    if (!covers_.is_after(end_)) return Outcome::kNothing;
    if (peer_ == Peer::kKeeps)
      run_ = static_cast<std::uint16_t>(std::min<unsigned>(run_ * kMore, kMost));
    else if (++doubts_ >= kDoubts)
      peer_ = Peer::kDiscards;
    return Outcome::kDiscarded;
  }
  /// Packets that were sent before it and need not be sent again, if learn() said kKept.
  std::uint32_t spared() const { return static_cast<std::uint32_t>(covers_.distance_from(end_)); }
  /// Packets that are sent again, if begin() was the last call.
  std::uint32_t length() const { return static_cast<std::uint32_t>(end_.distance_from(first_)); }

  // --- what is to be sent again
  bool due() const { return due_; }
  PcbId pcb() const { return pcb_; }
  Psn next() const { return next_; }
  Psn end() const { return end_; }
  /// All before `to` are acknowledged; the next is of request `pcb`.
  void acknowledge(Psn to, PcbId pcb) {
    if (!to.is_before(end_)) awaits_ = false;
    pass(to, pcb);
  }
  /// All before `to` have been sent, or need not be; the next is of request `pcb`.
  void pass(Psn to, PcbId pcb) {
    if (!due_ || to.is_before(next_)) return;
    next_ = to;
    pcb_ = pcb;
    due_ = to.is_before(end_);
    if (due_) return;
    end_ = to;
    if (has_last_ && !last_.is_before(to)) send(last_pcb_, last_, last_ + 1);
    has_last_ = false;
  }

 private:
  static constexpr unsigned kMore = 4;
  static constexpr unsigned kMost = 0x4000;
  static constexpr std::uint8_t kDoubts = 3;

  Peer peer_ = Peer::kUnknown;
  std::uint8_t doubts_ = 0;
  bool due_ = false;
  bool awaits_ = false;
  bool has_last_ = false;
  std::uint16_t run_ = 1;
  PcbId pcb_;
  Psn first_;
  Psn next_;
  Psn end_;
  PcbId last_pcb_;
  Psn last_;
  Psn covers_;  ///< all before it had been sent when it began
};

}  // namespace softhca::transport
