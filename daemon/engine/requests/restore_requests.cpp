// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/requests/restore_requests.hpp"

#include "daemon/engine/engine.hpp"

namespace softhca::engine {

void EndRestoring::run(Engine& engine) const {
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
