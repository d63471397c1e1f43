// GET_EVENT and MIGRATE_ID: queues of events.
#include <algorithm>
#include <cerrno>

#include "daemon/management/rdma_cm/service.hpp"

namespace softhca::management::rdma_cm {

namespace {

/// Of one identifier: enough for all that can happen to it while its program looks away. What a
/// program may repeat is refused above.
constexpr std::size_t kMostEvents = 64;

}  // namespace

// --- putting events in

bool Service::takes_events(const Identifier& id) const {
  if (id.queued.size() < kMostEvents) return true;
  environment_.note_refused(Refusal::kEvents);
  return false;
}

void Service::queue(Identifier& id, EventType type, int status) {
  rdma_ucm_event_resp response{};
  response.event = static_cast<std::uint32_t>(type);
  response.status = static_cast<std::uint32_t>(status);
  queue(id, response);
}

/// Sets whose event it is.
void Service::queue(Identifier& id, rdma_ucm_event_resp response) {
  Channel* const channel = channel_of(id);
  if (channel == nullptr || id.uid == 0) return;
  response.uid = id.uid;
  response.id = id.number.value;
  push(*channel, id, {.response = response});
}

void Service::push(Channel& channel, Identifier& owner, QueuedEvent event) {
  event.owner = owner.number;
  owner.queued.push_back(++events_made_);
  const bool was_empty = channel.events.empty();
  channel.events.emplace(events_made_, event);
  if (was_empty) environment_.signal(channel.id);
}

// --- taking them out

/// With the requests that no program has heard of.
void Service::drop_events(Identifier& id) {
  Channel* const channel = channel_of(id);
  if (channel == nullptr) return;
  for (const std::uint64_t sequence : id.queued) {
    const auto found = channel->events.find(sequence);
    const std::optional<IdentifierNumber> request = found->second.request;
    channel->events.erase(found);
    if (request) destroy(*identifiers_.find(request->value));
  }
  id.queued.clear();
}

int Service::get_event(Channel& channel, Reply& reply) {
  if (channel.events.empty()) return EAGAIN;
  const auto first = channel.events.begin();
  const QueuedEvent event = first->second;
  Identifier& owner = *identifiers_.find(event.owner.value);
  std::erase(owner.queued, first->first);
  channel.events.erase(first);
  ++owner.events_reported;
  if (event.membership) ++memberships_.at(*event.membership).events_reported;
  if (event.request) {
    Identifier& request = *identifiers_.find(event.request->value);
    request.channel = channel.id;
    channel.identifiers.insert(request.number);
    --owner.waiting;
  }
  reply.write(event.response);
  return 0;
}

// --- MIGRATE_ID

/// The number of a channel is no secret among the threads of a process, but is for others: an
/// identifier moves between channels of one process only.
int Service::migrate_id(Channel& channel, ChannelId other, Body body, Reply& reply) {
  rdma_ucm_migrate_id command;
  if (!read_body(body, command)) return EINVAL;
  const auto from = channels_.find(other);
  if (from == channels_.end()) return ENOENT;
  Channel& source = from->second;
  if (source.owner.process != channel.owner.process || source.owner.user != channel.owner.user)
    return EINVAL;
  Identifier* id = nullptr;
  if (const int error = find(source, command.id, id)) return error;
  reply.write(rdma_ucm_migrate_resp{.events_reported = id->events_reported});
  if (&source == &channel) return 0;

  source.identifiers.erase(id->number);
  channel.identifiers.insert(id->number);
  id->channel = channel.id;
  std::vector<std::uint64_t> moving;
  moving.swap(id->queued);
  for (const std::uint64_t sequence : moving) {
    const auto event = source.events.extract(sequence);
    push(channel, *id, event.mapped());
  }
  return 0;
}

}  // namespace softhca::management::rdma_cm
