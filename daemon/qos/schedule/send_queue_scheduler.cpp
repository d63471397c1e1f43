// SPDX-License-Identifier: Apache-2.0

#include "daemon/qos/schedule/send_queue_scheduler.hpp"

#include <cassert>

namespace softhca::schedule {

SendQueueScheduler::SendQueueScheduler(const SendQueueSchedulerConfig& config,
                                       DoorbellOverflow& overflow)
    : quantum_(config.quantum),
      lists_(config.max_queue_pairs, config.max_classes, config.minimums),
      overflow_(lists_, overflow, config.doorbells) {
  assert(quantum_ > 0);
}

void SendQueueScheduler::open(QpSlot slot, QosClassId qos_class, std::uint32_t entries,
                              std::uint32_t sequence) {
  assert(!is_open(slot) && qos_class.value < lists_.class_count());
  Descriptor& d = lists_[slot];
  d = Descriptor{};
  d.read = d.write = sequence;
  d.entries = entries;
  d.qos_class = qos_class;
  d.state = State::kIdle;
}

void SendQueueScheduler::close(QpSlot slot) {
  if (!is_open(slot)) return;
  if (overflowed(slot))
    overflow_.drop(slot);
  else
    lists_.unlink(slot);
  lists_[slot].state = State::kClosed;
}

RingVerdict SendQueueScheduler::ring(QpSlot slot, std::uint32_t sequence_end) {
  Descriptor& d = lists_[slot];
  assert(d.state != State::kClosed);
  DoorbellCounters& counters = lists_.class_of(d).counters;
  if (ring_distance(sequence_end, d.write) <= 0) {
    counters.stale.add();
    return RingVerdict::kStale;
  }
  // Commands between the read pointer and the end are not even fetched, let alone completed. So the
  // send queue of an honest process has room for them.
  if (sequence_end - d.read > d.entries) {
    counters.hostile.add();
    return RingVerdict::kHostile;
  }
  if (overflowed(slot)) return overflow_.join(slot, sequence_end);
  counters.accepted.add();
  d.write = sequence_end;
  if (d.state == State::kIdle) overflow_.link(slot);
  return RingVerdict::kAccepted;
}

/// A turn of a class that is behind a minimum does not change the order of the others.
std::optional<FetchTurn> SendQueueScheduler::next() {
  if (lists_.with_work().empty()) return std::nullopt;
  const QosClassId behind = lists_.next_behind();
  const QosClassId id = behind != kNoQosClass
                            ? behind
                            : QosClassId(static_cast<std::uint16_t>(lists_.with_work().front()));
  const QpSlot slot = lists_.next_ready(lists_[id]);
  if (behind == kNoQosClass) lists_.rotate_with_work();
  return FetchTurn{slot, next_sequence(slot), next_turn(slot)};
}

void SendQueueScheduler::fetched(QpSlot slot, std::uint32_t count, KickedIn list) {
  assert(count <= pending(slot));
  if (count == 0) return;
  Descriptor& d = lists_[slot];
  assert(list != KickedIn::kNone && (d.kicked == 0 || d.kicked_in == list));
  d.read += count;
  d.kicked += count;
  d.kicked_in = list;
  d.by_vcb = false;
  lists_.class_of(d).counters.fetched.add(count);
  if (d.pending() > 0) return overflow_.take_turns(slot);
  lists_.unlink(slot);
  d.state = State::kIdle;
}

void SendQueueScheduler::rewind(QpSlot slot, std::uint32_t sequence) {
  Descriptor& d = lists_[slot];
  assert(d.state != State::kClosed && d.kicked == 0);
  d.read = sequence;
  if (overflowed(slot)) {
    d.write = sequence;  // the doorbell in the overflow buffer ends behind all of them
  } else if (d.state == State::kIdle && d.pending() > 0) {
    overflow_.link(slot);
  }
}

void SendQueueScheduler::block(QpSlot slot) {
  const Descriptor& d = lists_[slot];
  if (d.state != State::kReady) return;
  lists_.leave(slot);
  lists_.enter(slot, State::kBlocked);
}

void SendQueueScheduler::end_block(QpSlot slot) {
  const Descriptor& d = lists_[slot];
  const State state = d.state == State::kBlocked ? State::kReady : State::kOverflow;
  lists_.leave(slot);
  lists_.enter(slot, state);
}

void SendQueueScheduler::block_class(QosClassId id) {
  lists_[id].stopped = true;
  lists_.update(id);
}

void SendQueueScheduler::end_class_block(QosClassId id) {
  lists_[id].stopped = false;
  lists_.update(id);
}

}  // namespace softhca::schedule
