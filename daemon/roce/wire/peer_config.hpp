// SPDX-License-Identifier: Apache-2.0

// What the operator agreed with hosts on the network about the packets exchanged with them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/net.hpp"

namespace softhca {

/// How packets with a plain ICRC are treated.
enum class PlainPackets : std::uint8_t {
  kRefuse,  ///< they are dropped; with keys, none is sent
  kAllow,   ///< they are accepted; with keys, none is sent
  kSend,    ///< they are accepted, and sent even if there are keys
};
inline constexpr std::array<std::string_view, 3> kPlainPackets = {"refuse", "allow", "send"};

using PeerSecret = std::array<std::byte, 32>;

/// Each further key costs one more check of a packet that fits none, and raises the chance that a
/// forged packet fits one.
inline constexpr std::size_t kMostPeerKeys = 4;

struct PeerConfig {
  std::string name;
  std::vector<AddressPrefix> addresses;  ///< also of groups: packets to these
  std::string key_file;                  ///< empty: no keys
  PlainPackets plain = PlainPackets::kRefuse;
  /// Contents of the file: packets are sent with the first key and accepted with any.
  std::vector<PeerSecret> secrets;

  bool operator==(const PeerConfig&) const = default;
};

}  // namespace softhca
