// SPDX-License-Identifier: Apache-2.0

#include "daemon/qos/schedule/send_queue_lists.hpp"

#include <cassert>

namespace softhca::schedule {

void SendQueueLists::link(QpSlot slot, std::uint32_t arrival_class) {
  Descriptor& d = (*this)[slot];
  QosClass& qos_class = class_of(d);
  add_one(linked_, linked_high_water_);
  ++qos_class.linked;
  d.arrival_class = static_cast<std::uint8_t>(arrival_class);
  qos_class.arrivals[arrival_class].push_back(descriptors_.data(), slot.value);
  enter(slot, d.kicked > 0 && d.by_vcb ? State::kHeld : State::kReady);
}

void SendQueueLists::unlink(QpSlot slot) {
  Descriptor& d = (*this)[slot];
  if (!d.link.linked()) return;
  leave(slot);
  QosClass& qos_class = class_of(d);
  qos_class.arrivals[d.arrival_class].remove(descriptors_.data(), slot.value);
  --qos_class.linked;
  linked_.subtract();
  update(d.qos_class);
}

void SendQueueLists::enter(QpSlot slot, State state) {
  Descriptor& d = (*this)[slot];
  assert(!d.link.linked());
  d.state = state;
  if (DescriptorList* const list = list_of(d))
    list->push(descriptors_.data(), slot.value, state == State::kReady && is_behind(slot));
  update(d.qos_class);
}

void SendQueueLists::leave(QpSlot slot) {
  Descriptor& d = (*this)[slot];
  if (d.link.linked()) list_of(d)->remove(descriptors_.data(), slot.value);
}

void SendQueueLists::end_hold(QpSlot slot) {
  const State state = (*this)[slot].state;
  if (state != State::kHeld && state != State::kOverflowHeld) return;
  leave(slot);
  enter(slot, state == State::kHeld ? State::kReady : State::kOverflow);
}

SendQueueLists::DescriptorList* SendQueueLists::list_of(const Descriptor& d) {
  QosClass& qos_class = class_of(d);
  switch (d.state) {
    case State::kReady:
      return &qos_class.ready;
    case State::kBlocked:
      return &qos_class.blocked;
    case State::kHeld:
      return &qos_class.held;
    case State::kOverflow:
      return &qos_class.overflow;
    case State::kOverflowBlocked:
      return &qos_class.overflow_blocked;
    case State::kClosed:
    case State::kIdle:
    case State::kOverflowHeld:
      break;
  }
  return nullptr;
}

QpSlot SendQueueLists::next_ready(QosClass& qos_class) {
  const QpSlot slot(qos_class.ready.front());
  if (!is_behind(slot)) [[likely]]
    qos_class.ready.rotate(descriptors_.data());
  return slot;
}

QosClassId SendQueueLists::find_behind() {
  const std::vector<QosClassId>& covered = minimums_->covered();
  for (std::size_t i = 0; i < covered.size(); ++i) {
    const QosClassId id = covered[++behind_ % covered.size()];
    if ((*this)[id].with_work.linked() && minimums_->behind(id)) return id;
  }
  return kNoQosClass;
}

void SendQueueLists::update(QosClassId id) {
  QosClass& qos_class = (*this)[id];
  const bool active = qos_class.linked != 0 || qos_class.counters.overflow.value() != 0;
  if (active != qos_class.active.linked()) active ? ++active_count_ : --active_count_;
  keep(active_, id.value, active);
  keep(with_work_, id.value, !qos_class.stopped && !qos_class.ready.empty());
  keep(recovering_, id.value, !qos_class.overflow.empty());
  keep(over_bound_, id.value, qos_class.linked > qos_class.bound);
}

}  // namespace softhca::schedule
