// The send queue scheduler's overflow: pruning and recovery (mechanisms B4, B5).
#include <algorithm>
#include <cassert>

#include "daemon/schedule/send_queue_scheduler.hpp"

namespace softhca::schedule {

std::uint32_t SendQueueScheduler::limit() const {
  const auto tenants = static_cast<std::uint32_t>(tenants_.size());
  const std::uint32_t threshold = threshold_.in_force(config_);
  return std::max(config_.entries - std::min(config_.entries, threshold), tenants);
}

/// Places every active tenant may have. At least 1: limit() is no less than the tenants.
std::uint32_t SendQueueScheduler::share() const { return limit() / std::max(active_, 1u); }

/// What the overflow buffer says of this queue pair, if it can be true: something new (else
/// nothing would have been written), and within the send queue.
std::optional<std::uint32_t> SendQueueScheduler::read_back(QpSlot slot) const {
  const Descriptor& d = descriptors_[slot.value];
  const auto end = overflow_.read(slot);
  if (!end || *end == d.read || *end - d.read > d.entries) return std::nullopt;
  return end;
}

/// A doorbell of a queue pair whose earlier ones have overflowed.
RingVerdict SendQueueScheduler::join_overflow(QpSlot slot, std::uint32_t sequence_end) {
  DoorbellCounters& counters = tenants_[descriptors_[slot.value].tenant.value].counters;
  const auto end = read_back(slot);
  if (!end) {
    counters.hostile.add();
    counters.lost.add();
    forget_overflow(slot.value);
    return RingVerdict::kHostile;
  }
  if (ring_distance(sequence_end, *end) <= 0) {
    counters.stale.add();
    return RingVerdict::kStale;
  }
  counters.accepted.add();
  counters.pruned.add();
  overflow_.write(slot, sequence_end);
  return RingVerdict::kAccepted;
}

/// From here to the overflow buffer. REQUIRES: linked.
void SendQueueScheduler::prune(std::uint32_t slot) {
  Descriptor& d = descriptors_[slot];
  Tenant& tenant = tenants_[d.tenant.value];
  overflow_.write(QpSlot(slot), d.write);
  const State into = d.state == State::kHeld ? State::kOverflowHeld
                     : is_blocked(d)         ? State::kOverflowBlocked
                                             : State::kOverflow;
  unlink(slot);
  d.write = d.read;
  d.state = into;
  ++d.pruned;
  if (into == State::kOverflow) tenant.overflow.push_back(descriptors_.data(), slot);
  if (into == State::kOverflowBlocked) tenant.overflow_blocked.push_back(descriptors_.data(), slot);
  tenant.counters.pruned.add();
  tenant.counters.overflow.add();
  tenant.counters.overflow_high_water.raise_to(tenant.counters.overflow.value());
  update_tenant(d.tenant.value);
}

/// What overflowed is in the overflow buffer no more: read back, lost, or its queue pair closes.
void SendQueueScheduler::forget_overflow(std::uint32_t slot) {
  Descriptor& d = descriptors_[slot];
  leave_list(slot);
  d.state = State::kIdle;
  tenants_[d.tenant.value].counters.overflow.subtract();
  update_tenant(d.tenant.value);
}

/// Whom a tenant can spare first. REQUIRES: it has linked ones.
std::uint32_t SendQueueScheduler::victim(const Tenant& tenant) const {
  if (!tenant.blocked.empty()) return tenant.blocked.back();
  if (!tenant.held.empty()) return tenant.held.back();
  const ArrivalList* list = &tenant.arrivals[kArrivalClasses - 1];
  while (list->empty()) --list;
  return list->back();
}

/// The tenant with the most places; if there are more places taken than the limit allows, or as
/// many and somebody has less than its share, this one has more than its share.
std::uint32_t SendQueueScheduler::most_linked() const {
  std::uint32_t most = active_tenants_.front();
  for (std::uint32_t id = most; id != kNoIndex; id = active_tenants_.next(tenants_.data(), id))
    if (tenants_[id].linked > tenants_[most].linked) most = id;
  return most;
}

/// After a place was taken by `id`.
void SendQueueScheduler::hold_limit(TenantId id) {
  const Tenant& tenant = tenants_[id.value];
  if (tenant.linked > tenant.bound) return prune(victim(tenant));
  if (linked() <= limit()) return;
  prune(victim(tenant.linked > share() ? tenant : tenants_[most_linked()]));
}

/// After a turn: has it to make room for those of its tenant that wait in the overflow buffer?
void SendQueueScheduler::take_turns(QpSlot slot) {
  const Tenant& tenant = tenants_[descriptors_[slot.value].tenant.value];
  if (tenant.overflow.empty() || source_for(tenant) != Source::kNowhere) return;
  if (tenant.linked > tenant.bound) return;  // smaller soon: relieve()
  prune(slot.value);
}

SendQueueScheduler::Source SendQueueScheduler::source_for(const Tenant& tenant) const {
  if (tenant.linked < tenant.bound) {
    if (linked() < limit()) return Source::kFree;
    if (tenant.linked < share()) return Source::kOthers;
  }
  const bool can_spare = !tenant.blocked.empty() || !tenant.held.empty();
  return can_spare && tenant.linked <= tenant.bound ? Source::kOwn : Source::kNowhere;
}

bool SendQueueScheduler::may_relieve() const {
  if (!over_bound_.empty() || linked() > limit()) return true;
  for (std::uint32_t id = recovering_.front(); id != kNoIndex;
       id = recovering_.next(tenants_.data(), id))
    if (source_for(tenants_[id]) != Source::kNowhere) return true;
  return false;
}

Relief SendQueueScheduler::relieve() {
  if (!over_bound_.empty() || linked() > limit()) {
    const std::uint32_t id = over_bound_.empty() ? most_linked() : over_bound_.front();
    const std::uint32_t slot = victim(tenants_[id]);
    prune(slot);
    return {Relief::Kind::kPruned, QpSlot(slot)};
  }
  // Once round, from where the last recovery left off.
  const std::uint32_t last = recovering_.back();
  for (std::uint32_t id = recovering_.front(); id != kNoIndex; id = recovering_.front()) {
    recovering_.rotate(tenants_.data());
    if (source_for(tenants_[id]) != Source::kNowhere) return recover(id);
    if (id == last) break;
  }
  return {};
}

/// The oldest doorbell of a tenant comes back. REQUIRES: there is a source for its place.
Relief SendQueueScheduler::recover(std::uint32_t id) {
  Tenant& tenant = tenants_[id];
  const std::uint32_t slot = tenant.overflow.front();
  const auto end = read_back(QpSlot(slot));
  if (!end) {
    tenant.counters.lost.add();
    forget_overflow(slot);
    return {Relief::Kind::kLost, QpSlot(slot)};
  }
  const Source source = source_for(tenant);
  assert(source != Source::kNowhere);
  if (source != Source::kFree)
    prune(victim(source == Source::kOwn ? tenant : tenants_[most_linked()]));
  forget_overflow(slot);
  tenant.counters.recovered.add();
  descriptors_[slot].write = *end;
  link(slot);
  return {Relief::Kind::kRecovered, QpSlot(slot)};
}

void SendQueueScheduler::set_bound(TenantId id, std::uint32_t places) {
  if (tenants_[id.value].bound == places) return;
  tenants_[id.value].bound = places;
  update_tenant(id.value);
}

}  // namespace softhca::schedule
