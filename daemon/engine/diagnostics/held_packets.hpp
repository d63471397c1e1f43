// SPDX-License-Identifier: Apache-2.0

// Packets that a fault holds back until a time, or until others have passed. The memory is
// allocated at the beginning: a packet that finds no room is not held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "daemon/base/time.hpp"
#include "daemon/base/types.hpp"

namespace softhca::engine {

class HeldPackets {
 public:
  static constexpr std::size_t kMost = 1024;
  /// Most of them that wait for others to pass.
  static constexpr std::size_t kMostReordered = 64;

  using Part = std::span<const std::byte>;
  struct Terms {
    std::uint32_t fault;  ///< number of the fault that holds it, see release()
    PortId port;
    Time due;
    std::uint32_t passing = 0;  ///< also due after so many of its flow have passed; 0: only by time
    std::uint32_t flow = 0;
  };

  /// `room`: bytes of the longest packet.
  explicit HeldPackets(std::size_t room);

  /// Copies the packet. False: it finds no room.
  bool hold(const Terms& terms, std::span<const Part> parts);
  /// Counts a packet of the flow that goes on.
  void passed(std::uint32_t flow, Time now) {
    if (!reordered_.empty()) pass(flow, now);
  }
  /// Makes all packets that the fault holds due.
  void release(std::uint32_t fault, Time now);

  bool empty() const { return by_time_.empty() && reordered_.empty(); }
  std::size_t size() const { return by_time_.size() + reordered_.size(); }
  /// Returns kNever if nothing is held.
  Time next_deadline() const;
  /// Calls visit(PortId, std::span<std::byte>) for each packet that is due, by time. Returns how
  /// many there were.
  template <class Visit>
  std::size_t take_due(Time now, Visit&& visit) {
    std::size_t count = 0;
    for (Packet packet; take_next(now, packet); ++count) {
      visit(packet.port, bytes_of(packet));
      free_.push_back(packet.slot);
    }
    return count;
  }

 private:
  struct Packet {
    Time due;
    std::uint64_t order;  ///< among those that are due at the same time
    std::uint32_t slot;
    std::uint32_t length;
    std::uint32_t fault;
    std::uint32_t flow;
    std::uint32_t passing;
    PortId port;
  };
  static bool is_later(const Packet& one, const Packet& other);

  std::span<std::byte> bytes_of(const Packet& packet) const {
    return {memory_.get() + packet.slot * room_, packet.length};
  }
  void pass(std::uint32_t flow, Time now);
  void make_due(std::size_t reordered, Time now);
  void push(const Packet& packet);
  bool take_next(Time now, Packet& out);

  const std::size_t room_;
  std::unique_ptr<std::byte[]> memory_;
  std::vector<std::uint32_t> free_;
  std::vector<Packet> by_time_;  ///< a heap, the next one first
  std::vector<Packet> reordered_;
  std::uint64_t held_ = 0;  ///< packets, so far
};

}  // namespace softhca::engine
