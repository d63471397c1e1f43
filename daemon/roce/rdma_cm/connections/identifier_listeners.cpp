// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/rdma_cm/connections/identifier_listeners.hpp"

#include <cerrno>

namespace softhca::management::rdma_cm {

int IdentifierListeners::listen(const ChannelCommand& command) {
  rdma_ucm_listen body;
  if (const int error = command.read(body)) return error;
  Identifier* id = nullptr;
  if (const int error = identifiers_.find_of(command, body.id, id)) return error;
  if (const int error = command.check_state(*id, {IdentifierState::kIdle, IdentifierState::kBound}))
    return error;
  if (size_ >= limits_.listeners) {
    environment_.note_refused(Refusal::kListeners);
    return command.refuse(ENOSPC, "tenant limit of %u listeners reached (connections.listeners)",
                          limits_.listeners);
  }
  if (id->state == IdentifierState::kIdle)
    if (const int error = binding_.bind(command, *id, any_address(AF_INET))) return error;
  if (const int error = ports_.listen(command, *id)) return error;
  id->options.reuse_address = false;
  id->listener.backlog =
      body.backlog == 0 || body.backlog > limits_.backlog ? limits_.backlog : body.backlog;
  id->state = IdentifierState::kListen;
  at_[{id->space, id->local.port}].push_back(id->number);
  ++size_;
  return 0;
}

void IdentifierListeners::remove(const Identifier& id) {
  if (id.state != IdentifierState::kListen) return;
  const auto found = at_.find({id.space, id.local.port});
  std::erase(found->second, id.number);
  if (found->second.empty()) at_.erase(found);
  --size_;
}

const std::vector<IdentifierNumber>* IdentifierListeners::at(PortSpace space,
                                                             std::uint16_t port) const {
  const auto found = at_.find({space, port});
  return found == at_.end() ? nullptr : &found->second;
}

}  // namespace softhca::management::rdma_cm
