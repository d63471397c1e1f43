// Packets on their way to a port that gathers them: what is written for them, where their payload
// lies, and which of them go as a train.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "daemon/engine/payload_reader.hpp"
#include "daemon/port/port.hpp"
#include "daemon/transport/upcalls.hpp"
#include "daemon/wire/frame.hpp"

namespace softhca::engine {

/// Packets that follow each other make a train when they have the same headers below the transport
/// and the same size; a shorter one ends it. So a train is never longer than what a queue pair may
/// send before others have their turn: turns are short while tenants compete, and the pace of a
/// queue pair ends them.
///
/// Payload of requests that stays as it is until it is acknowledged is gathered by the port, from
/// the tenant's memory. All else is copied once.
class Outbox {
 public:
  /// Where the bytes of a packet lie, for who looks at it at once.
  struct Parts {
    std::array<std::byte, wire::kMaxNetworkHeaders> head;
    /// Headers, transport headers, payload, pad and ICRC.
    std::array<std::span<const std::byte>, memory::kMaxEntries + 3> bytes;
    std::size_t count = 0;
    std::span<const std::span<const std::byte>> view() const { return {bytes.data(), count}; }
  };

  /// `sender` belongs to `port`.
  Outbox(port::Port& port, port::TrainSender& sender, PayloadReader& payloads);

  /// kNoBuffer: the port is full. kNoAccess: the payload cannot be read. kSent: `show`, if there is
  /// one, says where the packet is.
  transport::SendResult add(const wire::FrameTemplate& path, const wire::Headers& h,
                            const transport::PayloadSource& payload, const QueuePair* qp,
                            Parts* show = nullptr);
  /// Ends the train at hand. What was added has left the memory of tenants when this returns.
  void flush();
  /// Ends the train at hand, so that a frame of the port's may follow it. Returns the
  /// identification that is due to the frame.
  std::uint16_t give_way();

 private:
  bool fits(const wire::FrameTemplate& path, std::size_t datagram) const;
  bool prepare(const wire::FrameTemplate& path, std::size_t datagram);
  void close();
  void put(std::size_t bytes);

  port::Port& port_;
  port::TrainSender& sender_;
  PayloadReader& payloads_;

  /// Headers, copied payload, pad and ICRC of packets since the last flush. It fits the cache next
  /// to the core.
  static constexpr std::size_t kArena = 256 << 10;
  std::unique_ptr<std::byte[]> arena_;
  std::size_t arena_used_ = 0;
  std::size_t pending_ = 0;  ///< bytes of packets since the last flush

  // The train at hand.
  wire::FrameTemplate path_;
  port::TrainLimits limits_;
  std::vector<iovec> pieces_;
  std::uint32_t segment_ = 0;
  std::uint32_t bytes_ = 0;
  std::uint32_t packets_ = 0;  ///< 0: there is none
  bool ended_ = false;         ///< by a shorter packet
  /// Of its first packet, or of the next one; stays 0 where the kernel counts (KernelHeaders).
  std::uint16_t identification_ = 0;
};

}  // namespace softhca::engine
