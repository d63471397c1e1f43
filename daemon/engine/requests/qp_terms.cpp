// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/requests/qp_terms.hpp"

#include <utility>

#include "daemon/engine/engine.hpp"

namespace softhca::engine {

void SetQpRates::run(Engine& engine) {
  QueuePair* const qp = engine.durable().queue_pairs.find(qpn);
  if (qp == nullptr) return;
  if (qp->sq.rates == nullptr) qp->sq.rates = std::move(made);
  QpRates& rates = *qp->sq.rates;
  engine.rates().set(rates.sent, sent);
  engine.cpu().minimums().set_queue_pair(qp->slot, {sent.min_bytes_per_second, sent.burst_bytes});
  engine.peer_rates().set(rates.peers.inbound, inbound);
  engine.peer_rates().set(rates.peers.served, served);
}

SrqOfQp FindSrqOfQp::run(Engine&) const {
  if (qp.srq == nullptr) return {};
  return {.srq = qp.srq,
          .entries = qp.srq->ring.entries(),
          .provisioned = qp.srq->provisioner != nullptr};
}

bool SetReceiveTerms::run(Engine& engine) {
  if (engine.durable().queue_pairs.find(qpn)->srq != &srq) return false;
  ReceiveQueues& queues = engine.receive_queues();
  if (made) queues.start_provisioning(srq, std::move(made));
  queues.set_terms(qpn, terms);
  return true;
}

}  // namespace softhca::engine
