// What is agreed with hosts on the network about the packets that go to and fro.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/net.hpp"

namespace softhca {

/// Packets with a plain ICRC.
enum class PlainPackets : std::uint8_t {
  kRefuse,  ///< are not taken; with keys, none is sent
  kAllow,   ///< are taken; with keys, none is sent
  kSend,    ///< are taken and sent, whatever keys there are
};
inline constexpr std::array<std::string_view, 3> kPlainPackets = {"refuse", "allow", "send"};

using PeerSecret = std::array<std::byte, 32>;

/// Each key is one more that a forged packet may fit by chance, and is tried in vain for each.
inline constexpr std::size_t kMostPeerKeys = 4;

struct PeerConfig {
  std::string name;
  std::vector<AddressPrefix> addresses;  ///< of groups, too: packets to these
  std::string key_file;                  ///< empty: no keys
  PlainPackets plain = PlainPackets::kRefuse;
  /// What the file holds: packets are sent with the first, and taken with any.
  std::vector<PeerSecret> secrets;

  bool operator==(const PeerConfig&) const = default;
};

}  // namespace softhca
