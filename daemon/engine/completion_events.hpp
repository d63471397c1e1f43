// Completions on their way to processes: pushed to completion queues, and the events of these,
// which tell a process that asked for it, at once or, moderated, after so many completions or so
// long.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/base/linked_list.hpp"
#include "daemon/base/timer_wheel.hpp"
#include "daemon/engine/async_events.hpp"

namespace softhca::engine {

/// How a verdict stands in a completion (IBA 11.6.2).
abi::CompletionStatus status_of(Verdict verdict);

class CompletionEvents {
 public:
  /// Events of moderated queues that are due are told of this many in one step, and so many
  /// channels that were full are tried again: nobody else waits for long.
  static constexpr std::size_t kPerStep = 64;

  CompletionEvents(EventSink& sink, AsyncEvents& async_events, const StepClock& clock)
      : sink_(sink), async_events_(async_events), clock_(clock) {}

  /// A completion queue that is full fails, and is among the overflowed ones until they are taken.
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
  /// Null: no other. It is not among them any more; CompletionQueue::users_go_on stays.
  CompletionQueue* take_overflowed() { return overflowed_.pop_front(); }

  /// The end of a poll step: tells who asked for it of what was pushed.
  void deliver();
  Time next_deadline() const;

 private:
  bool hold_back(CompletionQueue& cq);
  void announce(CompletionQueue& cq);
  void announce_due();
  void retry();
  void release_timer(CompletionQueue& cq);

  EventSink& sink_;
  AsyncEvents& async_events_;
  const StepClock& clock_;
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
