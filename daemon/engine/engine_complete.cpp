// The end of commands and receives: completions, events, credits given back (mechanism B6: by now
// every read of the command's data is done).
#include <algorithm>
#include <atomic>

#include "daemon/engine/effort.hpp"

namespace softhca::engine {
namespace {

using abi::CompletionOpcode;
using abi::CompletionStatus;

// A full event socket is tried again this often.
constexpr Duration kEventRetry = std::chrono::milliseconds(1);
// The longest wait between two tries while nobody reads.
constexpr Duration kLongestEventRetry = std::chrono::milliseconds(64);
// Events a session does not read are kept up to this many, then dropped and counted.
constexpr std::uint32_t kMaxDeferredEvents = 256;
// Completion queues tried again in one step, so that full channels hold nobody else up.
constexpr std::size_t kChannelRetries = 64;
// Events of completion queues that were held back long enough, likewise.
constexpr std::size_t kLateEvents = 64;

CompletionStatus status_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk:
      return CompletionStatus::kSuccess;
    case Verdict::kLocalLength:
      return CompletionStatus::kLocalLengthError;
    case Verdict::kLocalProtection:
      return CompletionStatus::kLocalProtectionError;
    case Verdict::kFlushed:
      return CompletionStatus::kFlushError;
    case Verdict::kBadResponse:
      return CompletionStatus::kBadResponseError;
    case Verdict::kWindowBind:
      return CompletionStatus::kBindError;
    case Verdict::kRemoteInvalidRequest:
      return CompletionStatus::kRemoteInvalidRequestError;
    case Verdict::kRemoteAccess:
      return CompletionStatus::kRemoteAccessError;
    case Verdict::kRemoteOperation:
      return CompletionStatus::kRemoteOperationError;
    case Verdict::kRetryExceeded:
      return CompletionStatus::kRetryExceededError;
    case Verdict::kRnrRetryExceeded:
      return CompletionStatus::kRnrRetryExceededError;
    case Verdict::kLocalQpOperation:
    case Verdict::kBusy:
    case Verdict::kReceiverNotReady:
      break;
  }
  return CompletionStatus::kLocalQpOperationError;
}

CompletionOpcode opcode_of(std::uint8_t command_opcode) {
  switch (static_cast<abi::Opcode>(command_opcode)) {
    case abi::Opcode::kRdmaWrite:
    case abi::Opcode::kRdmaWriteWithImm:
      return CompletionOpcode::kRdmaWrite;
    case abi::Opcode::kRdmaRead:
      return CompletionOpcode::kRdmaRead;
    case abi::Opcode::kCompareSwap:
      return CompletionOpcode::kCompareSwap;
    case abi::Opcode::kFetchAdd:
      return CompletionOpcode::kFetchAdd;
    case abi::Opcode::kAtomicWrite:
      return CompletionOpcode::kAtomicWrite;
    case abi::Opcode::kBindWindow:
      return CompletionOpcode::kBindWindow;
    case abi::Opcode::kLocalInvalidate:
      return CompletionOpcode::kLocalInvalidate;
    default:
      return CompletionOpcode::kSend;
  }
}

}  // namespace

void Engine::complete_command(QueuePair& qp, PcbId pcb, Verdict verdict) {
  const abi::CommandHeader& header = pcbs_.pcb(pcb).header;
  const bool wanted = qp.signal_all || (header.flags & abi::kCommandSignaled) != 0;
  if (!qp.discarding && (wanted || verdict != Verdict::kOk)) {
    shm::Completion completion;
    completion.qpn = qp.qpn.value;
    completion.index = header.sequence;
    completion.byte_len = commands_[pcb.value].length;
    completion.status = status_of(verdict);
    completion.opcode = opcode_of(header.opcode);
    push_completion(*qp.send_cq, completion, false);
  }
  if (verdict == Verdict::kOk) {
    qp.probing = false;
    qp.tenant->counters.command_work.add(effort_ - commands_[pcb.value].seen_effort);
  } else if (qp.state != QpState::kError) {
    fail_later(qp, name_of(verdict));
  }
  --qp.started;
  release_command(pcb);
  if (qp.started == 0) {
    check_drained(qp);
    release_held(qp);
  }
}

