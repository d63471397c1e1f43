// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/receive/completion_queues.hpp"

#include <utility>

#include "daemon/engine/receive/failed_sessions.hpp"

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

void CompletionQueues::push(CompletionQueue& cq, shm::Completion& completion, bool solicited,
                            std::uint32_t under_way) {
  if (cq.failed) return;
  TenantCounters& counters = cq.session->tenant->counters;
  completion.timestamp = static_cast<std::uint64_t>(clock_.now.time_since_epoch().count());
  if (!cq.ring.push(completion, solicited)) {
    cq.failed = true;
    look_through(cpu_, *cq.session);
    counters.completion.cq_overflows.add();
    async_events_.raise(*cq.session, cq.user_handle, EventType::kCqError);
    return;
  }
  counters.completion.completions.add();
  if (completion.status != abi::CompletionStatus::kSuccess)
    counters.completion.completion_errors.add();
  if (cq.completion_end < 0) return;
  cq.urgent = cq.urgent || under_way < kManyUnderWay ||
              completion.status != abi::CompletionStatus::kSuccess;
  ++cq.unannounced;
  if (!cq.dirty.linked) dirty_.push_back(cq);
}

void CompletionQueues::resume(CompletionQueue& cq) {
  if (!cq.ring.resume()) {
    cq.failed = true;
    look_through(cpu_, *cq.session);
    cq.session->tenant->counters.refused.hostile_memory.add();
    async_events_.raise(*cq.session, cq.user_handle, EventType::kCqError);
    return;
  }
  if (cq.completion_end < 0 || !cq.ring.has_news()) return;
  cq.urgent = true;
  cq.unannounced = 1;
  if (!cq.dirty.linked) dirty_.push_back(cq);
}

void CompletionQueues::remove(CompletionQueue& cq) {
  dirty_.remove(cq);
  due_.remove(cq);
  paced_.remove(cq);
  if (cq.notice != kNoIndex && notifier_ != nullptr) notifier_->cancel(cq);
  deferred_count_ -= std::exchange(cq.waiting_events, 0);
  deferred_.remove(cq);
  release_timer(cq);
  async_events_.forget(*cq.session, cq.user_handle);
}

}  // namespace softhca::engine
