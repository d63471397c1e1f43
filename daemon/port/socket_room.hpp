// Buffers of sockets in the kernel: how large they are, and how much of them is taken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "daemon/base/counter.hpp"

namespace softhca::port {

/// What waits in a socket while the engine does something else: some windows of queue pairs. The
/// kernel counts what it allocated for a frame, up to twice its length.
inline constexpr int kReceiveBytes = 32 << 20;
/// What waits in the queueing discipline and in the device, of which half is for what is in the
/// making when the port is found full: some milliseconds of a slow card, and not more, since it
/// stands before all who send later.
inline constexpr int kSendBytes = 2 << 20;

/// Sets both, each as large as the kernel allows where the privilege for more than that is missing.
void set_socket_buffers(int fd, int receive_bytes, int send_bytes);

/// What was handed to the kernel; may be read by any thread.
struct SendCounters {
  Counter frames, bytes, dropped, trains, refused;

  /// A frame, or a train of so many packets behind one head. Returns its bytes in all.
  std::size_t count_sent(std::uint32_t packets, std::size_t head_length, std::uint32_t behind) {
    const std::size_t all = packets * head_length + behind;
    frames.add(packets);
    bytes.add(all);
    if (packets > 1) trains.add();
    return all;
  }
};

/// Whether sockets that send for one port can take more.
class SocketRoom {
 public:
  /// `first`: one of the sockets, all of which have the same send buffer.
  explicit SocketRoom(int first);

  void sent(std::size_t bytes) { unasked_ += bytes; }
  /// A socket has refused to take more.
  void refused() { blocked_ = true; }
  bool blocked() const { return blocked_; }
  /// The kernel holds so much of what was sent before that no more should be made. It is asked when
  /// much was sent since it was last asked, and then on each call until there is room.
  bool look(std::span<const int> sockets);

 private:
  std::uint64_t buffer_ = 0;   ///< what the kernel lets us have under way, in bytes
  std::uint64_t unasked_ = 0;  ///< bytes sent since the kernel was asked how much it holds
  bool blocked_ = false;
};

}  // namespace softhca::port
