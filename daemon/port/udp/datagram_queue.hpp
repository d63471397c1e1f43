// SPDX-License-Identifier: Apache-2.0

// Packets and trains that UDP sockets send, many in one system call.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "daemon/base/expected.hpp"
#include "daemon/base/kernel_address.hpp"
#include "daemon/base/unique_fd.hpp"
#include "daemon/port/port.hpp"
#include "daemon/port/socket_room.hpp"
#include "daemon/port/train.hpp"

namespace softhca::port {

/// Has one socket for each source port of KernelHeaders; they receive nothing. One thread drives
/// it; any thread may read the counters.
class DatagramQueue {
 public:
  static constexpr std::size_t kFlows = KernelHeaders::kFlows;
  using Sockets = std::array<UniqueFd, kFlows>;
  struct Counters : SendCounters {
    Counter unreachable, path_too_narrow;
  };

  /// Opens sockets bound to `address`, each to a port that the kernel chooses. Error: the kernel
  /// does not own the address, or provides no socket.
  static Expected<Sockets> open(const Gid& address, unsigned interface_index);

  /// `sockets`: result of open() with the same `interface_index`.
  DatagramQueue(Sockets sockets, unsigned interface_index);

  const KernelHeaders& headers() const { return headers_; }
  /// True if another train of `pieces` does not fit before a flush().
  bool is_full(std::size_t pieces) const {
    return count_ == kMessages || used_ + pieces > pieces_.size();
  }
  /// Queues a frame or train. Drops packets that are not RoCE, or have a source port that is not in
  /// headers(). REQUIRES: not full; the bytes of the frame or the pieces do not change until
  /// flush().
  void add(std::span<const std::byte> frame);
  void add(const Train& train);
  void flush();

  /// See SocketRoom::look().
  bool is_blocked() { return room_.look(descriptors_); }
  TrainLimits limits() const;
  const Counters& counters() const { return counters_; }

 private:
  static constexpr std::size_t kMessages = 64;
  /// Most ICMP errors that one flush reads.
  static constexpr unsigned kMostErrors = 64;

  struct Message {
    KernelAddress to;
    /// Traffic class, hop limit, size of segments.
    alignas(cmsghdr) std::array<std::byte, 3 * CMSG_SPACE(sizeof(int))> beside;
    std::size_t socket = 0;
    std::size_t head_length = 0;  ///< of the frame that the message carries
    std::uint32_t bytes = 0;      ///< behind the head
    std::uint32_t segment = 0;
    std::uint32_t packets = 1;
  };

  std::size_t run_at(std::size_t first) const;
  void handle_refusal(std::size_t at, int error, unsigned& errors_left);
  void send_first(std::size_t at, int error, unsigned& errors_left);
  bool take_errors(int fd, unsigned& left);
  void count_sent(const Message& message);

  Sockets sockets_;
  std::array<int, kFlows> descriptors_{};
  KernelHeaders headers_;
  unsigned interface_index_;
  SocketRoom room_;
  bool takes_trains_ = true;
  std::size_t count_ = 0;
  std::size_t used_ = 0;
  std::array<mmsghdr, kMessages> headers_of_messages_{};
  std::array<Message, kMessages> messages_;
  std::array<iovec, 1024> pieces_;
  Counters counters_;
};

}  // namespace softhca::port
