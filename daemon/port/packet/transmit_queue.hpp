// SPDX-License-Identifier: Apache-2.0

// Frames and trains that a packet socket sends, many in one system call.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "daemon/port/packet/socket.hpp"
#include "daemon/port/socket_room.hpp"
#include "daemon/port/train.hpp"

namespace softhca::port {

/// One thread drives it; any thread may read the counters.
class TransmitQueue {
 public:
  explicit TransmitQueue(int fd) : fd_(fd), room_(fd) {}

  /// True if another frame or train of `pieces` does not fit before a flush().
  bool is_full(std::size_t pieces = 1) const {
    return count_ == kMessages || used_ + pieces + 1 > pieces_.size();
  }
  /// Queues a frame or train. REQUIRES: its bytes do not change until flush().
  void add(std::span<const std::byte> frame);
  void add(const Train& train);
  void flush();

  /// See SocketRoom::look().
  bool is_blocked() { return room_.look({&fd_, 1}); }
  TrainLimits limits() const;
  const SendCounters& counters() const { return counters_; }

 private:
  static constexpr std::size_t kMessages = 64;

  /// The layout for the kernel: the offload header, then the frame.
  struct Head {
    Offload offload;
    std::array<std::byte, 14 + 4 + 40 + 8> bytes;
  };
  struct Message {
    Head head;
    std::size_t head_length = 0;  ///< bytes of `head` in use; 0: the pieces are a whole frame
    std::size_t network = 0;
    std::uint32_t bytes = 0;  ///< behind the head
    std::uint32_t segment = 0;
    std::uint32_t packets = 1;
  };

  Message& begin(std::size_t head_length, std::uint32_t bytes);
  void append(const iovec& piece);
  void handle_refusal(std::size_t at, int error);
  void send_apart(std::size_t at);
  bool send_packet(Message& message, std::span<iovec> parts);
  void count_sent(const Message& message);

  int fd_;
  SocketRoom room_;
  bool takes_trains_ = true;
  std::size_t count_ = 0;
  std::size_t used_ = 0;
  std::array<mmsghdr, kMessages> headers_{};
  std::array<Message, kMessages> messages_;
  std::array<iovec, 1024> pieces_;
  SendCounters counters_;
};

}  // namespace softhca::port
