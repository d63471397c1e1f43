// SPDX-License-Identifier: Apache-2.0

// Faults that the operator injects. Packets of a target are lost, late, duplicated, out of order,
// damaged or marked as having met congestion, and messages find no receive: at random, or every
// n-th time. Without faults a packet costs one branch, on().
//
// The callers are PacketIo for packets at a port (packet_faults.cpp), faulty_link and UdSender for
// messages that stay inside the daemon, and QpEnvironment for receives.
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
#include "daemon/engine/diagnostics/held_packets.hpp"
#include "daemon/engine/records/fault_terms.hpp"
#include "daemon/engine/records/step_clock.hpp"

namespace softhca::engine {

struct QueuePair;
struct Tenant;

/// What a fault may match, and where.
struct FaultPassage {
  const Tenant* tenant;        ///< to which it belongs; null: to none
  std::optional<PortId> port;  ///< none: it stays inside the daemon
  Qpn qpn;                     ///< on this side
  FaultDirection direction;    ///< not kBoth
  bool ecn_capable = false;    ///< it may be marked
};

/// One fault.
class Fault {
 public:
  Fault(std::uint32_t number, const FaultTerms& terms);

  std::uint32_t number() const { return number_; }
  const FaultTerms& terms() const { return terms_; }
  /// How often the fault matched, and took effect.
  const Counter& met() const { return met_; }
  const Counter& injected() const { return injected_; }
  /// True if its tenant was removed.
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

  /// Memory for the packets that are held back.
  struct Room {
    explicit Room(std::size_t longest) : sent(longest), received(longest) {}
    HeldPackets sent, received;
  };

  explicit Faults(const StepClock& clock) : clock_(clock) {}

  // --- by requests
  /// `room`: for packets that faults hold back; a room given earlier is used first. REQUIRES: there
  /// are fewer than kMost faults.
  void add(Fault& fault, std::unique_ptr<Room> room);
  /// Removes the fault. The packets that it holds go on in the next poll step.
  void remove(const Fault& fault);
  /// To be called before the tenant is removed.
  void forget(const Tenant& tenant);
  /// Returns the room when it is not needed any more, else null.
  std::unique_ptr<Room> take_room();

  // --- any thread
  const Counter& injected(FaultKind kind) const {
    return injected_[static_cast<std::size_t>(kind)];
  }
  /// Packets that found no room: they were not held back after all, or were lost.
  const Counter& no_room() const { return no_room_; }
  const Gauge& active() const { return active_; }
  const Gauge& held() const { return held_; }

  // --- the engine
  /// True if there are faults or held packets. If not, the functions below must not be called.
  bool on() const { return on_; }

  /// What happens to a packet.
  struct Fate {
    bool drop = false;
    bool duplicate = false;
    bool mark = false;
    Fault* damager = nullptr;  ///< fault that flips a bit of it; null: none
    Fault* holder = nullptr;   ///< fault that holds it back; null: none
    bool any() const {
      return drop || duplicate || mark || damager != nullptr || holder != nullptr;
    }
    /// Returns the kind that shows most. REQUIRES: any().
    FaultKind kind() const;
  };
  /// True if decide() could find a fault. Counts nothing.
  bool concern(const FaultPassage& passage) const;
  Fate decide(const FaultPassage& passage);
  /// Flips a bit of a packet that the ICRC covers, or one of the ICRC. `datagram`: from the
  /// transport header on. REQUIRES: fate.damager.
  static void corrupt(const Fate& fate, std::span<std::byte> datagram);
  /// Holds the packet back. False: it found no room. REQUIRES: fate.holder.
  bool hold(const Fate& fate, const FaultPassage& passage, Qpn to,
            std::span<const HeldPackets::Part> parts);
  /// Holds a second copy of the packet until the end of the poll step.
  void repeat(const FaultPassage& passage, std::span<const HeldPackets::Part> parts);
  /// Counts a packet for queue pair `to` that has gone on.
  void passed(const FaultPassage& passage, Qpn to);
  void lack_room() { no_room_.add(); }

  /// Returns kNever if nothing is held back.
  Time next_deadline() const;
  /// As HeldPackets::take_due().
  template <class Visit>
  std::size_t take_due(FaultDirection which, Visit&& visit) {
    if (room_ == nullptr) return 0;
    const std::size_t count = held_by(which).take_due(clock_.now, visit);
    if (count != 0) look_again();
    return count;
  }

  /// True if the message of `from` to `to`, inside the daemon, is lost. `again`: it was lost
  /// before, by a fault or since its peer was missing, and was not sent since.
  bool loses(const QueuePair& from, const QueuePair& to, bool again = false);
  /// True if the message finds no receive. `again`: it found none before, and was not sent since.
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
