// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/rdma_cm/identifier_table.hpp"

#include <cerrno>

namespace softhca::management::rdma_cm {

Identifier& IdentifierTable::make() {
  if (free_.empty()) {
    free_.push(static_cast<std::uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const std::uint32_t number = free_.top();
  free_.pop();
  ++size_;
  slots_[number] = std::make_unique<Identifier>();
  slots_[number]->number = IdentifierNumber(number);
  slots_[number]->generation = ++generations_;
  return *slots_[number];
}

void IdentifierTable::erase(IdentifierNumber number) {
  slots_[number.value].reset();
  free_.push(number.value);
  --size_;
}

Identifier* IdentifierTable::find(std::uint32_t number) {
  return number < slots_.size() ? slots_[number].get() : nullptr;
}

Identifier* IdentifierTable::find_cookie(std::uint64_t cookie) {
  Identifier* const found = find(static_cast<std::uint32_t>(cookie));
  return found != nullptr && found->cookie() == cookie ? found : nullptr;
}

int IdentifierTable::find_of(ChannelId channel, std::uint32_t number, Identifier*& found) {
  found = find(number);
  // A request that was not reported yet belongs to no channel, so its number is invalid.
  if (found == nullptr || found->channel == ChannelId()) return ENOENT;
  if (found->channel != channel) return EINVAL;
  last_named_ = number;
  return found->state == IdentifierState::kRemoved ? ENXIO : 0;
}

int IdentifierTable::find_bound(ChannelId channel, std::uint32_t number, Identifier*& found) {
  if (const int error = find_of(channel, number, found)) return error;
  return found->source ? 0 : EINVAL;
}

}  // namespace softhca::management::rdma_cm
