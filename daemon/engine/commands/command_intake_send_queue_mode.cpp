// SPDX-License-Identifier: Apache-2.0

// Send queue mode (mechanism A5): a doorbell takes the place of a command in a VCB that finds no
// PCB. The same holds for a command that may not start yet (B3).
#include "daemon/engine/commands/command_intake.hpp"

namespace softhca::engine {

bool CommandIntake::send_queue_mode(Session& session, std::uint32_t vcb, std::uint64_t scoreboard) {
  if ((scoreboard & collect::kDoorbellSegments) != collect::kDoorbellSegments) return false;
  collect::Pcb header_only;
  session.view.copy_segments(vcb, collect::kDoorbellSegments, header_only.header,
                             header_only.payload.data());
  session.count_send_queue_mode(SendQueueCause::kNoPcb, session.level);
  ring(session, Qpn(header_only.header.qpn), header_only.header.sequence + 1);
  return true;
}

/// Kicks a command of the queue pair that is in a PCB of its session's class. Returns why not, if
/// it cannot.
inline std::optional<SendQueueCause> CommandIntake::kick(const Session& session, QueuePair& qp,
                                                         PcbId pcb) {
  const schedule::QpSlot slot(qp.slot);
  const std::uint32_t sequence = pcbs_.pcb(pcb).header.sequence;
  if (qp.state == QpState::kSqd || !scheduler_.vcb_may_start(slot, sequence))
    return SendQueueCause::kOrder;
  if (rates_.holds(qp)) return SendQueueCause::kRate;
  if (qp.qos_class != session.qos_class) {
    if (!pcbs_.pass_on(pcb, qp.qos_class)) return SendQueueCause::kNoPcb;
    commands_.look_again(session);
  }
  if (!arbitrator_.kick(qp.sq.tvl, pcb)) return SendQueueCause::kKickListFull;
  commands_.prepare(qp, pcb);
  scheduler_.vcb_kicked(slot);
  qp.record.durable->posted_end = sequence + 1;
  return std::nullopt;
}

/// Accepts a complete command in a PCB of its own. Kicks it, or lets a doorbell take its place: if
/// it is out of turn (B3), a rate is used up or the kick list is full.
void CommandIntake::accept(Session& session, PcbId pcb) {
  const abi::CommandHeader& header = pcbs_.pcb(pcb).header;
  QueuePair* qp = find_owned(session, header.qpn);
  if (qp == nullptr || !scheduler_.is_open(schedule::QpSlot(qp->slot))) {
    drop(session, Qpn(header.qpn), header.sequence + 1);
    commands_.free(pcb, *session.tenant);
    return;
  }
  const auto obstacle = kick(session, *qp, pcb);
  if (!obstacle) return;
  const std::uint32_t end = header.sequence + 1;
  commands_.free(pcb, *session.tenant);
  session.count_send_queue_mode(*obstacle, level_of(*qp));
  ring(session, qp->qpn, end);
}

}  // namespace softhca::engine
