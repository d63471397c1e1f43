// SPDX-License-Identifier: Apache-2.0

// Events of completion queues: at once, with moderation, or paced while tenants compete.
#include <algorithm>
#include <atomic>
#include <utility>

#include "daemon/engine/receive/completion_queues.hpp"
#include "daemon/engine/records/costs.hpp"

namespace softhca::engine {

void CompletionQueues::deliver() {
  if (notifier_ != nullptr && notifier_->busy()) take_back_notices();
  if (!dirty_.empty()) {
    // Pairs with the tenant's arming and polling once more (abi/rings.hpp).
    std::atomic_thread_fence(std::memory_order_seq_cst);
    while (CompletionQueue* cq = dirty_.pop_front())
      if (!hold_back(*cq) && !pace(*cq)) announce(*cq);
  }
  if (!paced_.empty()) announce_paced();
  timers_.advance(clock_.now, [this](TimerId id) { due_.push_back(*moderated_[id.value]); });
  if (!due_.empty()) announce_due();
  if (clock_.now >= retry_.due()) retry();
  if (notifier_ != nullptr) notifier_->flush();
  cpu_.end_work();
}

Time CompletionQueues::next_deadline() const {
  if (!due_.empty()) return clock_.now;
  Time next = std::min(timers_.next_deadline(), retry_.due());
  if (!paced_.empty()) next = std::min(next, paced_.front()->paced_until);
  const bool looks_back = notifier_ != nullptr && notifier_->busy();
  return looks_back ? std::min(next, clock_.now + EventNotifier::kInterval) : next;
}

/// True if moderation holds the event back: there are too few completions, and the first is not old
/// enough. REQUIRES: there are some.
bool CompletionQueues::hold_back(CompletionQueue& cq) {
  if (cq.moderation_timer == kNoIndex || cq.unannounced >= cq.moderation_count) return false;
  if (cq.announce_by != kNever) return true;
  cq.announce_by = clock_.now + cq.moderation_period;
  timers_.arm(TimerId(cq.moderation_timer), cq.announce_by);
  return true;
}

/// True if the event waits for more completions. This is so where tenants compete for the engine
/// and for a processor: a program with many commands in progress is not woken for each completion.
bool CompletionQueues::pace(CompletionQueue& cq) {
  if (cq.urgent || cq.moderation_timer != kNoIndex || !cpu_.competition()) return false;
  if (cq.paced.linked) return true;
  cq.paced_until = clock_.now + kPace;
  paced_.push_back(cq);
  return true;
}

void CompletionQueues::announce_paced() {
  const bool all = !cpu_.competition();
  std::size_t most = kPerStep;
  while (CompletionQueue* cq = paced_.front()) {
    if (most-- == 0 || (!all && clock_.now < cq->paced_until)) return;
    std::atomic_thread_fence(std::memory_order_seq_cst);
    announce(*cq);
  }
}

/// Sends an event if the process has armed the queue. REQUIRES: a fence since the last completion.
void CompletionQueues::announce(CompletionQueue& cq) {
  cq.unannounced = 0;
  cq.urgent = false;
  paced_.remove(cq);
  if (cq.announce_by != kNever) {
    cq.announce_by = kNever;
    timers_.cancel(TimerId(cq.moderation_timer));
    due_.remove(cq);
  }
  if (cq.notice != kNoIndex) {
    cq.asked_again = true;
    return;
  }
  if (!cq.ring.check_arm()) return;
  cq.session->tenant->counters.completion.events.add();
  if (cq.waiting_events != 0 || send_event(cq) == Sent::kRefused) defer(cq);
}

/// Returns kRefused if the channel is full, or if the class has no place left in the notifier.
CompletionQueues::Sent CompletionQueues::send_event(CompletionQueue& cq) {
  if (hands_over()) {
    const auto answer = notifier_->hand_over(cq, cq.session->qos_class);
    cpu_.charge(*cq.session, kHandOverCost);
    if (answer == EventNotifier::Answer::kTaken) return Sent::kHandedOver;
    if (answer == EventNotifier::Answer::kClassIsFull) return Sent::kRefused;
  }
  last_event_ = clock_.now;
  cpu_.charge(*cq.session, kEventCost);
  if (!sink_.completion_event(cq.completion_end, cq.user_handle)) return Sent::kRefused;
  if (cq.waiting_events == 0) cq.ring.event_sent();
  return Sent::kGone;
}

/// True if events go through the notifier. Without competition they do not, since the program would
/// run later. While the notifier has events, all events go through it: otherwise one would overtake
/// another in its channel.
bool CompletionQueues::hands_over() const {
  if (notifier_ == nullptr) return false;
  return notifier_->busy() || (cpu_.competition() && clock_.now - last_event_ < kSeldom);
}

void CompletionQueues::take_back_notices() {
  notifier_->take_back([this](CompletionQueue& cq, bool sent, Duration taken) {
    cpu_.charge_elsewhere(cq.session->qos_class, taken);
    last_event_ = clock_.now;
    if (sent)
      retry_.went(clock_.now);
    else
      defer(cq);
    if (cq.waiting_events == 0) cq.ring.event_sent();
    if (cq.waiting_events != 0) try_later(cq);
    if (std::exchange(cq.asked_again, false) && !cq.dirty.linked) dirty_.push_back(cq);
  });
}

/// Adds an event that waits for room in the channel. The events of a queue are alike, so they are
/// counted.
void CompletionQueues::defer(CompletionQueue& cq) {
  cq.session->tenant->counters.completion.events_deferred.add();
  ++cq.waiting_events;
  ++deferred_count_;
  try_later(cq);
}

void CompletionQueues::try_later(CompletionQueue& cq) {
  if (cq.deferred.linked) return;
  deferred_.push_back(cq);
  retry_.wait(clock_.now);
}

void CompletionQueues::announce_due() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (std::size_t i = 0; i < kPerStep && !due_.empty(); ++i) announce(*due_.front());
}

