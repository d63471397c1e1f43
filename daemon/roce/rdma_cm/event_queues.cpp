// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/rdma_cm/event_queues.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "daemon/roce/rdma_cm/identifier_state.hpp"

namespace softhca::management::rdma_cm {

namespace {

/// Most events of one identifier that wait: enough for all events while its program does not read.
constexpr std::size_t kMostEvents = 64;

}  // namespace

void EventQueues::record_changes() {
  for (const std::uint64_t sequence : touched_.take()) {
    const auto at = waiting_in_.find(sequence);
    const Channel* const channel =
        at != waiting_in_.end() ? std::as_const(channels_).find(at->second) : nullptr;
    if (channel == nullptr || !channel->events.contains(sequence)) {
      environment_.records()->forget(cm::StateKind::kEvent, sequence);
      waiting_in_.erase(sequence);
      continue;
    }
    cm::StateWriter state;
    state(channel->id);
    state_of_event(state, channel->events.at(sequence));
    environment_.records()->record(cm::StateKind::kEvent, sequence, state.bytes());
  }
}

const QueuedEvent* EventQueues::restore(std::uint64_t sequence, std::span<const std::byte> state) {
  cm::StateReader reader(state);
  ChannelId in;
  QueuedEvent event;
  reader(in);
  state_of_event(reader, event);
  Channel* const channel = channels_.find(in);
  Identifier* const owner = identifiers_.find(event.owner.value);
  const bool has_request = !event.request || identifiers_.find(event.request->value) != nullptr;
  if (!reader.is_complete() || channel == nullptr || owner == nullptr || !has_request ||
      channel->events.contains(sequence))
    return nullptr;
  pushed_ = std::max(pushed_, sequence);
  waiting_in_[sequence] = in;
  owner->queued.push_back(sequence);
  return &(channel->events[sequence] = event);
}

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
  touched_.add(pushed_);
  if (environment_.records() != nullptr) waiting_in_[pushed_] = channel.id;
  const bool was_empty = channel.events.empty();
  channel.events.emplace(pushed_, event);
  if (was_empty) environment_.signal(channel.id);
}

std::optional<QueuedEvent> EventQueues::pop(Channel& channel) {
  if (channel.events.empty()) return std::nullopt;
  const auto first = channel.events.begin();
  const QueuedEvent event = first->second;
  Identifier& owner = *identifiers_.find(event.owner.value);
  touched_.add(first->first);
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
    touched_.add(sequence);
    const auto event = channel->events.extract(sequence);
    if (event.mapped().request) requests.push_back(*event.mapped().request);
  }
  return requests;
}

std::optional<IdentifierNumber> EventQueues::drop_last(Identifier& id) {
  touched_.add(id.queued.back());
  const auto event = channels_.of(id)->events.extract(id.queued.back());
  id.queued.pop_back();
  return event.mapped().request;
}

void EventQueues::drop_if(Channel& channel, Identifier& id,
                          const std::function<bool(const QueuedEvent&)>& unwanted) {
  std::erase_if(id.queued, [&](std::uint64_t sequence) {
    const auto event = channel.events.find(sequence);
    if (!unwanted(event->second)) return false;
    touched_.add(sequence);
    channel.events.erase(event);
    return true;
  });
}

void EventQueues::move(Identifier& id, Channel& from, Channel& to) {
  for (const std::uint64_t sequence : std::exchange(id.queued, {})) {
    touched_.add(sequence);
    const auto event = from.events.extract(sequence);
    push(to, id, event.mapped());
  }
}

}  // namespace softhca::management::rdma_cm
