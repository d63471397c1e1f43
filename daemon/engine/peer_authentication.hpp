// Whether packets are from who they say: the rules for them, and the alarm when many are not. Of
// packets between queue pairs of this daemon there are none on the wire, and nothing is checked.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "daemon/base/time.hpp"
#include "daemon/engine/clock.hpp"
#include "daemon/engine/event_log.hpp"
#include "daemon/engine/peer_table.hpp"
#include "daemon/wire/drop_reason.hpp"

namespace softhca::engine {

class PeerAuthentication {
 public:
  /// So many refused packets in a second are told of, at most every ten seconds. A few come of a
  /// bad link, and of the first packets of a host that was given another key.
  static constexpr std::uint32_t kAlarming = 100;

  PeerAuthentication(const StepClock& clock, EventLog& log) : clock_(clock), log_(log) {}

  /// Null: nobody is asked for anything. `table` gets the one that was used before; headers that
  /// were made before with its keys must not be used any more.
  void exchange(std::unique_ptr<PeerTable>& table) { table_.swap(table); }
  /// Null: there is none.
  const PeerTable* table() const { return table_.get(); }
  bool is_on() const { return table_ != nullptr; }

  /// What packets to this host or group are sent with; null: a plain ICRC.
  wire::PacketKey* sending_key(const Gid& destination) {
    if (table_ == nullptr) return nullptr;
    const Peer* peer = table_->find(destination);
    return peer == nullptr ? nullptr : peer->sending_key();
  }

  /// kNone: the packet may be taken. `has_icrc`: says whether its ICRC is right.
  /// REQUIRES: is_on().
  template <class HasIcrc>
  wire::DropReason check(const wire::ParsedFrame& frame, HasIcrc&& has_icrc) {
    // A group's key is what its senders have in common.
    Peer* peer = table_->find(frame.destination.is_multicast() ? frame.destination : frame.source);
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
  std::uint32_t refused_ = 0;  ///< since then
};

}  // namespace softhca::engine
