// SPDX-License-Identifier: Apache-2.0

// Rate limits on peers: what they may send to a tenant, a level or a queue pair (inbound), and read
// from it (served). The engine buffers nothing for them. It keeps only the turn of a queue pair:
//
// - A peer on another host that exceeds its rate gets an RNR NAK with the time after which it sends
//   again (UC and UD: the packet is dropped and counted). The peer keeps the packet, as the
//   protocol requires.
// - Responses to the peer's reads wait in the responder, which stores the requests in any case.
// - Inside the daemon the sender's command waits for its turn at the gate, without a PCB.
//
// A queue pair that has waited for its turn sends one packet or message, even if others have used
// up the rate since. No queue pair therefore waits forever. Everything that passes is charged in
// full, so over time the rate is not exceeded.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/engine/records/queue_pair.hpp"
#include "daemon/engine/records/step_clock.hpp"
#include "daemon/engine/turns/rate_gates.hpp"

namespace softhca::engine {

class PeerRates {
 public:
  PeerRates(const StepClock& clock, std::uint32_t queue_pairs)
      : clock_(clock), slots_(queue_pairs), gates_(clock, queue_pairs) {}

  /// Sets the limits of a gate. They take effect with the next packet or message. A debt remains.
  /// Allocates.
  void set(PeerGate& gate, const RateLimits& limits);
  /// Removes the gate with its tenant, level or queue pair, and releases the queue pairs that wait
  /// for it.
  void forget(PeerGate& gate) {
    gates_.forget(gate, [this](std::uint32_t slot) { free_.push_back(slot); });
  }
  /// Ends the waits of the queue pair: it was reset, or is in the error state.
  void leave(const QueuePair& qp);

  // --- packets of peers on other hosts
  /// Returns how long the peer must wait before it sends a request packet for the queue pair again.
  /// Zero: the packet is accepted.
  Duration request_wait(const QueuePair& qp);
  /// True if the inbound rate of the queue pair is used up.
  bool is_over(const QueuePair& qp) const {
    return gates_.any_limited() && closed_gate(qp, &PeerGates::inbound) != nullptr;
  }
  /// Charges for a request packet of `bytes` bytes that was accepted.
  void took(const QueuePair& qp, std::uint32_t bytes, bool begins_message) {
    if (!gates_.any_limited()) return;
    turns_[qp.slot].refused_until = Time{};
    charge(qp, &PeerGates::inbound, bytes, begins_message);
  }
  /// True if the next response of the queue pair must wait. release() reports when its turn comes.
  bool holds_response(const QueuePair& qp) { return holds(qp, qp, &PeerGates::served); }
  /// Charges for a response that was sent.
  void served(const QueuePair& qp, std::uint32_t bytes, bool begins_message) {
    goes_through(qp, qp, &PeerGates::served, bytes, begins_message);
  }

  // --- messages inside the daemon
  /// True if the message of `sender` must wait. `reads`: it reads from `target`, else it sends to
  /// it.
  bool holds_message(const QueuePair& sender, const QueuePair& target, bool reads) const {
    if (!gates_.any_limited() || turns_[sender.slot].has_waited) return false;
    return gates_.waits(sender.slot) || closed_gate(target, direction(reads)) != nullptr;
  }
  /// Makes the message wait from now on. REQUIRES: holds_message().
  void wait(const QueuePair& sender, const QueuePair& target, bool reads) {
    holds(sender, target, direction(reads));
  }
  bool waits(const QueuePair& qp) const { return gates_.waits(qp.slot); }
  /// Charges for a message that begins.
  void begins(const QueuePair& sender, const QueuePair& target, bool reads, std::uint32_t bytes) {
    goes_through(sender, target, direction(reads), bytes, true);
  }

  /// Calls `wake(slot)` for each queue pair that has its turn now. REQUIRES: called in each poll
  /// step.
  template <class Wake>
  void release(Wake&& wake) {
    for (const std::uint32_t slot : free_) wake(slot);
    free_.clear();
    if (clock_.now < gates_.next()) return;
    gates_.open_due([](const RateGate&) {});
    gates_.pass([&](std::uint32_t slot) {
      turns_[slot].has_waited = true;
      wake(slot);
    });
  }
  /// Returns when release() has work next.
  Time next_release() const { return free_.empty() ? gates_.next() : Time{}; }

 private:
  using Direction = PeerGate PeerGates::*;
  /// The state of a queue pair.
  struct Turn {
    Time refused_until{};     ///< the peer was told to wait until then; zero: it was not
    bool has_waited = false;  ///< it has waited for a gate and has not sent since
  };

  static Direction direction(bool reads) {
    return reads ? &PeerGates::served : &PeerGates::inbound;
  }
  static PeerGate* closed_gate(const QueuePair& target, Direction direction);
  bool holds(const QueuePair& who, const QueuePair& target, Direction direction);
  void goes_through(const QueuePair& who, const QueuePair& target, Direction direction,
                    std::uint32_t bytes, bool begins_message) {
    if (!gates_.any_limited()) return;
    turns_[who.slot].has_waited = false;
    charge(target, direction, bytes, begins_message);
  }
  void charge(const QueuePair& target, Direction direction, std::uint32_t bytes,
              bool begins_message);

  const StepClock& clock_;
  std::uint32_t slots_;
  RateGates gates_;
  std::vector<Turn> turns_;          ///< by slot of the queue pair; empty: no limits are set
  std::vector<std::uint32_t> free_;  ///< slots of queue pairs that waited for removed gates
};

}  // namespace softhca::engine
