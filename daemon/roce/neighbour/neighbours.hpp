// SPDX-License-Identifier: Apache-2.0

// The neighbours of a port: maps IP addresses to link addresses (RFC 826, RFC 4861), and answers
// for the daemon's addresses. Uses no clock and no port; a callback sends frames.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "daemon/base/counter.hpp"
#include "daemon/base/net.hpp"
#include "daemon/base/time.hpp"
#include "daemon/base/types.hpp"
#include "daemon/roce/wire/arp_nd.hpp"

namespace softhca::neighbour {

/// An address of this daemon on the port.
struct LocalAddress {
  Gid address;
  std::uint8_t prefix_length = 0;  ///< of its own family: 0..32 or 0..128
  bool answer = true;              ///< false: the kernel owns the address and answers itself
};

/// Counters of a table. Any thread may read them.
struct NeighbourCounters {
  Counter requests;    ///< ARP requests and neighbour solicitations sent
  Counter suppressed;  ///< requests delayed by the rate limit
  Counter answers;     ///< ARP replies and neighbour advertisements sent
  Counter learned;     ///< link addresses that became known or changed
  Counter lost;        ///< neighbours in use that stopped answering
  Counter evicted;     ///< entries removed to make room for another
  Counter refused;     ///< not requested: table full, and too many of the user's are unanswered
  Counter conflicts;   ///< another host claimed an address of the daemon
};

/// Only resolve() adds entries; received frames add none, so that other hosts cannot fill the
/// table. A user that sends to random addresses cannot fill it either, as each user has its share
/// of the table and of the requests.
class Neighbours {
 public:
  struct Options {
    MacAddress mac;
    std::optional<std::uint16_t> vlan;
    std::uint32_t capacity = 1024;
    /// The kernel sends the packets and finds their path. Each next hop is known, without a link
    /// address.
    bool by_kernel = false;
  };
  /// Sends one frame of at most wire::kMaxResolutionFrame bytes. May drop it.
  using Sender = std::function<void(std::span<const std::byte>)>;

  Neighbours(const Options& options, Sender send);

  // --- set-up
  /// Adds an address, or replaces it.
  void add_address(const LocalAddress& address);
  void remove_address(const Gid& address);
  /// Sets the next hop of packets to other networks, by address family; zero GID: none.
  void set_gateway(const Gid& ipv4_gateway, const Gid& ipv6_gateway);
  /// Sets the neighbours with configured link addresses, and replaces earlier ones. They take no
  /// room in the table, need no requests, and received frames do not change them.
  void set_static(std::map<Gid, MacAddress> neighbours) { static_ = std::move(neighbours); }
  /// Allocates the state of a user of resolve(), which would otherwise do so on first use.
  void add_user(TenantId user) { users_.try_emplace(user); }
  /// Changes the link address of the port, and announces its addresses.
  void move_to(const MacAddress& mac);
  /// Announces the addresses for which the daemon answers, after a start or when the link comes up.
  void announce();

  // --- data path
  /// Returns the address to resolve for packets to `destination`: the destination itself if it is a
  /// group or on a network of the port, else the gateway of its family; nothing if there is none.
  std::optional<Gid> next_hop(const Gid& destination) const;
  /// Returns the link address if it is known. Otherwise sends a request, at once and again until an
  /// answer arrives or resolve() is no longer called. Groups need no request. Known addresses in
  /// use are checked every 30 s, without interruption while the neighbour answers. `user`: the
  /// tenant that sends the packets.
  std::optional<MacAddress> resolve(const Gid& next_hop, Time now, TenantId user = {});
  /// Returns the link address if it is known, without a request or any other change.
  std::optional<MacAddress> known(const Gid& next_hop) const;

  /// Handles a received frame: answers it and learns from it. False: it is neither ARP nor
  /// neighbour discovery.
  bool receive(std::span<const std::byte> frame, Time now);

  // --- time
  /// Repeats requests and forgets unused entries. Cheap before next_deadline().
  void run(Time now);
  Time next_deadline() const { return deadline_; }

  const NeighbourCounters& counters() const { return counters_; }
  std::uint32_t size() const { return size_; }

 private:
  /// States of RFC 4861 7.3.2, without DELAY: probes start at the first use.
  enum class State : std::uint8_t { kFree, kIncomplete, kReachable, kStale, kProbe };

  struct Entry {
    Gid address;
    MacAddress mac;
    State state = State::kFree;
    std::uint8_t tries = 0;  ///< requests sent in this state
    std::uint32_t next = 0;  ///< of the same bucket, or of the free list
    TenantId user;           ///< user that caused it
    Time used;               ///< last resolve()
    Time due;                ///< end of reachability, or next request
  };
  static constexpr std::uint32_t kNone = UINT32_MAX;
  struct User {
    std::uint32_t entries = 0;
    std::uint32_t unanswered = 0;  ///< of the entries
    Time full_until{};             ///< no unanswered entry is evicted before then
    Time window_end{};             ///< of the rate limit, at its last request
    std::uint32_t requests = 0;    ///< in that window
  };
  using Users = std::map<TenantId, User>;

  std::optional<MacAddress> given(const Gid& next_hop) const;
  std::size_t bucket_of(const Gid& address) const;
  const Entry* find(const Gid& address) const;
  Entry* find(const Gid& address);
  Entry* insert(const Gid& address, Time now, TenantId user);
  void erase(Entry& entry);
  void count(const Entry& entry, int change);
  bool make_way(TenantId id, Time now);
  void make_room(TenantId id);

  const LocalAddress* local(const Gid& address) const;
  const LocalAddress* source_for(const Gid& target) const;
  void send(std::size_t length);
  bool may_ask(User& user, Time now);
  void ask(Entry& entry, Time now);
  void step(Entry& entry, Time now);
  Time deadline_of(const Entry& entry) const;
  void confirm(Entry& entry, const MacAddress& mac, bool solicited, Time now);

  void receive_arp(const wire::ArpMessage& m, Time now);
  void receive_neighbour(const wire::NeighbourMessage& m, Time now);
  void receive_solicitation(const wire::NeighbourMessage& m, Time now);
  void receive_advertisement(const wire::NeighbourMessage& m, Time now);

  Options options_;
  Sender send_;
  std::map<Gid, MacAddress> static_;
  std::array<std::byte, wire::kMaxResolutionFrame> buffer_{};
  std::vector<LocalAddress> addresses_;
  Gid gateway4_, gateway6_;

  std::vector<Entry> entries_;
  std::vector<std::uint32_t> buckets_;  ///< first entry of each bucket; 2^n buckets
  std::uint32_t free_ = kNone;
  std::uint32_t size_ = 0;
  Time deadline_ = kNever;
  std::size_t next_to_run_ = 0;  ///< entry with which run() begins
  Users users_;
  Time window_end_{};               ///< of the rate limit
  std::uint32_t window_users_ = 0;  ///< users with requests in it
  NeighbourCounters counters_;
};

}  // namespace softhca::neighbour
