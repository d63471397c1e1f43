// SPDX-License-Identifier: Apache-2.0

#include "daemon/qos/schedule/send_queue_overflow.hpp"

#include <algorithm>
#include <bit>
#include <cassert>

namespace softhca::schedule {

std::uint32_t SendQueueOverflow::limit() const {
  const std::uint32_t threshold = threshold_.in_force(config_);
  return std::max(config_.entries - std::min(config_.entries, threshold), lists_.active_count());
}

/// Returns the places that every active class may have: at least 1, since limit() is no less than
/// these classes are.
std::uint32_t SendQueueOverflow::share() const {
  return limit() / std::max(lists_.active_count(), 1u);
}

void SendQueueOverflow::take_place(QpSlot slot) {
  const bool by_age = config_.prune != PrunePolicy::kNewest;
  const auto times = static_cast<std::uint32_t>(std::bit_width(lists_[slot].pruned));
  lists_.link(slot, by_age ? std::min(times, SendQueueLists::kArrivalClasses - 1) : 0);
}

void SendQueueOverflow::link(QpSlot slot) {
  take_place(slot);
  const QosClass& qos_class = lists_.class_of(lists_[slot]);
  if (qos_class.linked > qos_class.bound) return prune(victim(qos_class));
  if (lists_.linked() <= limit()) return;
  prune(victim(qos_class.linked > share() ? qos_class : lists_[most_linked()]));
}

/// Returns what the overflow buffer says of this queue pair, if it can be true. It has to be new,
/// since otherwise nothing would have been written, and within the send queue.
std::optional<std::uint32_t> SendQueueOverflow::read_back(QpSlot slot) const {
  const Descriptor& d = lists_[slot];
  const auto end = buffer_.read(slot);
  if (!end || *end == d.read || *end - d.read > d.entries) return std::nullopt;
  return end;
}

RingVerdict SendQueueOverflow::join(QpSlot slot, std::uint32_t sequence_end) {
  DoorbellCounters& counters = lists_.class_of(lists_[slot]).counters;
  const auto end = read_back(slot);
  if (!end) {
    counters.hostile.add();
    counters.lost.add();
    forget(slot);
    return RingVerdict::kHostile;
  }
  if (ring_distance(sequence_end, *end) <= 0) {
    counters.stale.add();
    return RingVerdict::kStale;
  }
  counters.accepted.add();
  counters.joined.add();
  buffer_.write(slot, sequence_end);
  return RingVerdict::kAccepted;
}

/// Moves a doorbell from here to the overflow buffer. REQUIRES: linked.
void SendQueueOverflow::prune(QpSlot slot) {
  Descriptor& d = lists_[slot];
  DoorbellCounters& counters = lists_.class_of(d).counters;
  buffer_.write(slot, d.write);
  const State into = d.state == State::kHeld ? State::kOverflowHeld
                     : lists_.is_blocked(d)  ? State::kOverflowBlocked
                                             : State::kOverflow;
  lists_.unlink(slot);
  d.write = d.read;
  ++d.pruned;
  counters.pruned.add();
  add_one(counters.overflow, counters.overflow_high_water);
  lists_.enter(slot, into);
}

void SendQueueOverflow::forget(QpSlot slot) {
  Descriptor& d = lists_[slot];
  lists_.leave(slot);
  lists_.class_of(d).counters.overflow.subtract();
  lists_.enter(slot, State::kIdle);
}

void SendQueueOverflow::drop(QpSlot slot) {
  forget(slot);
  lists_.class_of(lists_[slot]).counters.dropped.add();
}

/// Returns the queue pair that a class can spare first. REQUIRES: it has linked ones.
QpSlot SendQueueOverflow::victim(const QosClass& qos_class) const {
  if (!qos_class.blocked.empty()) return QpSlot(qos_class.blocked.back());
  if (!qos_class.held.empty()) return QpSlot(qos_class.held.back());
  const auto* list = &qos_class.arrivals[SendQueueLists::kArrivalClasses - 1];
  while (list->empty()) --list;
  return QpSlot(list->back());
}

/// Returns the class with the most places. It has more than its share if more places are taken than
/// the limit allows, or as many while another class has less than its share.
QosClassId SendQueueOverflow::most_linked() const {
  QosClassId most(static_cast<std::uint16_t>(lists_.active().front()));
  lists_.find(lists_.active(), [&](QosClassId id) {
    if (lists_[id].linked > lists_[most].linked) most = id;
    return false;
  });
  return most;
}

void SendQueueOverflow::take_turns(QpSlot slot) {
  const QosClass& qos_class = lists_.class_of(lists_[slot]);
  if (qos_class.overflow.empty() || source_for(qos_class) != Source::kNowhere) return;
  if (qos_class.linked > qos_class.bound) return;  // relieve() prunes it
  prune(slot);
}

SendQueueOverflow::Source SendQueueOverflow::source_for(const QosClass& qos_class) const {
  if (qos_class.linked < qos_class.bound) {
    if (lists_.linked() < limit()) return Source::kFree;
    if (qos_class.linked < share()) return Source::kOthers;
  }
  const bool can_spare = !qos_class.blocked.empty() || !qos_class.held.empty();
  return can_spare && qos_class.linked <= qos_class.bound ? Source::kOwn : Source::kNowhere;
}

bool SendQueueOverflow::may_relieve() const {
  const auto can_recover = [this](QosClassId id) {
    return source_for(lists_[id]) != Source::kNowhere;
  };
  return too_many() || lists_.find(lists_.recovering(), can_recover) != kNoIndex;
}

Relief SendQueueOverflow::relieve() {
  if (too_many()) {
    const auto& over_bound = lists_.over_bound();
    const QosClassId id = over_bound.empty()
                              ? most_linked()
                              : QosClassId(static_cast<std::uint16_t>(over_bound.front()));
    const QpSlot slot = victim(lists_[id]);
    prune(slot);
    return {Relief::Kind::kPruned, slot};
  }
  // Goes once round, from where the last recovery left off.
  const std::uint32_t last = lists_.recovering().back();
  for (std::uint32_t i = lists_.recovering().front(); i != kNoIndex;
       i = lists_.recovering().front()) {
    const QosClassId id(static_cast<std::uint16_t>(i));
    lists_.rotate_recovering();
    if (source_for(lists_[id]) != Source::kNowhere) return recover(id);
    if (i == last) break;
  }
  return {};
}

/// Brings back the oldest doorbell of a class. REQUIRES: there is a source for its place.
Relief SendQueueOverflow::recover(QosClassId id) {
  QosClass& qos_class = lists_[id];
  const QpSlot slot(qos_class.overflow.front());
  const auto end = read_back(slot);
  if (!end) {
    qos_class.counters.lost.add();
    forget(slot);
    return {Relief::Kind::kLost, slot};
  }
  const Source source = source_for(qos_class);
  assert(source != Source::kNowhere);
  if (source != Source::kFree)
    prune(victim(source == Source::kOwn ? qos_class : lists_[most_linked()]));
  forget(slot);
  qos_class.counters.recovered.add();
  lists_[slot].write = *end;
  take_place(slot);
  return {Relief::Kind::kRecovered, slot};
}

void SendQueueOverflow::change_bound(QosClassId id, std::uint32_t places) {
  lists_[id].bound = places;
  lists_.update(id);
}

}  // namespace softhca::schedule
