// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/requests/restore_requests.hpp"

#include "daemon/engine/engine.hpp"

namespace softhca::engine {
namespace {

void fail(Engine& engine, Subject culprit) {
  if (culprit.kind() == Subject::Kind::kPort) {
    for (const auto& binding : engine.ports())
      if (binding->id.value == culprit.number()) binding->service.store(PortService::kFailed);
  }
  if (culprit.kind() != Subject::Kind::kQueuePair) return;
  QueuePair* const qp =
      engine.durable().queue_pairs.find(Qpn(static_cast<std::uint32_t>(culprit.number())));
  const bool is_own = qp != nullptr && qp->clients != nullptr;  // all tenants need it
  if (qp == nullptr || is_own || qp->state == QpState::kError) return;
  engine.async_events().raise(*qp, EventType::kQpFatal);
  engine.cpu().fail_later(*qp, QpFailure::kCrash);
  engine.queue_pairs().enter_error(*qp);
}

}  // namespace

void EndRestoring::run(Engine& engine) const {
  fail(engine, culprit);
  engine.queue_pairs().end_resuming();
  engine.memory().windows().drop_left();
  engine.durable().is_restoring = false;
}

void RetireEngine::run(Engine& engine) const {
  // A step that waits for an access has to end. Otherwise the next engine would make the access
  // again. New steps may begin meanwhile, so the number of rounds has a limit.
  constexpr int kRounds = 64;
  MemoryWaits& waits = engine.memory().waits();
  for (int i = 0; i < kRounds && waits.has_work(); ++i) {
    waits.settle_all();
    engine.poll(engine.clock().now);
  }
  waits.settle_all();
  engine.durable().is_retired = true;
}

}  // namespace softhca::engine
