#include "daemon/engine/qp_stall.hpp"

namespace softhca::engine {
namespace {

// Between two tries of stalled queue pairs of a tenant: some sixteen times what one takes, a look
// at a local peer that no cache holds or a packet with the answer to it.
constexpr Duration kBetweenTries = std::chrono::microseconds(16);

}  // namespace

void QpStall::give_back(QueuePair& qp, bool started) {
  const schedule::QpSlot slot(qp.slot);
  std::optional<std::uint32_t> first;
  const auto back = [&](PcbId pcb) {
    if (!first) first = pcbs_.pcb(pcb).header.sequence;
    commands_.give_back(pcb);
  };
  const auto back_started = [&](PcbId pcb) {
    back(pcb);
    qp.tenant->counters.commands_given_back.add();
  };
  const auto take_back = [&](PcbId pcb) {
    --qp.sq.started;
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
  qp.tenant->counters.stalled_queue_pairs.add();
  give_back(qp, true);
  scheduler_.block(schedule::QpSlot(qp.slot));
}

void QpStall::resume(QueuePair& qp) {
  end(qp);
  qp.sq.probing = true;
  scheduler_.unblock(schedule::QpSlot(qp.slot));
}

void QpStall::forget(QueuePair& qp) {
  if (qp.sq.stalled) end(qp);
  qp.sq.probing = false;
}

void QpStall::end(QueuePair& qp) {
  qp.sq.stalled = false;
  qp.tenant->counters.stalled_queue_pairs.subtract();
}

Duration QpStall::least_wait(const QueuePair& qp) {
  return qp.tenant->counters.stalled_queue_pairs.value() * kBetweenTries;
}

}  // namespace softhca::engine
