// The end of commands: their completions (mechanism B6: by now every read of the command's data is
// done), and what follows for those behind them.
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
    completion.byte_len = commands_[pcb].length;
    completion.status = status_of(verdict);
    completion.opcode = opcode_of(header.opcode);
    completion_events_.push(*qp.send_cq, completion, false);
  }
  if (verdict == Verdict::kOk) {
    qp.probing = false;
    qp.tenant->counters.command_work.add(cpu_.done() - commands_[pcb].work_when_seen);
  } else if (qp.state != QpState::kError) {
    cpu_.fail_later(qp, name_of(verdict));
  }
  --qp.started;
  commands_.release(pcb);
  if (qp.started == 0) {
    check_drained(qp);
    release_held(qp);
  }
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
