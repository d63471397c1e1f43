#include "daemon/schedule/run_queue.hpp"

namespace softhca::schedule {
namespace {

// Virtual time starts anew here: half of what the tags hold, so that none overflows before.
constexpr std::uint64_t kRestart = std::uint64_t{1} << 62;

}  // namespace

void RunQueue::reserve(std::uint32_t slots, std::uint16_t tenants, std::uint16_t classes) {
  entries_.resize(slots);
  classes_.resize(classes);
  tenants_.resize(tenants);
  order_.reserve(tenants);
}

void RunQueue::join(QosClassId id, TenantId tenant) {
  QosClass& qos_class = classes_[id.value];
  if (qos_class.tenant == tenant.value) return;
  assert(!qos_class.share.waits());
  if (qos_class.tenant != kNoIndex) --tenants_[qos_class.tenant].classes;
  qos_class = QosClass{};
  qos_class.tenant = tenant.value;
  Tenant& owner = tenants_[tenant.value];
  owner.order.reserve(++owner.classes);
}

void RunQueue::push(std::uint32_t slot, QosClassId qos_class) {
  if (contains(slot)) return;
  entries_[slot].qos_class = qos_class;
  classes_[qos_class.value].queue.push_back(entries_.data(), slot);
  if (!classes_[qos_class.value].share.waits()) enter(qos_class.value);
}

std::optional<std::uint32_t> RunQueue::pop() {
  if (order_.empty()) return std::nullopt;
  if (order_.now() >= kRestart) order_.restart(tenants_, [](const Tenant&) { return true; });
  order_.serve(tenants_.data());
  const std::uint32_t owner = order_.first();
  Tenant& tenant = tenants_[owner];
  if (tenant.order.now() >= kRestart) {
    tenant.order.restart(classes_,
                         [owner](const QosClass& qos_class) { return qos_class.tenant == owner; });
  }
  tenant.order.serve(classes_.data());
  const std::uint32_t id = tenant.order.first();
  QosClass& qos_class = classes_[id];
  overtaken_ = qos_class.rested && contended(QosClassId(static_cast<std::uint16_t>(id)));
  qos_class.rested = false;
  const std::uint32_t slot = qos_class.queue.pop_front(entries_.data());
  if (qos_class.queue.empty()) leave(id);
  return slot;
}

void RunQueue::served(std::uint32_t slot, std::uint64_t cost, bool more) {
  const QosClassId id = entries_[slot].qos_class;
  QosClass& qos_class = classes_[id.value];
  Tenant& tenant = tenants_[qos_class.tenant];
  tenant.order.served(classes_.data(), id.value, cost);
  order_.served(tenants_.data(), qos_class.tenant, cost);
  if (more) push(slot, id);
  qos_class.rested = qos_class.queue.empty();
  qos_class.rests += qos_class.rested;
}

void RunQueue::charge(QosClassId id, std::uint64_t cost) {
  QosClass& qos_class = classes_[id.value];
  tenants_[qos_class.tenant].order.charge(classes_.data(), id.value, cost);
  order_.charge(tenants_.data(), qos_class.tenant, cost);
}

void RunQueue::remove(std::uint32_t slot) {
  if (!contains(slot)) return;
  const std::uint32_t id = entries_[slot].qos_class.value;
  QosClass& qos_class = classes_[id];
  qos_class.queue.remove(entries_.data(), slot);
  if (!qos_class.queue.empty()) return;
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

/// The class has its first queue pair with work.
void RunQueue::enter(std::uint32_t id) {
  const std::uint32_t tenant = classes_[id].tenant;
  const bool rested = classes_[id].rested;
  tenants_[tenant].order.enter(classes_.data(), id, rested);
  if (!tenants_[tenant].share.waits()) order_.enter(tenants_.data(), tenant, rested);
}

/// The class has lost its last queue pair with work.
void RunQueue::leave(std::uint32_t id) {
  const std::uint32_t tenant = classes_[id].tenant;
  tenants_[tenant].order.leave(classes_.data(), id);
  if (tenants_[tenant].order.empty()) order_.leave(tenants_.data(), tenant);
}

}  // namespace softhca::schedule
