// SPDX-License-Identifier: Apache-2.0

// Hosts on the network with which packets are authenticated, by address.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "daemon/base/counter.hpp"
#include "daemon/base/expected.hpp"
#include "daemon/roce/wire/packet_tag.hpp"
#include "daemon/roce/wire/peer_config.hpp"

namespace softhca::engine {

/// The hosts or groups of one section of the configuration.
class AuthenticatedPeer {
 public:
  explicit AuthenticatedPeer(const PeerConfig& config) : name_(config.name), plain_(config.plain) {}

  const std::string& name() const { return name_; }
  /// Adds a key. Errors: those of the cipher library.
  Outcome add_key(const PeerSecret& secret);
  bool has_keys() const { return !keys_.empty(); }
  std::size_t key_count() const { return keys_.size(); }
  bool takes_plain() const { return plain_ != PlainPackets::kRefuse; }
  /// Returns the key for packets to this peer. Null: they have a plain ICRC.
  wire::PacketKey* sending_key() const {
    return has_keys() && plain_ != PlainPackets::kSend ? keys_.front().get() : nullptr;
  }

  /// True if one of the keys verifies the packet. The key that last did is tried first.
  bool verify(const wire::ParsedFrame& frame);
  void count_plain() { plain_taken_.add(); }

  std::uint64_t taken_with(std::size_t key) const { return taken_[key].value(); }
  std::uint64_t taken_plain() const { return plain_taken_.value(); }

 private:
  std::string name_;
  PlainPackets plain_;
  std::vector<std::unique_ptr<wire::PacketKey>> keys_;
  std::size_t first_tried_ = 0;
  std::array<Counter, kMostPeerKeys> taken_;  ///< by key
  Counter plain_taken_;
};

/// Belongs to one thread at a time, except for the counters.
class PeerTable {
 public:
  /// Makes the table; null without peers. Errors name the peer. REQUIRES: no prefix is given twice.
  static Expected<std::unique_ptr<PeerTable>> make(std::span<const PeerConfig> configs);

  /// Returns the peer with the longest prefix that matches the address. Null: no prefix matches.
  AuthenticatedPeer* find(const Gid& address);
  const std::vector<std::unique_ptr<AuthenticatedPeer>>& peers() const { return peers_; }

 private:
  /// Prefixes of one length, in bits of a GID.
  struct Length {
    unsigned bits;
    std::map<Gid, AuthenticatedPeer*> peers;  ///< by prefix
  };
  /// A recent lookup.
  struct Seen {
    Gid address;
    AuthenticatedPeer* peer = nullptr;
  };

  void add(const AddressPrefix& prefix, AuthenticatedPeer* peer);
  AuthenticatedPeer* look_up(const Gid& address) const;

  std::vector<std::unique_ptr<AuthenticatedPeer>> peers_;
  std::vector<Length> ipv4_, ipv6_;  ///< the longest first
  std::array<Seen, 64> seen_{};
};

}  // namespace softhca::engine
