// The event channels that processes have open.
#pragma once

#include <unordered_map>

#include "daemon/management/cm/environment.hpp"
#include "daemon/management/rdma_cm/channel.hpp"

namespace softhca::management::rdma_cm {

class ChannelTable {
 public:
  /// `random` of the environment names channels; it outlives the table.
  explicit ChannelTable(cm::Environment& environment) : environment_(environment) {}

  ChannelId open(const ChannelOwner& owner);
  /// REQUIRES: the channel is open, and none of its identifiers is left.
  void close(ChannelId id) { channels_.erase(id); }
  /// Null: there is none. A channel stays where it is while it is open.
  Channel* find(ChannelId id);
  const Channel* find(ChannelId id) const;
  /// The channel of an identifier; null: a request that no program has heard of.
  Channel* of(const Identifier& id) { return find(id.channel); }
  /// The process of an identifier; 0: not known, or nobody's.
  pid_t process_of(const Identifier& id) const;
  template <class Visit>
  void for_each(Visit&& visit) {
    for (auto& [id, channel] : channels_) visit(channel);
  }
  std::size_t size() const { return channels_.size(); }

 private:
  cm::Environment& environment_;
  std::unordered_map<ChannelId, Channel> channels_;
};

}  // namespace softhca::management::rdma_cm
