// SPDX-License-Identifier: Apache-2.0

// Buffers of sockets in the kernel: their size and their use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "daemon/base/counter.hpp"

namespace softhca::port {

/// Receive buffer, for frames that wait while the engine does something else. It holds the
/// congestion windows of several queue pairs. The kernel counts the memory that it allocated for a
/// frame, up to twice its length.
inline constexpr int kReceiveBytes = 32 << 20;
/// Send buffer, for frames in the queueing discipline and in the device. Half of it is for packets
/// under construction when the port is found full. It is limited to some milliseconds of a slow
/// card, because later packets queue behind it.
inline constexpr int kSendBytes = 2 << 20;

/// Sets both sizes, or the largest that the kernel allows without the privilege to exceed its
/// limit.
void set_socket_buffers(int fd, int receive_bytes, int send_bytes);

/// Counters of what was passed to the kernel. Any thread may read them.
struct SendCounters {
  Counter frames, bytes, dropped, trains, refused;

  /// Counts a frame, or a train of so many packets with one head. Returns its total bytes.
  std::size_t count_sent(std::uint32_t packets, std::size_t head_length, std::uint32_t behind) {
    const std::size_t all = packets * head_length + behind;
    frames.add(packets);
    bytes.add(all);
    if (packets > 1) trains.add();
    return all;
  }
};

/// Tracks whether the sockets that send for one port can take more.
class SocketRoom {
 public:
  /// `first`: one of the sockets, all of which have the same send buffer.
  explicit SocketRoom(int first);

  void sent(std::size_t bytes) { unasked_ += bytes; }
  /// Notes that a socket refused a message.
  void refused() { blocked_ = true; }
  bool blocked() const { return blocked_; }
  /// True if the kernel still holds so much that the engine should make no more packets. Queries
  /// the kernel after much was sent since the last query, and then at each call until there is
  /// room.
  bool look(std::span<const int> sockets);

 private:
  std::uint64_t buffer_ = 0;   ///< bytes that the kernel accepts in flight
  std::uint64_t unasked_ = 0;  ///< bytes sent since the last query
  bool blocked_ = false;
};

}  // namespace softhca::port
