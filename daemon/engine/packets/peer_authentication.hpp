// SPDX-License-Identifier: Apache-2.0

// Packet authentication: the rules for received packets, and the alarm if many are refused. Packets
// between queue pairs of this daemon are never on the wire and are not checked.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "daemon/base/time.hpp"
#include "daemon/engine/packets/peer_table.hpp"
#include "daemon/engine/records/event_log.hpp"
#include "daemon/engine/records/step_clock.hpp"
#include "daemon/roce/wire/drop_reason.hpp"

namespace softhca::engine {

class PeerAuthentication {
 public:
  /// This many refused packets in a second cause an event, at most one every ten seconds. A lossy
  /// link causes a few, and so does a host after its key was changed.
  static constexpr std::uint32_t kAlarming = 100;

  PeerAuthentication(const StepClock& clock, EventLog& log) : clock_(clock), log_(log) {}

  /// Exchanges the table of peers. Null: no packet is authenticated. `table` receives the table
  /// that was in use before. Headers that were built with keys of that table must not be used any
  /// more.
  void exchange(std::unique_ptr<PeerTable>& table) { table_.swap(table); }
  /// Returns the table; null if there is none.
  const PeerTable* table() const { return table_.get(); }
  bool is_on() const { return table_ != nullptr; }

  /// Returns the key for packets to this host or group. Null: they have a plain ICRC.
  wire::PacketKey* sending_key(const Gid& destination) {
    if (table_ == nullptr) return nullptr;
    const AuthenticatedPeer* peer = table_->find(destination);
    return peer == nullptr ? nullptr : peer->sending_key();
  }

  /// Returns kNone if the packet is accepted. `has_icrc` returns whether its ICRC is right.
  /// REQUIRES: is_on().
  template <class HasIcrc>
  wire::DropReason check(const wire::ParsedFrame& frame, HasIcrc&& has_icrc) {
    // All senders to a group share the key of the group.
    AuthenticatedPeer* peer =
        table_->find(frame.destination.is_multicast() ? frame.destination : frame.source);
    if (peer == nullptr) return has_icrc() ? wire::DropReason::kNone : wire::DropReason::kBadIcrc;
    if (peer->verify(frame)) return wire::DropReason::kNone;
    if (!has_icrc()) {
      if (!peer->has_keys()) return wire::DropReason::kBadIcrc;
      return refuse(frame, wire::DropReason::kWrongKey);
    }
    if (!peer->takes_plain()) return refuse(frame, wire::DropReason::kUnauthenticated);
    peer->count_plain();
    return wire::DropReason::kNone;
  }

 private:
  wire::DropReason refuse(const wire::ParsedFrame& frame, wire::DropReason why);

  const StepClock& clock_;
  EventLog& log_;
  std::unique_ptr<PeerTable> table_;
  Time second_began_{};
  Time quiet_until_{};
  std::uint32_t refused_ = 0;  ///< since `second_began_`
};

}  // namespace softhca::engine
