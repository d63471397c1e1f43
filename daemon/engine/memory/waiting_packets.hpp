// SPDX-License-Identifier: Apache-2.0

// Received packets for queue pairs with busy memory (MemoryWaits), in the order of arrival. The
// first packet of a queue pair is being processed; the others wait behind it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/base/intrusive_queue.hpp"
#include "daemon/roce/wire/frame.hpp"

namespace softhca::engine {

struct Tenant;

class WaitingPackets {
 public:
  /// Most bytes of payload of a packet.
  static constexpr std::size_t kBytes = 4096;
  static constexpr std::uint32_t kPlaces = 512;
  static constexpr std::uint32_t kPlacesOfTenant = kPlaces / 4;

  struct Packet {
    wire::ParsedFrame frame;
    std::uint64_t number = 0;
    std::uint32_t next = kNoIndex;  ///< next packet of its queue pair, or next free place
    std::array<std::byte, wire::kMaxNetworkHeaders> network;
    std::array<std::byte, kBytes> payload;
  };

  explicit WaitingPackets(std::uint32_t queue_pairs) : queue_pairs_(queue_pairs) {}

  /// Allocates the places. Without it there is room for no packet.
  void open();

  /// Returns a number that is different for each packet.
  std::uint64_t next_number() { return ++number_; }
  bool has_room(const Tenant& tenant, const wire::ParsedFrame& frame) const;
  /// Copies the packet behind the others of the queue pair in this slot. REQUIRES: has_room().
  void add(Tenant& tenant, std::uint32_t slot, const wire::ParsedFrame& frame,
           std::uint64_t number);

  bool any(std::uint32_t slot) const { return !queues_.empty() && queues_[slot].first != kNoIndex; }
  /// Returns the first packet; null if there is none. It stays in place until it is removed.
  const Packet* front(std::uint32_t slot) const {
    return any(slot) ? &packets_[queues_[slot].first] : nullptr;
  }
  /// Removes the first packet. REQUIRES: any().
  void pop(Tenant& tenant, std::uint32_t slot);
  void clear(Tenant& tenant, std::uint32_t slot) {
    while (any(slot)) pop(tenant, slot);
  }

 private:
  struct Queue {
    std::uint32_t first = kNoIndex;
    std::uint32_t last = kNoIndex;
  };

  const std::uint32_t queue_pairs_;
  std::uint64_t number_ = 0;
  std::uint32_t free_ = kNoIndex;
  std::unique_ptr<Packet[]> packets_;
  std::vector<Queue> queues_;  ///< by slot
};

}  // namespace softhca::engine
