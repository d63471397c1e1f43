// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/rdma_cm/event_commands.hpp"

#include <cerrno>

namespace softhca::management::rdma_cm {

/// Never waits. A reported request then belongs to the channel.
int EventCommands::get_event(const ChannelCommand& command) {
  const std::optional<QueuedEvent> event = events_.pop(command.channel);
  if (!event) return EAGAIN;
  if (event->membership) multicast_.event_reported(*event->membership);
  if (event->request) {
    Identifier& request = *identifiers_.find(event->request->value);
    request.channel = command.channel.id;
    command.channel.identifiers.insert(request.number);
    --identifiers_.find(event->owner.value)->listener.waiting;
  }
  command.reply.write(event->response);
  return 0;
}

/// Channel numbers are secret from other processes, but not between the threads of one process. So
/// an identifier moves only between channels of the same process.
int EventCommands::migrate_id(const ChannelCommand& command) {
  rdma_ucm_migrate_id body;
  if (const int error = command.read(body)) return error;
  if (command.other == nullptr)
    return command.refuse(ENOENT, "the event channel of the identifier is closed");
  Channel& from = *command.other;
  Channel& to = command.channel;
  if (from.owner.process != to.owner.process || from.owner.user != to.owner.user)
    return command.refuse(EINVAL, "the event channels are of different processes");
  Identifier* id = nullptr;
  if (const int error = identifiers_.find_on(from, command, body.id, id)) return error;
  command.reply.write(rdma_ucm_migrate_resp{.events_reported = id->events_reported});
  if (&from == &to) return 0;

  from.identifiers.erase(id->number);
  to.identifiers.insert(id->number);
  id->channel = to.id;
  events_.move(*id, from, to);
  return 0;
}

}  // namespace softhca::management::rdma_cm
