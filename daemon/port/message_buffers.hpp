// What a socket has received: frames and trains, taken from the kernel many at a time. What stands
// in a message, and beside it, differs from one kind of socket to another.
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

/// One thread drives it; counters may be read by any.
class MessageBuffers {
 public:
  struct Counters {
    Counter frames, bytes, dropped, trains;
  };

  /// Takes what waits at the socket, as far as `out` and free buffers go.
  std::size_t receive(int fd, std::span<Frame> out);
  void release(std::span<const Frame> frames);
  const Counters& counters() const { return counters_; }

 protected:
  /// Room before the data, for what belongs to a frame and does not come with it.
  static constexpr std::size_t kHeadroom = 64;
  /// Of the data: an IP packet of the greatest length, with Ethernet header and tag.
  static constexpr std::size_t kLongest = 65535 + 14 + 4;

  struct Buffer {
    std::array<iovec, 2> parts;
    std::byte* data;
    /// What comes before the data, or the address of who sent it.
    alignas(sockaddr_in6) std::array<std::byte, sizeof(sockaddr_in6)> apart;
    alignas(cmsghdr) std::array<std::byte, 96> beside;  ///< control messages
  };

  MessageBuffers();
  ~MessageBuffers() = default;

  /// Says where the message goes. Beside it there is room already.
  virtual void offer(msghdr& to, Buffer& buffer) = 0;
  /// The frame of a message, with `segment` as it came, or a null one when it is none.
  virtual Frame accept(const mmsghdr& message, Buffer& buffer) = 0;

 private:
  static constexpr std::size_t kBuffers = 64;
  static constexpr std::size_t kBurst = 32;
  /// While trains come: 4 of them are as much as a burst of single packets.
  static constexpr std::size_t kBurstOfTrains = 4;

  void count(Frame& frame);

  std::unique_ptr<std::byte[]> storage_;
  std::array<Buffer, kBuffers> buffers_;
  std::array<Buffer*, kBuffers> free_;  ///< the ones used last are on top: they are in the cache
  std::size_t free_count_ = kBuffers;
  std::size_t burst_ = kBurst;
  std::array<mmsghdr, kBurst> messages_{};
  Counters counters_;
};

}  // namespace softhca::port