void CompletionQueues::set_moderation(CompletionQueue& cq, std::uint32_t count, Duration period) {
  if (cq.announce_by != kNever) {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    announce(cq);
  }
  cq.moderation_count = count;
  cq.moderation_period = period;
  if (count == 0 || period == Duration::zero()) return release_timer(cq);
  if (cq.moderation_timer != kNoIndex) return;
  if (free_timers_.empty()) {
    free_timers_.push_back(static_cast<std::uint32_t>(moderated_.size()));
    moderated_.push_back(nullptr);
    timers_.reserve(free_timers_.back() + 1);
  }
  cq.moderation_timer = free_timers_.back();
  free_timers_.pop_back();
  moderated_[cq.moderation_timer] = &cq;
}

void CompletionQueues::release_timer(CompletionQueue& cq) {
  if (cq.moderation_timer == kNoIndex) return;
  timers_.cancel(TimerId(cq.moderation_timer));
  free_timers_.push_back(cq.moderation_timer);
  cq.moderation_timer = kNoIndex;
}

/// Tries the channels in turn, so that full ones do not hold up others. An event that is handed
/// over counts as refused until it comes back.
void CompletionQueues::retry() {
  const std::size_t before = deferred_count_;
  std::size_t gone = 0;
  for (std::size_t tries = std::min(before, kPerStep); tries != 0 && !deferred_.empty(); --tries) {
    CompletionQueue& cq = *deferred_.pop_front();
    const Sent sent = send_event(cq);
    const bool alone = deferred_.empty();
    if (sent != Sent::kRefused) {
      --cq.waiting_events;
      --deferred_count_;
      if (sent == Sent::kGone && cq.waiting_events == 0) cq.ring.event_sent();
    }
    gone += sent == Sent::kGone;
    if (sent != Sent::kHandedOver && cq.waiting_events != 0) deferred_.push_back(cq);
    if (sent == Sent::kRefused && alone) break;
  }
  retry_.tried(before, before - gone, clock_.now);
}

}  // namespace softhca::engine
