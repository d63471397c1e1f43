// SPDX-License-Identifier: Apache-2.0

// Sends completion events off the engine's thread. An event is a system call that wakes a program.
// It takes some microseconds, in which the engine would serve no other tenant. Where tenants
// compete, the engine hands events over to a separate thread, without a lock, an allocation or a
// system call.
//
// That thread polls for events at intervals as long as some come, and sleeps when none do. It never
// spins, and the engine wakes it only for the first of many events. An event that is handed over
// takes a slot of a table. Slots go to the thread by one ring and come back by another. Classes
// have turns in the thread. So a process that makes its events expensive (by a thousand threads
// that wait for them) holds up only its own.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <thread>
#include <vector>

#include "daemon/base/intrusive_queue.hpp"
#include "daemon/base/spsc_ring.hpp"
#include "daemon/base/time.hpp"
#include "daemon/base/types.hpp"
#include "daemon/engine/records/completion_queue.hpp"
#include "daemon/engine/records/events.hpp"

namespace softhca::engine {

class EventNotifier {
 public:
  /// Most events handed over and not taken back, of all classes and of one class.
  static constexpr std::uint32_t kSlots = 1024;
  static constexpr std::uint32_t kMostOfClass = 64;
  /// Interval between two polls for events, while some come.
  static constexpr Duration kInterval = std::chrono::microseconds(50);

  /// The notifier's thread and the engine's use `sink` at once. It outlives this object.
  EventNotifier(EventSink& sink, std::size_t classes);
  ~EventNotifier() { stop(); }
  EventNotifier(const EventNotifier&) = delete;
  EventNotifier& operator=(const EventNotifier&) = delete;

  /// `avoid`: a core to keep free, if there are others.
  void start(std::optional<std::uint32_t> avoid);
  void stop();

  // --- the engine's thread

  enum class Answer : std::uint8_t { kTaken, kClassIsFull, kFull };
  /// REQUIRES: no event of the queue is here.
  Answer hand_over(CompletionQueue& cq, QosClassId qos_class);
  /// Wakes the thread. To be called after the last hand_over() of a step.
  void flush();
  /// True if events were handed over and not taken back.
  bool busy() const { return outstanding_ != 0; }
  /// Calls done(cq, sent, time the thread worked) for all events that are done. `sent` is false if
  /// the channel is full.
  template <class Done>
  void take_back(Done&& done);
  /// Cancels the event of a queue that is removed. It is not sent, unless that is in progress: see
  /// await(). REQUIRES: the queue has an event here.
  void cancel(CompletionQueue& cq);

  // --- other threads

  /// Waits for the end of an event in progress to this channel. That is one system call.
  void await(int completion_end) const;

 private:
  enum class State : std::uint8_t { kWaits, kUnderWay, kCancelled };
  struct Slot {
    int completion_end = -1;
    std::uint64_t user_handle = 0;
    QosClassId qos_class;
    std::atomic<State> state{State::kWaits};
    bool sent = false;
    Duration taken{};
    CompletionQueue* cq = nullptr;  ///< used by the engine; null: cancelled
    IndexLink of_class;             ///< used by the thread
  };
  /// The events of a class in the thread.
  struct Line {
    IndexList<Slot, &Slot::of_class> slots;
    IndexLink turn;
    Time rests_until{};  ///< after an expensive event
  };

  void loop();
  void take_in();
  bool serve(Time now);
  void send(Slot& slot);
  void pause(Time now, Time last_work);

  EventSink& sink_;
  std::thread thread_;
  std::atomic<bool> stopping_{false};
  std::vector<Slot> slots_;
  SpscRing<std::uint16_t> given_{kSlots};
  SpscRing<std::uint16_t> done_{kSlots};
  /// Both threads exchange it, so that one of them sees what the other did.
  std::atomic<std::uint32_t> asleep_{0};
  // The engine's thread.
  std::vector<std::uint16_t> free_;
  std::vector<std::uint32_t> of_class_;  ///< outstanding
  std::uint32_t outstanding_ = 0;
  bool given_some_ = false;  ///< since flush()
  // The notifier's thread.
  std::vector<Line> lines_;
  IndexList<Line, &Line::turn> turns_;
  std::atomic<int> sending_to_{-1};
  std::atomic<std::uint32_t> sends_{0};  ///< begins and ends: odd while a send is in progress
};

template <class Done>
void EventNotifier::take_back(Done&& done) {
  while (const std::uint16_t* index = done_.front()) {
    Slot& slot = slots_[*index];
    free_.push_back(*index);
    done_.pop();
    --outstanding_;
    --of_class_[slot.qos_class.value];
    CompletionQueue* cq = slot.cq;
    if (cq == nullptr) continue;
    cq->notice = kNoIndex;
    done(*cq, slot.sent, slot.taken);
  }
}

}  // namespace softhca::engine
