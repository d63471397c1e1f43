// The events that wait in channels for their programs.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "daemon/management/rdma_cm/channel_table.hpp"
#include "daemon/management/rdma_cm/environment.hpp"
#include "daemon/management/rdma_cm/identifier_table.hpp"

namespace softhca::management::rdma_cm {

class EventQueues {
 public:
  /// All outlive it.
  EventQueues(Environment& environment, ChannelTable& channels, IdentifierTable& identifiers)
      : environment_(environment), channels_(channels), identifiers_(identifiers) {}
  EventQueues(const EventQueues&) = delete;
  EventQueues& operator=(const EventQueues&) = delete;

  /// False: too many events of the identifier wait; what its program repeats is refused.
  bool has_room(const Identifier& id) const;

  /// Queues an event of an identifier whose program has heard of it; others are left out.
  void queue(Identifier& id, EventType type, int status = 0);
  /// As queue() above, for a complete event; sets whose event it is.
  void queue(Identifier& id, rdma_ucm_event_resp response);
  /// Queues an event that says itself whose it is. It counts among those of `owner`.
  void push(Channel& channel, Identifier& owner, QueuedEvent event);

  /// The first event, now reported; none: the queue is empty.
  std::optional<QueuedEvent> pop(Channel& channel);
  /// Takes out all events of an identifier. Returns the requests that no program will hear of now.
  std::vector<IdentifierNumber> drop(Identifier& id);
  /// Takes out the last event of an identifier, and returns the request that no program will hear
  /// of now, if it was one. REQUIRES: there is an event.
  std::optional<IdentifierNumber> drop_last(Identifier& id);
  /// Takes out the events of an identifier for which `unwanted` is true.
  void drop_if(Channel& channel, Identifier& id,
               const std::function<bool(const QueuedEvent&)>& unwanted);
  /// Moves the events of an identifier to another channel, behind those that are there.
  void move(Identifier& id, Channel& from, Channel& to);

 private:
  Environment& environment_;
  ChannelTable& channels_;
  IdentifierTable& identifiers_;
  std::uint64_t pushed_ = 0;
};

}  // namespace softhca::management::rdma_cm
