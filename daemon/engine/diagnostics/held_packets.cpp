// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/diagnostics/held_packets.hpp"

#include <algorithm>
#include <cstring>

namespace softhca::engine {

HeldPackets::HeldPackets(std::size_t room)
    : room_(room), memory_(std::make_unique<std::byte[]>(kMost * room)) {
  free_.reserve(kMost);
  for (std::uint32_t slot = kMost; slot > 0; --slot) free_.push_back(slot - 1);
  by_time_.reserve(kMost);
  reordered_.reserve(kMostReordered);
}

bool HeldPackets::is_later(const Packet& one, const Packet& other) {
  return one.due != other.due ? one.due > other.due : one.order > other.order;
}

void HeldPackets::push(const Packet& packet) {
  by_time_.push_back(packet);
  std::push_heap(by_time_.begin(), by_time_.end(), is_later);
}

bool HeldPackets::hold(const Terms& terms, std::span<const Part> parts) {
  std::size_t length = 0;
  for (const Part& part : parts) length += part.size();
  const bool waits = terms.passing != 0;
  if (length > room_ || free_.empty() || (waits && reordered_.size() == kMostReordered))
    return false;
  const Packet packet{.due = terms.due,
                      .order = held_++,
                      .slot = free_.back(),
                      .length = static_cast<std::uint32_t>(length),
                      .fault = terms.fault,
                      .flow = terms.flow,
                      .passing = terms.passing,
                      .port = terms.port};
  free_.pop_back();
  std::byte* to = bytes_of(packet).data();
  for (const Part& part : parts) to = std::copy(part.begin(), part.end(), to);
  if (waits)
    reordered_.push_back(packet);
  else
    push(packet);
  return true;
}

void HeldPackets::make_due(std::size_t reordered, Time now) {
  Packet packet = reordered_[reordered];
  reordered_.erase(reordered_.begin() + static_cast<std::ptrdiff_t>(reordered));
  packet.due = std::min(packet.due, now);
  push(packet);
}

void HeldPackets::pass(std::uint32_t flow, Time now) {
  for (std::size_t i = 0; i < reordered_.size();) {
    Packet& packet = reordered_[i];
    if (packet.flow == flow && --packet.passing == 0)
      make_due(i, now);
    else
      ++i;
  }
}

void HeldPackets::release(std::uint32_t fault, Time now) {
  for (std::size_t i = 0; i < reordered_.size();) {
    if (reordered_[i].fault == fault)
      make_due(i, now);
    else
      ++i;
  }
  for (Packet& packet : by_time_)
    if (packet.fault == fault) packet.due = std::min(packet.due, now);
  std::make_heap(by_time_.begin(), by_time_.end(), is_later);
}

Time HeldPackets::next_deadline() const {
  Time next = by_time_.empty() ? kNever : by_time_.front().due;
  for (const Packet& packet : reordered_) next = std::min(next, packet.due);
  return next;
}

/// Takes the next packet that is due. Its room is taken until its slot is put back into `free_`.
bool HeldPackets::take_next(Time now, Packet& out) {
  for (std::size_t i = 0; i < reordered_.size();) {
    if (reordered_[i].due <= now)
      make_due(i, now);
    else
      ++i;
  }
  if (by_time_.empty() || by_time_.front().due > now) return false;
  std::pop_heap(by_time_.begin(), by_time_.end(), is_later);
  out = by_time_.back();
  by_time_.pop_back();
  return true;
}

}  // namespace softhca::engine
