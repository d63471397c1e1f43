// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/commands/session_registry.hpp"

namespace softhca::engine {

void SessionRegistry::install(Session& session) {
  session.qos_class =
      session.level != nullptr ? session.level->qos_class : session.tenant->qos_class;
  cpu_.order().join(session.qos_class, session.tenant->id);
  tvl_assignment_.find_weights();
  AsyncEvents::reserve(session);
  pcbs_.recall(session.qos_class);
  session.tenant->counters.sessions.add();
  if (session.level != nullptr) session.level->counters.sessions.add();
}

void SessionRegistry::poll(Session& session) {
  intake_.add(session);
  tvl_assignment_.find_weights();
}

void SessionRegistry::remove(Session& session) {
  if (session.poll.slot != kNoIndex) intake_.remove(session);
  async_events_.forget(session);
  cpu_.failing.remove(session);
  session.tenant->counters.sessions.subtract();
  if (session.level != nullptr) session.level->counters.sessions.subtract();
}

}  // namespace softhca::engine
