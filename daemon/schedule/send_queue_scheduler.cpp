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
      classes_(config.max_classes) {
  assert(quantum_ > 0);
}

void SendQueueScheduler::open(QpSlot slot, QosClassId qos_class, std::uint32_t entries,
                              std::uint32_t sequence) {
  assert(!is_open(slot) && qos_class.value < classes_.size());
  Descriptor& d = descriptors_[slot.value];
  d = Descriptor{};
  d.read = d.write = sequence;
  d.entries = entries;
  d.qos_class = qos_class;
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
  DoorbellCounters& counters = classes_[d.qos_class.value].counters;
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
    hold_limit(d.qos_class);
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
  if (classes_with_work_.empty()) return std::nullopt;
  QosClass& qos_class = classes_[classes_with_work_.front()];
  const QpSlot slot(qos_class.ready.front());
  qos_class.ready.rotate(descriptors_.data());
  classes_with_work_.rotate(classes_.data());
  return Turn{slot, next_sequence(slot), std::min(pending(slot), quantum_)};
}

void SendQueueScheduler::fetched(QpSlot slot, std::uint32_t count) {
  assert(count <= pending(slot));
  if (count == 0) return;
  Descriptor& d = descriptors_[slot.value];
  d.read += count;
  d.kicked += count;
  d.by_vcb = false;
  classes_[d.qos_class.value].counters.fetched.add(count);
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
    classes_[d.qos_class.value].overflow.push_back(descriptors_.data(), slot.value);
    update_class(d.qos_class.value);
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
    hold_limit(d.qos_class);
  }
}

void SendQueueScheduler::block(QpSlot slot) {
  Descriptor& d = descriptors_[slot.value];
  const bool ready = d.state == State::kReady || (d.state == State::kBlocked && !in_period(d));
  if (!ready) return;
  leave_list(slot.value);
  QosClass& qos_class = classes_[d.qos_class.value];
  qos_class.blocked.push_back(descriptors_.data(), slot.value);
  d.state = State::kBlocked;
  d.blocked_in = qos_class.period;
  update_class(d.qos_class.value);
}

void SendQueueScheduler::unblock(QpSlot slot) {
  Descriptor& d = descriptors_[slot.value];
  if (!is_blocked(d)) return;
  leave_list(slot.value);
  if (d.state == State::kBlocked) return make_ready(slot.value);
  d.state = State::kOverflow;
  classes_[d.qos_class.value].overflow.push_back(descriptors_.data(), slot.value);
  update_class(d.qos_class.value);
}

void SendQueueScheduler::unblock_all(QosClassId id) {
  QosClass& qos_class = classes_[id.value];
  if (qos_class.blocked.empty() && qos_class.overflow_blocked.empty()) return;
  qos_class.ready.splice_back(descriptors_.data(), qos_class.blocked);
  qos_class.overflow.splice_back(descriptors_.data(), qos_class.overflow_blocked);
  ++qos_class.period;
  update_class(id.value);
}

void SendQueueScheduler::block_class(QosClassId id) {
  classes_[id.value].stopped = true;
  update_class(id.value);
}

void SendQueueScheduler::unblock_class(QosClassId id) {
  if (!classes_[id.value].stopped) return;
  classes_[id.value].stopped = false;
  update_class(id.value);
}

bool SendQueueScheduler::in_period(const Descriptor& d) const {
  return d.blocked_in == classes_[d.qos_class.value].period;
}

/// In a blocked list of its class, which has not been unblocked as a whole since.
bool SendQueueScheduler::is_blocked(const Descriptor& d) const {
  return (d.state == State::kBlocked || d.state == State::kOverflowBlocked) && in_period(d);
}

/// An idle one with a doorbell takes a place.
void SendQueueScheduler::link(std::uint32_t slot) {
  Descriptor& d = descriptors_[slot];
  QosClass& qos_class = classes_[d.qos_class.value];
  linked_.add();
  linked_high_water_.raise_to(linked());
  ++qos_class.linked;
  d.arrival_class =
      config_.prune == PrunePolicy::kNewest
          ? 0
          : static_cast<std::uint8_t>(std::min<unsigned>(
                static_cast<unsigned>(std::bit_width(d.pruned)), kArrivalClasses - 1));
  qos_class.arrivals[d.arrival_class].push_back(descriptors_.data(), slot);
  make_ready(slot);
}

void SendQueueScheduler::make_ready(std::uint32_t slot) {
  Descriptor& d = descriptors_[slot];
  QosClass& qos_class = classes_[d.qos_class.value];
  const bool held = d.kicked > 0 && d.by_vcb;
  d.state = held ? State::kHeld : State::kReady;
  (held ? qos_class.held : qos_class.ready).push_back(descriptors_.data(), slot);
  update_class(d.qos_class.value);
}

/// Out of the list that its state names, if any.
void SendQueueScheduler::leave_list(std::uint32_t slot) {
  Descriptor& d = descriptors_[slot];
  if (!d.link.linked()) return;
  QosClass& qos_class = classes_[d.qos_class.value];
  DescriptorList* list = nullptr;
  if (overflowed(QpSlot(slot)))
    list = is_blocked(d) ? &qos_class.overflow_blocked : &qos_class.overflow;
  else if (d.state == State::kHeld)
    list = &qos_class.held;
  else
    list = is_blocked(d) ? &qos_class.blocked : &qos_class.ready;
  list->remove(descriptors_.data(), slot);
}

/// Gives its place back, if it has one.
void SendQueueScheduler::unlink(std::uint32_t slot) {
  Descriptor& d = descriptors_[slot];
  if (!d.link.linked()) return;
  leave_list(slot);
  QosClass& qos_class = classes_[d.qos_class.value];
  qos_class.arrivals[d.arrival_class].remove(descriptors_.data(), slot);
  --qos_class.linked;
  linked_.subtract();
  update_class(d.qos_class.value);
}

template <IndexLink SendQueueScheduler::QosClass::*member>
void SendQueueScheduler::keep(ClassList<member>& list, std::uint32_t qos_class, bool wanted) {
  if ((classes_[qos_class].*member).linked() == wanted) return;
  wanted ? list.push_back(classes_.data(), qos_class) : list.remove(classes_.data(), qos_class);
}

/// Keeps the invariant: a class stands in each list of the scheduler exactly while it belongs.
void SendQueueScheduler::update_class(std::uint32_t id) {
  QosClass& qos_class = classes_[id];
  const bool active = qos_class.linked != 0 || qos_class.counters.overflow.value() != 0;
  if (active != qos_class.active.linked()) active ? ++active_ : --active_;
  keep(active_classes_, id, active);
  keep(classes_with_work_, id, !qos_class.stopped && !qos_class.ready.empty());
  keep(recovering_, id, !qos_class.overflow.empty());
  keep(over_bound_, id, qos_class.linked > qos_class.bound);
}

}  // namespace softhca::schedule