/// Credits and buffer go back.
void Engine::release_command(PcbId pcb) {
  CommandContext& command = commands_[pcb.value];
  QueuePair& qp = *queue_pairs_[command.slot];
  if (command.execution_held) arbitrator_.return_execution(command.tvl);
  if (command.completion_held) arbitrator_.return_completion(command.tvl);
  const bool dedicated = pcbs_.state(pcb).use == collect::PcbUse::kDedicated;
  const bool waited = command.dedicated_waits;
  const Duration held = now_ - command.kicked_at;
  command = CommandContext{};
  pcbs_.free(pcb);
  --qp.commands;
  if (!dedicated) return;
  --qp.fetched;
  dedicated_[qp.party.value].released(waited, held);
  scheduler_.unblock(schedule::QpSlot(qp.slot));
  dedicated_released(qp.party);
}

void Engine::return_execution(PcbId pcb) {
  CommandContext& command = commands_[pcb.value];
  if (!command.execution_held) return;
  command.execution_held = false;
  arbitrator_.return_execution(command.tvl);
  if (pcbs_.state(pcb).use != collect::PcbUse::kDedicated) return;
  command.dedicated_waits = true;
  const TenantId party = queue_pairs_[command.slot]->party;
  dedicated_[party.value].waits();
  watch_dedicated(party);
}

void Engine::push_completion(CompletionQueue& cq, const shm::Completion& completion,
                             bool solicited) {
  if (cq.failed) return;
  TenantCounters& counters = cq.session->tenant->counters;
  shm::Completion stamped = completion;
  stamped.timestamp = static_cast<std::uint64_t>(now_.time_since_epoch().count());
  if (!cq.ring.push(stamped, solicited)) {
    cq.failed = cq.users_go_on = true;
    overflowed_cqs_.push_back(&cq);
    counters.cq_overflows.add();
    raise(*cq.session, cq.user_handle, EventType::kCqError);
    return;
  }
  counters.completions.add();
  if (completion.status != CompletionStatus::kSuccess) counters.completion_errors.add();
  if (cq.channel_fd < 0) return;
  ++cq.unannounced;
  if (cq.dirty) return;
  cq.dirty = true;
  dirty_cqs_.push_back(&cq);
}

/// One look at all queue pairs, however many completion queues have overflowed in a step.
void Engine::fail_users_of_overflowed() {
  const auto concerns = [](const CompletionQueue* cq) { return cq != nullptr && cq->users_go_on; };
  for (QueuePair* qp : queue_pairs_)
    if (qp != nullptr && (concerns(qp->send_cq) || concerns(qp->receive_cq)))
      fail_later(*qp, "its completion queue overflowed");
  for (SharedReceiveQueue* srq : shared_receive_queues_)
    if (concerns(srq->cq)) fail_receive_queue(*srq);
  for (CompletionQueue* cq : overflowed_cqs_) {
    cq->users_go_on = false;
    charge_sweep(*cq->session);
  }
  overflowed_cqs_.clear();
}

/// An XRC target may have lost the queue it drew from: then there is nothing to complete.
void Engine::complete_receive(QueuePair& qp, const transport::ReceiveCompletion& completion) {
  const bool xrc = qp.type == QpType::kXrcReceive;
  if (xrc && qp.srq == nullptr) return;
  shm::Completion out;
  out.qpn = qp.qpn.value;
  out.index = qp.receive.index;
  out.byte_len = completion.byte_len;
  out.imm = completion.imm;
  out.status = status_of(completion.verdict);
  out.opcode =
      completion.from_write ? CompletionOpcode::kReceiveRdmaWithImm : CompletionOpcode::kReceive;
  out.flags =
      static_cast<std::uint8_t>((completion.has_grh ? abi::kCompletionGrh : 0) |
                                (completion.is_ipv4 ? abi::kCompletionIpv4 : 0) |
                                (completion.has_imm ? abi::kCompletionWithImm : 0) |
                                (completion.invalidated ? abi::kCompletionWithInvalidate : 0));
  out.is_receive = xrc ? abi::kCompletionOfXrcReceive : abi::kCompletionOfReceive;
  out.source_qpn = xrc ? qp.srq->number : completion.source.value;
  if (qp.srq != nullptr && qp.srq->provisioner) {
    qp.srq->provisioner->completed(qp.member,
                                   qp.receive.count == 0 ? 0 : qp.receive.entries[0].addr);
  }
  qp.receive_drawn = false;
  push_completion(xrc ? *qp.srq->cq : *qp.receive_cq, out, completion.solicited);
}

void Engine::report(DaemonEventKind kind, const Session& session, Qpn qpn, const char* cause) {
  event_log_.add({.time = now_,
                  .kind = kind,
                  .tenant = session.tenant->id,
                  .process = session.process,
                  .qpn = qpn,
                  .cause = cause});
}

