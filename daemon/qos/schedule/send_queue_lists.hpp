// SPDX-License-Identifier: Apache-2.0

// Which send queues have doorbells, and where each of them stands: descriptors in lists of their
// class, classes in lists of the scheduler (mechanism B2). This part keeps the lists consistent.
// SendQueueScheduler and SendQueueOverflow decide what moves where, and when.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/base/counter.hpp"
#include "daemon/base/intrusive_queue.hpp"
#include "daemon/base/types.hpp"
#include "daemon/qos/schedule/doorbell_overflow.hpp"
#include "daemon/qos/schedule/minimum_rates.hpp"

namespace softhca::schedule {

/// Counters of one class; may be read on any thread.
struct DoorbellCounters {
  Counter accepted;
  Counter stale;
  Counter hostile;
  Counter fetched;            ///< commands
  Counter pruned;             ///< doorbells that went from here to the overflow buffer
  Counter joined;             ///< later doorbells, of queue pairs that had one there
  Counter recovered;          ///< doorbells read back, each with all that joined it there
  Counter lost;               ///< read back as something else: overwritten
  Counter dropped;            ///< forgotten there, since their queue pair had closed
  Gauge overflow;             ///< queue pairs with a doorbell in the overflow buffer
  Gauge overflow_high_water;  ///< most at once
};

/// Which kick list has the commands of a queue pair that were kicked and have not started. That of
/// its own TVL has those of VCBs and those fetched into ordinary PCBs. That of the dedicated TVL
/// has those fetched into dedicated PCBs.
enum class KickedIn : std::uint8_t { kNone, kOwnTvl, kDedicatedTvl };

class SendQueueLists {
 public:
  static constexpr std::uint32_t kNoBound = 0xffffffff;
  /// Queue pairs by how often they were pruned: never, once, up to 3, 7, ... times.
  static constexpr std::uint32_t kArrivalClasses = 8;

  enum class State : std::uint8_t {
    kClosed,
    kIdle,     ///< no doorbell pending
    kReady,    ///< linked in its class's ready list
    kBlocked,  ///< linked in its class's blocked list
    kHeld,     ///< in its class's held list: pending, but VCB commands must start first
    // Nothing pending here, a doorbell in the overflow buffer:
    kOverflow,         ///< in its class's overflow list
    kOverflowBlocked,  ///< in its class's list of blocked ones
    kOverflowHeld,     ///< in no list until VCB commands have started
  };

  /// Send queue descriptor (B2).
  struct Descriptor {
    IndexLink link;     ///< in the list that its state names
    IndexLink arrival;  ///< linked ones: in QosClass::arrivals
    std::uint32_t read = 0;
    std::uint32_t write = 0;
    std::uint32_t entries = 0;
    std::uint32_t kicked = 0;  ///< kicked and not started, all in one kick list
    std::uint32_t pruned = 0;  ///< how often, since it was opened
    QosClassId qos_class;
    State state = State::kClosed;
    std::uint8_t arrival_class = 0;  ///< which of QosClass::arrivals
    KickedIn kicked_in = KickedIn::kNone;
    bool by_vcb = false;  ///< the last one kicked came by VCB

    std::uint32_t pending() const { return write - read; }
    bool overflowed() const { return state >= State::kOverflow; }
  };
  using DescriptorList = IndexList<Descriptor, &Descriptor::link>;
  using ArrivalList = IndexList<Descriptor, &Descriptor::arrival>;

  struct QosClass {
    IndexLink with_work, active, recovering, over_bound;
    DescriptorList ready, blocked, held;
    ArrivalList arrivals[kArrivalClasses];  ///< the linked ones, in the order they were linked
    DescriptorList overflow;                ///< to be recovered, oldest first
    DescriptorList overflow_blocked;
    std::uint32_t linked = 0;
    std::uint32_t bound = kNoBound;
    bool stopped = false;  ///< block_class()
    DoorbellCounters counters;
  };
  template <IndexLink QosClass::*member>
  using ClassList = IndexList<QosClass, member>;

  /// `minimums` (null: there are none) outlives it.
  SendQueueLists(std::uint32_t max_queue_pairs, std::uint16_t max_classes,
                 const MinimumRates* minimums = nullptr)
      : descriptors_(max_queue_pairs), classes_(max_classes), minimums_(minimums) {}

