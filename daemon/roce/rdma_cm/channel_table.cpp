// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/rdma_cm/channel_table.hpp"

namespace softhca::management::rdma_cm {

ChannelId ChannelTable::open(const ChannelOwner& owner) {
  ChannelId id;
  do id = ChannelId(environment_.random());
  while (id == ChannelId() || channels_.contains(id));
  channels_[id] = Channel{.id = id, .owner = owner};
  return id;
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
