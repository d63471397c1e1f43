// SPDX-License-Identifier: Apache-2.0

#include "daemon/qos/schedule/run_queue.hpp"

namespace softhca::schedule {
namespace {

// Virtual time starts anew at half of what the tags hold, so that none overflows before.
constexpr std::uint64_t kRestart = std::uint64_t{1} << 62;

/// Returns `behind` if there is one, else the first in the order.
template <class Order, class T>
std::uint32_t next_of(Order& order, const T* items, std::uint32_t behind) {
  if (behind != kNoIndex) return behind;
  order.serve(items);
  return order.first();
}

}  // namespace

void RunQueue::reserve(std::uint32_t slots, std::uint16_t tenants, std::uint16_t classes,
                       std::uint16_t tvls) {
  assert(classes_.empty() || tvls == tvls_);
  const auto known = static_cast<std::uint32_t>(classes_.size());
  entries_.resize(slots);
  classes_.resize(classes);
  tenants_.resize(tenants);
  order_.reserve(tenants);
  tvls_ = tvls;
  lanes_.resize(std::size_t{tvls} + classes);
  for (std::uint32_t id = known; id < classes; ++id) {
    lanes_[tvls_ + id].qos_class = id;
    classes_[id].order.reserve(1);
  }
}

void RunQueue::join(QosClassId id, TenantId tenant) {
  QosClass& qos_class = classes_[id.value];
  if (qos_class.tenant == tenant.value) return;
  assert(!qos_class.share.waits());
  if (qos_class.tenant != kNoIndex) --tenants_[qos_class.tenant].classes;
  qos_class.share = {};
  qos_class.rested = true;
  qos_class.rests = 0;
  qos_class.tenant = tenant.value;
  Tenant& owner = tenants_[tenant.value];
  owner.order.reserve(++owner.classes);
}

void RunQueue::set_tvl(TvlId tvl, QosClassId qos_class, std::uint32_t weight) {
  Lane& lane = lanes_[tvl.value];
  if (lane.qos_class != qos_class.value) {
    assert(!lane.share.waits());
    if (lane.qos_class != kNoIndex) --classes_[lane.qos_class].lanes;
    lane = Lane{};
    lane.qos_class = qos_class.value;
    QosClass& owner = classes_[qos_class.value];
    owner.order.reserve(++owner.lanes);
  }
  lane.share.set_weight(weight);
}

void RunQueue::push_into(std::uint32_t slot, QosClassId id, std::uint32_t lane_id,
                         bool may_be_first) {
  entries_[slot].qos_class = id;
  entries_[slot].lane = static_cast<std::uint16_t>(lane_id);
  Lane& lane = lanes_[lane_id];
  QosClass& qos_class = classes_[id.value];
  lane.queue.push(entries_.data(), slot,
                  may_be_first && for_queue_pairs_ && minimums_->queue_pair_behind(slot));
  if (!lane.share.waits()) qos_class.order.enter(lanes_.data(), lane_id, lane.rested);
  if (!qos_class.share.waits()) enter(id.value);
}

std::optional<std::uint32_t> RunQueue::pop() {
  if (order_.empty()) return std::nullopt;
  if (order_.now() >= kRestart) order_.restart(tenants_, [](const Tenant&) { return true; });
  first_ = {};
  const bool heeding = heeds();
  const std::uint32_t ahead = heeding ? tenant_behind() : kNoIndex;
  first_.tenant = ahead != kNoIndex;
  if (first_.tenant && for_queue_pairs_) minimums_->keep_up_with(ahead);
  const std::uint32_t owner = next_of(order_, tenants_.data(), ahead);
  Tenant& tenant = tenants_[owner];
  if (tenant.order.now() >= kRestart) {
    tenant.order.restart(classes_,
                         [owner](const QosClass& qos_class) { return qos_class.tenant == owner; });
  }
  const std::uint32_t behind = heeding ? class_behind(owner) : kNoIndex;
  first_.qos_class = behind != kNoIndex;
  const std::uint32_t id = next_of(tenant.order, classes_.data(), behind);
  QosClass& qos_class = classes_[id];
  overtaken_ = qos_class.rested && contended(QosClassId(static_cast<std::uint16_t>(id)));
  qos_class.rested = false;
  const std::uint32_t slot = pop_of(qos_class, id);
  if (qos_class.order.empty()) leave(id);
  return slot;
}

/// Returns the class of the tenant that is furthest behind its minimum, among those with work.
std::uint32_t RunQueue::class_behind(std::uint32_t tenant) const {
  if (!tenants_[tenant].order.contended()) return kNoIndex;
  return minimums_->first_class(TenantId(static_cast<std::uint16_t>(tenant)), [&](auto id) {
    return classes_[id].share.waits() &&
           !minimums_->comes_to_nothing(QosClassId(static_cast<std::uint16_t>(id)));
  });
}

/// Does the same for tenants. Leaves a tenant out if the work of the class that would be served
/// comes to nothing.
std::uint32_t RunQueue::tenant_behind() const {
  if (!order_.contended()) return kNoIndex;
  return minimums_->first_tenant([&](std::uint32_t id) {
    if (!tenants_[id].share.waits()) return false;
    const std::uint32_t behind = class_behind(id);
    const std::uint32_t served = behind != kNoIndex ? behind : tenants_[id].order.first();
    return !minimums_->comes_to_nothing(QosClassId(static_cast<std::uint16_t>(served)));
  });
}

/// Takes the next queue pair of a class that has work.
std::uint32_t RunQueue::pop_of(QosClass& qos_class, std::uint32_t id) {
  if (qos_class.order.now() >= kRestart)
    qos_class.order.restart(lanes_, [id](const Lane& lane) { return lane.qos_class == id; });
  qos_class.order.serve(lanes_.data());
  const std::uint32_t lane_id = qos_class.order.first();
  Lane& lane = lanes_[lane_id];
  lane.rested = false;
  const std::uint32_t slot = lane.queue.pop_front(entries_.data());
  if (lane.queue.empty()) qos_class.order.leave(lanes_.data(), lane_id);
  return slot;
}

void RunQueue::served(std::uint32_t slot, std::uint64_t cost, bool more, bool in_vain) {
  const QosClassId id = entries_[slot].qos_class;
  const std::uint32_t lane = entries_[slot].lane;
  QosClass& qos_class = classes_[id.value];
  Tenant& tenant = tenants_[qos_class.tenant];
  const MinimumRates::First free = in_vain ? MinimumRates::First{} : first_;
  qos_class.order.served(lanes_.data(), lane, cost);
  if (!free.qos_class) [[likely]]
    tenant.order.served(classes_.data(), id.value, cost);
  if (!free.tenant) [[likely]]
    order_.served(tenants_.data(), qos_class.tenant, cost);
  first_ = {};
  if (more && !contains(slot)) push_into(slot, id, lane, !in_vain);
  lanes_[lane].rested = lanes_[lane].queue.empty();
  qos_class.rested = qos_class.order.empty();
  qos_class.rests += qos_class.rested;
}

void RunQueue::charge(QosClassId id, std::uint64_t cost) {
  QosClass& qos_class = classes_[id.value];
  tenants_[qos_class.tenant].order.charge(classes_.data(), id.value, cost);
  order_.charge(tenants_.data(), qos_class.tenant, cost);
}

void RunQueue::remove(std::uint32_t slot) {
  if (!contains(slot)) return;
  const std::uint32_t id = entries_[slot].qos_class.value, lane_id = entries_[slot].lane;
  QosClass& qos_class = classes_[id];
  Lane& lane = lanes_[lane_id];
  lane.queue.remove(entries_.data(), slot);
  if (!lane.queue.empty()) return;
  lane.rested = true;
  qos_class.order.leave(lanes_.data(), lane_id);
  if (!qos_class.order.empty()) return;
  qos_class.rested = true;
  leave(id);
}

bool RunQueue::may_begin(QosClassId id, std::uint64_t lead) const {
  const QosClass& qos_class = classes_[id.value];
  const Tenant& tenant = tenants_[qos_class.tenant];
  if (order_.others(tenants_.data(), qos_class.tenant) &&
      order_.lead(tenants_.data(), qos_class.tenant) > lead)
    return false;
  return !tenant.order.others(classes_.data(), id.value) ||
         tenant.order.lead(classes_.data(), id.value) <= lead;
}

/// Adds the class: it has its first queue pair with work.
void RunQueue::enter(std::uint32_t id) {
  const std::uint32_t tenant = classes_[id].tenant;
  const bool rested = classes_[id].rested;
  tenants_[tenant].order.enter(classes_.data(), id, rested);
  const bool first = !tenants_[tenant].share.waits();
  if (first) order_.enter(tenants_.data(), tenant, rested);
  if (!for_queue_pairs_ || !minimums_->any()) return;
  minimums_->resume_class(id);
  if (first) minimums_->resume_tenant(tenant);
}

/// Removes the class: it has lost its last queue pair with work.
void RunQueue::leave(std::uint32_t id) {
  const std::uint32_t tenant = classes_[id].tenant;
  tenants_[tenant].order.leave(classes_.data(), id);
  const bool last = tenants_[tenant].order.empty();
  if (last) order_.leave(tenants_.data(), tenant);
  if (!for_queue_pairs_ || !minimums_->any()) return;
  minimums_->rest_class(id);
  if (last) minimums_->rest_tenant(tenant);
}

}  // namespace softhca::schedule
