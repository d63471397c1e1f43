// SPDX-License-Identifier: Apache-2.0

// Send queue scheduler: accepts doorbells, and selects the send queue that is read next (mechanisms
// A5, B1 to B5).
//
// A doorbell says "the send queue of this pair holds commands up to here", so a later one contains
// the earlier ones. The scheduler's buffer is therefore one descriptor per queue pair, with two
// pointers. The read pointer is the next command to fetch; the write pointer is where the latest
// doorbell ends. Descriptors with work stand in a list of their class, classes with work in a list
// of the scheduler. Both take turns.
//
// Order (B3): commands of a queue pair start in sequence whichever way they came. The scheduler
// counts the commands of a queue pair that have been kicked and not started, and lets it change its
// kick list only when there are none. Commands of VCBs and those fetched into ordinary PCBs stand
// in the list of its own TVL. Those fetched into dedicated PCBs (A9) stand in that of the dedicated
// one.
//
// Overflow (B4, B5): only so many descriptors may be linked at once; for the others see
// send_queue_overflow.hpp. A queue pair is either linked or overflowed. Nothing of it starts before
// what overflowed has come back.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <optional>
#include <vector>

#include "daemon/base/types.hpp"
#include "daemon/qos/schedule/doorbell_config.hpp"
#include "daemon/qos/schedule/doorbell_overflow.hpp"
#include "daemon/qos/schedule/send_queue_lists.hpp"
#include "daemon/qos/schedule/send_queue_overflow.hpp"

namespace softhca::schedule {

/// Commands to fetch from one send queue: `count` from `sequence` on.
struct FetchTurn {
  QpSlot slot;
  std::uint32_t sequence = 0;
  std::uint32_t count = 0;  ///< at least 1, at most the quantum
};

struct SendQueueSchedulerConfig {
  std::uint32_t max_queue_pairs = 0;
  std::uint16_t max_classes = 0;
  std::uint32_t quantum = 16;  ///< commands per turn of a queue pair
  DoorbellConfig doorbells = {};
  const MinimumRates* minimums = nullptr;  ///< null: there are none; outlives the scheduler
};

class SendQueueScheduler {
 public:
  static constexpr std::uint32_t kNoBound = SendQueueLists::kNoBound;

  /// Allocates everything; set-up only. `overflow` outlives it.
  SendQueueScheduler(const SendQueueSchedulerConfig& config, DoorbellOverflow& overflow);
  /// A copy in the same state, with the same overflow buffer.
  SendQueueScheduler(const SendQueueScheduler& other)
      : quantum_(other.quantum_), lists_(other.lists_), overflow_(lists_, other.overflow_) {}
  /// Thresholds and policy, at any time. REQUIRES: as for DoorbellConfig.
  void configure(const DoorbellConfig& config) { overflow_.configure(config); }
  const DoorbellConfig& config() const { return overflow_.config(); }

  // --- queue pairs

  /// Opens a queue pair that starts to send: its first command has number `sequence`, its send
  /// queue holds `entries` commands. REQUIRES: the slot is closed.
  void open(QpSlot slot, QosClassId qos_class, std::uint32_t entries, std::uint32_t sequence = 0);
  /// Closes a queue pair and forgets its doorbells. Does nothing if it is not open.
  void close(QpSlot slot);
  /// Counts from 0, since the row is that of a new class. REQUIRES: no queue pair of it is open.
  void reset(QosClassId qos_class) { lists_[qos_class].counters = DoorbellCounters{}; }
  bool is_open(QpSlot slot) const { return lists_[slot].state != State::kClosed; }

  // --- the two ways of a command

  /// Accepts a doorbell, rung by the process or made from a VCB command without PCB or out of turn
  /// (pass its sequence number + 1). REQUIRES: open.
  RingVerdict ring(QpSlot slot, std::uint32_t sequence_end);

  /// True if this VCB command may be kicked now: it is exactly the next one, no doorbell is
  /// pending, and no command in the dedicated kick list waits for its start. Otherwise ring() for
  /// it.
  bool vcb_may_start(QpSlot slot, std::uint32_t sequence) const {
    const Descriptor& d = lists_[slot];
    return d.state == State::kIdle && sequence == d.read && d.kicked_in != KickedIn::kDedicatedTvl;
  }
  /// To be called when the next command was kicked from a VCB. REQUIRES: vcb_may_start().
  void vcb_kicked(QpSlot slot) {
    Descriptor& d = lists_[slot];
    assert(vcb_may_start(slot, d.read));
    d.write = ++d.read;
    ++d.kicked;
    d.kicked_in = KickedIn::kOwnTvl;
    d.by_vcb = true;
  }

