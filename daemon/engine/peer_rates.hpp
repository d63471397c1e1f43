// Rates of peers: what they may send to a tenant, a level or a queue pair (inbound), and read from
// it (served). Nothing of what waits for them is held here but the turn of a queue pair:
//
// - What peers of other hosts send, and may not yet, is refused by an RNR NAK that says when to
//   send it again (UC and UD: dropped and counted). They keep it meanwhile, as they have to.
// - Responses to what they read wait in the responder, which remembers them anyhow.
// - Inside the daemon the command of the sender waits, without a PCB, for its turn at the gate.
//
// Whoever has waited for its turn goes through with one packet or message even if others have used
// the rate up since, so that nobody waits forever. All that goes through is charged for in full:
// over time no more does than the rate says.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/engine/clock.hpp"
#include "daemon/engine/queue_pair.hpp"
#include "daemon/engine/rate_gates.hpp"

namespace softhca::engine {

class PeerRates {
 public:
  PeerRates(const StepClock& clock, std::uint32_t queue_pairs)
      : clock_(clock), slots_(queue_pairs), gates_(clock, queue_pairs) {}

  /// Takes effect with the next packet or message; a debt stays. Allocates.
  void set(PeerGate& gate, const RateLimits& limits);
  /// The gate is going, with its tenant, level or queue pair: what waits for it waits no more.
  void forget(PeerGate& gate) {
    gates_.forget(gate, [this](std::uint32_t slot) { free_.push_back(slot); });
  }
  /// The queue pair waits for nothing any more: it was reset, or is in the error state.
  void leave(const QueuePair& qp);

  // --- packets of peers on other hosts
  /// How long the peer is to wait with a request packet for the queue pair; zero: it may come.
  Duration request_wait(const QueuePair& qp);
  /// Is the inbound rate of the queue pair used up?
  bool is_over(const QueuePair& qp) const {
    return gates_.any_limited() && closed_gate(qp, &PeerGates::inbound) != nullptr;
  }
  /// A request packet of so many bytes has come.
  void took(const QueuePair& qp, std::uint32_t bytes, bool begins_message);
  /// Is the next response of the queue pair to wait? Its turn comes when it is released.
  bool holds_response(const QueuePair& qp) { return holds(qp, qp, &PeerGates::served); }
  /// It has been sent.
  void served(const QueuePair& qp, std::uint32_t bytes, bool begins_message) {
    goes_through(qp, qp, &PeerGates::served, bytes, begins_message);
  }

  // --- messages inside the daemon
  /// Is the message of `sender` to wait? `reads`: it reads from `target`, else it sends to it.
  bool holds_message(const QueuePair& sender, const QueuePair& target, bool reads) const;
  /// It waits from now on. REQUIRES: holds_message().
  void wait(const QueuePair& sender, const QueuePair& target, bool reads) {
    holds(sender, target, direction(reads));
  }
  bool waits(const QueuePair& qp) const { return gates_.waits(qp.slot); }
  /// The message begins.
  void begins(const QueuePair& sender, const QueuePair& target, bool reads, std::uint32_t bytes) {
    goes_through(sender, target, direction(reads), bytes, true);
  }

  /// Calls `wake(slot)` for queue pairs whose turns have come. To be called in each poll step.
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
  /// When the next is released.
  Time next_release() const { return free_.empty() ? gates_.next() : Time{}; }

 private:
  using Direction = PeerGate PeerGates::*;
  /// What is remembered of a queue pair.
  struct Turn {
    Time refused_until{};     ///< its peer was told to wait until then; zero: it was not
    bool has_waited = false;  ///< for a gate, and has not gone through since
  };

  static Direction direction(bool reads) {
    return reads ? &PeerGates::served : &PeerGates::inbound;
  }
  static PeerGate* closed_gate(const QueuePair& target, Direction direction);
  bool holds(const QueuePair& who, const QueuePair& target, Direction direction);
  void goes_through(const QueuePair& who, const QueuePair& target, Direction direction,
                    std::uint32_t bytes, bool begins_message);
  void charge(const QueuePair& target, Direction direction, std::uint32_t bytes,
              bool begins_message);

  const StepClock& clock_;
  std::uint32_t slots_;
  RateGates gates_;
  std::vector<Turn> turns_;          ///< by slot of the queue pair; empty: there are no limits
  std::vector<std::uint32_t> free_;  ///< slots of queue pairs whose gates are gone
};

}  // namespace softhca::engine
