// SPDX-License-Identifier: Apache-2.0

// Names that an input can choose: addresses, and the latest numbers of objects.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "daemon/base/net.hpp"
#include "tests/fuzz/input.hpp"

namespace softhca::fuzz {

/// The first address of every region, unless it is zero-based.
inline constexpr std::uint64_t kIova = 0x10000;
/// The key of most datagrams.
inline constexpr std::uint32_t kQkey = 0x11111111;

constexpr Gid ipv4_host(std::uint32_t host) { return Gid::from_ipv4(0x0a000000 + host); }
constexpr Gid ipv6_host(std::uint8_t host, std::uint8_t first = 0xfd) {
  Gid gid;
  gid.bytes[0] = first;
  gid.bytes[15] = host;
  return gid;
}

/// Addresses that the port may have.
inline constexpr std::array kPortAddresses = {ipv4_host(1), ipv4_host(4), ipv6_host(1),
                                              ipv4_host(5), ipv6_host(4)};
/// Addresses that tenants may have inside the daemon.
inline constexpr std::array kInnerAddresses = {Gid::from_ipv4(0xc6120001),
                                               Gid::from_ipv4(0xc6120002), ipv6_host(7, 0xfc)};
/// Hosts on the network. The last two do not answer; one of them is behind a gateway.
inline constexpr std::array kHosts = {ipv4_host(2), ipv6_host(2), ipv4_host(3), ipv4_host(9),
                                      Gid::from_ipv4(0x0b000001)};
inline constexpr std::size_t kAnswering = 3;
inline constexpr std::array kGroups = {Gid::from_ipv4(0xe0010101), ipv6_host(1, 0xff),
                                       Gid::from_ipv4(0xe0010102)};

template <std::size_t N>
const Gid& one_of(const std::array<Gid, N>& list, Input& input) {
  return list[input.byte() % N];
}
inline const Gid& any_own_address(Input& input) {
  const std::size_t i = input.byte() % (kPortAddresses.size() + kInnerAddresses.size());
  return i < kPortAddresses.size() ? kPortAddresses[i] : kInnerAddresses[i - kPortAddresses.size()];
}
inline const Gid& any_address(Input& input) {
  const std::uint8_t choice = input.byte();
  if (choice < 120) return any_own_address(input);
  return choice < 220 ? one_of(kHosts, input) : one_of(kGroups, input);
}

/// The latest numbers of a kind, also of objects that have ended.
class Latest {
 public:
  void add(std::uint32_t number) { numbers_[count_++ % numbers_.size()] = number; }
  /// Returns one of them, or any number.
  std::uint32_t any(Input& input) const {
    const std::uint8_t choice = input.byte();
    if (choice >= 250) return input.take<std::uint32_t>();
    return count_ == 0 ? choice : numbers_[choice % std::min(count_, numbers_.size())];
  }

 private:
  std::array<std::uint32_t, 16> numbers_{};
  std::size_t count_ = 0;
};

struct Names {
  Latest keys;             ///< of regions and windows
  Latest queue_pairs;      ///< numbers
  Latest address_handles;  ///< numbers
  Latest receive_queues;   ///< numbers of shared ones
};

}  // namespace softhca::fuzz
