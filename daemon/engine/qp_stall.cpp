#include "daemon/engine/qp_stall.hpp"

namespace softhca::engine {

void QpStall::give_back(QueuePair& qp, bool started) {
  const schedule::QpSlot slot(qp.slot);
  std::optional<std::uint32_t> first;
  const auto back = [&](PcbId pcb) {
    if (!first) first = pcbs_.pcb(pcb).header.sequence;
    commands_.release(pcb);
  };
  const auto back_started = [&](PcbId pcb) {
    back(pcb);
    qp.tenant->counters.commands_given_back.add();
  };
  // The program may change a command before it comes again, so it pays for what the command is
  // then.
  const auto take_back = [&](PcbId pcb) {
    --qp.sq.started;
    qp.tenant->rate.refund(commands_[pcb].length);
    back_started(pcb);
  };
  if (started) std::visit([&](auto& transport) { transport.withdraw(take_back); }, qp.transport);
  while (!qp.sq.held.empty()) back_started(commands_.pop_held(qp));
  while (!qp.sq.kicked.empty()) {
    const PcbId pcb = commands_.pop_kicked(qp);
    scheduler_.started(slot);
    back(pcb);
  }
  if (first) scheduler_.rewind(slot, *first);
}

void QpStall::stall(QueuePair& qp) {
  qp.sq.stalled = true;
  give_back(qp, true);
  scheduler_.block(schedule::QpSlot(qp.slot));
}

void QpStall::resume(QueuePair& qp) {
  qp.sq.stalled = false;
  qp.sq.probing = true;
  scheduler_.unblock(schedule::QpSlot(qp.slot));
}

}  // namespace softhca::engine
