// All connections of a manager, by the ways in which they are looked for. Everything that a peer
// chooses is a key of an ordered map: no peer can make a look-up slow.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <unordered_map>

#include "daemon/management/cm/connection.hpp"

namespace softhca::management::cm {

/// How a peer names a connection, or a service ID resolution.
struct PeerKey {
  Gid gid;
  std::uint64_t ca_guid = 0;  ///< 0 for a service ID resolution
  std::uint32_t comm_id = 0;
  bool service_id_resolution = false;

  constexpr auto operator<=>(const PeerKey&) const = default;
};

/// A peer's queue pair.
struct QueuePairKey {
  Gid gid;
  std::uint64_t ca_guid = 0;
  Qpn qpn;

  constexpr auto operator<=>(const QueuePairKey&) const = default;
};

class ConnectionTable {
 public:
  std::uint32_t size() const { return static_cast<std::uint32_t>(connections_.size()); }
  std::uint32_t half_open() const { return half_open_; }
  /// True if the peer of `path` may have another half-open connection, of `most` in all. It may
  /// have as many as it leaves to others. All IPv6 addresses of a network of 64 bits count as one
  /// peer, except those of kEstablished peers, for which an eighth of the places is kept.
  bool may_open_half(const Path& path, std::uint32_t most) const;
  /// Half-open connections of kUnknown peers.
  std::uint32_t unknown_half_open() const { return static_cast<std::uint32_t>(unknown_.size()); }
  /// The first of them to come. Null: there is none.
  Connection* oldest_unknown();

  /// The reference stays valid until remove(). REQUIRES: no connection has this id.
  Connection& add(Connection&& connection);
  void remove(Connection& connection);
  Connection* find(CommId id);
  const Connection* find(CommId id) const;

  void set_state(Connection& connection, State state);
  /// From now on nobody waits for events of the connection.
  void release(Connection& connection);
  /// The connection that has been without a user for longest; null: all have one.
  Connection* oldest_released();

  /// False: the peer has another connection of that name.
  bool list_peer(Connection& connection);
  Connection* find_peer(const PeerKey& key);
  /// False: another connection is with the peer's queue pair.
  bool list_queue_pair(Connection& connection);
  Connection* find_queue_pair(const QueuePairKey& key);
  void unlist_queue_pair(Connection& connection);

  /// kNever: no timer.
  void arm(Connection& connection, Time deadline);
  Time next_deadline() const { return timers_.empty() ? kNever : timers_.begin()->first; }
  /// A connection whose timer is due, the timer taken off; null: none.
  Connection* take_due(Time now);

  template <class Visit>
  void for_each(Visit&& visit) const {
    for (const auto& [id, connection] : connections_) visit(connection);
  }

 private:
  void unlist_peer(Connection& connection);
  void add_half_open(Connection& connection);
  void subtract_half_open(const Connection& connection);

  std::unordered_map<CommId, Connection> connections_;  // by numbers of our own choice
  std::map<PeerKey, CommId> peers_;
  std::map<QueuePairKey, CommId> queue_pairs_;
  std::set<std::pair<Time, CommId>> timers_;
  std::set<std::pair<std::uint64_t, CommId>> released_;
  std::uint64_t releases_ = 0;
  std::set<std::pair<std::uint64_t, CommId>> unknown_;  ///< half-open, of kUnknown peers
  std::uint64_t arrivals_ = 0;
  std::uint32_t half_open_ = 0;
  std::uint32_t half_open_of_strangers_ = 0;  ///< of peers that are not kEstablished
  /// By peer, those that have any, kEstablished peers apart from others.
  std::map<std::pair<bool, Gid>, std::uint32_t> half_open_of_;
};

}  // namespace softhca::management::cm