void Engine::raise(Session& session, std::uint64_t element, EventType type) {
  const auto number = static_cast<std::uint32_t>(type);
  session.tenant->counters.events.add();
  if (session.events_deferred == 0 && events_.async_event(session.async_fd, element, number))
    return;
  session.tenant->counters.events_deferred.add();
  if (session.events_deferred == kMaxDeferredEvents) return;
  ++session.events_deferred;
  deferred_events_.push_back({&session, element, number});
  retry_events_later();
}

void Engine::raise(const QueuePair& qp, EventType type) {
  raise(*qp.session, qp.user_handle, type);
  for (const QpHolder& other : qp.other_holders) raise(*other.session, other.user_handle, type);
}

/// An event waits for room: soon, unless tries have been in vain for long.
void Engine::retry_events_later() {
  deferred_retry_ = std::min(deferred_retry_, now_ + std::max(deferred_interval_, kEventRetry));
}

void Engine::deliver_completion_events() {
  if (dirty_cqs_.empty()) return;
  // Pairs with the tenant's arming and polling once more (abi/rings.hpp).
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (CompletionQueue* cq : dirty_cqs_) {
    cq->dirty = false;
    if (!hold_back(*cq)) announce(*cq);
  }
  dirty_cqs_.clear();
}

/// Moderation: too few completions yet, and the first of them not old enough. REQUIRES: there are
/// some.
bool Engine::hold_back(CompletionQueue& cq) {
  if (cq.moderation_count == 0 || cq.moderation_period == Duration::zero()) return false;
  if (cq.unannounced >= cq.moderation_count || now_ >= cq.announce_by) return false;
  if (cq.announce_by != kNever) return true;
  cq.announce_by = now_ + cq.moderation_period;
  held_back_cqs_.emplace(cq.announce_by, &cq);
  return true;
}

/// Sends an event if the process has asked for one. REQUIRES: a fence since the last completion.
void Engine::announce(CompletionQueue& cq) {
  cq.unannounced = 0;
  if (cq.announce_by != kNever) held_back_cqs_.erase({cq.announce_by, &cq});
  cq.announce_by = kNever;
  if (!cq.ring.check_arm() || cq.event_deferred) return;
  cq.session->tenant->counters.events.add();
  if (events_.completion_event(cq.channel_fd, cq.user_handle)) return;
  cq.session->tenant->counters.events_deferred.add();
  cq.event_deferred = true;
  deferred_cqs_.push_back(&cq);
  retry_events_later();
}

void Engine::announce_held_back() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (std::size_t i = 0; i < kLateEvents && now_ >= announce_due(); ++i)
    announce(*held_back_cqs_.begin()->second);
}

/// What is held back under the old terms is told now.
void Engine::set_moderation(CompletionQueue& cq, std::uint32_t count, Duration period) {
  cq.moderation_count = count;
  cq.moderation_period = period;
  if (cq.announce_by == kNever) return;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  announce(cq);
}

void Engine::retry_deferred_events() {
  const std::size_t before = deferred_cqs_.size() + deferred_events_.size();
  const auto first = deferred_cqs_.begin();
  const auto tried =
      first + static_cast<std::ptrdiff_t>(std::min(deferred_cqs_.size(), kChannelRetries));
  const auto sent = std::remove_if(first, tried, [this](CompletionQueue* cq) {
    cq->event_deferred = !events_.completion_event(cq->channel_fd, cq->user_handle);
    return !cq->event_deferred;
  });
  const auto untried = deferred_cqs_.erase(sent, tried);
  std::rotate(first, untried, deferred_cqs_.end());

  // In order, and not again and again to a socket that was found full.
  std::erase_if(deferred_events_, [this](const PendingEvent& event) {
    Session& session = *event.session;
    if (session.events_refused == now_) return false;
    if (events_.async_event(session.async_fd, event.element, event.type)) {
      --session.events_deferred;
      return true;
    }
    session.events_refused = now_;
    return false;
  });
  const std::size_t left = deferred_cqs_.size() + deferred_events_.size();
  deferred_interval_ = left < before
                           ? kEventRetry
                           : std::clamp(2 * deferred_interval_, kEventRetry, kLongestEventRetry);
  deferred_retry_ = left == 0 ? kNever : now_ + deferred_interval_;
}

}  // namespace softhca::engine
