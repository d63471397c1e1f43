// SPDX-License-Identifier: Apache-2.0

// The tag that authenticates a packet between two hosts that share a key. It takes the place of the
// ICRC and has the same size.
//
// A CRC with a secret does not authenticate: it is linear, so an observer of packets can compute
// how a change of bits changes it. The tag hashes the packet with one half of the key (GHASH, as
// GMAC with a constant nonce). It encrypts the 128 bits of the hash with the other half (AES), and
// takes the first 32 bits.
//
// GMAC alone needs a nonce for each packet. The packet has no room for one, and sequence numbers
// repeat, so the encryption replaces it. Tags look random unless two packets of a key have the same
// hash. Among n packets of 4 KiB this happens with a probability of n^2 / 2^120 (the hash is almost
// universal: 2^-119 for each pair).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "daemon/base/expected.hpp"
#include "daemon/roce/wire/frame.hpp"
#include "daemon/roce/wire/peer_config.hpp"

namespace softhca::wire {

/// A key prepared for use. One thread at a time may use it.
class PacketKey {
 public:
  /// Prepares a key. Error: the cipher library refuses.
  static Expected<std::unique_ptr<PacketKey>> make(const PeerSecret& secret);
  ~PacketKey();
  PacketKey(const PacketKey&) = delete;
  PacketKey& operator=(const PacketKey&) = delete;

 private:
  friend class TagSum;
  struct Ciphers;
  explicit PacketKey(std::unique_ptr<Ciphers> ciphers);

  std::unique_ptr<Ciphers> ciphers_;
};

/// Computes the tag of one packet, which may be in several pieces, as with IcrcSum. The tag covers
/// the addresses, the UDP ports, and all bytes behind the UDP header, except the byte of the base
/// transport header that the ICRC leaves out. It covers no other field of the IP header, because
/// the receiver uses none that routers leave unchanged. So it does not cover the IPv4
/// identification, which UDP sockets do not report.
class TagSum {
 public:
  /// `network` is the IP and UDP header; `transport` is the rest, at least the base transport
  /// header. REQUIRES: no other sum of this key is unfinished.
  TagSum(PacketKey& key, std::span<const std::byte> network, std::span<const std::byte> transport);
  void add(std::span<const std::byte> bytes);
  /// Returns the tag, to be appended like an ICRC, in little-endian order. REQUIRES: called once,
  /// at the end.
  std::uint32_t finish();

 private:
  PacketKey::Ciphers& ciphers_;
};

/// True if the packet is intact and its sender has the key.
[[nodiscard]] bool check_tag(const ParsedFrame& frame, PacketKey& key);

}  // namespace softhca::wire
