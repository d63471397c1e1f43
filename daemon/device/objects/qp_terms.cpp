// SPDX-License-Identifier: Apache-2.0

// What the operator sets for a queue pair: its rates, and its limit and importance on its shared
// receive queue (mechanisms D1, D6). It is a part of the record of the queue pair.
#include <cerrno>
#include <memory>
#include <utility>

#include "daemon/device/objects/qp_objects.hpp"
#include "daemon/engine/requests/qp_terms.hpp"

namespace softhca::control {
namespace {

using receive::Member;
using Terms = engine::ReceiveQueues::ReceiveTerms;

record::Rates recorded(const RateLimits& limits) {
  return {.bytes_per_second = limits.bytes_per_second,
          .burst_bytes = limits.burst_bytes,
          .messages_per_second = limits.messages_per_second,
          .burst_messages = limits.burst_messages};
}

RateLimits limits_of(const record::Rates& kept) {
  return {.bytes_per_second = kept.bytes_per_second,
          .burst_bytes = kept.burst_bytes,
          .messages_per_second = kept.messages_per_second,
          .burst_messages = kept.burst_messages};
}

record::QueuePairTerms& terms_of(QpObject& qp) {
  if (qp.terms == nullptr) qp.terms = std::make_unique<record::QueuePairTerms>();
  return *qp.terms;
}

}  // namespace

void QpObjects::set_rates(std::uint32_t qpn, const SentLimits& sent, const InboundLimits& inbound,
                          const ServedLimits& served) const {
  QpObject& qp = *find(qpn);
  record::QueuePairTerms& kept = terms_of(qp);
  kept.has_rates = 1;
  kept.sent = recorded(sent);
  kept.min_bytes_per_second = sent.min_bytes_per_second;
  kept.inbound = recorded(inbound);
  kept.served = recorded(served);
  put_rates_in_force(qp);
  write(qp);
}

int QpObjects::set_receive_terms(std::uint32_t qpn, const Terms& terms) const {
  QpObject& qp = *find(qpn);
  if (const int error = put_in_force(qp.engine, terms); error != 0) return error;
  record::QueuePairTerms& kept = terms_of(qp);
  if (terms.limit) {
    kept.srq_limit = *terms.limit;
    kept.has_srq_limit = *terms.limit != Member::kByPolicy;
  }
  if (terms.importance) {
    kept.importance = *terms.importance;
    kept.has_importance = *terms.importance != Member::kByPath;
  }
  write(qp);
  return 0;
}

/// Sets what an earlier adapter has recorded. An XRC target is on no queue before its next request,
/// and gets its rates alone.
void QpObjects::restore_terms(QpObject& qp, const record::QueuePairTerms& kept) const {
  if ((kept.has_rates | kept.has_srq_limit | kept.has_importance) == 0) return;
  terms_of(qp) = kept;
  if (kept.has_rates != 0) put_rates_in_force(qp);
  Terms terms;
  if (kept.has_srq_limit != 0) terms.limit = kept.srq_limit;
  if (kept.has_importance != 0) terms.importance = kept.importance;
  if (terms.limit || terms.importance) (void)put_in_force(qp.engine, terms);
}

void QpObjects::put_rates_in_force(const QpObject& qp) const {
  const record::QueuePairTerms& kept = *qp.terms;
  context_.on_engine(engine::SetQpRates{.qpn = qp.engine.qpn,
                                        .sent = {limits_of(kept.sent), kept.min_bytes_per_second},
                                        .inbound = {limits_of(kept.inbound)},
                                        .served = {limits_of(kept.served)},
                                        .made = std::make_unique<engine::QpRates>()});
}

int QpObjects::put_in_force(const engine::QueuePair& qp, const Terms& terms) const {
  // An XRC target may move to another queue between the two requests, as its peer asks.
  constexpr int kTries = 16;
  for (int i = 0; i < kTries; ++i) {
    const auto [srq, entries, provisioned] = context_.on_engine(engine::FindSrqOfQp{qp});
    if (srq == nullptr) return ENOENT;
    // Queues of a tenant without limits have no provisioner. This thread makes it, so that the
    // engine need not allocate. The queue stays valid: only this thread makes and removes queue
    // pairs and queues.
    std::unique_ptr<receive::Provisioner> made;
    if (!provisioned) {
      engine::Tenant& tenant = *srq->session->tenant;
      made = std::make_unique<receive::Provisioner>(entries, tenant.receive_policy,
                                                    tenant.counters.receive);
    }
    if (context_.on_engine(engine::SetReceiveTerms{qp.qpn, terms, *srq, std::move(made)})) return 0;
  }
  return EAGAIN;
}

}  // namespace softhca::control
