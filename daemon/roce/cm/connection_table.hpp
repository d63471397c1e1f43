// SPDX-License-Identifier: Apache-2.0

// All connections of a manager, with indexes for all look-ups. Values that a peer chooses are keys
// of ordered maps, so no peer can make a look-up slow.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <unordered_map>

#include "daemon/roce/cm/connection.hpp"
#include "daemon/roce/cm/state_records.hpp"

namespace softhca::management::cm {

/// The name that a peer uses for a connection, or for a service ID resolution.
struct PeerKey {
  Gid gid;
  std::uint64_t ca_guid = 0;  ///< 0 for a service ID resolution
  std::uint32_t comm_id = 0;
  bool service_id_resolution = false;

  constexpr auto operator<=>(const PeerKey&) const = default;
};

/// A queue pair of a peer.
struct QueuePairKey {
  Gid gid;
  std::uint64_t ca_guid = 0;
  Qpn qpn;

  constexpr auto operator<=>(const QueuePairKey&) const = default;
};

class ConnectionTable {
 public:
  /// `records`: of the state, or null.
  explicit ConnectionTable(StateRecords* records = nullptr)
      : records_(records), touched_(records) {}

  /// Records the connections that may have changed.
  void record_changes();
  /// Adds a connection of an earlier adapter by its record. Returns null if the record does not
  /// fit. REQUIRES: the table has only restored connections.
  Connection* restore(std::span<const std::byte> state);

  std::uint32_t size() const { return static_cast<std::uint32_t>(connections_.size()); }
  std::uint32_t half_open() const { return half_open_; }
  /// True if the peer of `path` may have another half-open connection, of `most` in total. It may
  /// have as many as it leaves to others. All IPv6 addresses of a /64 network count as one peer,
  /// except those of kEstablished peers, for which an eighth of the slots is reserved.
  bool may_open_half(const Path& path, std::uint32_t most) const;
  /// Returns the number of half-open connections of kUnknown peers.
  std::uint32_t unknown_half_open() const { return static_cast<std::uint32_t>(unknown_.size()); }
  /// Returns the oldest of them, or null.
  Connection* oldest_unknown();

  /// Adds a connection. The reference stays valid until remove(). REQUIRES: no connection has this
  /// id.
  Connection& add(Connection&& connection);
  void remove(Connection& connection);
  Connection* find(CommId id);
  const Connection* find(CommId id) const;

  void set_state(Connection& connection, State state);
  /// Detaches the user: it receives no more events of the connection.
  void release(Connection& connection);
  /// Returns the connection that has been without a user for longest; null: all have one.
  Connection* oldest_released();

  /// Returns false if the peer has another connection of that name.
  bool list_peer(Connection& connection);
  Connection* find_peer(const PeerKey& key);
  /// Returns false if another connection has the peer's queue pair.
  bool list_queue_pair(Connection& connection);
  Connection* find_queue_pair(const QueuePairKey& key);
  void unlist_queue_pair(Connection& connection);

  /// Sets the timer; kNever: none.
  void arm(Connection& connection, Time deadline);
  Time next_deadline() const { return timers_.empty() ? kNever : timers_.begin()->first; }
  /// Returns a connection with a timer that is due, and clears the timer; null: none.
  Connection* take_due(Time now);

  template <class Visit>
  void for_each(Visit&& visit) const {
    for (const auto& [id, connection] : connections_) visit(connection);
  }

 private:
  void unlist_peer(Connection& connection);
  void add_half_open(Connection& connection);
  void subtract_half_open(const Connection& connection);

  StateRecords* records_;
  Touched touched_;                                     ///< ids
  std::unordered_map<CommId, Connection> connections_;  // keyed by random numbers of this side
  std::map<PeerKey, CommId> peers_;
  std::map<QueuePairKey, CommId> queue_pairs_;
  std::set<std::pair<Time, CommId>> timers_;
  std::set<std::pair<std::uint64_t, CommId>> released_;
  std::uint64_t releases_ = 0;
  std::set<std::pair<std::uint64_t, CommId>> unknown_;  ///< half-open, of kUnknown peers
  std::uint64_t arrivals_ = 0;
  std::uint32_t half_open_ = 0;
  std::uint32_t half_open_of_strangers_ = 0;  ///< of peers that are not kEstablished
  /// By peer, for those that have any. The flag separates kEstablished peers from others.
  std::map<std::pair<bool, Gid>, std::uint32_t> half_open_of_;
};

}  // namespace softhca::management::cm