  Descriptor& operator[](QpSlot slot) { return descriptors_[slot.value]; }
  const Descriptor& operator[](QpSlot slot) const { return descriptors_[slot.value]; }
  QosClass& operator[](QosClassId id) { return classes_[id.value]; }
  const QosClass& operator[](QosClassId id) const { return classes_[id.value]; }
  QosClass& class_of(const Descriptor& d) { return classes_[d.qos_class.value]; }
  const QosClass& class_of(const Descriptor& d) const { return classes_[d.qos_class.value]; }

  // --- descriptors

  /// Links an idle descriptor that has a doorbell, and puts it into the ready or the held list.
  void link(QpSlot slot, std::uint32_t arrival_class);
  /// Gives the place of the descriptor back, and takes it out of its list if it is in one.
  void unlink(QpSlot slot);
  /// Puts the descriptor into the list of `state`, which is its state from now on. REQUIRES: it is
  /// in no list.
  void enter(QpSlot slot, State state);
  /// Takes the descriptor out of the list that its state names, if any.
  void leave(QpSlot slot);
  /// Lets a descriptor go on that was held: the commands before its doorbell have started.
  void end_hold(QpSlot slot);
  static bool is_blocked(const Descriptor& d) {
    return d.state == State::kBlocked || d.state == State::kOverflowBlocked;
  }
  /// Returns the first ready descriptor of the class and makes it the last, unless it is behind its
  /// minimum rate. Such ones become ready before the others. REQUIRES: there is one.
  QpSlot next_ready(QosClass& qos_class);

  std::uint32_t linked() const { return linked_.value(); }
  std::uint32_t linked_high_water() const { return linked_high_water_.value(); }

  // --- classes

  std::uint32_t class_count() const { return static_cast<std::uint32_t>(classes_.size()); }
  /// Returns the number of classes with doorbells anywhere.
  std::uint32_t active_count() const { return active_count_; }
  /// Keeps the invariant: a class stands in each list of the scheduler exactly while it belongs.
  void update(QosClassId id);

  const ClassList<&QosClass::with_work>& with_work() const { return with_work_; }
  const ClassList<&QosClass::active>& active() const { return active_; }
  const ClassList<&QosClass::recovering>& recovering() const { return recovering_; }
  const ClassList<&QosClass::over_bound>& over_bound() const { return over_bound_; }
  /// Returns a class with work that is behind a minimum rate; such classes go round. kNoQosClass:
  /// none is.
  QosClassId next_behind() {
    return minimums_ != nullptr && minimums_->any() ? find_behind() : kNoQosClass;
  }
  /// Makes the first class the last.
  void rotate_with_work() { with_work_.rotate(classes_.data()); }
  void rotate_recovering() { recovering_.rotate(classes_.data()); }
  /// Returns the id of the first class of a list for which `wanted` is true; kNoIndex: none.
  template <IndexLink QosClass::*member, class Wanted>
  std::uint32_t find(const ClassList<member>& list, Wanted&& wanted) const {
    std::uint32_t i = list.front();
    while (i != kNoIndex && !wanted(QosClassId(static_cast<std::uint16_t>(i))))
      i = list.next(classes_.data(), i);
    return i;
  }

 private:
  bool is_behind(QpSlot slot) const {
    return minimums_ != nullptr && minimums_->queue_pair_behind(slot.value);
  }
  QosClassId find_behind();
  DescriptorList* list_of(const Descriptor& d);
  template <IndexLink QosClass::*member>
  void keep(ClassList<member>& list, std::uint32_t qos_class, bool wanted) {
    if ((classes_[qos_class].*member).linked() == wanted) return;
    wanted ? list.push_back(classes_.data(), qos_class) : list.remove(classes_.data(), qos_class);
  }

  Gauge linked_;
  Gauge linked_high_water_;
  std::uint32_t active_count_ = 0;
  std::vector<Descriptor> descriptors_;
  std::vector<QosClass> classes_;
  ClassList<&QosClass::with_work> with_work_;
  ClassList<&QosClass::active> active_;
  ClassList<&QosClass::recovering> recovering_;
  ClassList<&QosClass::over_bound> over_bound_;
  const MinimumRates* minimums_;
  std::size_t behind_ = 0;  ///< place of the class that was last found behind
};

}  // namespace softhca::schedule
