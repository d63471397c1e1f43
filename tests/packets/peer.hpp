// SPDX-License-Identifier: Apache-2.0

// The other end of the wire, played by hand: makes frames from header fields, damages them on
// request, and takes what the adapter sends apart.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "daemon/port/memory_port.hpp"
#include "daemon/roce/neighbour/neighbours.hpp"
#include "daemon/roce/wire/frame.hpp"
#include "tests/packets/arguments.hpp"

namespace softhca::packets {

/// A frame of the adapter, kept with what it says.
struct Heard {
  std::vector<std::byte> bytes;
  wire::ParsedFrame parsed;
};

/// 224.0.0.`number` or ff0e::`number`.
Gid group_of(std::uint64_t number, bool ipv4);

class Peer {
 public:
  Peer(std::unique_ptr<port::Port> end, const Gid& own, const Gid& adapter);

  /// One frame. Arguments: README.md of this folder.
  void send(const wire::Headers& h, std::span<const std::byte> payload, Arguments& how);
  /// Reads what has come: answers questions for our link address, keeps packets.
  void listen(Time now);
  /// The oldest packet not asked for yet.
  std::optional<Heard> next();

  std::optional<std::uint16_t> vlan;  ///< as the adapter's port

 private:
  void transmit(std::span<const std::byte> bytes);

  std::unique_ptr<port::Port> end_;
  Gid own_, adapter_;
  MacAddress adapter_mac_;
  neighbour::Neighbours neighbours_;
  std::deque<Heard> heard_;
};

}  // namespace softhca::packets
