// SPDX-License-Identifier: Apache-2.0

#include "daemon/qos/schedule/minimum_rates.hpp"

namespace softhca::schedule {

MinimumRates::MinimumRates(std::uint16_t tenants, std::uint16_t classes, std::uint32_t queue_pairs)
    : slots_(queue_pairs), tenants_(tenants), classes_(classes) {}

/// Changes a minimum. True if it was not given before and is now, or the reverse.
bool MinimumRates::change(MinimumRate& of, const Rate& rate) {
  const bool before = of.given();
  of.set(rate, now_);
  given_ += of.given();
  given_ -= before;
  return of.given() != before;
}

/// Moves the class to the tenant, for which its queue pairs count from now on.
void MinimumRates::join(QosClass& qos_class, std::uint32_t tenant) {
  if (qos_class.tenant != kNoTenant) {
    tenants_[qos_class.tenant].under_way -= qos_class.under_way;
    --tenants_[qos_class.tenant].members;
  }
  if (tenant != kNoTenant) {
    tenants_[tenant].under_way += qos_class.under_way;
    ++tenants_[tenant].members;
  }
  qos_class.tenant = tenant;
}

void MinimumRates::set(TenantId tenant, const Rate& rate) {
  Tenant& it = tenants_[tenant.value];
  const bool changed = change(it.rate, rate);
  if (it.under_way != 0) it.rate.resume(now_);
  if (changed) find_rated();
}

void MinimumRates::set(QosClassId qos_class, TenantId tenant, const Rate& rate) {
  QosClass& it = classes_[qos_class.value];
  const bool joins = it.tenant != tenant.value;
  if (joins) {
    it.vain = 0;
    join(it, tenant.value);
  }
  const bool changed = change(it.rate, rate);
  if (it.under_way != 0) it.rate.resume(now_);
  if (changed || (joins && covers(qos_class))) find_rated();
}

void MinimumRates::set_queue_pair(std::uint32_t slot, const Rate& rate) {
  if (rate.per_second == 0 && queue_pairs_.empty()) return;
  queue_pairs_.resize(slots_);
  change(queue_pairs_[slot], rate);
}

void MinimumRates::forget(QosClassId qos_class) {
  QosClass& it = classes_[qos_class.value];
  change(it.rate, {});
  join(it, kNoTenant);
  find_rated();
}

void MinimumRates::forget(TenantId tenant) {
  change(tenants_[tenant.value].rate, {});
  tenants_[tenant.value].first_cost = 0;
  for (QosClass& qos_class : classes_) {
    if (qos_class.tenant != tenant.value) continue;
    change(qos_class.rate, {});
    join(qos_class, kNoTenant);
  }
  find_rated();
}

/// Lists the holders of minimums, so that the others need not be checked.
void MinimumRates::find_rated() {
  rated_tenants_.clear();
  covered_.clear();
  for (std::uint32_t i = 0; i < tenants_.size(); ++i) {
    tenants_[i].classes.clear();
    if (tenants_[i].rate.given()) rated_tenants_.push_back(i);
  }
  for (std::uint32_t i = 0; i < classes_.size(); ++i) {
    const QosClassId id(static_cast<std::uint16_t>(i));
    if (classes_[i].rate.given()) tenants_[classes_[i].tenant].classes.push_back(i);
    if (covers(id)) covered_.push_back(id);
  }
}

void MinimumRates::add_vain(QosClass& qos_class, std::uint64_t cost) {
  qos_class.vain = std::min(vain_of(qos_class) + cost, kCountedVain);
  qos_class.vain_as_of = now_;
}

void MinimumRates::turn_over(QosClassId id, std::uint32_t slot, std::uint64_t bytes,
                             std::uint64_t cost, const First& first) {
  QosClass& qos_class = classes_[id.value];
  if (bytes == 0) {
    if (!first.any()) return;
    add_vain(qos_class, cost);
    if (qos_class.vain_since != now_) qos_class.vain_turns = 0;
    qos_class.vain_since = now_;
    ++qos_class.vain_turns;
    return;
  }
  qos_class.vain -= std::min(qos_class.vain, kVainOfByte * bytes);
  if (slot < queue_pairs_.size())
    queue_pairs_[slot].moved(bytes, now_, is_behind(queue_pairs_[slot]));
  qos_class.rate.moved(bytes, now_, first.qos_class);
  if (qos_class.tenant == kNoTenant) return;
  Tenant& tenant = tenants_[qos_class.tenant];
  tenant.rate.moved(bytes, now_, first.tenant);
  if (first.tenant) tenant.first_cost += cost;
}

void MinimumRates::worked(QosClassId id, std::uint64_t cost) {
  QosClass& qos_class = classes_[id.value];
  add_vain(qos_class, cost);
  if (qos_class.tenant != kNoTenant) tenants_[qos_class.tenant].first_cost += cost;
}

}  // namespace softhca::schedule
