// Send queue scheduler: doorbells, and which send queue is read next (mechanisms A5, B1 to B5).
//
// A doorbell says "the send queue of this pair holds commands up to here", so a later one contains
// the earlier ones: the scheduler's buffer is one descriptor per queue pair with a read pointer
// (next command to fetch) and a write pointer (where the latest doorbell ends). Descriptors with
// work stand in a list of their class, classes with work in a list of the scheduler; both take
// turns.
//
// Order (B3): commands of a queue pair start in sequence whichever way they came. The scheduler
// counts the commands of a queue pair that have been kicked and not started, and lets it change its
// way, VCB or doorbell, only when there are none; so the two ways may use different TVLs.
//
// Overflow (B4, B5): only so many descriptors may be linked at once. Beyond, a doorbell is pruned:
// written to the overflow buffer in the tenant's memory, and forgotten here but for the fact that
// it is there. Further doorbells of that queue pair join it. A queue pair is therefore either
// linked or overflowed, and nothing of it starts before what overflowed has come back.
//   - Every class that has doorbells anywhere has a share of the places, the same for each. A
//     class within its share is never pruned for others and may always recover.
//   - Queue pairs that cannot go on do not keep others of their class from coming back, and where
//     those that can are too many they take turns with them: nobody waits for ever.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "daemon/base/counter.hpp"
#include "daemon/base/intrusive_queue.hpp"
#include "daemon/base/types.hpp"
#include "daemon/schedule/doorbell_overflow.hpp"

namespace softhca::schedule {

enum class RingVerdict : std::uint8_t {
  kAccepted,  ///< the write pointer moved on
  kStale,     ///< says nothing new: an earlier doorbell covered it; a VCB command is to be dropped
  kHostile,   ///< further ahead than the send queue is long
};

/// Commands to fetch from one send queue: `count` from `sequence` on.
struct Turn {
  QpSlot slot;
  std::uint32_t sequence = 0;
  std::uint32_t count = 0;  ///< at least 1, at most the quantum
};

struct SendQueueSchedulerConfig {
  std::uint32_t max_queue_pairs = 0;
  std::uint16_t max_classes = 0;
  std::uint32_t quantum = 16;  ///< commands per turn of a queue pair
  DoorbellConfig doorbells = {};
};

/// What one step of relieve() did.
struct Relief {
  enum class Kind : std::uint8_t {
    kNone,       ///< there was nothing to do
    kPruned,     ///< a doorbell went to the overflow buffer
    kRecovered,  ///< one came back
    kLost,       ///< `slot`: what was read back is none of its doorbells; it has none now
  };
  Kind kind = Kind::kNone;
  QpSlot slot{0};
};

/// Counters of one class; may be read on any thread.
struct DoorbellCounters {
  Counter accepted;
  Counter stale;
  Counter hostile;
  Counter fetched;            ///< commands
  Counter pruned;             ///< doorbells written to the overflow buffer
  Counter recovered;          ///< read back, each with all that joined it there
  Counter lost;               ///< read back as something else: scribbled on
  Gauge overflow;             ///< queue pairs with a doorbell in the overflow buffer
  Gauge overflow_high_water;  ///< most at once
};

class SendQueueScheduler {
 public:
  static constexpr std::uint32_t kNoBound = 0xffffffff;

  /// Allocates everything; set-up only. `overflow` outlives it.
  SendQueueScheduler(const SendQueueSchedulerConfig& config, DoorbellOverflow& overflow);
  /// Thresholds and policy, at any time. REQUIRES: as for DoorbellConfig.
  void configure(const DoorbellConfig& config) { config_ = config; }
  const DoorbellConfig& config() const { return config_; }

  // --- queue pairs

  /// A queue pair starts to send: its first command has number `sequence`, its send queue holds
  /// `entries` commands. REQUIRES: the slot is closed.
  void open(QpSlot slot, QosClassId qos_class, std::uint32_t entries, std::uint32_t sequence = 0);
  /// Forgets its doorbells. Nothing happens if it is not open.
  void close(QpSlot slot);
  /// The row is that of a new class: counts from 0. REQUIRES: no queue pair of it is open.
  void reset(QosClassId qos_class) { classes_[qos_class.value].counters = DoorbellCounters{}; }
  bool is_open(QpSlot slot) const { return descriptors_[slot.value].state != State::kClosed; }

