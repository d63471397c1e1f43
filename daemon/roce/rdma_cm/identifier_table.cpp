// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/rdma_cm/identifier_table.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "daemon/roce/rdma_cm/identifier_state.hpp"

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
  touched_.add(number);
  return *slots_[number];
}

void IdentifierTable::erase(IdentifierNumber number) {
  slots_[number.value].reset();
  touched_.add(number.value);
  free_.push(number.value);
  --size_;
}

/// Its caller may change the identifier.
Identifier* IdentifierTable::find(std::uint32_t number) {
  if (number >= slots_.size() || slots_[number] == nullptr) return nullptr;
  touched_.add(number);
  return slots_[number].get();
}

void IdentifierTable::record_changes() {
  for (const std::uint64_t number : touched_.take()) {
    if (slots_[number] == nullptr) {
      records_->forget(cm::StateKind::kIdentifier, number);
      continue;
    }
    cm::StateWriter state;
    state_of(state, *slots_[number]);
    records_->record(cm::StateKind::kIdentifier, number, state.bytes());
  }
}

Identifier* IdentifierTable::restore(std::span<const std::byte> state) {
  constexpr std::uint32_t kMost = 65536;  // that librdmacm can address
  cm::StateReader reader(state);
  auto id = std::make_unique<Identifier>();
  state_of(reader, *id);
  const std::uint32_t number = id->number.value;
  if (!reader.is_complete() || id->state > IdentifierState::kRemoved || number >= kMost)
    return nullptr;
  if (slots_.size() <= number) slots_.resize(number + std::size_t{1});
  if (slots_[number] != nullptr) return nullptr;
  generations_ = std::max(generations_, id->generation);
  ++size_;
  slots_[number] = std::move(id);
  return slots_[number].get();
}

void IdentifierTable::end_restoring() {
  for (std::uint32_t number = 0; number < slots_.size(); ++number)
    if (slots_[number] == nullptr) free_.push(number);
}

Identifier* IdentifierTable::find_cookie(std::uint64_t cookie) {
  Identifier* const found = find(static_cast<std::uint32_t>(cookie));
  return found != nullptr && found->cookie() == cookie ? found : nullptr;
}

int IdentifierTable::find_on(const Channel& channel, const ChannelCommand& command,
                             std::uint32_t number, Identifier*& found) {
  found = find(number);
  // A request that was not reported yet belongs to no channel, so its number is invalid.
  if (found == nullptr || found->channel == ChannelId())
    return command.refuse(ENOENT, "no such identifier: destroyed, or never made");
  if (found->channel != channel.id)
    return command.refuse(EINVAL, "the identifier is of another event channel");
  if (found->state == IdentifierState::kRemoved)
    return command.refuse(ENXIO, "the device of the identifier is gone");
  return 0;
}

int IdentifierTable::find_bound(const ChannelCommand& command, std::uint32_t number,
                                Identifier*& found) {
  if (const int error = find_of(command, number, found)) return error;
  if (found->source) return 0;
  return command.refuse(EINVAL, "the identifier is in state %s, without an address of the tenant",
                        name_of(found->state));
}

}  // namespace softhca::management::rdma_cm
