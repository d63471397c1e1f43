// SPDX-License-Identifier: Apache-2.0

// Events that wait in channels for their programs.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "daemon/roce/rdma_cm/channel_table.hpp"
#include "daemon/roce/rdma_cm/identifier_table.hpp"
#include "daemon/roce/rdma_cm/rdma_cm_environment.hpp"

namespace softhca::management::rdma_cm {

class EventQueues {
 public:
  /// All outlive it.
  EventQueues(RdmaCmEnvironment& environment, ChannelTable& channels, IdentifierTable& identifiers)
      : environment_(environment),
        channels_(channels),
        identifiers_(identifiers),
        touched_(environment.records()) {}
  EventQueues(const EventQueues&) = delete;
  EventQueues& operator=(const EventQueues&) = delete;

  /// Records the events that were queued or removed.
  void record_changes();
  /// Queues an event of an earlier adapter by its record, without a signal. Returns null if the
  /// record does not fit. REQUIRES: the channels and identifiers are restored, and the earlier
  /// events.
  const QueuedEvent* restore(std::uint64_t sequence, std::span<const std::byte> state);

  /// Returns ENOMEM if too many events of the identifier wait, otherwise 0. Only commands that its
  /// program may repeat are refused for this reason.
  int check_room(const ChannelCommand& command, const Identifier& id) const;

  /// Queues an event of an identifier that its program knows; events of others are dropped.
  void queue(Identifier& id, EventType type, int status = 0);
  /// Like queue() above, for a complete event; sets the identifier of the event.
  void queue(Identifier& id, rdma_ucm_event_resp response);
  /// Queues an event that already contains its identifier. It counts among those of `owner`.
  void push(Channel& channel, Identifier& owner, QueuedEvent event);

  /// Returns the first event, which is then reported; nothing if the queue is empty.
  std::optional<QueuedEvent> pop(Channel& channel);
  /// Removes all events of an identifier. Returns the requests that are now never reported to a
  /// program.
  std::vector<IdentifierNumber> drop(Identifier& id);
  /// Removes the last event of an identifier. If it was a request, returns it, because it is now
  /// never reported to a program. REQUIRES: there is an event.
  std::optional<IdentifierNumber> drop_last(Identifier& id);
  /// Removes the events of an identifier for which `unwanted` returns true.
  void drop_if(Channel& channel, Identifier& id,
               const std::function<bool(const QueuedEvent&)>& unwanted);
  /// Moves the events of an identifier to another channel, behind the events there.
  void move(Identifier& id, Channel& from, Channel& to);

 private:
  RdmaCmEnvironment& environment_;
  ChannelTable& channels_;
  IdentifierTable& identifiers_;
  std::uint64_t pushed_ = 0;
  cm::Touched touched_;                                      ///< sequence numbers
  std::unordered_map<std::uint64_t, ChannelId> waiting_in_;  ///< of events, if there are records
};

}  // namespace softhca::management::rdma_cm
