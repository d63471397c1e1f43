// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/requests/completion_queue_requests.hpp"

#include "daemon/engine/engine.hpp"

namespace softhca::engine {

void UnparkSession::run(Engine& engine) const { engine.intake().unpark(session); }

void RestoreCq::run(Engine& engine) const { engine.completion_queues().resume(cq); }

bool ResizeCq::run(Engine&) const {
  if (cq.ring.backlog() > most) return false;
  cq.ring.replace(base, entries, by);
  return true;
}

void ModerateCq::run(Engine& engine) const {
  engine.completion_queues().set_moderation(cq, count, period);
}

void RemoveCq::run(Engine& engine) const { engine.completion_queues().remove(cq); }

}  // namespace softhca::engine
