// SPDX-License-Identifier: Apache-2.0

// Receives frames and trains from a socket, many in one system call. Each kind of socket puts other
// headers into a message, and other control messages beside it.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "daemon/base/counter.hpp"
#include "daemon/port/port.hpp"

namespace softhca::port {

/// One thread drives it; any thread may read the counters.
class MessageBuffers {
 public:
  struct Counters {
    Counter frames, bytes, dropped, trains;
  };

  /// Receives waiting messages, as far as `out` and free buffers have room.
  std::size_t receive(int fd, std::span<Frame> out);
  void release(std::span<const Frame> frames);
  const Counters& counters() const { return counters_; }

 protected:
  /// Room before the data, for headers that the kernel has removed.
  static constexpr std::size_t kHeadroom = 64;
  /// Most bytes of data: an IP packet of the greatest length, with Ethernet header and tag.
  static constexpr std::size_t kLongest = 65535 + 14 + 4;

  struct Buffer {
    std::array<iovec, 2> parts;
    std::byte* data;
    /// The header before the data, or the address of the sender.
    alignas(sockaddr_in6) std::array<std::byte, sizeof(sockaddr_in6)> apart;
    alignas(cmsghdr) std::array<std::byte, 96> beside;  ///< control messages
  };

  MessageBuffers();
  ~MessageBuffers() = default;

  /// Sets the buffers of the message, except those of control messages, which are already set.
  virtual void offer(msghdr& to, Buffer& buffer) = 0;
  /// Returns the frame of a message, with `segment` as received, or a null frame if it is
  /// malformed.
  virtual Frame accept(const mmsghdr& message, Buffer& buffer) = 0;

 private:
  static constexpr std::size_t kBuffers = 64;
  static constexpr std::size_t kBurst = 32;
  /// Burst while trains arrive: 4 of them have as many packets as a burst of single packets.
  static constexpr std::size_t kBurstOfTrains = 4;

  void count(Frame& frame);

  std::unique_ptr<std::byte[]> storage_;
  std::array<Buffer, kBuffers> buffers_;
  std::array<Buffer*, kBuffers> free_;  ///< those used last are on top: they are in the cache
  std::size_t free_count_ = kBuffers;
  std::size_t burst_ = kBurst;
  std::array<mmsghdr, kBurst> messages_{};
  Counters counters_;
};

}  // namespace softhca::port
