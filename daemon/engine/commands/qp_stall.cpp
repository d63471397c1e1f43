// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/commands/qp_stall.hpp"

#include <algorithm>

namespace softhca::engine {
namespace {

// Average time between two attempts of a tenant's stalled queue pairs. It is about sixteen times
// the cost of one attempt: a check of a local peer that is in no cache, or a packet and its answer.
constexpr Duration kBetweenTries = std::chrono::microseconds(16);

// A shorter wait costs other queue pairs less than it costs all to give commands back and fetch
// them again.
constexpr Duration kShortWait = std::chrono::microseconds(50);

transport::SendProgress progress_of(const QueuePair& qp) {
  return std::visit([](const auto& transport) { return transport.progress(); }, qp.transport);
}

}  // namespace

bool QpStall::give_back(QueuePair& qp, Started started) {
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
  std::visit(
      [&](auto& transport) {
        if (started == Started::kAll) transport.withdraw(take_back);
        if (started == Started::kUnsent) transport.withdraw_unsent(take_back);
      },
      qp.transport);
  while (!qp.sq.held.empty()) back_started(commands_.pop_held(qp));
  while (!qp.sq.kicked.empty()) {
    const PcbId pcb = commands_.pop_kicked(qp);
    scheduler_.started(slot);
    back(pcb);
  }
  if (first) scheduler_.rewind(slot, *first);
  return first.has_value();
}

void QpStall::stall(QueuePair& qp) {
  end_aside(qp);
  qp.sq.stalled = true;
  qp.tenant->counters.stalled_queue_pairs.add();
  give_back(qp, Started::kAll);
  scheduler_.block(schedule::QpSlot(qp.slot));
}

void QpStall::resume(QueuePair& qp) {
  end(qp);
  qp.sq.probing = true;
  scheduler_.unblock(schedule::QpSlot(qp.slot));
}

void QpStall::forget(QueuePair& qp) {
  if (qp.sq.stalled) end(qp);
  end_aside(qp);
  qp.sq.probing = qp.sq.sparing = false;
}

void QpStall::end(QueuePair& qp) {
  qp.sq.stalled = false;
  qp.tenant->counters.stalled_queue_pairs.subtract();
}

Duration QpStall::least_wait(const QueuePair& qp) {
  const TenantCounters& counters = qp.tenant->counters;
  return (counters.stalled_queue_pairs.value() + counters.set_aside_queue_pairs.value()) *
         kBetweenTries;
}

// --- suspended

void QpStall::watch(QueuePair& qp, Time now) {
  if (qp.sq.stalled) return;
  const schedule::QpSlot slot(qp.slot);
  const transport::SendProgress progress = progress_of(qp);
  if (qp.sq.aside != SetAside::kNo) {
    if (!may_go_on(qp, progress, now)) return;
    end_aside(qp);
    qp.sq.sparing = true;
    return scheduler_.unblock(slot);
  }
  const SetAside wait = wait_of(qp, progress, now);
  if (wait == SetAside::kNo || progress.moved) qp.sq.look_at = kNever;
  if (wait != SetAside::kNo) {
    if (qp.sq.look_at == kNever) qp.sq.look_at = now + kShortWait;
    if (wait == SetAside::kPace || now >= qp.sq.look_at)
      set_aside(qp, wait, progress.half_sent, now);
  }
  // The reason that kept it from fetching may be gone.
  if (qp.sq.sparing && !commands_.ahead().waits(slot) && has_sent_all(qp)) scheduler_.unblock(slot);
}

/// Returns what its next command waits for.
SetAside QpStall::wait_of(const QueuePair& qp, const transport::SendProgress& progress, Time now) {
  if (!qp.sq.held.empty()) return SetAside::kHeld;
  if (progress.next == transport::SendObstacle::kPace ||
      progress.next == transport::SendObstacle::kOrder ||
      progress.next == transport::SendObstacle::kReceiver)
    return SetAside::kTransport;
  const Time wake_at = qp.connection.flow.wake_at();
  if (wake_at != kNever) return wake_at - now >= kShortWait ? SetAside::kPace : SetAside::kNo;
  const bool unresolved = qp.sq.waits.port == WaitCause::kNeighbour && qp.sq.waits.refused == now;
  return unresolved ? SetAside::kNeighbour : SetAside::kNo;
}

bool QpStall::may_go_on(const QueuePair& qp, const transport::SendProgress& progress, Time now) {
  switch (qp.sq.aside) {
    case SetAside::kNo:
      break;
    case SetAside::kTransport:
      return progress.next == transport::SendObstacle::kNone;
    case SetAside::kHeld:
      return qp.sq.started == 0;
    case SetAside::kPace:
    case SetAside::kNeighbour:
      return now >= qp.sq.look_at;
  }
  return true;
}

void QpStall::set_aside(QueuePair& qp, SetAside wait, PcbId half_sent, Time now) {
  qp.sq.look_at = kNever;
  // A command that is sent in part keeps its PCB, but others may use its credit in the meantime.
  if (half_sent != transport::SendQueue::kEnd) commands_.return_execution(half_sent);
  if (!give_back(qp, wait == SetAside::kHeld ? Started::kNone : Started::kUnsent)) return;
  qp.sq.aside = wait;
  qp.tenant->counters.set_aside_queue_pairs.add();
  if (wait == SetAside::kPace) qp.sq.look_at = qp.connection.flow.wake_at();
  if (wait == SetAside::kNeighbour) qp.sq.look_at = now + std::max(kShortWait, least_wait(qp));
  scheduler_.block(schedule::QpSlot(qp.slot));
}

void QpStall::end_aside(QueuePair& qp) {
  qp.sq.look_at = kNever;
  if (qp.sq.aside == SetAside::kNo) return;
  qp.sq.aside = SetAside::kNo;
  qp.tenant->counters.set_aside_queue_pairs.subtract();
}

bool QpStall::waits_for_peer(const QueuePair& qp) {
  const transport::SendObstacle obstacle = progress_of(qp).obstacle;
  return obstacle == transport::SendObstacle::kReceiver ||
         obstacle == transport::SendObstacle::kPeer;
}

bool QpStall::has_sent_all(const QueuePair& qp) {
  return qp.sq.kicked.empty() && qp.sq.held.empty() && progress_of(qp).unsent == 0;
}

}  // namespace softhca::engine
