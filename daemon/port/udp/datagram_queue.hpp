// What UDP sockets are to send: packets and trains, handed to the kernel many at a time.
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

/// One socket for each source port of KernelHeaders; they receive nothing. One thread drives it;
/// counters may be read by any.
class DatagramQueue {
 public:
  static constexpr std::size_t kFlows = KernelHeaders::kFlows;
  using Sockets = std::array<UniqueFd, kFlows>;
  struct Counters : SendCounters {
    Counter unreachable, path_too_narrow;
  };

  /// Sockets bound to `address`, each to a port of the kernel's choice. Error: the address is not
  /// the kernel's, or no socket is to be had.
  static Expected<Sockets> open(const Gid& address, unsigned interface_index);

  /// `sockets`: of open(), with the same `interface_index`.
  DatagramQueue(Sockets sockets, unsigned interface_index);

  const KernelHeaders& headers() const { return headers_; }
  /// No room for a further train of `pieces`: to be flushed first.
  bool is_full(std::size_t pieces) const {
    return count_ == kMessages || used_ + pieces > pieces_.size();
  }
  /// The bytes of the frame or the pieces stay as they are until flush(). REQUIRES: not full. What
  /// is no RoCE packet, or has a source port that is none of headers(), is dropped.
  void add(std::span<const std::byte> frame);
  void add(const Train& train);
  void flush();

  /// See SocketRoom::look().
  bool is_blocked() { return room_.look(descriptors_); }
  TrainLimits limits() const;
  const Counters& counters() const { return counters_; }

 private:
  static constexpr std::size_t kMessages = 64;
  /// ICMP errors that are looked at during one flush.
  static constexpr unsigned kMostErrors = 64;

  struct Message {
    KernelAddress to;
    /// Traffic class, hop limit, size of segments.
    alignas(cmsghdr) std::array<std::byte, 3 * CMSG_SPACE(sizeof(int))> beside;
    std::size_t socket = 0;
    std::size_t head_length = 0;  ///< of the frame that it stands for
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
