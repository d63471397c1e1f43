// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/addresses/address_handles.hpp"

namespace softhca::engine {
namespace {

constexpr std::uint32_t kSlotMask = (1u << 24) - 1;
// A slot is reused only while at least this many are free, so that its generation (8 bits) wraps
// late.
constexpr std::size_t kAtRest = 256;

}  // namespace

std::uint32_t AddressHandles::add(AddressHandle& ah) {
  while (!free_.empty() && slots_[free_.front() & kSlotMask].ah != nullptr) free_.pop_front();
  std::uint32_t handle = static_cast<std::uint32_t>(slots_.size());
  if (free_.size() < kAtRest) {
    slots_.emplace_back();
  } else {
    handle = free_.front();
    free_.pop_front();
  }
  enter(ah, handle);
  return handle;
}

bool AddressHandles::add(AddressHandle& ah, std::uint32_t handle) {
  const std::uint32_t slot = handle & kSlotMask;
  while (slots_.size() <= slot) {
    free_.push_back(static_cast<std::uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  if (slots_[slot].ah != nullptr) return false;
  enter(ah, handle);
  return true;
}

void AddressHandles::enter(AddressHandle& ah, std::uint32_t handle) {
  slots_[handle & kSlotMask] = {handle, &ah};
  const std::uint32_t flow_label = ah.route.path.flow_label;
  ah.route.udp_source_port =
      flow_label != 0 ? wire::source_port(flow_label) : wire::datagram_source_port(Qpn(handle));
}

void AddressHandles::remove(std::uint32_t handle) {
  slots_[handle & kSlotMask] = {};
  free_.push_back(handle + kSlotMask + 1);
}

AddressHandle* AddressHandles::find(std::uint32_t handle) const {
  const std::uint32_t slot = handle & kSlotMask;
  if (slot >= slots_.size() || slots_[slot].handle != handle) return nullptr;
  return slots_[slot].ah;
}

}  // namespace softhca::engine
