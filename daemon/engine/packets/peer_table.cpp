// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/packets/peer_table.hpp"

#include <algorithm>
#include <utility>

namespace softhca::engine {
namespace {

constexpr unsigned kMappedBits = 96;  // bits before an IPv4 address in its GID

/// Returns the address with all but its first `bits` bits cleared.
Gid beginning(Gid address, unsigned bits) {
  for (unsigned i = 0; i < address.bytes.size(); ++i) {
    const unsigned kept = std::clamp(static_cast<int>(bits) - static_cast<int>(8 * i), 0, 8);
    address.bytes[i] &= static_cast<std::uint8_t>(0xff00u >> kept);
  }
  return address;
}

}  // namespace

Outcome AuthenticatedPeer::add_key(const PeerSecret& secret) {
  auto key = wire::PacketKey::make(secret);
  if (!key) return Error{"peer " + name_ + ": " + key.error().message, key.error().code};
  keys_.push_back(std::move(*key));
  return {};
}

bool AuthenticatedPeer::verify(const wire::ParsedFrame& frame) {
  for (std::size_t tried = 0, i = first_tried_; tried < keys_.size(); ++tried) {
    if (wire::check_tag(frame, *keys_[i])) {
      taken_[i].add();
      first_tried_ = i;
      return true;
    }
    i = i + 1 == keys_.size() ? 0 : i + 1;
  }
  return false;
}

Expected<std::unique_ptr<PeerTable>> PeerTable::make(std::span<const PeerConfig> configs) {
  if (configs.empty()) return std::unique_ptr<PeerTable>();
  auto table = std::make_unique<PeerTable>();
  for (const PeerConfig& config : configs) {
    auto& peer = table->peers_.emplace_back(std::make_unique<AuthenticatedPeer>(config));
    for (const PeerSecret& secret : config.secrets)
      if (const auto added = peer->add_key(secret); !added) return added.error();
    for (const AddressPrefix& prefix : config.addresses) table->add(prefix, peer.get());
  }
  return table;
}

void PeerTable::add(const AddressPrefix& prefix, AuthenticatedPeer* peer) {
  const bool is_ipv4 = prefix.address.is_ipv4();
  const unsigned bits = prefix.length + (is_ipv4 ? kMappedBits : 0);
  auto& lengths = is_ipv4 ? ipv4_ : ipv6_;
  auto at = std::ranges::find_if(lengths, [&](const Length& l) { return l.bits <= bits; });
  if (at == lengths.end() || at->bits != bits) at = lengths.insert(at, {bits, {}});
  at->peers.emplace(beginning(prefix.address, bits), peer);
}

AuthenticatedPeer* PeerTable::look_up(const Gid& address) const {
  for (const Length& length : address.is_ipv4() ? ipv4_ : ipv6_)
    if (const auto found = length.peers.find(beginning(address, length.bits));
        found != length.peers.end())
      return found->second;
  return nullptr;
}

AuthenticatedPeer* PeerTable::find(const Gid& address) {
  Seen& seen = seen_[(address.bytes[15] ^ address.bytes[14] << 3) % seen_.size()];
  // The addresses of senders and groups are never zero, so an unused entry matches none.
  if (seen.address != address) seen = {address, look_up(address)};
  return seen.peer;
}

}  // namespace softhca::engine
