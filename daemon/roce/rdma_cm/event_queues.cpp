// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/rdma_cm/event_queues.hpp"

#include <cerrno>
#include <utility>

namespace softhca::management::rdma_cm {

namespace {

/// Most events of one identifier that wait: enough for all events while its program does not read.
constexpr std::size_t kMostEvents = 64;

}  // namespace

int EventQueues::check_room(const ChannelCommand& command, const Identifier& id) const {
  if (id.queued.size() < kMostEvents) return 0;
  environment_.note_refused(Refusal::kEvents);
  return command.refuse(ENOMEM,
                        "%zu events of the identifier wait, at most %zu: call rdma_get_cm_event",
                        id.queued.size(), kMostEvents);
}

void EventQueues::queue(Identifier& id, EventType type, int status) {
  rdma_ucm_event_resp response{};
  response.event = static_cast<std::uint32_t>(type);
  response.status = static_cast<std::uint32_t>(status);
  queue(id, response);
}

void EventQueues::queue(Identifier& id, rdma_ucm_event_resp response) {
  Channel* const channel = channels_.of(id);
  if (channel == nullptr || id.uid == 0) return;
  response.uid = id.uid;
  response.id = id.number.value;
  push(*channel, id, {.response = response});
}

void EventQueues::push(Channel& channel, Identifier& owner, QueuedEvent event) {
  event.owner = owner.number;
  owner.queued.push_back(++pushed_);
  const bool was_empty = channel.events.empty();
  channel.events.emplace(pushed_, event);
  if (was_empty) environment_.signal(channel.id);
}

std::optional<QueuedEvent> EventQueues::pop(Channel& channel) {
  if (channel.events.empty()) return std::nullopt;
  const auto first = channel.events.begin();
  const QueuedEvent event = first->second;
  Identifier& owner = *identifiers_.find(event.owner.value);
  std::erase(owner.queued, first->first);
  channel.events.erase(first);
  ++owner.events_reported;
  return event;
}

std::vector<IdentifierNumber> EventQueues::drop(Identifier& id) {
  std::vector<IdentifierNumber> requests;
  Channel* const channel = channels_.of(id);
  if (channel == nullptr) return requests;
  for (const std::uint64_t sequence : std::exchange(id.queued, {})) {
    const auto event = channel->events.extract(sequence);
    if (event.mapped().request) requests.push_back(*event.mapped().request);
  }
  return requests;
}

std::optional<IdentifierNumber> EventQueues::drop_last(Identifier& id) {
  const auto event = channels_.of(id)->events.extract(id.queued.back());
  id.queued.pop_back();
  return event.mapped().request;
}

void EventQueues::drop_if(Channel& channel, Identifier& id,
                          const std::function<bool(const QueuedEvent&)>& unwanted) {
  std::erase_if(id.queued, [&](std::uint64_t sequence) {
    const auto event = channel.events.find(sequence);
    if (!unwanted(event->second)) return false;
    channel.events.erase(event);
    return true;
  });
}

void EventQueues::move(Identifier& id, Channel& from, Channel& to) {
  for (const std::uint64_t sequence : std::exchange(id.queued, {})) {
    const auto event = from.events.extract(sequence);
    push(to, id, event.mapped());
  }
}

}  // namespace softhca::management::rdma_cm
