// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/rdma_cm/channel_table.hpp"

#include <utility>

#include "daemon/roce/rdma_cm/identifier_state.hpp"

namespace softhca::management::rdma_cm {

ChannelId ChannelTable::open(const ChannelOwner& owner) {
  ChannelId id;
  do id = ChannelId(environment_.random());
  while (id == ChannelId() || channels_.contains(id));
  channels_[id] = Channel{.id = id, .owner = owner};
  touched_.add(id.value);
  return id;
}

void ChannelTable::record_changes() {
  for (const std::uint64_t number : touched_.take()) {
    const auto found = channels_.find(ChannelId(static_cast<std::uint32_t>(number)));
    if (found == channels_.end()) {
      environment_.records()->forget(cm::StateKind::kAnswer, number);
      environment_.records()->forget(cm::StateKind::kChannel, number);
      continue;
    }
    cm::StateWriter state;
    state_of_channel(state, std::as_const(found->second));
    environment_.records()->record(cm::StateKind::kChannel, number, state.bytes());
  }
}

Channel* ChannelTable::restore(std::span<const std::byte> state) {
  cm::StateReader reader(state);
  Channel channel;
  state_of_channel(reader, channel);
  if (!reader.is_complete() || channel.id == ChannelId()) return nullptr;
  const auto [at, added] = channels_.emplace(channel.id, channel);
  return added ? &at->second : nullptr;
}

void ChannelTable::record_answer(ChannelId channel, const Answer& answer) {
  cm::StateWriter state;
  state_of(state, answer);
  environment_.records()->record(cm::StateKind::kAnswer, channel.value, state.bytes());
}

bool ChannelTable::restore_answer(std::uint64_t channel, std::span<const std::byte> state) {
  Channel* const of = find(ChannelId(static_cast<std::uint32_t>(channel)));
  cm::StateReader reader(state);
  return of != nullptr && read_state(reader, of->earlier.emplace());
}

Channel* ChannelTable::find(ChannelId id) {
  const auto found = channels_.find(id);
  return found == channels_.end() ? nullptr : &found->second;
}

const Channel* ChannelTable::find(ChannelId id) const {
  const auto found = channels_.find(id);
  return found == channels_.end() ? nullptr : &found->second;
}

pid_t ChannelTable::process_of(const Identifier& id) const {
  const Channel* const channel = find(id.channel);
  return channel == nullptr ? 0 : channel->owner.process;
}

}  // namespace softhca::management::rdma_cm
