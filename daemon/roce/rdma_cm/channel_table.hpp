// SPDX-License-Identifier: Apache-2.0

// The event channels that processes have open.
#pragma once

#include <span>
#include <unordered_map>
#include <vector>

#include "daemon/roce/cm/cm_environment.hpp"
#include "daemon/roce/rdma_cm/channel.hpp"

namespace softhca::management::rdma_cm {

class ChannelTable {
 public:
  /// `random` of the environment generates channel ids. The environment outlives the table.
  explicit ChannelTable(cm::CmEnvironment& environment)
      : environment_(environment), touched_(environment.records()) {}

  /// Records the channels that may have changed, without their events.
  void record_changes();
  /// Opens a channel of an earlier adapter by its record. Returns null if the record does not fit.
  Channel* restore(std::span<const std::byte> state);
  /// Records the answer to the last command of a channel.
  void record_answer(ChannelId channel, const Answer& answer);
  /// Takes up such an answer. Returns false if the record does not fit.
  bool restore_answer(std::uint64_t channel, std::span<const std::byte> state);

  ChannelId open(const ChannelOwner& owner);
  /// Closes a channel. REQUIRES: it is open and has no identifiers left.
  void close(ChannelId id) {
    touched_.add(id.value);
    channels_.erase(id);
  }
  /// Returns null if there is none. The pointer is valid while the channel is open.
  Channel* find(ChannelId id);
  const Channel* find(ChannelId id) const;
  /// Returns the channel of an identifier; null: a request that was not reported to a program.
  Channel* of(const Identifier& id) { return find(id.channel); }
  /// Returns the process of an identifier; 0: unknown, or none.
  pid_t process_of(const Identifier& id) const;
  template <class Visit>
  void for_each(Visit&& visit) {
    for (auto& [id, channel] : channels_) {
      touched_.add(id.value);
      visit(channel);
    }
  }
  std::size_t size() const { return channels_.size(); }
  std::vector<ChannelId> ids() const {
    std::vector<ChannelId> ids;
    for (const auto& [id, channel] : channels_) ids.push_back(id);
    return ids;
  }

 private:
  cm::CmEnvironment& environment_;
  cm::Touched touched_;
  std::unordered_map<ChannelId, Channel> channels_;
};

}  // namespace softhca::management::rdma_cm
