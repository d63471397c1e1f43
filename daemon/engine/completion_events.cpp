#include "daemon/engine/completion_events.hpp"

#include <algorithm>
#include <atomic>

#include "daemon/engine/costs.hpp"

namespace softhca::engine {

abi::CompletionStatus status_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk:
      return abi::CompletionStatus::kSuccess;
    case Verdict::kLocalLength:
      return abi::CompletionStatus::kLocalLengthError;
    case Verdict::kLocalProtection:
      return abi::CompletionStatus::kLocalProtectionError;
    case Verdict::kFlushed:
      return abi::CompletionStatus::kFlushError;
    case Verdict::kBadResponse:
      return abi::CompletionStatus::kBadResponseError;
    case Verdict::kWindowBind:
      return abi::CompletionStatus::kBindError;
    case Verdict::kRemoteInvalidRequest:
      return abi::CompletionStatus::kRemoteInvalidRequestError;
    case Verdict::kRemoteAccess:
      return abi::CompletionStatus::kRemoteAccessError;
    case Verdict::kRemoteOperation:
      return abi::CompletionStatus::kRemoteOperationError;
    case Verdict::kRetryExceeded:
      return abi::CompletionStatus::kRetryExceededError;
    case Verdict::kRnrRetryExceeded:
      return abi::CompletionStatus::kRnrRetryExceededError;
    case Verdict::kLocalQpOperation:
    case Verdict::kBusy:
    case Verdict::kReceiverNotReady:
      break;
  }
  return abi::CompletionStatus::kLocalQpOperationError;
}

void CompletionEvents::push(CompletionQueue& cq, const shm::Completion& completion,
                            bool solicited) {
  if (cq.failed) return;
  TenantCounters& counters = cq.session->tenant->counters;
  shm::Completion stamped = completion;
  stamped.timestamp = static_cast<std::uint64_t>(clock_.now.time_since_epoch().count());
  if (!cq.ring.push(stamped, solicited)) {
    cq.failed = cq.users_go_on = true;
    overflowed_.push_back(cq);
    counters.completion.cq_overflows.add();
    async_events_.raise(*cq.session, cq.user_handle, EventType::kCqError);
    return;
  }
  counters.completion.completions.add();
  if (completion.status != abi::CompletionStatus::kSuccess)
    counters.completion.completion_errors.add();
  if (cq.channel_fd < 0) return;
  ++cq.unannounced;
  if (!cq.dirty.linked) dirty_.push_back(cq);
}

void CompletionEvents::deliver() {
  if (!dirty_.empty()) {
    // Pairs with the tenant's arming and polling once more (abi/rings.hpp).
    std::atomic_thread_fence(std::memory_order_seq_cst);
    while (CompletionQueue* cq = dirty_.pop_front())
      if (!hold_back(*cq)) announce(*cq);
  }
  timers_.advance(clock_.now, [this](TimerId id) { due_.push_back(*moderated_[id.value]); });
  if (!due_.empty()) announce_due();
  if (clock_.now >= retry_.due()) retry();
  cpu_.end_work();
}

Time CompletionEvents::next_deadline() const {
  return due_.empty() ? std::min(timers_.next_deadline(), retry_.due()) : clock_.now;
}

/// Moderation: there are too few completions yet, and the first of them is not old enough.
/// REQUIRES: there are some.
bool CompletionEvents::hold_back(CompletionQueue& cq) {
  if (cq.moderation_timer == kNoIndex || cq.unannounced >= cq.moderation_count) return false;
  if (cq.announce_by != kNever) return true;
  cq.announce_by = clock_.now + cq.moderation_period;
  timers_.arm(TimerId(cq.moderation_timer), cq.announce_by);
  return true;
}

/// Sends an event if the process has asked for one. REQUIRES: a fence since the last completion.
void CompletionEvents::announce(CompletionQueue& cq) {
  cq.unannounced = 0;
  if (cq.announce_by != kNever) {
    cq.announce_by = kNever;
    timers_.cancel(TimerId(cq.moderation_timer));
    due_.remove(cq);
  }
  if (!cq.ring.check_arm() || cq.deferred.linked) return;
  cq.session->tenant->counters.completion.events.add();
  if (send_event(cq)) return;
  cq.session->tenant->counters.completion.events_deferred.add();
  deferred_.push_back(cq);
  ++deferred_count_;
  retry_.wait(clock_.now);
}

/// False: the channel is full.
bool CompletionEvents::send_event(CompletionQueue& cq) {
  cpu_.charge(*cq.session, kEventCost);
  return sink_.completion_event(cq.channel_fd, cq.user_handle);
}

void CompletionEvents::announce_due() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (std::size_t i = 0; i < kPerStep && !due_.empty(); ++i) announce(*due_.front());
}

void CompletionEvents::set_moderation(CompletionQueue& cq, std::uint32_t count, Duration period) {
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

void CompletionEvents::release_timer(CompletionQueue& cq) {
  if (cq.moderation_timer == kNoIndex) return;
  timers_.cancel(TimerId(cq.moderation_timer));
  free_timers_.push_back(cq.moderation_timer);
  cq.moderation_timer = kNoIndex;
}

/// Channels take turns, so that full ones hold nobody else up.
void CompletionEvents::retry() {
  const std::size_t before = deferred_count_;
  for (std::size_t tries = std::min(before, kPerStep); tries != 0; --tries) {
    CompletionQueue& cq = *deferred_.pop_front();
    if (send_event(cq))
      --deferred_count_;
    else
      deferred_.push_back(cq);
  }
  retry_.tried(before, deferred_count_, clock_.now);
}

void CompletionEvents::remove(CompletionQueue& cq) {
  dirty_.remove(cq);
  overflowed_.remove(cq);
  due_.remove(cq);
  if (cq.deferred.linked) --deferred_count_;
  deferred_.remove(cq);
  release_timer(cq);
  async_events_.forget(*cq.session, cq.user_handle);
}

}  // namespace softhca::engine
