// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/queue_pairs/command_execution.hpp"

#include <utility>

#include "daemon/engine/commands/command_request.hpp"
#include "daemon/engine/records/costs.hpp"

namespace softhca::engine {

inline void CommandExecution::start(PcbId pcb) {
  QueuePair& qp = commands_.owner(pcb);
  clock_.work_on(subject_of(qp));
  cpu_.charge(qp, kStartCost);
  // Nothing begins on a queue pair that is about to fail. No command overtakes one that waits.
  if (qp.error.pending || !qp.sq.held.empty()) {
    commands_.hold(qp, pcb);
    return;
  }
  begin(qp, pcb);
}

std::size_t CommandExecution::start_commands() {
  cpu_.end_work();
  std::size_t started = 0;
  for (; started < cpu_.budget().starts; ++started) {
    const auto pcb = dispatch_.next();
    if (!pcb) break;
    start(*pcb);
  }
  return started;
}

/// Counts a command that begins, by the way that it came: VCB or doorbell.
inline void CommandExecution::count(QueuePair& qp, PcbId pcb) {
  const bool by_doorbell = commands_[pcb].by_doorbell;
  const auto add = [&](auto& counters) {
    (by_doorbell ? counters.commands_doorbell : counters.commands_vcb).add();
  };
  add(qp.tenant->counters);
  if (Level* level = level_of(qp)) add(level->counters);
}

void CommandExecution::begin(QueuePair& qp, PcbId pcb) {
  ++qp.sq.started;
  const std::uint32_t sequence = pcbs_.pcb(pcb).header.sequence;
  const bool begun = qp.sq.has_begun(sequence);
  if (!begun) {  // else it was given back, and begins again
    qp.sq.not_begun = qp.record.durable->not_begun = sequence + 1;
    count(qp, pcb);
  }
  if (qp.state == QpState::kError) return complete_command(qp, pcb, Verdict::kFlushed);
  // More than the send queue holds: an honest process never has so many in progress.
  if (qp.sq.started > qp.sq.ring.entries()) {
    qp.tenant->counters.refused.hostile_memory.add();
    async_events_.raise(qp, EventType::kQpFatal);
    return complete_command(qp, pcb, Verdict::kLocalQpOperation);
  }

  // The earlier engine may have sent it, and it must not be sent twice.
  if (std::exchange(qp.sq.skips_first, false)) [[unlikely]]
    return complete_command(qp, pcb, Verdict::kOk);
  if (!is_message(pcbs_.pcb(pcb).header)) return run_window_command(qp, pcb);
  transport::Request request;
  const Verdict verdict = build_request(qp, pcb, pcbs_.pcb(pcb), memory_, request);
  if (verdict != Verdict::kOk) return fail_command(qp, pcb, verdict);
  commands_[pcb].length = request.length;
  request.begun = begun;

  std::visit([&](auto& transport) { transport.start(request); }, qp.transport);
  cpu_.make_ready(qp);
}

/// A command that cannot be executed fails after those before it have completed (IBA 10.8.3).
void CommandExecution::fail_command(QueuePair& qp, PcbId pcb, Verdict verdict) {
  if (qp.sq.started > 1) {
    --qp.sq.started;
    commands_.hold_first(qp, pcb);
    return;
  }
  qp.tenant->counters.refused.malformed_commands.add();
  complete_command(qp, pcb, verdict);
}

void CommandExecution::release_held(QueuePair& qp) {
  if (qp.sq.releasing) return;
  qp.sq.releasing = true;
  while (!qp.sq.held.empty() && !qp.error.pending) {
    const PcbId pcb = commands_.pop_held(qp);
    begin(qp, pcb);
    if (qp.sq.held.front() == pcb.value) break;  // still waiting for those before it
  }
  qp.sq.releasing = false;
}

}  // namespace softhca::engine