  /// Returns the queue pair that has its turn; nothing: no queue pair here has work that may be
  /// fetched. The queue pair and its class go to the end of their lists. Fetch and kick up to
  /// `count` commands, and report them with fetched(). If something was in the way, say so with
  /// block() or block_class(), or the next turns will be wasted.
  std::optional<FetchTurn> next();
  /// Returns where its commands stand that were kicked and have not started; kNone: there are none.
  KickedIn kicked_in(QpSlot slot) const { return lists_[slot].kicked_in; }
  /// To be called when the next `count` commands were fetched and kicked. REQUIRES: they were
  /// pending, and kicked_in() was the same list or none.
  void fetched(QpSlot slot, std::uint32_t count, KickedIn list);

  /// To be called when a kicked command of this queue pair, of either way, was started (or taken
  /// out of its kick list), for every one of them. With the last one the queue pair is unblocked:
  /// it may take the other list.
  void started(QpSlot slot) {
    Descriptor& d = lists_[slot];
    assert(d.kicked > 0);
    if (--d.kicked != 0) return;
    d.kicked_in = KickedIn::kNone;
    unblock(slot);
    lists_.end_hold(slot);
  }

  /// Takes back the commands from `sequence` on, which were taken out again before they began; they
  /// are to be fetched anew. REQUIRES: they had been kicked, and every one kicked has been reported
  /// started.
  void rewind(QpSlot slot, std::uint32_t sequence);

  // --- obstacles

  /// Gives this queue pair no turns until unblock(): it cannot go on (its kick list is full).
  /// Doorbells are still accepted.
  void block(QpSlot slot);
  void unblock(QpSlot slot) {
    if (lists_.is_blocked(lists_[slot])) end_block(slot);
  }
  /// Gives the class no turns: none of its queue pairs can go on (its dedicated PCBs are in use).
  void block_class(QosClassId qos_class);
  void unblock_class(QosClassId qos_class) {
    if (lists_[qos_class].stopped) end_class_block(qos_class);
  }

  // --- overflow

  /// Makes one step: prunes a doorbell if there are too many, else recovers one, oldest first in
  /// each class and the classes in turn. To be called a bounded number of times in each poll step.
  Relief relieve() { return overflow_.relieve(); }
  /// Bounds the places that the class's queue pairs may take, whatever its share; kNoBound: no
  /// limit of its own. relieve() removes what is beyond.
  void set_bound(QosClassId qos_class, std::uint32_t places) {
    overflow_.set_bound(qos_class, places);
  }
  /// Follows the load (adaptive thresholds).
  void sample(Time now) { overflow_.sample(now); }

  // --- figures

  /// True if next() or relieve() has something to do.
  bool has_work() const { return !lists_.with_work().empty() || overflow_.may_relieve(); }
  /// True if next() has something to do for this class.
  bool has_work(QosClassId qos_class) const { return lists_[qos_class].with_work.linked(); }
  /// True if next() has something to do for a class that `wanted` accepts.
  template <class Wanted>
  bool has_work_of(Wanted&& wanted) const {
    return lists_.find(lists_.with_work(), wanted) != kNoIndex;
  }
  /// True if its doorbells are in the overflow buffer.
  bool overflowed(QpSlot slot) const { return lists_[slot].overflowed(); }
  /// The number of queue pairs with doorbells here, and the most that there may be.
  std::uint32_t linked() const { return lists_.linked(); }
  std::uint32_t linked_high_water() const { return lists_.linked_high_water(); }
  std::uint32_t linked(QosClassId qos_class) const { return lists_[qos_class].linked; }
  std::uint32_t limit() const { return overflow_.limit(); }
  std::size_t max_classes() const { return lists_.class_count(); }
  /// Returns the number of commands that doorbells announced and that are not fetched.
  std::uint32_t pending(QpSlot slot) const { return lists_[slot].pending(); }
  /// Returns how many of these may be fetched in one turn.
  std::uint32_t next_turn(QpSlot slot) const { return std::min(pending(slot), quantum_); }
  /// Returns the number of commands that were kicked and have not started.
  std::uint32_t kicked(QpSlot slot) const { return lists_[slot].kicked; }
  /// True if no queue pair of the class has turns, see block_class().
  bool is_class_blocked(QosClassId qos_class) const { return lists_[qos_class].stopped; }
  std::uint32_t next_sequence(QpSlot slot) const { return lists_[slot].read; }
  const DoorbellCounters& counters(QosClassId qos_class) const {
    return lists_[qos_class].counters;
  }

 private:
  using State = SendQueueLists::State;
  using Descriptor = SendQueueLists::Descriptor;

  void end_block(QpSlot slot);
  void end_class_block(QosClassId qos_class);

  std::uint32_t quantum_;
  SendQueueLists lists_;
  SendQueueOverflow overflow_;
};

}  // namespace softhca::schedule
