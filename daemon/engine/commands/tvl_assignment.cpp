// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/commands/tvl_assignment.hpp"

#include <algorithm>
#include <cassert>
#include <vector>

namespace softhca::engine {

Expected<TvlId> TvlAssignment::add(const schedule::TvlTerms& config) {
  const auto added = tvls_.add(config);
  if (added) arbitrator_.reset(*added);
  commands_.look_again();
  find_weights();
  return added;
}

Outcome TvlAssignment::change(TvlId id, const schedule::TvlTerms& config) {
  const Outcome changed = tvls_.change(id, config);
  refresh();
  return changed;
}

Outcome TvlAssignment::close(TvlId id) {
  const Outcome closed = tvls_.close(id);
  if (closed) empty(id);
  refresh();
  return closed;
}

/// Lets all commands that wait for credits try again: the amounts have changed.
void TvlAssignment::refresh() {
  arbitrator_.refresh();
  commands_.look_again();
  find_weights();
}

/// Sets the weights for engine time. A tenant has the weight of the heaviest of its TVLs with queue
/// pairs in the arbitrator's rounds. So does a class among those of its tenant. TVLs share the time
/// of their class by their weights.
void TvlAssignment::find_weights() {
  std::vector<std::uint32_t> tenants(tenants_, 1), classes(classes_, 1);
  for (std::uint16_t i = 0; i < tvls_.size(); ++i) {
    const schedule::Tvl& tvl = tvls_[TvlId(i)];
    if (!tvl.used || tvl.closing || tvl.purpose != schedule::TvlPurpose::kCommands) continue;
    cpu_.order().set_tvl(TvlId(i), tvl.qos_class, tvl.weight);
    if (tvl.queue_pairs == 0) continue;
    assert(tvl.tenant.value < tenants.size() && tvl.qos_class.value < classes.size());
    for (std::uint32_t* weight : {&tenants[tvl.tenant.value], &classes[tvl.qos_class.value]})
      *weight = std::max(*weight, tvl.weight);
  }
  for (schedule::RunQueue* order : {&cpu_.order(), &intake_.order()}) {
    for (std::uint16_t i = 0; i < tenants.size(); ++i)
      order->set_tenant_weight(TenantId(i), tenants[i]);
    for (std::uint16_t i = 0; i < classes.size(); ++i) order->set_weight(QosClassId(i), classes[i]);
  }
}

/// Returns a TVL for the queue pair: one of its class, else one of the tenant's that belongs to no
/// level. If the tenant's TVLs were all divided after the queue pair was created, it gets one of
/// the default level.
std::optional<TvlId> TvlAssignment::tvl_for(const QueuePair& qp,
                                            schedule::TvlPurpose purpose) const {
  const Tenant& tenant = *qp.tenant;
  for (const QosClassId qos_class : {qp.qos_class, tenant.qos_class})
    if (const auto own = tvls_.pick_tvl(qos_class, purpose)) return own;
  for (const bool wanted : {true, false})
    for (const auto& level : tenant.levels)
      if (level->is_default == wanted)
        if (const auto other = tvls_.pick_tvl(level->qos_class, purpose)) return other;
  return std::nullopt;
}

void TvlAssignment::join(QueuePair& qp) {
  const auto tvl = tvl_for(qp, schedule::TvlPurpose::kCommands);
  const auto dedicated = tvl_for(qp, schedule::TvlPurpose::kDedicated);
  assert(tvl && dedicated);  // every tenant is configured with both kinds
  qp.sq.tvl = *tvl;
  qp.sq.dedicated_tvl = *dedicated;
  tvls_.attach(qp.sq.tvl);
  tvls_.attach(qp.sq.dedicated_tvl);
  if (tvls_[qp.sq.tvl].queue_pairs == 1) find_weights();
}

void TvlAssignment::leave(QueuePair& qp) {
  tvls_.detach(qp.sq.tvl);
  tvls_.detach(qp.sq.dedicated_tvl);
  if (tvls_[qp.sq.tvl].queue_pairs == 0) find_weights();
}

/// Moves the queue pair from a TVL to another one. False: there is no other TVL.
bool TvlAssignment::replace(QueuePair& qp, TvlId id) {
  for (const auto purpose : {schedule::TvlPurpose::kCommands, schedule::TvlPurpose::kDedicated}) {
    TvlId& tvl = purpose == schedule::TvlPurpose::kCommands ? qp.sq.tvl : qp.sq.dedicated_tvl;
    if (tvl != id) continue;
    const auto other = tvl_for(qp, purpose);
    if (!other) return false;
    tvls_.detach(id);
    tvls_.attach(*other);
    tvl = *other;
  }
  if (cpu_.order().contains(qp.slot)) {  // it is queued under the former TVL
    cpu_.remove(qp);
    cpu_.make_ready(qp);
  }
  return true;
}

/// Moves the queue pairs of the TVL to the other TVLs of their level, with their commands that wait
/// for a credit, in order. The last TVL keeps its queue pairs.
void TvlAssignment::empty(TvlId id) {
  bool last = false;
  queue_pairs_.for_each([&](QueuePair& qp) { last |= !replace(qp, id); });
  if (last) return;
  const bool dedicated = tvls_[id].purpose == schedule::TvlPurpose::kDedicated;
  while (const auto pcb = arbitrator_.first(id)) {
    const QueuePair& qp = commands_.owner(*pcb);
    arbitrator_.move(*pcb, dedicated ? qp.sq.dedicated_tvl : qp.sq.tvl);
    commands_.moved(*pcb, id);
  }
}

}  // namespace softhca::engine
