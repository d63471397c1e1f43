// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/rdma_cm/identifier_lifecycle.hpp"

#include <cerrno>

namespace softhca::management::rdma_cm {
namespace {

// Identifiers and events ended in one call, when a channel or the adapter goes.
constexpr unsigned kEndedAtOnce = 32;

}  // namespace

int IdentifierLifecycle::create_id(const ChannelCommand& command) {
  rdma_ucm_create_id body;
  if (const int error = command.read(body)) return error;
  switch (body.ps) {
    case RDMA_PS_TCP:
    case RDMA_PS_UDP:
    case RDMA_PS_IPOIB:
      break;
    case RDMA_PS_IB:
      return EINVAL;  // librdmacm asks for it when it starts, and then works without AF_IB
    default:
      return command.refuse(
          EINVAL, "port space 0x%x, must be RDMA_PS_TCP, RDMA_PS_UDP or RDMA_PS_IPOIB", body.ps);
  }
  if (removed_) return command.refuse(ENODEV, "the device is gone");
  if (identifiers_.size() >= limits_.identifiers) {
    environment_.note_refused(Refusal::kIdentifiers);
    return command.refuse(EMFILE,
                          "tenant limit of %u identifiers reached (connections.identifiers)",
                          limits_.identifiers);
  }
  Identifier& id = identifiers_.make();
  id.channel = command.channel.id;
  id.uid = body.uid;
  id.space = static_cast<PortSpace>(body.ps);
  command.channel.identifiers.insert(id.number);
  command.reply.write(rdma_ucm_create_id_resp{.id = id.number.value});
  return 0;
}

int IdentifierLifecycle::destroy_id(const ChannelCommand& command) {
  rdma_ucm_destroy_id body;
  if (const int error = command.read(body)) return error;
  Identifier* id = nullptr;
  const int error = identifiers_.find_of(command, body.id, id);
  if (error != 0 && error != ENXIO) return error;
  command.reply.write(rdma_ucm_destroy_id_resp{.events_reported = id->events_reported});
  destroy(*id, command.now);
  return 0;
}

bool IdentifierLifecycle::destroy_some(Channel& channel, Time now) {
  for (unsigned n = 0; n < kEndedAtOnce && !channel.identifiers.empty(); ++n) {
    Identifier& id = *identifiers_.find(channel.identifiers.begin()->value);
    if (id.queued.empty())
      destroy(id, now);
    else if (const auto request = events_.drop_last(id))
      destroy(*identifiers_.find(request->value), now);
  }
  return channel.identifiers.empty();
}

/// Destroys an identifier, and its requests that were not reported to a program.
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

/// Notifies peers as if every program destroyed its identifiers.
void IdentifierLifecycle::remove_some(Time now) {
  for (unsigned n = 0; n < kEndedAtOnce && is_removing(); ++n) {
    Identifier* const id = identifiers_.find(next_removed_++);
    if (id == nullptr || id->state == IdentifierState::kRemoved) continue;
    stop(*id, now);
    parts_.ports.release(*id);
    id->state = IdentifierState::kRemoved;
    events_.queue(*id, EventType::kDeviceRemoval);
  }
}

}  // namespace softhca::management::rdma_cm
