// SPDX-License-Identifier: Apache-2.0

// Retransmission at a requester without going back: sends the missing packet again, but not those
// behind it, which the peer may have buffered.
//
// No bit on the wire tells whether the peer buffers packets. Its next acknowledgement shows it. If
// that covers more than what was retransmitted, the peer buffers. If it ends exactly there,
// although more is outstanding, nothing behind was buffered.
//
// Until a peer has proved that it buffers, nothing else is sent meanwhile. A peer that has not
// proved it after some losses counts as one without a buffer. A peer that buffers may still lack
// the next packet: it has lost several in a row, or dropped its buffer. Then four times as many
// packets are sent.
#pragma once

#include <algorithm>
#include <cstdint>

#include "daemon/base/types.hpp"
#include "daemon/roce/transport/send_queue.hpp"

namespace softhca::transport {

class Repair {
 public:
  enum class Peer : std::uint8_t { kUnknown, kKeeps, kDiscards };
  enum class Outcome : std::uint8_t { kNothing, kKept, kDiscarded };

  /// Drops all knowledge about the peer.
  void reset() { *this = Repair(); }
  Peer peer() const { return peer_; }

  /// Schedules packets [from, end) for retransmission. The first belongs to request `pcb`.
  void send(PcbId pcb, Psn from, Psn end) {
    pcb_ = pcb;
    next_ = from;
    end_ = end;
    due_ = true;
    awaits_ = has_last_ = false;
  }
  /// Schedules in addition packet `psn` of request `pcb`, which lies behind them.
  void add_last(PcbId pcb, Psn psn) {
    last_pcb_ = pcb;
    last_ = psn;
    has_last_ = true;
  }
  /// Like send(), for packets that the peer reported missing. The last outcome determines how many.
  /// All packets before `sent_end` have been sent.
  void begin(PcbId pcb, Psn from, Psn sent_end) {
    const auto most = static_cast<std::uint32_t>(sent_end.distance_from(from));
    first_ = from;
    send(pcb, from, from + std::min<std::uint32_t>(run_, most));
    covers_ = sent_end;
    awaits_ = true;
  }
  /// Cancels the retransmission; no outcome is awaited.
  void cancel() { due_ = awaits_ = has_last_ = false; }

  /// True if the outcome of begin() is awaited.
  bool awaits() const { return awaits_; }
  /// True if nothing else may be sent until then, because it is unknown whether the peer buffers.
  bool holds() const { return awaits_ && peer_ == Peer::kUnknown; }
  /// True if the loss of this packet was already handled.
  bool has_begun(Psn missing) const { return awaits_ && first_ == missing; }
  /// Evaluates an acknowledgement of everything before `end`.
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
  /// Returns how many packets need not be retransmitted, if learn() returned kKept.
  std::uint32_t spared() const { return static_cast<std::uint32_t>(covers_.distance_from(end_)); }
  /// Returns how many packets are retransmitted, if begin() was the last call.
  std::uint32_t length() const { return static_cast<std::uint32_t>(end_.distance_from(first_)); }

  // --- the packets to be retransmitted
  bool due() const { return due_; }
  PcbId pcb() const { return pcb_; }
  Psn next() const { return next_; }
  Psn end() const { return end_; }
  /// Everything before `to` is acknowledged; the next packet belongs to request `pcb`.
  void acknowledge(Psn to, PcbId pcb) {
    if (!to.is_before(end_)) awaits_ = false;
    pass(to, pcb);
  }
  /// Everything before `to` was sent or need not be; the next packet belongs to request `pcb`.
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
  Psn covers_;  ///< everything before it had been sent at begin()
};

}  // namespace softhca::transport
