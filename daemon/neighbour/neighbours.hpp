// The neighbours of a port: which link address an IP address has (RFC 826, RFC 4861), and answers
// for the addresses that are ours. Pure: no clock, no port; frames leave by a callback.
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
#include "daemon/wire/arp_nd.hpp"

namespace softhca::neighbour {

/// An address of this daemon on the port.
struct LocalAddress {
  Gid address;
  std::uint8_t prefix_length = 0;  ///< of its own family: 0..32 or 0..128
  bool answer = true;              ///< false: the kernel owns the address and answers itself
};

/// Counters of a table; may be read on any thread.
struct NeighbourCounters {
  Counter requests;    ///< ARP requests and neighbour solicitations sent
  Counter suppressed;  ///< requests put off to keep to the rate limit
  Counter answers;     ///< ARP replies and neighbour advertisements sent
  Counter learned;     ///< a link address became known or changed
  Counter lost;        ///< a neighbour in use stopped answering
  Counter evicted;     ///< forgotten to make room for another
  Counter refused;     ///< not asked for: full, and too many of the user's have not answered
  Counter conflicts;   ///< somebody else claimed an address of ours
};

/// Only resolve() makes entries, never what others send, so that strangers cannot fill the table. A
/// user who makes up addresses to send to cannot fill it either: each has its part of the table,
/// and of the requests.
class Neighbours {
 public:
  struct Options {
    MacAddress mac;
    std::optional<std::uint16_t> vlan;
    std::uint32_t capacity = 1024;
    /// Who sends the packets finds the way, too: each next hop is known, and has no link address.
    bool by_kernel = false;
  };
  /// Sends one frame of at most wire::kMaxResolutionFrame bytes. May drop it.
  using Sender = std::function<void(std::span<const std::byte>)>;

  Neighbours(const Options& options, Sender send);

  // --- set-up
  /// Replaces an address that is there already.
  void add_address(const LocalAddress& address);
  void remove_address(const Gid& address);
  /// Where packets for other networks of the gateway's family go; a zero GID: nowhere.
  void set_gateway(const Gid& ipv4_gateway, const Gid& ipv6_gateway);
  /// Neighbours whose link addresses are given, in place of those given before. They take no room
  /// in the table, are not asked for, and what others say of them counts for nothing.
  void set_static(std::map<Gid, MacAddress> neighbours) { static_ = std::move(neighbours); }
  /// Allocates what is kept of a user of resolve(), which would otherwise do so on first use.
  void add_user(TenantId user) { users_.try_emplace(user); }
  /// Tells all neighbours of the addresses we answer for (after a start, when the link comes up).
  void announce();

  // --- data path
  /// The address to resolve for packets to `destination`: itself when it is a group or on a network
  /// of ours, else the gateway of its family; nothing when there is none.
  std::optional<Gid> next_hop(const Gid& destination) const;
  /// The link address, when it is known; otherwise asks for it, at once and again until there is an
  /// answer or nobody calls any more. Groups map without asking. Known addresses in use are checked
  /// every 30 s, without an interruption as long as the neighbour answers. `user`: whose packets
  /// they are.
  std::optional<MacAddress> resolve(const Gid& next_hop, Time now, TenantId user = {});
  /// What resolve() would find without asking. Changes nothing.
  std::optional<MacAddress> known(const Gid& next_hop) const;

  /// Takes a frame in: answers and learns. False when it is neither ARP nor neighbour discovery.
  bool receive(std::span<const std::byte> frame, Time now);

  // --- time
  /// Repeats requests and forgets what is out of use. Cheap before next_deadline().
  void run(Time now);
  Time next_deadline() const { return deadline_; }

  const NeighbourCounters& counters() const { return counters_; }
  std::uint32_t size() const { return size_; }

 private:
  /// RFC 4861 7.3.2; DELAY is left out, probes start at the first use.
  enum class State : std::uint8_t { kFree, kIncomplete, kReachable, kStale, kProbe };

  struct Entry {
    Gid address;
    MacAddress mac;
    State state = State::kFree;
    std::uint8_t tries = 0;  ///< requests sent in this state
    std::uint32_t next = 0;  ///< of the same bucket, or of the free list
    TenantId user;           ///< for whom it was made
    Time used;               ///< last resolve()
    Time due;                ///< end of reachability, or next request
  };
  static constexpr std::uint32_t kNone = UINT32_MAX;
  struct User {
    std::uint32_t entries = 0;
    std::uint32_t unanswered = 0;  ///< of these
    Time full_until{};             ///< none of its unanswered entries makes way before then
    Time window_end{};             ///< of the rate limit, when it asked last
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
  std::vector<std::uint32_t> buckets_;  ///< first entry of each, a power of two of them
  std::uint32_t free_ = kNone;
  std::uint32_t size_ = 0;
  Time deadline_ = kNever;
  std::size_t next_to_run_ = 0;  ///< entry that run() begins with
  Users users_;
  Time window_end_{};               ///< of the rate limit
  std::uint32_t window_users_ = 0;  ///< users that have asked in it
  NeighbourCounters counters_;
};

}  // namespace softhca::neighbour
