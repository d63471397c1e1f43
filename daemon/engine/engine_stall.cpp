// Queue pairs that cannot go on, since their peer has no receive or is not there, or their program
// drains them: their commands go back to the send queue and are fetched again when they may go on
// (A5's way). What they held, PCBs, credits and room in kick lists, is for others meanwhile:
// however many queue pairs wait for their peers, no other one waits for them.
//
// Every command stands in its send queue until it has completed, so nothing is lost; and only those
// go back of which the peer has executed nothing, so nothing happens twice.
#include "daemon/engine/engine.hpp"

namespace softhca::engine {

/// Gives back the commands that are not handed to the transport and, if `started`, those that are.
/// REQUIRES for these: the peer has executed nothing of them.
void Engine::give_back(QueuePair& qp, bool started) {
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
  // Its program may change it before it comes again, so it pays for what it is then.
  const auto take_back = [&](PcbId pcb) {
    --qp.started;
    qp.tenant->rate.refund(commands_[pcb].length);
    back_started(pcb);
  };
  if (started) std::visit([&](auto& transport) { transport.withdraw(take_back); }, qp.transport);
  while (!qp.held.empty()) back_started(commands_.pop_held(qp));
  while (!qp.kicked.empty()) {
    const PcbId pcb = commands_.pop_kicked(qp);
    scheduler_.started(slot);
    back(pcb);
  }
  commands_.room_in_kick_list(qp);
  if (first) scheduler_.rewind(slot, *first);
}

/// Its oldest command waits for its peer, and all others for that one.
void Engine::stall(QueuePair& qp) {
  qp.stalled = true;
  give_back(qp, true);
  scheduler_.block(schedule::QpSlot(qp.slot));
}

/// Goes on with one command at a time until one has succeeded.
void Engine::resume(QueuePair& qp) {
  qp.stalled = false;
  qp.probing = true;
  scheduler_.unblock(schedule::QpSlot(qp.slot));
}

}  // namespace softhca::engine
