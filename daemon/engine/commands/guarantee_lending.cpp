// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/commands/guarantee_lending.hpp"

namespace softhca::engine {

void GuaranteeLending::adjust(const AdjustmentPolicy& policy) {
  if (pcbs_.quota().recalled() != 0) intake_.give_back_borrowed();
  const auto adjust_group = [&](bool lends, bool present, QosClassId group) {
    const Lending lending = !lends ? Lending::kNone : present ? Lending::kIdle : Lending::kAll;
    pcbs_.adjust(group, lending, policy, clock_.now);
  };
  for (const Tenant* tenant : addresses_.tenants()) {
    lends_[tenant->id.value] = tenant->lends;
    adjust_group(tenant->lends, tenant->counters.sessions.value() != 0, tenant->qos_class);
    for (const auto& level : tenant->levels)
      adjust_group(tenant->lends,
                   level->counters.sessions.value() != 0 ||
                       level->counters.assigned_queue_pairs.value() != 0,
                   level->qos_class);
  }
  bool changed = false;
  for (std::uint16_t i = 0; i < tvls_.size(); ++i)
    changed |= tvls_.adjust(TvlId(i), lends_[tvls_[TvlId(i)].tenant.value], policy, clock_.now);
  if (changed) arbitrator_.refresh();
}

}  // namespace softhca::engine
