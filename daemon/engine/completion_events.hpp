// Completions on their way to processes: they are pushed to completion queues, and events tell a
// process that asked for them, at once or, moderated, after so many completions or so long.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/base/linked_list.hpp"
#include "daemon/base/timer_wheel.hpp"
#include "daemon/engine/async_events.hpp"
#include "daemon/engine/cpu_scheduler.hpp"
#include "daemon/engine/event_notifier.hpp"
#include "daemon/engine/event_retry.hpp"

namespace softhca::engine {

/// How a verdict stands in a completion (IBA 11.6.2).
abi::CompletionStatus status_of(Verdict verdict);

class CompletionEvents {
 public:
  /// Due events of moderated queues sent in one step, and full channels tried again in it, at most:
  /// nobody else waits for long.
  static constexpr std::size_t kPerStep = 64;
  /// Events that come further apart hold nobody up often, and are sent at once.
  static constexpr Duration kSeldom = std::chrono::microseconds(250);
  /// Where tenants compete, the event of a queue pair that has at least so many commands under way
  /// waits for more completions, for this time at most.
  static constexpr std::uint32_t kManyUnderWay = 16;
  static constexpr Duration kPace = std::chrono::microseconds(500);

  CompletionEvents(EventSink& sink, AsyncEvents& async_events, const StepClock& clock,
                   CpuScheduler& cpu)
      : sink_(sink), async_events_(async_events), clock_(clock), cpu_(cpu) {}

  /// Where tenants compete, events go by `notifier` (null: they are sent at once). It outlives its
  /// use.
  void notify_by(EventNotifier* notifier) { notifier_ = notifier; }
  EventSink& sink() const { return sink_; }

  /// A completion queue that is full fails, and its session is looked through.
  /// `under_way`: how many commands its queue pair has besides.
  void push(CompletionQueue& cq, const shm::Completion& completion, bool solicited,
            std::uint32_t under_way = 0);
  /// An event comes after `count` completions or `period` after the first. What is held back under
  /// the old terms is told now.
  void set_moderation(CompletionQueue& cq, std::uint32_t count, Duration period);
  /// The object may be freed afterwards.
  void remove(CompletionQueue& cq);

  /// The end of a poll step: sends events to those who asked for what was pushed.
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
  LinkedList<CompletionQueue, &CompletionQueue::paced> paced_;  ///< first come first
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
