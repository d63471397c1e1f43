#include "daemon/management/rdma_cm/identifier_lifecycle.hpp"

#include <cerrno>

namespace softhca::management::rdma_cm {

int IdentifierLifecycle::create_id(const Command& command) {
  rdma_ucm_create_id body;
  if (!read_body(command.body, body)) return EINVAL;
  switch (body.ps) {
    case RDMA_PS_TCP:
    case RDMA_PS_UDP:
    case RDMA_PS_IPOIB:
      break;
    default:
      return EINVAL;  // RDMA_PS_IB as well: librdmacm then does without AF_IB
  }
  if (removed_) return ENODEV;
  if (identifiers_.size() >= limits_.identifiers) {
    environment_.note_refused(Refusal::kIdentifiers);
    return EMFILE;
  }
  Identifier& id = identifiers_.make();
  id.channel = command.channel.id;
  id.uid = body.uid;
  id.space = static_cast<PortSpace>(body.ps);
  command.channel.identifiers.insert(id.number);
  command.reply.write(rdma_ucm_create_id_resp{.id = id.number.value});
  return 0;
}

int IdentifierLifecycle::destroy_id(const Command& command) {
  rdma_ucm_destroy_id body;
  if (!read_body(command.body, body)) return EINVAL;
  Identifier* id = nullptr;
  const int error = identifiers_.find_of(command.channel.id, body.id, id);
  if (error != 0 && error != ENXIO) return error;
  command.reply.write(rdma_ucm_destroy_id_resp{.events_reported = id->events_reported});
  destroy(*id, command.now);
  return 0;
}

void IdentifierLifecycle::destroy_all(Channel& channel, Time now) {
  while (!channel.identifiers.empty())
    destroy(*identifiers_.find(channel.identifiers.begin()->value), now);
}

/// Destroys an identifier, with the requests to it that no program has heard of.
void IdentifierLifecycle::destroy(Identifier& id, Time now) {
  stop(id, now);
  parts_.admission.give_back(id);
  parts_.ports.release(id);
  parts_.multicast.leave_all(id);
  for (const IdentifierNumber request : events_.drop(id))
    destroy(*identifiers_.find(request.value), now);
  if (Channel* const channel = channels_.of(id)) channel->identifiers.erase(id.number);
  identifiers_.erase(id.number);
}

void IdentifierLifecycle::stop(Identifier& id, Time now) {
  parts_.listeners.remove(id);
  parts_.resolution.stop(id);
  parts_.connections.end(id, now);
}

/// Peers are told as if every program destroyed what it has.
void IdentifierLifecycle::device_removed(Time now) {
  removed_ = true;
  identifiers_.for_each([&](Identifier& id) {
    if (id.state == IdentifierState::kRemoved) return;
    stop(id, now);
    parts_.ports.release(id);
    id.state = IdentifierState::kRemoved;
    events_.queue(id, EventType::kDeviceRemoval);
  });
}

}  // namespace softhca::management::rdma_cm
