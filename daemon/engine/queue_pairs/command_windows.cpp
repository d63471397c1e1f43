// SPDX-License-Identifier: Apache-2.0

// Commands that send nothing: they bind or invalidate memory windows. Each runs when all commands
// before it are complete, which is a stricter order than the specification requires (10.8.3.3).
#include "abi/checksum.hpp"
#include "daemon/engine/queue_pairs/command_execution.hpp"

namespace softhca::engine {

/// REQUIRES: the command is counted in qp.sq.started.
void CommandExecution::run_window_command(QueuePair& qp, PcbId pcb) {
  if (qp.sq.started > 1) {
    --qp.sq.started;
    commands_.hold_first(qp, pcb);
    return;
  }
  const collect::Pcb& buffer = pcbs_.pcb(pcb);
  Verdict verdict = Verdict::kLocalQpOperation;
  if (!abi::checksum_matches(buffer.header, buffer.payload.data()))
    qp.tenant->counters.refused.bad_checksums.add();
  else if (qp.type != QpType::kUd)
    verdict = buffer.header.opcode == static_cast<std::uint8_t>(abi::Opcode::kBindWindow)
                  ? memory_.bind(qp, buffer.header, qp.sq.resumed)
                  : memory_.invalidate(qp, Rkey(buffer.header.rkey), qp.sq.resumed);
  complete_command(qp, pcb, verdict);
}

}  // namespace softhca::engine
