// SPDX-License-Identifier: Apache-2.0

// Outgoing packets of a port that gathers: the bytes written for them, where their payload lies,
// and their grouping into trains.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "daemon/engine/receive/payload_reader.hpp"
#include "daemon/port/port.hpp"
#include "daemon/roce/transport/upcalls.hpp"
#include "daemon/roce/wire/frame.hpp"

namespace softhca::engine {

/// Consecutive packets form a train if they have the same size and the same headers below the
/// transport. A shorter packet ends the train. The turn of the queue pair therefore bounds a train:
/// turns are short while tenants compete, and a rate limit ends them.
///
/// The port gathers request payload from the tenant's memory if it does not change before it is
/// acknowledged. All other payload is copied once.
class Outbox {
 public:
  /// Where the bytes of a packet lie. Valid until the next call of the outbox.
  struct Parts {
    std::array<std::byte, wire::kMaxNetworkHeaders> head;
    /// Headers, transport headers, payload, pad and ICRC.
    std::array<std::span<const std::byte>, memory::kMaxEntries + 3> bytes;
    std::size_t count = 0;
    std::span<const std::span<const std::byte>> view() const { return {bytes.data(), count}; }
  };

  /// `sender` belongs to `port`.
  Outbox(port::Port& port, port::TrainSender& sender, PayloadReader& payloads);

  /// Adds a packet to the train. kNoBuffer: the port is full. kNoAccess: the payload cannot be
  /// read. kSent: `show`, if given, receives where the packet lies.
  transport::SendResult add(const wire::FrameTemplate& path, const wire::Headers& h,
                            const transport::PayloadSource& payload, const QueuePair* qp,
                            Parts* show = nullptr);
  /// Sends all packets that were added. They no longer refer to memory of tenants when this
  /// returns.
  void flush();
  /// Ends the open train, so that a frame of the port may follow it. Returns the IP identification
  /// for that frame.
  std::uint16_t give_way();

 private:
  bool fits(const wire::FrameTemplate& path, std::size_t datagram) const;
  bool prepare(const wire::FrameTemplate& path, std::size_t datagram);
  void close();
  void put(std::size_t bytes);

  port::Port& port_;
  port::TrainSender& sender_;
  PayloadReader& payloads_;

  /// Headers, copied payload, pad and ICRC of packets since the last flush. The size fits the L2
  /// cache.
  static constexpr std::size_t kArena = 256 << 10;
  std::unique_ptr<std::byte[]> arena_;
  std::size_t arena_used_ = 0;
  std::size_t pending_ = 0;  ///< bytes of packets since the last flush

  // The open train.
  wire::FrameTemplate path_;
  port::TrainLimits limits_;
  std::vector<iovec> pieces_;
  std::uint32_t segment_ = 0;
  std::uint32_t bytes_ = 0;
  std::uint32_t packets_ = 0;  ///< 0: no train is open
  bool ended_ = false;         ///< by a shorter packet
  /// Identification of its first packet, or of the next packet. It stays 0 where the kernel numbers
  /// packets (KernelHeaders).
  std::uint16_t identification_ = 0;
};

}  // namespace softhca::engine
