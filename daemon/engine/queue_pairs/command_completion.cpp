// SPDX-License-Identifier: Apache-2.0

// The end of commands: their completions (mechanism B6: by now every read of the command's data is
// done), and the start of commands that waited for them.
#include "daemon/base/probes.hpp"
#include "daemon/engine/queue_pairs/command_execution.hpp"
#include "daemon/engine/records/costs.hpp"

namespace softhca::engine {
namespace {

using abi::CompletionOpcode;

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
    case abi::Opcode::kFlush:
      return CompletionOpcode::kFlush;
    case abi::Opcode::kBindWindow:
      return CompletionOpcode::kBindWindow;
    case abi::Opcode::kLocalInvalidate:
      return CompletionOpcode::kLocalInvalidate;
    default:
      return CompletionOpcode::kSend;
  }
}

}  // namespace

void CommandExecution::complete_command(QueuePair& qp, PcbId pcb, Verdict verdict) {
  const abi::CommandHeader& header = pcbs_.pcb(pcb).header;
  const auto status =
      verdict == Verdict::kOk ? abi::CompletionStatus::kSuccess : status_of(verdict);
  probes::command_completed(qp.qpn.value, header.sequence, static_cast<std::uint32_t>(status));
  std::uint32_t vendor_err = 0;
  if (verdict != Verdict::kOk) [[unlikely]]
    vendor_err = remember_failed(qp, pcb, verdict);
  const bool wanted = qp.signal_all || (header.flags & abi::kCommandSignaled) != 0;
  const bool fails = verdict != Verdict::kOk && qp.state != QpState::kError;
  const std::uint64_t behind = qp.sent_behind(header.sequence);
  if (!qp.sq.discarding && (wanted || verdict != Verdict::kOk)) {
    shm::Completion completion;
    completion.qpn = qp.qpn.value;
    completion.index = header.sequence;
    completion.byte_len = commands_[pcb].length;
    completion.imm = vendor_err;
    completion.status = status;
    completion.opcode = opcode_of(header.opcode);
    if (fails && qp.error.cause == QpFailure::kNone)
      qp.record.durable->cause = static_cast<std::uint8_t>(failure_of(verdict));
    qp.record.durable->begin_sent({qp.sq.cq->ring.next_counter(), completion.index}, behind, fails);
    // Only a queue with a channel asks how much is under way.
    const std::uint32_t under_way =
        qp.sq.cq->completion_end < 0
            ? 0
            : qp.sq.commands - 1 + scheduler_.pending(schedule::QpSlot(qp.slot));
    completion_queues_.push(*qp.sq.cq, completion, false, under_way);
  }
  if (verdict == Verdict::kOk) {
    qp.sq.probing = qp.sq.sparing = false;
    const std::uint64_t time = cpu_.spent() - commands_[pcb].time_when_seen;
    qp.tenant->counters.command_engine_time.add(time / kUnitsPerNanosecond);
    if (abi::is_sampled(header.sequence)) {
      commands_.samples().completed(qp, header.sequence);
      waits_of(qp).duration.add(static_cast<std::uint64_t>(commands_.age(pcb).count()));
    }
  } else {
    if (fails) cpu_.fail_later(qp, failure_of(verdict));
  }
  qp.sq.done = header.sequence + 1;
  qp.sq.resumed = false;
  qp.record.durable->end_sent(behind);
  --qp.sq.started;
  commands_.release(pcb);
  if (qp.sq.started == 0) {
    report_drained(qp);
    release_held(qp);
  }
}

/// Records how the command failed, and why if it was the first. Returns its vendor_err.
std::uint32_t CommandExecution::remember_failed(QueuePair& qp, PcbId pcb, Verdict verdict) {
  if (verdict == Verdict::kFlushed) {
    history_.add_if_any(qp, QpEventKind::kCommandsFlushed);
    return flush_error(qp.error.cause);
  }
  const Refusal why = refusals_.explain(qp, pcbs_.pcb(pcb), verdict);
  history_.add(qp, QpEventKind::kCommandFailed, {.detail = static_cast<std::uint32_t>(verdict)});
  if (qp.error.cause == QpFailure::kNone) history_.refuse(qp, why);
  return vendor_error(why);
}

void CommandExecution::report_drained(QueuePair& qp) {
  if (qp.state != QpState::kSqd || qp.sq.commands != 0 || !qp.sq.sqd_notify) return;
  if (qp.sends() && qp.sq.has_begun(scheduler_.next_sequence(schedule::QpSlot(qp.slot)))) return;
  qp.sq.sqd_notify = false;
  qp.record.durable->set_event(QpDurable::kWantsDrained, false);
  async_events_.raise(qp, EventType::kSendQueueDrained);
}

}  // namespace softhca::engine
