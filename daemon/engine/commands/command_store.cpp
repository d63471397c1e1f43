// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/commands/command_store.hpp"

namespace softhca::engine {
namespace {

/// Reports to the minimum rates that the queue pair has no more commands.
void end_commands(CpuScheduler& cpu, const QueuePair& qp) {
  const schedule::RunQueue& order = cpu.order();
  cpu.minimums().ended(qp.qos_class, order.has_work(qp.qos_class), order.has_work(qp.tenant->id));
}

}  // namespace

void CommandStore::return_execution(PcbId pcb) {
  CommandContext& command = contexts_[pcb.value];
  if (!command.execution_held) return;
  command.execution_held = false;
  arbitrator_.return_execution(command.tvl);
  if (!is_dedicated(pcb)) return;
  command.dedicated_waits = true;
  const QosClassId qos_class = owner(pcb).qos_class;
  dedicated_[qos_class.value].watch.waits();
  watch(qos_class);
}

void CommandStore::release(PcbId pcb) {
  CommandContext& command = contexts_[pcb.value];
  QueuePair& qp = owner(pcb);
  if (command.execution_held) arbitrator_.return_execution(command.tvl);
  if (command.completion_held) arbitrator_.return_completion(command.tvl);
  const bool dedicated = is_dedicated(pcb);
  const bool waited = command.dedicated_waits;
  const Duration held = clock_.now - command.kicked_at;
  command = CommandContext{};
  free(pcb, *qp.tenant);
  if (--qp.sq.commands == 0) end_commands(cpu_, qp);
  const schedule::QpSlot slot(qp.slot);
  if (!ahead_.waits(slot)) scheduler_.unblock(slot);
  if (dedicated) released_dedicated(qp, waited, held);
}

/// `waited`: it waited only for the peer. `held`: how long a command was in it.
void CommandStore::released_dedicated(QueuePair& qp, bool waited, Duration held) {
  --qp.sq.dedicated;
  dedicated_[qp.qos_class.value].watch.released(waited, held);
  watch(qp.qos_class);
  if (short_) look_again();
}

void CommandStore::look_again() {
  short_ = false;
  for (std::uint16_t i = 0; i < dedicated_.size(); ++i) scheduler_.unblock_class(QosClassId(i));
}

void CommandStore::release_all(QueuePair& qp) {
  while (!qp.sq.held.empty()) release(pop_held(qp));
  std::visit([&](auto& transport) { transport.abandon([&](PcbId pcb) { release(pcb); }); },
             qp.transport);
  while (!qp.sq.kicked.empty()) release(pop_kicked(qp));
  if (qp.sq.commands != 0) cpu_.charge(qp, contexts_.size() * sizeof(CommandContext));
  for (std::uint32_t i = 0; i < contexts_.size() && qp.sq.commands != 0; ++i)
    if (contexts_[i].slot == qp.slot) release(PcbId(i));
  ahead_.forget(schedule::QpSlot(qp.slot));
  rates_.leave(qp);
  samples_.forget(qp);
  qp.sq.started = 0;
}

void CommandStore::took_dedicated(QueuePair& qp) {
  ++qp.sq.dedicated;
  dedicated_[qp.qos_class.value].watch.taken();
  watch(qp.qos_class);
}

/// Bounds the doorbells that a class has in the scheduler while its dedicated PCBs are jammed and
/// it has no ordinary one. Jammed: hardly one is free, and all others wait for peers. The bound is
/// the number of free dedicated PCBs: enough to go on with, and no doorbell that would only wait.
void CommandStore::watch(QosClassId qos_class) {
  DedicatedPcbs& row = dedicated_[qos_class.value];
  const std::uint32_t limit = pcbs_.dedicated_limit(qos_class);
  const bool jammed = row.watch.stuck(scheduler_.config(), limit);
  if (jammed != row.jammed.linked())
    jammed ? jammed_.push_back(dedicated_.data(), qos_class.value)
           : jammed_.remove(dedicated_.data(), qos_class.value);
  scheduler_.set_bound(qos_class, jammed && !pcbs_.has_free(qos_class)
                                      ? row.watch.free(limit)
                                      : schedule::SendQueueScheduler::kNoBound);
}

void CommandStore::wait_for_room(QueuePair& qp, TvlId tvl) {
  const schedule::QpSlot slot(qp.slot);
  scheduler_.block(slot);
  ahead_.wait(slot, tvl, qp.qos_class, cpu_.minimums().queue_pair_behind(qp.slot));
}

void CommandStore::end_waits() {
  ahead_.wake([this](schedule::QpSlot slot) {
    scheduler_.unblock(slot);
    return scheduler_.next_turn(slot);
  });
}

}  // namespace softhca::engine
