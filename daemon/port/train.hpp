// SPDX-License-Identifier: Apache-2.0

// Trains: datagrams of one path and of one size that go through a port, and through the kernel
// below it, in one call. Their pieces stay in place until the port gathers them.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace softhca::port {

/// One datagram, or several behind one set of headers. The content does not depend on how it is
/// sent. A port that cannot send a train whole cuts it: each packet gets `segment` bytes of
/// `pieces`. The IPv4 identification increases by one from packet to packet. The ICRC of each
/// packet covers the headers as if the packet travelled alone.
struct Train {
  /// Ethernet, IP and UDP header. Lengths (and the checksum of IPv4) are those of one datagram with
  /// all of `pieces`. The UDP checksum is 0, and the identification is that of the first packet.
  std::span<const std::byte> head;
  std::size_t network = 0;  ///< offset of the IP header in `head`
  /// The bytes behind the UDP headers, one datagram after the other. Each datagram begins with its
  /// transport header and ends with its ICRC. It need not begin where a piece begins.
  std::span<const iovec> pieces;
  std::uint32_t bytes = 0;    ///< of all pieces
  std::uint32_t segment = 0;  ///< of each datagram but the last, which may be shorter
  std::uint32_t packets = 0;  ///< at least 1
};

inline constexpr std::size_t kIpv4Header = 20;

/// Turns the head of a train into that of its packet `index`, which has `bytes` behind the UDP
/// header and no UDP checksum.
void make_packet_head(std::span<std::byte> head, std::size_t network, std::size_t index,
                      std::size_t bytes);

/// Returns the value of the UDP checksum field for a sender that computes the rest of the sum: the
/// sum of addresses, protocol and length (RFC 768, RFC 8200), not complemented.
std::uint16_t pseudo_header_sum(std::span<const std::byte> head, std::size_t network);

struct TrainLimits {
  std::uint32_t packets = 0;  ///< in one train; 0: the port is full at the moment
  std::uint32_t bytes = 0;    ///< in its pieces
  std::uint32_t pieces = 0;
};

/// Limits of sockets: Linux cuts a train of a UDP socket into at most 64 datagrams.
inline constexpr TrainLimits kSocketTrains{.packets = 64, .bytes = 65535 - 40 - 8, .pieces = 256};

class TrainSender {
 public:
  /// Returns the limits. They drop to one packet if the device turns out to refuse trains.
  virtual TrainLimits limits() const = 0;
  /// Queues a train. The caller may change `head` and `pieces` after the call, but not the bytes of
  /// the pieces until the port's flush(). REQUIRES: the train is within limits() of any earlier
  /// time.
  virtual void transmit(const Train& train) = 0;

 protected:
  ~TrainSender() = default;
};

}  // namespace softhca::port