  // --- the two ways of a command

  /// A doorbell, rung by the process or made from a VCB command without PCB or out of turn (pass
  /// its sequence number + 1). REQUIRES: open.
  RingVerdict ring(QpSlot slot, std::uint32_t sequence_end);

  /// May this VCB command be kicked now? Only when it is exactly the next one, no doorbell is
  /// pending and none fetched by doorbell waits for its start. Otherwise ring() for it.
  bool vcb_may_start(QpSlot slot, std::uint32_t sequence) const;
  /// The next command was kicked from a VCB. REQUIRES: vcb_may_start().
  void vcb_kicked(QpSlot slot);

  /// Whose turn it is; nothing: no queue pair here has work that may be fetched. The queue pair and
  /// its class go to the end of their lists. Fetch and kick up to `count` commands, report them
  /// with fetched(), and if something was in the way say so with block() or block_class(), or the
  /// next turns will be in vain.
  std::optional<Turn> next();
  /// The next `count` commands were fetched and kicked. REQUIRES: they were pending.
  void fetched(QpSlot slot, std::uint32_t count);

  /// A kicked command of this queue pair, of either way, was started (or taken out of its kick
  /// list). To be reported for every one of them.
  void started(QpSlot slot);

  /// Commands from `sequence` on were taken out again before they began; they are to be fetched
  /// anew. REQUIRES: they had been kicked, and every one kicked has been reported started.
  void rewind(QpSlot slot, std::uint32_t sequence);

  // --- obstacles

  /// This queue pair cannot go on (its kick list is full): no turns until unblock() or
  /// unblock_all(). Doorbells are still accepted.
  void block(QpSlot slot);
  void unblock(QpSlot slot);
  /// unblock() for all queue pairs of a class, at the cost of one.
  void unblock_all(QosClassId qos_class);
  /// None of its queue pairs can go on (its dedicated PCBs are in use).
  void block_class(QosClassId qos_class);
  void unblock_class(QosClassId qos_class);

  // --- overflow

  /// One step: prunes what is too much, else recovers a doorbell, oldest first in each class and
  /// the classes in turn. To be called a bounded number of times in each poll step.
  Relief relieve();
  /// This class's queue pairs may take so many places, whatever its share; kNoBound: no limit of
  /// its own. What is more goes with relieve().
  void set_bound(QosClassId qos_class, std::uint32_t places);
  /// Follows the load (adaptive thresholds).
  void sample(Time now) { threshold_.sample(now, linked()); }

  // --- figures

  /// next() or relieve() has something to do.
  bool has_work() const { return !classes_with_work_.empty() || may_relieve(); }
  /// next() has something to do for this class.
  bool has_work(QosClassId qos_class) const { return classes_[qos_class.value].with_work.linked(); }
  /// For a class that `wanted` accepts.
  template <class Wanted>
  bool has_work_of(Wanted&& wanted) const {
    std::uint32_t i = classes_with_work_.front();
    while (i != kNoIndex && !wanted(QosClassId(static_cast<std::uint16_t>(i))))
      i = classes_with_work_.next(classes_.data(), i);
    return i != kNoIndex;
  }
  /// Its doorbells are in the overflow buffer.
  bool overflowed(QpSlot slot) const { return descriptors_[slot.value].state >= State::kOverflow; }
  /// Queue pairs with doorbells here; how many there may be.
  std::uint32_t linked() const { return linked_.value(); }
  std::uint32_t linked_high_water() const { return linked_high_water_.value(); }
  std::uint32_t linked(QosClassId qos_class) const { return classes_[qos_class.value].linked; }
  std::uint32_t limit() const;
  std::size_t max_classes() const { return classes_.size(); }
  /// Commands announced by doorbells and not fetched.
  std::uint32_t pending(QpSlot slot) const {
    return descriptors_[slot.value].write - descriptors_[slot.value].read;
  }
  std::uint32_t next_sequence(QpSlot slot) const { return descriptors_[slot.value].read; }
  const DoorbellCounters& counters(QosClassId qos_class) const {
    return classes_[qos_class.value].counters;
  }

