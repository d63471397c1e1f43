// SPDX-License-Identifier: Apache-2.0

// The hosts at the other end of the port's link. They answer for their link addresses, and send
// packets to the queue pairs of the engine, most of them as the queue pairs expect them.
#pragma once

#include <optional>

#include "daemon/roce/wire/frame.hpp"
#include "daemon/roce/wire/opcode.hpp"
#include "tests/fuzz/requests/program.hpp"

namespace softhca::fuzz {

class Wire {
 public:
  explicit Wire(Common& common);

  /// Takes in what the engine has sent, and answers questions for link addresses.
  void drain();

  // --- operations of the input
  void send_packet();
  void send_datagram();
  void send_raw();
  /// A port with one link stays with it, and announces its addresses.
  void fail_over();
  void serve_port();

 private:
  void transmit(std::span<const std::byte> frame);
  void send(const wire::FramePath& path, const wire::Headers& headers, std::size_t payload);
  wire::FramePath path_to(const Gid& destination, const Gid& source) const;

  Common& common_;
  port::MemoryPort& end_;
  neighbour::Neighbours neighbours_;
  std::uint16_t identification_ = 0;
};

}  // namespace softhca::fuzz
