// The tag that authenticates a packet between two hosts that share a key. It stands where the ICRC
// would, and has as many bytes.
//
// A 32-bit CRC with a secret in it would be no authentication: it is linear, so who sees packets
// can compute what a change of bits does to it. Here the packet is hashed with one half of the key
// (GHASH, as GMAC with a nonce that is always the same), and the 128 bits of the hash are encrypted
// with the other half (AES); the first 32 bits of that are the tag. A nonce for each packet, which
// GMAC alone would need, is not to be had: there is no room for it, and sequence numbers come
// again. The encryption takes its place. As long as no two packets of a key have the same hash,
// tags look random; among n packets of 4 KiB two have with a probability of n^2 / 2^120 (the hash
// is almost universal: 2^-119 for each two).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "daemon/base/expected.hpp"
#include "daemon/base/peer_config.hpp"
#include "daemon/wire/frame.hpp"

namespace softhca::wire {

/// A key made ready for use. Belongs to one thread at a time.
class PacketKey {
 public:
  /// Error: the library of ciphers refuses.
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

/// The tag of one packet, which may lie in several places, as IcrcSum. It covers the addresses, the
/// UDP ports, and all behind the UDP header but the byte of the base transport header that the ICRC
/// leaves out. Of the IP header nothing else counts: what routers do not change there says nothing
/// to the receiver. So the identification of IPv4 does not count, which UDP sockets do not see.
class TagSum {
 public:
  /// `network` is the IP and UDP header, `transport` what follows, at least the base transport
  /// header. REQUIRES: no other sum of this key is begun and not finished.
  TagSum(PacketKey& key, std::span<const std::byte> network, std::span<const std::byte> transport);
  void add(std::span<const std::byte> bytes);
  /// To be called once, at the end. The tag as the ICRC would be: appended little endian.
  std::uint32_t finish();

 private:
  PacketKey::Ciphers& ciphers_;
};

/// Was the packet sent by who has the key, and is it as it was sent?
[[nodiscard]] bool check_tag(const ParsedFrame& frame, PacketKey& key);

}  // namespace softhca::wire
