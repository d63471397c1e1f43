// SPDX-License-Identifier: Apache-2.0

// The other end of a link, played by a fuzz target: takes apart what the engine sends, and sends
// packets of its own.
#pragma once

#include <deque>
#include <memory>

#include "daemon/port/memory_port.hpp"
#include "daemon/roce/wire/frame.hpp"
#include "tests/fuzz/input.hpp"

namespace softhca::fuzz {

class WirePeer {
 public:
  /// A packet that the engine has sent.
  struct Seen {
    wire::Headers headers;
    std::size_t payload = 0;
  };
  static constexpr std::size_t kRemembered = 16;

  WirePeer(std::unique_ptr<port::MemoryPort> end, const Gid& own, const Gid& other,
           const MacAddress& other_mac);

  /// Well-formed, with the right sum. `payload`: so many bytes.
  void send(const wire::Headers& headers, std::size_t payload);
  void send_raw(std::span<const std::uint8_t> bytes);
  /// Reads everything that waits; answers questions for the link address. `mtu`: no packet may have
  /// more payload.
  void drain(std::size_t mtu);

  /// Requests, latest last.
  const std::deque<Seen>& requests() const { return requests_; }
  /// The PSN of the engine's latest acknowledgement of requests of ours, and its syndrome.
  struct Acknowledged {
    Psn psn;
    std::uint8_t syndrome;
  };
  std::optional<Acknowledged> take_acknowledged() { return std::exchange(acknowledged_, {}); }
  void forget() {
    requests_.clear();
    acknowledged_.reset();
  }

 private:
  void transmit(std::span<const std::byte> frame);
  void take(std::span<const std::byte> frame, std::size_t mtu);

  std::unique_ptr<port::MemoryPort> end_;
  Gid own_;
  wire::FrameTemplate path_;
  std::uint16_t identification_ = 0;
  std::deque<Seen> requests_;
  std::optional<Acknowledged> acknowledged_;
};

}  // namespace softhca::fuzz
