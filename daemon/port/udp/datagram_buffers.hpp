// What a UDP socket has received, as frames: the headers that the kernel has taken off are put back
// as far as they are known.
#pragma once

#include <array>

#include "daemon/port/message_buffers.hpp"

namespace softhca::port {

/// What the kernel does not tell is made up: link addresses of zeros, no tag, an IPv4
/// identification of 0, "don't fragment", an IPv6 flow label of 0, no UDP checksum.
class DatagramBuffers final : public MessageBuffers {
 public:
  /// Of a socket that is bound to port 4791 of `address`.
  explicit DatagramBuffers(const Gid& address);

  /// Has the kernel tell what belongs into the headers, and hand over trains whole where it can.
  static bool set_up(int fd, bool is_ipv4);

 private:
  static constexpr std::size_t kNetwork = 14;  ///< where the IP header begins

  void offer(msghdr& to, Buffer& buffer) override;
  Frame accept(const mmsghdr& message, Buffer& buffer) override;

  bool is_ipv4_;
  std::size_t head_length_;
  /// Of every frame, without what differs from one to the next.
  std::array<std::byte, kNetwork + 40 + 8> head_{};
};

}  // namespace softhca::port
