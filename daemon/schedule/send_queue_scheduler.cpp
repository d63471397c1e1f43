#include "daemon/schedule/send_queue_scheduler.hpp"

#include <algorithm>
#include <bit>
#include <cassert>

namespace softhca::schedule {

SendQueueScheduler::SendQueueScheduler(const SendQueueSchedulerConfig& config,
                                       DoorbellOverflow& overflow)
    : quantum_(config.quantum),
      config_(config.doorbells),
      overflow_(overflow),
      descriptors_(config.max_queue_pairs),
      tenants_(config.max_tenants) {
  assert(quantum_ > 0);
}

void SendQueueScheduler::open(QpSlot slot, TenantId tenant, std::uint32_t entries,
                              std::uint32_t sequence) {
  assert(!is_open(slot) && tenant.value < tenants_.size());
  Descriptor& d = descriptors_[slot.value];
  d = Descriptor{};
  d.read = d.write = sequence;
  d.entries = entries;
  d.tenant = tenant;
  d.state = State::kIdle;
}

void SendQueueScheduler::close(QpSlot slot) {
  if (!is_open(slot)) return;
  if (overflowed(slot))
    forget_overflow(slot.value);
  else
    unlink(slot.value);
  descriptors_[slot.value].state = State::kClosed;
}

RingVerdict SendQueueScheduler::ring(QpSlot slot, std::uint32_t sequence_end) {
  Descriptor& d = descriptors_[slot.value];
  assert(d.state != State::kClosed);
  DoorbellCounters& counters = tenants_[d.tenant.value].counters;
  if (ring_distance(sequence_end, d.write) <= 0) {
    counters.stale.add();
    return RingVerdict::kStale;
  }
  // What lies between the read pointer and the end is not even fetched, let alone completed, so an
  // honest process has room for it in its send queue.
  if (sequence_end - d.read > d.entries) {
    counters.hostile.add();
    return RingVerdict::kHostile;
  }
  if (overflowed(slot)) return join_overflow(slot, sequence_end);
  counters.accepted.add();
  d.write = sequence_end;
  if (d.state == State::kIdle) {
    link(slot.value);
    hold_limit(d.tenant);
  }
  return RingVerdict::kAccepted;
}

bool SendQueueScheduler::vcb_may_start(QpSlot slot, std::uint32_t sequence) const {
  const Descriptor& d = descriptors_[slot.value];
  return d.state == State::kIdle && sequence == d.read && (d.kicked == 0 || d.by_vcb);
}

void SendQueueScheduler::vcb_kicked(QpSlot slot) {
  Descriptor& d = descriptors_[slot.value];
  assert(vcb_may_start(slot, d.read));
  d.write = ++d.read;
  ++d.kicked;
  d.by_vcb = true;
}

std::optional<Turn> SendQueueScheduler::next() {
  if (tenants_with_work_.empty()) return std::nullopt;
  Tenant& tenant = tenants_[tenants_with_work_.front()];
  const QpSlot slot(tenant.ready.front());
  tenant.ready.rotate(descriptors_.data());
  tenants_with_work_.rotate(tenants_.data());
  return Turn{slot, next_sequence(slot), std::min(pending(slot), quantum_)};
}

void SendQueueScheduler::fetched(QpSlot slot, std::uint32_t count) {
  assert(count <= pending(slot));
  if (count == 0) return;
  Descriptor& d = descriptors_[slot.value];
  d.read += count;
  d.kicked += count;
  d.by_vcb = false;
  tenants_[d.tenant.value].counters.fetched.add(count);
  if (d.read != d.write) return take_turns(slot);
  unlink(slot.value);
  d.state = State::kIdle;
}

void SendQueueScheduler::started(QpSlot slot) {
  Descriptor& d = descriptors_[slot.value];
  assert(d.kicked > 0);
  if (--d.kicked != 0) return;
  if (d.state == State::kHeld) {
    leave_list(slot.value);
    make_ready(slot.value);
  } else if (d.state == State::kOverflowHeld) {
    d.state = State::kOverflow;
    tenants_[d.tenant.value].overflow.push_back(descriptors_.data(), slot.value);
    update_tenant(d.tenant.value);
  }
}

void SendQueueScheduler::rewind(QpSlot slot, std::uint32_t sequence) {
  Descriptor& d = descriptors_[slot.value];
  assert(d.state != State::kClosed && d.kicked == 0);
  d.read = sequence;
  if (overflowed(slot)) {
    d.write = sequence;  // the doorbell in the overflow buffer ends behind all of them
  } else if (d.state == State::kIdle && d.read != d.write) {
    link(slot.value);
    hold_limit(d.tenant);
  }
}

void SendQueueScheduler::block(QpSlot slot) {
  Descriptor& d = descriptors_[slot.value];
  const bool ready = d.state == State::kReady || (d.state == State::kBlocked && !in_period(d));
  if (!ready) return;
  leave_list(slot.value);
  Tenant& tenant = tenants_[d.tenant.value];
  tenant.blocked.push_back(descriptors_.data(), slot.value);
  d.state = State::kBlocked;
  d.blocked_in = tenant.period;
  update_tenant(d.tenant.value);
}

void SendQueueScheduler::unblock(QpSlot slot) {
  Descriptor& d = descriptors_[slot.value];
  if (!is_blocked(d)) return;
  leave_list(slot.value);
  if (d.state == State::kBlocked) return make_ready(slot.value);
  d.state = State::kOverflow;
  tenants_[d.tenant.value].overflow.push_back(descriptors_.data(), slot.value);
  update_tenant(d.tenant.value);
}

void SendQueueScheduler::unblock_all(TenantId id) {
  Tenant& tenant = tenants_[id.value];
  if (tenant.blocked.empty() && tenant.overflow_blocked.empty()) return;
  tenant.ready.splice_back(descriptors_.data(), tenant.blocked);
  tenant.overflow.splice_back(descriptors_.data(), tenant.overflow_blocked);
  ++tenant.period;
  update_tenant(id.value);
}

void SendQueueScheduler::block_tenant(TenantId id) {
  tenants_[id.value].stopped = true;
  update_tenant(id.value);
}

void SendQueueScheduler::unblock_tenant(TenantId id) {
  if (!tenants_[id.value].stopped) return;
  tenants_[id.value].stopped = false;
  update_tenant(id.value);
}

bool SendQueueScheduler::in_period(const Descriptor& d) const {
  return d.blocked_in == tenants_[d.tenant.value].period;
}

/// In a blocked list of its tenant, which has not been unblocked as a whole since.
bool SendQueueScheduler::is_blocked(const Descriptor& d) const {
  return (d.state == State::kBlocked || d.state == State::kOverflowBlocked) && in_period(d);
}

/// An idle one with a doorbell takes a place.
void SendQueueScheduler::link(std::uint32_t slot) {
  Descriptor& d = descriptors_[slot];
  Tenant& tenant = tenants_[d.tenant.value];
  linked_.add();
  linked_high_water_.raise_to(linked());
  ++tenant.linked;
  d.arrival_class =
      config_.prune == PrunePolicy::kNewest
          ? 0
          : static_cast<std::uint8_t>(std::min<unsigned>(
                static_cast<unsigned>(std::bit_width(d.pruned)), kArrivalClasses - 1));
  tenant.arrivals[d.arrival_class].push_back(descriptors_.data(), slot);
  make_ready(slot);
}

void SendQueueScheduler::make_ready(std::uint32_t slot) {
  Descriptor& d = descriptors_[slot];
  Tenant& tenant = tenants_[d.tenant.value];
  const bool held = d.kicked > 0 && d.by_vcb;
  d.state = held ? State::kHeld : State::kReady;
  (held ? tenant.held : tenant.ready).push_back(descriptors_.data(), slot);
  update_tenant(d.tenant.value);
}

/// Out of the list that its state names, if any.
void SendQueueScheduler::leave_list(std::uint32_t slot) {
  Descriptor& d = descriptors_[slot];
  if (!d.link.linked()) return;
  Tenant& tenant = tenants_[d.tenant.value];
  DescriptorList* list = nullptr;
  if (overflowed(QpSlot(slot)))
    list = is_blocked(d) ? &tenant.overflow_blocked : &tenant.overflow;
  else if (d.state == State::kHeld)
    list = &tenant.held;
  else
    list = is_blocked(d) ? &tenant.blocked : &tenant.ready;
  list->remove(descriptors_.data(), slot);
}

/// Gives its place back, if it has one.
void SendQueueScheduler::unlink(std::uint32_t slot) {
  Descriptor& d = descriptors_[slot];
  if (!d.link.linked()) return;
  leave_list(slot);
  Tenant& tenant = tenants_[d.tenant.value];
  tenant.arrivals[d.arrival_class].remove(descriptors_.data(), slot);
  --tenant.linked;
  linked_.subtract();
  update_tenant(d.tenant.value);
}

template <IndexLink SendQueueScheduler::Tenant::*member>
void SendQueueScheduler::keep(TenantList<member>& list, std::uint32_t tenant, bool wanted) {
  if ((tenants_[tenant].*member).linked() == wanted) return;
  wanted ? list.push_back(tenants_.data(), tenant) : list.remove(tenants_.data(), tenant);
}

/// Keeps the invariant: a tenant stands in each list of the scheduler exactly while it belongs.
void SendQueueScheduler::update_tenant(std::uint32_t id) {
  Tenant& tenant = tenants_[id];
  const bool active = tenant.linked != 0 || tenant.counters.overflow.value() != 0;
  if (active != tenant.active.linked()) active ? ++active_ : --active_;
  keep(active_tenants_, id, active);
  keep(tenants_with_work_, id, !tenant.stopped && !tenant.ready.empty());
  keep(recovering_, id, !tenant.overflow.empty());
  keep(over_bound_, id, tenant.linked > tenant.bound);
}

}  // namespace softhca::schedule
