// Completions on their way to processes: they are pushed to completion queues, and events tell a
// process that asked for them, at once or, moderated, after so many completions or so long.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/base/linked_list.hpp"
#include "daemon/base/timer_wheel.hpp"
#include "daemon/engine/async_events.hpp"
#include "daemon/engine/cpu_scheduler.hpp"

namespace softhca::engine {

/// How a verdict stands in a completion (IBA 11.6.2).
abi::CompletionStatus status_of(Verdict verdict);

class CompletionEvents {
 public:
  /// Due events of moderated queues sent in one step, and full channels tried again in it, at most:
  /// nobody else waits for long.
  static constexpr std::size_t kPerStep = 64;

  CompletionEvents(EventSink& sink, AsyncEvents& async_events, const StepClock& clock,
                   CpuScheduler& cpu)
      : sink_(sink), async_events_(async_events), clock_(clock), cpu_(cpu) {}

  /// A completion queue that is full fails, and is one of the overflowed ones until it is taken.
  void push(CompletionQueue& cq, const shm::Completion& completion, bool solicited);
  /// An event comes after `count` completions or `period` after the first. What is held back under
  /// the old terms is told now.
  void set_moderation(CompletionQueue& cq, std::uint32_t count, Duration period);
  /// The object may be freed afterwards.
  void remove(CompletionQueue& cq);

  bool any_overflowed() const { return !overflowed_.empty(); }
  template <class Visit>
  void for_each_overflowed(Visit&& visit) const {
    overflowed_.for_each(visit);
  }
  /// Takes out an overflowed queue; null: there is none. CompletionQueue::users_go_on stays as it
  /// is.
  CompletionQueue* take_overflowed() { return overflowed_.pop_front(); }

  /// The end of a poll step: sends events to those who asked for what was pushed.
  void deliver();
  Time next_deadline() const;

 private:
  bool hold_back(CompletionQueue& cq);
  void announce(CompletionQueue& cq);
  bool send_event(CompletionQueue& cq);
  void announce_due();
  void retry();
  void release_timer(CompletionQueue& cq);

  EventSink& sink_;
  AsyncEvents& async_events_;
  const StepClock& clock_;
  CpuScheduler& cpu_;
  LinkedList<CompletionQueue, &CompletionQueue::dirty> dirty_;
  LinkedList<CompletionQueue, &CompletionQueue::overflowed> overflowed_;
  LinkedList<CompletionQueue, &CompletionQueue::deferred> deferred_;
  std::size_t deferred_count_ = 0;
  EventRetry retry_;
  // Moderation.
  TimerWheel timers_;
  std::vector<CompletionQueue*> moderated_;  ///< by timer
  std::vector<std::uint32_t> free_timers_;
  LinkedList<CompletionQueue, &CompletionQueue::due> due_;
};

}  // namespace softhca::engine
