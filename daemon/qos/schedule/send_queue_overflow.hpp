// SPDX-License-Identifier: Apache-2.0

// The send queue scheduler's overflow: pruning and recovery of doorbells (mechanisms B4, B5).
//
// Only so many descriptors may be linked at once. Beyond that a doorbell is pruned: it is written
// to the overflow buffer in the tenant's memory, and the scheduler remembers only that it is there.
// Further doorbells of that queue pair join it.
//   - Every class that has doorbells anywhere has a share of the places, the same for each. A class
//     within its share is never pruned for others and may always recover.
//   - Queue pairs that cannot go on do not keep others of their class from coming back. If those
//     that can go on are too many, they take turns with the others, so that none waits forever.
#pragma once

#include <cstdint>
#include <optional>

#include "daemon/base/time.hpp"
#include "daemon/base/types.hpp"
#include "daemon/qos/schedule/doorbell_config.hpp"
#include "daemon/qos/schedule/doorbell_overflow.hpp"
#include "daemon/qos/schedule/overflow_threshold.hpp"
#include "daemon/qos/schedule/send_queue_lists.hpp"

namespace softhca::schedule {

enum class RingVerdict : std::uint8_t {
  kAccepted,  ///< the write pointer moved on
  kStale,     ///< says nothing new: an earlier doorbell covered it; a VCB command is to be dropped
  kHostile,   ///< further ahead than the send queue is long
};

/// What one step of relieve() did.
struct Relief {
  enum class Kind : std::uint8_t {
    kNone,       ///< there was nothing to do
    kPruned,     ///< a doorbell went to the overflow buffer
    kRecovered,  ///< one came back
    kLost,       ///< what was read back is not a doorbell of `slot`, which has none now
  };
  Kind kind = Kind::kNone;
  QpSlot slot{0};
};

class SendQueueOverflow {
 public:
  /// `lists` and `buffer` outlive it.
  SendQueueOverflow(SendQueueLists& lists, DoorbellOverflow& buffer, const DoorbellConfig& config)
      : lists_(lists), buffer_(buffer), config_(config) {}
  SendQueueOverflow(const SendQueueOverflow&) = delete;
  SendQueueOverflow& operator=(const SendQueueOverflow&) = delete;
  /// A copy of `other` for these lists.
  SendQueueOverflow(SendQueueLists& lists, const SendQueueOverflow& other)
      : lists_(lists),
        buffer_(other.buffer_),
        config_(other.config_),
        threshold_(other.threshold_) {}
  void configure(const DoorbellConfig& config) { config_ = config; }
  const DoorbellConfig& config() const { return config_; }
  /// As SendQueueScheduler::set_bound().
  void set_bound(QosClassId id, std::uint32_t places) {
    if (lists_[id].bound != places) change_bound(id, places);
  }
  /// Follows the load (adaptive thresholds).
  void sample(Time now) { threshold_.sample(now, lists_.linked()); }

  /// Returns how many descriptors may be linked at once: at least one for each class with
  /// doorbells.
  std::uint32_t limit() const;

  /// Gives a place to an idle queue pair with a doorbell. If that is one too many, a doorbell is
  /// pruned, perhaps this one.
  void link(QpSlot slot);
  /// Adds a doorbell of a queue pair that has earlier ones in the overflow buffer.
  RingVerdict join(QpSlot slot, std::uint32_t sequence_end);
  /// Forgets what overflowed of a queue pair that closes. REQUIRES: something has.
  void drop(QpSlot slot);
  /// To be called after a turn: the queue pair makes room, if it has to, for those of its class
  /// that wait in the overflow buffer.
  void take_turns(QpSlot slot);

  /// True if relieve() has something to do.
  bool may_relieve() const;
  /// Prunes a doorbell if there are too many, else recovers one.
  Relief relieve();

 private:
  using State = SendQueueLists::State;
  using Descriptor = SendQueueLists::Descriptor;
  using QosClass = SendQueueLists::QosClass;

  /// Where the place for a recovered doorbell comes from.
  enum class Source : std::uint8_t { kNowhere, kFree, kOthers, kOwn };

  void change_bound(QosClassId id, std::uint32_t places);
  bool too_many() const { return !lists_.over_bound().empty() || lists_.linked() > limit(); }
  void take_place(QpSlot slot);
  void prune(QpSlot slot);
  /// Notes that nothing of the queue pair is in the overflow buffer any longer.
  void forget(QpSlot slot);
  std::optional<std::uint32_t> read_back(QpSlot slot) const;
  QpSlot victim(const QosClass& qos_class) const;
  QosClassId most_linked() const;
  std::uint32_t share() const;
  Source source_for(const QosClass& qos_class) const;
  Relief recover(QosClassId id);

  SendQueueLists& lists_;
  DoorbellOverflow& buffer_;
  DoorbellConfig config_;
  EntryThreshold threshold_;
};

}  // namespace softhca::schedule
