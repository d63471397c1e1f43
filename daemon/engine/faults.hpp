// Faults that the operator has asked for: packets of a target are lost, late, doubled, out of order
// or damaged, and messages find no receive, by chance or each n-th time. With none, a packet costs
// one branch, on().
//
// Who asks: PacketIo of packets at a port (packet_faults.cpp), faulty_link and Datagrams of what
// stays inside the daemon, QpEnvironment of receives.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "daemon/base/counter.hpp"
#include "daemon/engine/clock.hpp"
#include "daemon/engine/fault_terms.hpp"
#include "daemon/engine/held_packets.hpp"

namespace softhca::engine {

struct QueuePair;
struct Tenant;

/// What may meet a fault, and where.
struct FaultPassage {
  const Tenant* tenant;        ///< whose it is; null: nobody's
  std::optional<PortId> port;  ///< none: it stays inside the daemon
  Qpn qpn;                     ///< on this side
  FaultDirection direction;    ///< not kBoth
};

/// One fault.
class Fault {
 public:
  Fault(std::uint32_t number, const FaultTerms& terms);

  std::uint32_t number() const { return number_; }
  const FaultTerms& terms() const { return terms_; }
  /// How often it was met, and had its effect.
  const Counter& met() const { return met_; }
  const Counter& injected() const { return injected_; }
  /// Its tenant is gone.
  bool is_lost() const { return lost_; }
  bool is_over(Time now) const { return lost_ || now >= terms_.until; }

 private:
  friend class Faults;
  bool fits(const FaultPassage& passage, Time now) const;
  bool strikes();

  const std::uint32_t number_;
  const FaultTerms terms_;
  bool lost_ = false;
  std::mt19937_64 random_;
  Counter met_, injected_;
};

class Faults {
 public:
  static constexpr std::size_t kMost = 16;

  /// Where packets are held back.
  struct Room {
    explicit Room(std::size_t longest) : sent(longest), received(longest) {}
    HeldPackets sent, received;
  };

  explicit Faults(const StepClock& clock) : clock_(clock) {}

  // --- in tasks
  /// `room`: for what faults hold back; what was given earlier serves first. REQUIRES: fewer than
  /// kMost.
  void add(Fault& fault, std::unique_ptr<Room> room);
  /// What it holds goes on with the next poll step.
  void remove(const Fault& fault);
  /// The tenant is about to go.
  void forget(const Tenant& tenant);
  /// The room, when nobody needs it any more.
  std::unique_ptr<Room> take_room();

  // --- any thread
  const Counter& injected(FaultKind kind) const {
    return injected_[static_cast<std::size_t>(kind)];
  }
  /// Packets for which there was no room: that were not held back after all, or were lost.
  const Counter& no_room() const { return no_room_; }
  const Gauge& active() const { return active_; }
  const Gauge& held() const { return held_; }

  // --- the engine
  /// False: nothing else here is to be called.
  bool on() const { return on_; }

  /// What becomes of a packet.
  struct Fate {
    bool drop = false;
    bool duplicate = false;
    Fault* damager = nullptr;  ///< that flips a bit of it; null: none
    Fault* holder = nullptr;   ///< that holds it back; null: none
    bool any() const { return drop || duplicate || damager != nullptr || holder != nullptr; }
    /// The kind that shows most. REQUIRES: any().
    FaultKind kind() const;
  };
  /// Could decide() find anything? Counts nothing.
  bool concern(const FaultPassage& passage) const;
  Fate decide(const FaultPassage& passage);
  /// Flips a bit of a packet. `datagram`: from the transport header on. REQUIRES: fate.damager.
  static void corrupt(const Fate& fate, std::span<std::byte> datagram);
  /// Holds it back, if there is room. REQUIRES: fate.holder.
  bool hold(const Fate& fate, const FaultPassage& passage, Qpn to,
            std::span<const HeldPackets::Part> parts);
  /// The same until the end of the poll step: the second of two.
  void repeat(const FaultPassage& passage, std::span<const HeldPackets::Part> parts);
  /// A packet for queue pair `to` has gone on.
  void passed(const FaultPassage& passage, Qpn to);
  void lack_room() { no_room_.add(); }

  /// kNever: nothing is held back.
  Time next_deadline() const;
  /// As HeldPackets::take_due().
  template <class Visit>
  std::size_t take_due(FaultDirection which, Visit&& visit) {
    if (room_ == nullptr) return 0;
    const std::size_t count = held_by(which).take_due(clock_.now, visit);
    if (count != 0) look_again();
    return count;
  }

  /// Is the message of `from` to `to`, inside the daemon, lost? `again`: it was, by a fault or for
  /// want of a peer, and nothing was sent since.
  bool loses(const QueuePair& from, const QueuePair& to, bool again = false);
  /// Does the message find no receive? `again`: it found none, and was not sent again since.
  bool withholds(const QueuePair& qp, bool again = false);

 private:
  HeldPackets& held_by(FaultDirection which) {
    return which == FaultDirection::kSent ? room_->sent : room_->received;
  }
  bool strikes(Fault& fault);
  void look_again();

  const StepClock& clock_;
  bool on_ = false;
  std::vector<Fault*> faults_;  ///< by kind
  std::unique_ptr<Room> room_;
  std::array<Counter, kFaultKinds> injected_;
  Counter no_room_;
  Gauge active_, held_;
};

}  // namespace softhca::engine
