// The end of commands and receives: completions, credits given back (mechanism B6: by now
// every read of the command's data is done).
#include <utility>

#include "daemon/engine/costs.hpp"
#include "daemon/engine/engine.hpp"

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
    completion_events_.push(*qp.send_cq, completion, false);
  }
  if (verdict == Verdict::kOk) {
    qp.probing = false;
    qp.tenant->counters.command_work.add(cpu_.done() - commands_[pcb.value].work_when_seen);
  } else if (qp.state != QpState::kError) {
    cpu_.fail_later(qp, name_of(verdict));
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
  QueuePair& qp = queue_pairs_[command.slot];
  if (command.execution_held) arbitrator_.return_execution(command.tvl);
  if (command.completion_held) arbitrator_.return_completion(command.tvl);
  const bool dedicated = pcbs_.state(pcb).use == collect::PcbUse::kDedicated;
  const bool waited = command.dedicated_waits;
  const Duration held = clock_.now - command.kicked_at;
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
  const TenantId party = queue_pairs_[command.slot].party;
  dedicated_[party.value].waits();
  watch_dedicated(party);
}

/// One look at the queue pairs of a session and at all shared receive queues, however many of its
/// completion queues have overflowed in a step.
void Engine::fail_users_of_overflowed() {
  const auto concerns = [](const CompletionQueue* cq) { return cq != nullptr && cq->users_go_on; };
  completion_events_.for_each_overflowed([&](CompletionQueue& overflowed) {
    Session& session = *overflowed.session;
    if (std::exchange(session.overflows, true)) return;
    cpu_.charge(session, receive_queues_.size() * kSweepCost);
    session.queue_pairs.for_each([&](QueuePair& qp) {
      cpu_.charge(session, kSweepCost);
      if (concerns(qp.send_cq) || concerns(qp.receive_cq))
        cpu_.fail_later(qp, "its completion queue overflowed");
    });
  });
  receive_queues_.fail_users_of_overflowed();
  while (CompletionQueue* cq = completion_events_.take_overflowed())
    cq->users_go_on = cq->session->overflows = false;
}

}  // namespace softhca::engine
