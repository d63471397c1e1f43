// The send queue scheduler's overflow: pruning and recovery (mechanisms B4, B5).
#include <algorithm>
#include <cassert>

#include "daemon/schedule/send_queue_scheduler.hpp"

namespace softhca::schedule {

std::uint32_t SendQueueScheduler::limit() const {
  const auto classes = static_cast<std::uint32_t>(classes_.size());
  const std::uint32_t threshold = threshold_.in_force(config_);
  return std::max(config_.entries - std::min(config_.entries, threshold), classes);
}

/// Places every active class may have. At least 1: limit() is no less than the classes.
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
  DoorbellCounters& counters = classes_[descriptors_[slot.value].qos_class.value].counters;
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
  QosClass& qos_class = classes_[d.qos_class.value];
  overflow_.write(QpSlot(slot), d.write);
  const State into = d.state == State::kHeld ? State::kOverflowHeld
                     : is_blocked(d)         ? State::kOverflowBlocked
                                             : State::kOverflow;
  unlink(slot);
  d.write = d.read;
  d.state = into;
  ++d.pruned;
  if (into == State::kOverflow) qos_class.overflow.push_back(descriptors_.data(), slot);
  if (into == State::kOverflowBlocked)
    qos_class.overflow_blocked.push_back(descriptors_.data(), slot);
  qos_class.counters.pruned.add();
  qos_class.counters.overflow.add();
  qos_class.counters.overflow_high_water.raise_to(qos_class.counters.overflow.value());
  update_class(d.qos_class.value);
}

/// What overflowed is in the overflow buffer no more: read back, lost, or its queue pair closes.
void SendQueueScheduler::forget_overflow(std::uint32_t slot) {
  Descriptor& d = descriptors_[slot];
  leave_list(slot);
  d.state = State::kIdle;
  classes_[d.qos_class.value].counters.overflow.subtract();
  update_class(d.qos_class.value);
}

/// Whom a class can spare first. REQUIRES: it has linked ones.
std::uint32_t SendQueueScheduler::victim(const QosClass& qos_class) const {
  if (!qos_class.blocked.empty()) return qos_class.blocked.back();
  if (!qos_class.held.empty()) return qos_class.held.back();
  const ArrivalList* list = &qos_class.arrivals[kArrivalClasses - 1];
  while (list->empty()) --list;
  return list->back();
}

/// The class with the most places; if there are more places taken than the limit allows, or as
/// many and somebody has less than its share, this one has more than its share.
std::uint32_t SendQueueScheduler::most_linked() const {
  std::uint32_t most = active_classes_.front();
  for (std::uint32_t id = most; id != kNoIndex; id = active_classes_.next(classes_.data(), id))
    if (classes_[id].linked > classes_[most].linked) most = id;
  return most;
}

/// After a place was taken by `id`.
void SendQueueScheduler::hold_limit(QosClassId id) {
  const QosClass& qos_class = classes_[id.value];
  if (qos_class.linked > qos_class.bound) return prune(victim(qos_class));
  if (linked() <= limit()) return;
  prune(victim(qos_class.linked > share() ? qos_class : classes_[most_linked()]));
}

/// After a turn: has it to make room for those of its class that wait in the overflow buffer?
void SendQueueScheduler::take_turns(QpSlot slot) {
  const QosClass& qos_class = classes_[descriptors_[slot.value].qos_class.value];
  if (qos_class.overflow.empty() || source_for(qos_class) != Source::kNowhere) return;
  if (qos_class.linked > qos_class.bound) return;  // smaller soon: relieve()
  prune(slot.value);
}

SendQueueScheduler::Source SendQueueScheduler::source_for(const QosClass& qos_class) const {
  if (qos_class.linked < qos_class.bound) {
    if (linked() < limit()) return Source::kFree;
    if (qos_class.linked < share()) return Source::kOthers;
  }
  const bool can_spare = !qos_class.blocked.empty() || !qos_class.held.empty();
  return can_spare && qos_class.linked <= qos_class.bound ? Source::kOwn : Source::kNowhere;
}

bool SendQueueScheduler::may_relieve() const {
  if (!over_bound_.empty() || linked() > limit()) return true;
  for (std::uint32_t id = recovering_.front(); id != kNoIndex;
       id = recovering_.next(classes_.data(), id))
    if (source_for(classes_[id]) != Source::kNowhere) return true;
  return false;
}

Relief SendQueueScheduler::relieve() {
  if (!over_bound_.empty() || linked() > limit()) {
    const std::uint32_t id = over_bound_.empty() ? most_linked() : over_bound_.front();
    const std::uint32_t slot = victim(classes_[id]);
    prune(slot);
    return {Relief::Kind::kPruned, QpSlot(slot)};
  }
  // Once round, from where the last recovery left off.
  const std::uint32_t last = recovering_.back();
  for (std::uint32_t id = recovering_.front(); id != kNoIndex; id = recovering_.front()) {
    recovering_.rotate(classes_.data());
    if (source_for(classes_[id]) != Source::kNowhere) return recover(id);
    if (id == last) break;
  }
  return {};
}

/// The oldest doorbell of a class comes back. REQUIRES: there is a source for its place.
Relief SendQueueScheduler::recover(std::uint32_t id) {
  QosClass& qos_class = classes_[id];
  const std::uint32_t slot = qos_class.overflow.front();
  const auto end = read_back(QpSlot(slot));
  if (!end) {
    qos_class.counters.lost.add();
    forget_overflow(slot);
    return {Relief::Kind::kLost, QpSlot(slot)};
  }
  const Source source = source_for(qos_class);
  assert(source != Source::kNowhere);
  if (source != Source::kFree)
    prune(victim(source == Source::kOwn ? qos_class : classes_[most_linked()]));
  forget_overflow(slot);
  qos_class.counters.recovered.add();
  descriptors_[slot].write = *end;
  link(slot);
  return {Relief::Kind::kRecovered, QpSlot(slot)};
}

void SendQueueScheduler::set_bound(QosClassId id, std::uint32_t places) {
  if (classes_[id.value].bound == places) return;
  classes_[id.value].bound = places;
  update_class(id.value);
}

}  // namespace softhca::schedule
