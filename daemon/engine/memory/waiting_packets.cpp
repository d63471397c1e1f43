// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/memory/waiting_packets.hpp"

#include <algorithm>

#include "daemon/engine/records/tenant.hpp"

namespace softhca::engine {

void WaitingPackets::open() {
  packets_ = std::make_unique_for_overwrite<Packet[]>(kPlaces);
  for (std::uint32_t i = kPlaces; i-- > 0;) {
    packets_[i].next = free_;
    free_ = i;
  }
  queues_.resize(queue_pairs_);
}

bool WaitingPackets::has_room(const Tenant& tenant, const wire::ParsedFrame& frame) const {
  return free_ != kNoIndex && tenant.waiting_packets < kPlacesOfTenant &&
         frame.payload.size() <= kBytes;
}

void WaitingPackets::add(Tenant& tenant, std::uint32_t slot, const wire::ParsedFrame& frame,
                         std::uint64_t number) {
  const std::uint32_t place = free_;
  Packet& packet = packets_[place];
  free_ = packet.next;
  packet.next = kNoIndex;
  packet.number = number;
  packet.frame = frame;
  std::copy(frame.payload.begin(), frame.payload.end(), packet.payload.begin());
  packet.frame.payload = {packet.payload.data(), frame.payload.size()};
  const std::size_t network = std::min(frame.network.size(), packet.network.size());
  std::copy_n(frame.network.begin(), network, packet.network.begin());
  packet.frame.network = {packet.network.data(), network};
  packet.frame.datagram = {};  // the packet was checked before
  Queue& queue = queues_[slot];
  (queue.last != kNoIndex ? packets_[queue.last].next : queue.first) = place;
  queue.last = place;
  ++tenant.waiting_packets;
}

void WaitingPackets::pop(Tenant& tenant, std::uint32_t slot) {
  Queue& queue = queues_[slot];
  const std::uint32_t place = queue.first;
  queue.first = packets_[place].next;
  if (queue.first == kNoIndex) queue.last = kNoIndex;
  packets_[place].next = free_;
  free_ = place;
  --tenant.waiting_packets;
}

}  // namespace softhca::engine
