// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/requests/receive_queue_requests.hpp"

#include <utility>

#include "daemon/engine/engine.hpp"

namespace softhca::engine {

bool AddSrq::run(Engine& engine) const { return engine.receive_queues().add(srq, number); }

void ArmSrqLimit::run(Engine& engine) const { engine.receive_queues().set_limit(srq, limit); }

std::uint32_t QuerySrqLimit::run(Engine&) const { return srq.level.armed(); }

std::optional<shm::ReceiveRing> CheckSrqResize::run(Engine&) const {
  const auto available = srq.ring.available();
  if (srq.failed || limit.value_or(srq.level.armed()) > max_wr || !available || *available > max_wr)
    return std::nullopt;
  return srq.ring;
}

std::unique_ptr<receive::Provisioner> ResizeSrq::run(Engine& engine) {
  return engine.receive_queues().resize(srq, ring, std::move(made));
}

void RetireSrqs::run(Engine& engine) const {
  for (SharedReceiveQueue* const srq : srqs) engine.receive_queues().retire(*srq);
}

std::optional<std::uint32_t> DropRetiredSrqs::run(Engine& engine) const {
  std::uint32_t next = slot;
  if (engine.receive_queues().drop_retired(payer, next)) return std::nullopt;
  return next;
}

void RemoveSrq::run(Engine& engine) const { engine.receive_queues().remove(srq); }

}  // namespace softhca::engine
