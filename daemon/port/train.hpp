// Trains: datagrams of one flow and of one size that go through a port, and through the kernel
// behind it, in one trip. Their parts stay where they lie until the port gathers them.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace softhca::port {

/// One datagram, or several behind one set of headers. Nothing in it depends on how it is sent: a
/// port that cannot send it whole cuts it, `segment` bytes of `pieces` for each packet, and the
/// identification of IPv4 goes up by one from packet to packet. What the ICRC covers of the headers
/// is what each packet has when it travels alone.
struct Train {
  /// Ethernet, IP and UDP header. Lengths (and the checksum of IPv4) are those of one datagram with
  /// all of `pieces`, the UDP checksum is 0, the identification that of the first.
  std::span<const std::byte> head;
  std::size_t network = 0;  ///< where the IP header begins in `head`
  /// What is behind the UDP headers, one datagram after the other; each begins with its transport
  /// header and ends with its ICRC. They need not begin where a piece begins.
  std::span<const iovec> pieces;
  std::uint32_t bytes = 0;    ///< of all pieces
  std::uint32_t segment = 0;  ///< of each datagram but the last, which has at most so many
  std::uint32_t packets = 0;  ///< at least 1
};

inline constexpr std::size_t kIpv4Header = 20;

/// Turns the head of a train into that of its packet `index`, which has so many bytes behind the
/// UDP header, and no UDP checksum.
void make_packet_head(std::span<std::byte> head, std::size_t network, std::size_t index,
                      std::size_t bytes);

/// What stands in the checksum field of UDP while the rest of the sum is left to others: the sum of
/// addresses, protocol and length (RFC 768, RFC 8200), not complemented.
std::uint16_t pseudo_header_sum(std::span<const std::byte> head, std::size_t network);

struct TrainLimits {
  std::uint32_t packets = 0;  ///< in one train; 0: the port is full for the moment
  std::uint32_t bytes = 0;    ///< in its pieces
  std::uint32_t pieces = 0;
};

/// Of sockets: Linux cuts a train into 64 datagrams at most where a UDP socket makes it.
inline constexpr TrainLimits kSocketTrains{.packets = 64, .bytes = 65535 - 40 - 8, .pieces = 256};

class TrainSender {
 public:
  /// May go down to one packet, when the device turns out to take no trains.
  virtual TrainLimits limits() const = 0;
  /// `head` and `pieces` may change after the call; the bytes that pieces name stay as they are
  /// until the port's flush(). REQUIRES: within limits() of any earlier time.
  virtual void transmit(const Train& train) = 0;

 protected:
  ~TrainSender() = default;
};

}  // namespace softhca::port
