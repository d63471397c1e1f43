// SPDX-License-Identifier: Apache-2.0

// Completion queues: the engine writes completions to them. It sends an event to a process that
// asked for one: at once or, with moderation, after a number of completions or a time.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/base/linked_list.hpp"
#include "daemon/base/timer_wheel.hpp"
#include "daemon/engine/events/async_events.hpp"
#include "daemon/engine/events/event_notifier.hpp"
#include "daemon/engine/events/event_retry.hpp"
#include "daemon/engine/turns/cpu_scheduler.hpp"

namespace softhca::engine {

/// Returns the status of a completion for a verdict (IBA 11.6.2).
abi::CompletionStatus status_of(Verdict verdict);

class CompletionQueues {
 public:
  /// Most due events of moderated queues that are sent in one step, and most full channels that are
  /// tried again in it. So others do not wait for long.
  static constexpr std::size_t kPerStep = 64;
  /// Events that come further apart seldom hold others up, and are sent at once.
  static constexpr Duration kSeldom = std::chrono::microseconds(250);
  /// Where tenants compete, the event of a queue pair with at least this many commands in progress
  /// waits for more completions, for at most this time.
  static constexpr std::uint32_t kManyUnderWay = 16;
  static constexpr Duration kPace = std::chrono::microseconds(500);

  CompletionQueues(EventSink& sink, AsyncEvents& async_events, const StepClock& clock,
                   CpuScheduler& cpu)
      : sink_(sink), async_events_(async_events), clock_(clock), cpu_(cpu) {}

  /// Where tenants compete, events go through `notifier` (null: the engine sends them). It outlives
  /// its use.
  void notify_by(EventNotifier* notifier) { notifier_ = notifier; }
  EventSink& sink() const { return sink_; }

  /// Pushes a completion, with the time of the step. A full completion queue fails, and its
  /// session's objects are checked (look_through()). `under_way`: how many other commands its queue
  /// pair has.
  void push(CompletionQueue& cq, shm::Completion& completion, bool solicited,
            std::uint32_t under_way = 0);
  /// Sets moderation: an event is sent `count` completions or `period` after the first completion.
  /// An event that is held back under the old settings is sent now.
  void set_moderation(CompletionQueue& cq, std::uint32_t count, Duration period);
  /// Continues a queue of an earlier engine. One event is sent if the process waits for one and
  /// completions are there, or if the earlier engine owed one. A queue in which the place of the
  /// next completion cannot be found has failed.
  void resume(CompletionQueue& cq);
  /// Removes the queue. The object may be freed afterwards.
  void remove(CompletionQueue& cq);

  /// Ends a poll step: sends events to the processes that asked for them.
  void deliver();
  Time next_deadline() const;

 private:
  enum class Sent : std::uint8_t { kGone, kHandedOver, kRefused };

  bool hold_back(CompletionQueue& cq);
  bool pace(CompletionQueue& cq);
  void announce(CompletionQueue& cq);
  Sent send_event(CompletionQueue& cq);
  bool hands_over() const;
  void take_back_notices();
  void defer(CompletionQueue& cq);
  void try_later(CompletionQueue& cq);
  void announce_due();
  void announce_paced();
  void retry();
  void release_timer(CompletionQueue& cq);

  EventSink& sink_;
  AsyncEvents& async_events_;
  const StepClock& clock_;
  CpuScheduler& cpu_;
  EventNotifier* notifier_ = nullptr;
  Time last_event_{};
  LinkedList<CompletionQueue, &CompletionQueue::paced> paced_;  ///< oldest first
  LinkedList<CompletionQueue, &CompletionQueue::dirty> dirty_;
  LinkedList<CompletionQueue, &CompletionQueue::deferred> deferred_;
  std::size_t deferred_count_ = 0;  ///< events
  EventRetry retry_;
  // Moderation.
  TimerWheel timers_;
  std::vector<CompletionQueue*> moderated_;  ///< by timer
  std::vector<std::uint32_t> free_timers_;
  LinkedList<CompletionQueue, &CompletionQueue::due> due_;
};

}  // namespace softhca::engine
