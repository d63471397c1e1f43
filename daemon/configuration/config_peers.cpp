// SPDX-License-Identifier: Apache-2.0

#include "daemon/configuration/config_peers.hpp"

#include <map>
#include <string>

#include "daemon/configuration/schema/key_file.hpp"

namespace softhca::configuration {
namespace {

void complain_of(Problems& problems, const Value& peer, const std::string& key,
                 const std::string& text) {
  const Value* value = peer.table() != nullptr ? peer.table()->find(key) : nullptr;
  problems.add(value != nullptr ? value->line : peer.line, "peer." + key, text);
}

bool is_same(const AddressPrefix& a, const AddressPrefix& b) {
  return a.length == b.length && a.contains(b.address);
}

/// Returns the peer that has address `k` of peer `at` already: an earlier peer, or the same one.
/// Null: none has.
const Value* earlier_owner(const Config& config, const ConfigSource& source, std::size_t at,
                           std::size_t k) {
  for (std::size_t i = 0; i <= at; ++i) {
    const auto& addresses = config.peers[i].addresses;
    const std::size_t count = i == at ? k : addresses.size();
    for (std::size_t j = 0; j < count; ++j)
      if (is_same(addresses[j], config.peers[at].addresses[k])) return source.peers[i];
  }
  return nullptr;
}

}  // namespace

void check_peers(const Config& config, const ConfigSource& source, Problems& problems) {
  std::map<std::string, unsigned> names;
  for (std::size_t i = 0; i < source.peers.size(); ++i) {
    const Value& value = *source.peers[i];
    const PeerConfig& peer = config.peers[i];
    const auto [named, is_new] = names.emplace(peer.name, value.line);
    if (!is_new && !peer.name.empty())
      complain_of(problems, value, "name",
                  "\"" + peer.name + "\" is already taken by the peer of line " +
                      std::to_string(named->second) + "; each needs its own");
    for (std::size_t k = 0; k < peer.addresses.size(); ++k)
      if (const Value* earlier = earlier_owner(config, source, i, k))
        complain_of(problems, value, "addresses",
                    to_string(peer.addresses[k].address) + "/" +
                        std::to_string(peer.addresses[k].length) +
                        " is already given to the peer of line " + std::to_string(earlier->line) +
                        "; give it once");
  }
}

void read_peer_keys(Config& config, const ConfigSource& source, Problems& problems) {
  for (std::size_t i = 0; i < source.peers.size(); ++i) {
    PeerConfig& peer = config.peers[i];
    if (peer.key_file.empty()) continue;
    auto secrets = read_key_file(peer.key_file);
    if (secrets)
      peer.secrets = std::move(*secrets);
    else
      complain_of(problems, *source.peers[i], "key_file", secrets.error().message);
  }
}

}  // namespace softhca::configuration