 private:
  enum class State : std::uint8_t {
    kClosed,
    kIdle,     ///< no doorbell pending
    kReady,    ///< linked in its class's ready list
    kBlocked,  ///< linked in its class's blocked list; after unblock_all() in the ready list
    kHeld,     ///< in its class's held list: pending, but VCB commands must start first
    // Nothing pending here, a doorbell in the overflow buffer:
    kOverflow,         ///< in its class's overflow list
    kOverflowBlocked,  ///< in the list of these; after unblock_all() in the overflow list
    kOverflowHeld,     ///< in no list until VCB commands have started
  };

  /// Send queue descriptor (B2).
  struct Descriptor {
    IndexLink link;     ///< in the list that its state names
    IndexLink arrival;  ///< linked ones: in QosClass::arrivals
    std::uint32_t read = 0;
    std::uint32_t write = 0;
    std::uint32_t entries = 0;
    std::uint32_t kicked = 0;      ///< kicked and not started, all of one way
    std::uint32_t blocked_in = 0;  ///< blocked: the class's blocking period in which it was
    std::uint32_t pruned = 0;      ///< how often, since it was opened
    QosClassId qos_class;
    State state = State::kClosed;
    std::uint8_t arrival_class = 0;  ///< which of QosClass::arrivals
    bool by_vcb = false;             ///< the way of those kicked
  };
  using DescriptorList = IndexList<Descriptor, &Descriptor::link>;
  using ArrivalList = IndexList<Descriptor, &Descriptor::arrival>;

  /// Queue pairs pruned never, once, up to 3, 7, ... times.
  static constexpr std::uint32_t kArrivalClasses = 8;

  struct QosClass {
    IndexLink with_work, active, recovering, over_bound;
    DescriptorList ready, blocked, held;
    ArrivalList arrivals[kArrivalClasses];  ///< the linked ones, in the order they were linked
    DescriptorList overflow;                ///< to be recovered, oldest first
    DescriptorList overflow_blocked;
    std::uint32_t linked = 0;
    std::uint32_t bound = kNoBound;
    std::uint32_t period = 0;  ///< goes up when the blocked lists are emptied as a whole
    bool stopped = false;      ///< block_class()
    DoorbellCounters counters;
  };
  template <IndexLink QosClass::*member>
  using ClassList = IndexList<QosClass, member>;

  /// Where the place for a recovered doorbell comes from.
  enum class Source : std::uint8_t { kNowhere, kFree, kOthers, kOwn };

  bool in_period(const Descriptor& d) const;
  bool is_blocked(const Descriptor& d) const;
  void link(std::uint32_t slot);
  void make_ready(std::uint32_t slot);
  void leave_list(std::uint32_t slot);
  void unlink(std::uint32_t slot);
  template <IndexLink QosClass::*member>
  void keep(ClassList<member>& list, std::uint32_t qos_class, bool wanted);
  void update_class(std::uint32_t qos_class);

  // send_queue_overflow.cpp
  RingVerdict join_overflow(QpSlot slot, std::uint32_t sequence_end);
  void prune(std::uint32_t slot);
  void forget_overflow(std::uint32_t slot);
  std::optional<std::uint32_t> read_back(QpSlot slot) const;
  void hold_limit(QosClassId qos_class);
  void take_turns(QpSlot slot);
  std::uint32_t victim(const QosClass& qos_class) const;
  std::uint32_t most_linked() const;
  std::uint32_t share() const;
  Source source_for(const QosClass& qos_class) const;
  bool may_relieve() const;
  Relief recover(std::uint32_t qos_class);

  std::uint32_t quantum_;
  DoorbellConfig config_;
  DoorbellOverflow& overflow_;
  EntryThreshold threshold_;
  Gauge linked_;
  Gauge linked_high_water_;
  std::uint32_t active_ = 0;  ///< classes with doorbells anywhere
  std::vector<Descriptor> descriptors_;
  std::vector<QosClass> classes_;
  ClassList<&QosClass::with_work> classes_with_work_;
  ClassList<&QosClass::active> active_classes_;
  ClassList<&QosClass::recovering> recovering_;
  ClassList<&QosClass::over_bound> over_bound_;
};

}  // namespace softhca::schedule
