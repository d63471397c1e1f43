// SPDX-License-Identifier: Apache-2.0

// Receives packets from a UDP socket and turns them into frames: it restores the headers that the
// kernel has removed, as far as they are known.
#pragma once

#include <array>

#include "daemon/port/message_buffers.hpp"

namespace softhca::port {

/// Values that the kernel does not report have defaults: link addresses of zeros, no tag, an IPv4
/// identification of 0, "don't fragment", an IPv6 flow label of 0, no UDP checksum.
class DatagramBuffers final : public MessageBuffers {
 public:
  /// For a socket that is bound to port 4791 of `address`.
  explicit DatagramBuffers(const Gid& address);

  /// Makes the kernel report the header fields that it can, and deliver whole trains if it supports
  /// them.
  static bool set_up(int fd, bool is_ipv4);

 private:
  static constexpr std::size_t kNetwork = 14;  ///< offset of the IP header

  void offer(msghdr& to, Buffer& buffer) override;
  Frame accept(const mmsghdr& message, Buffer& buffer) override;

  bool is_ipv4_;
  std::size_t head_length_;
  /// Headers of each frame, without the fields that differ between frames.
  std::array<std::byte, kNetwork + 40 + 8> head_{};
};

}  // namespace softhca::port
