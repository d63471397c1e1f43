#include "daemon/schedule/send_queue_scheduler.hpp"

#include <algorithm>
#include <cassert>

namespace softhca::schedule {

SendQueueScheduler::SendQueueScheduler(const SendQueueSchedulerConfig& config)
    : quantum_(config.quantum), descriptors_(config.max_queue_pairs), tenants_(config.max_tenants) {
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
  counters.accepted.add();
  d.write = sequence_end;
  if (d.state == State::kIdle) make_ready(slot.value);
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
  if (d.read != d.write) return;
  unlink(slot.value);
  d.state = State::kIdle;
}

void SendQueueScheduler::started(QpSlot slot) {
  Descriptor& d = descriptors_[slot.value];
  assert(d.kicked > 0);
  if (--d.kicked == 0 && d.state == State::kHeld) make_ready(slot.value);
}

void SendQueueScheduler::block(QpSlot slot) {
  Descriptor& d = descriptors_[slot.value];
  const bool ready = d.link.linked() && !is_blocked(d);
  if (!ready) return;
  unlink(slot.value);
  Tenant& tenant = tenants_[d.tenant.value];
  tenant.blocked.push_back(descriptors_.data(), slot.value);
  d.state = State::kBlocked;
  d.blocked_in = tenant.period;
}

void SendQueueScheduler::unblock(QpSlot slot) {
  if (!is_blocked(descriptors_[slot.value])) return;
  unlink(slot.value);
  make_ready(slot.value);
}

void SendQueueScheduler::unblock_all(TenantId id) {
  Tenant& tenant = tenants_[id.value];
  if (tenant.blocked.empty()) return;
  tenant.ready.splice_back(descriptors_.data(), tenant.blocked);
  ++tenant.period;
  update_tenant(id.value);
}

void SendQueueScheduler::block_tenant(TenantId id) {
  tenants_[id.value].stopped = true;
  update_tenant(id.value);
}

void SendQueueScheduler::unblock_tenant(TenantId id) {
  tenants_[id.value].stopped = false;
  update_tenant(id.value);
}

/// In the blocked list of its tenant, which has not been unblocked as a whole since.
bool SendQueueScheduler::is_blocked(const Descriptor& d) const {
  return d.state == State::kBlocked && d.blocked_in == tenants_[d.tenant.value].period;
}

void SendQueueScheduler::make_ready(std::uint32_t slot) {
  Descriptor& d = descriptors_[slot];
  if (d.kicked > 0 && d.by_vcb) {
    d.state = State::kHeld;
    return;
  }
  d.state = State::kReady;
  tenants_[d.tenant.value].ready.push_back(descriptors_.data(), slot);
  update_tenant(d.tenant.value);
}

void SendQueueScheduler::unlink(std::uint32_t slot) {
  Descriptor& d = descriptors_[slot];
  if (!d.link.linked()) return;
  Tenant& tenant = tenants_[d.tenant.value];
  (is_blocked(d) ? tenant.blocked : tenant.ready).remove(descriptors_.data(), slot);
  update_tenant(d.tenant.value);
}

/// Keeps the invariant: a tenant is linked exactly when it has a ready queue pair and may go on.
void SendQueueScheduler::update_tenant(std::uint32_t id) {
  Tenant& tenant = tenants_[id];
  const bool has_turn = !tenant.stopped && !tenant.ready.empty();
  if (has_turn == tenant.link.linked()) return;
  has_turn ? tenants_with_work_.push_back(tenants_.data(), id)
           : tenants_with_work_.remove(tenants_.data(), id);
}

}  // namespace softhca::schedule
