// SPDX-License-Identifier: Apache-2.0

// Shared receive queues that run low. One check serves the limit event that the program armed, the
// operator's watermark and the report of runaways. Each report names the queue pairs that drew
// most.
#include <algorithm>

#include "daemon/engine/receive/receive_queues.hpp"

namespace softhca::engine {

/// Sets the watermark of the queue. If the operator sets none, the level at which a runaway is
/// reported is the watermark.
void ReceiveQueues::set_watermark(SharedReceiveQueue& srq) {
  const SrqPolicy& policy = srq.session->tenant->receive_policy;
  if (policy.watermark != 0) return srq.level.set_watermark(policy.watermark, false);
  srq.level.set_watermark(srq.ring.entries() / receive::kRunawayPart, true);
}

/// Restarts the level check. The limit that the program armed stays armed.
void ReceiveQueues::restart_level(SharedReceiveQueue& srq) {
  const std::uint32_t armed = srq.level.armed();
  srq.level = receive::LowWatermark(srq.ring.entries());
  srq.level.arm(armed);
  set_watermark(srq);
}

void ReceiveQueues::note_draw(QueuePair& qp, SharedReceiveQueue& srq, shm::Take take) {
  if (take == shm::Take::kTaken) {
    srq.drawers.add(qp.qpn);
    if (srq.waiting == 0) return;
    srq.waiting = 0;
    ++srq.droughts;
  } else if (srq.ring.known() == 0) {
    ++srq.empty;
    if (qp.rq.drought == srq.droughts) return;
    qp.rq.drought = srq.droughts;
    srq.most_waiting = std::max(srq.most_waiting, ++srq.waiting);
  }
}

void ReceiveQueues::set_limit(SharedReceiveQueue& srq, std::uint32_t limit) {
  srq.level.arm(limit);
  srq.ring.publish_limit(limit);
  look_at_level(srq, 0);
}

void ReceiveQueues::look_at_level(SharedReceiveQueue& srq, std::uint32_t drawn) {
  // A hostile ring has no receives; the next draw fails the queue.
  const std::uint32_t available = srq.ring.available().value_or(0);
  const auto crossed = srq.level.look(available, drawn);
  Tenant& tenant = *srq.session->tenant;
  if (crossed.limit) {
    async_events_.raise(*srq.session, srq.user_handle, EventType::kSrqLimitReached);
    srq.ring.publish_limit(0);
  }
  if (crossed.watermark && tenant.receive_policy.watermark != 0) {
    tenant.counters.receive.watermarks.add();
    return tell_low(srq, available, true);
  }
  if (!crossed.limit && !crossed.watermark) return;
  // The operator has not asked for these reports. They must not fill the log, however many queues a
  // tenant has.
  if (clock_.now < tenant.next_receive_report) return;
  if (crossed.limit) {
    tenant.next_receive_report = clock_.now + receive::kRunawayPause;
    tell_low(srq, available, false);
  } else {
    tell_runaway(srq);
  }
}

/// Reports that the queue is low. `of_operator`: it reached the operator's watermark, else the
/// program's limit.
void ReceiveQueues::tell_low(SharedReceiveQueue& srq, std::uint32_t available, bool of_operator) {
  const auto kind =
      of_operator ? DaemonEventKind::kSrqWatermark : DaemonEventKind::kSrqLimitReached;
  const std::uint32_t lacking = srq.ring.entries() - available;
  if (!srq.provisioner) {
    report(kind, srq, Qpn(), available, lacking);
    return tell_drawers(srq);
  }
  const auto alarm = srq.provisioner->alarm(clock_.now, of_operator);
  if (!alarm) return;
  report(kind, srq, Qpn(), available, lacking);
  act_on(*alarm, srq);
}

void ReceiveQueues::act_on(const receive::Alarm& alarm, SharedReceiveQueue& srq) {
  for (std::size_t i = 0; i < alarm.count; ++i) {
    const receive::Offender& who = alarm.offenders[i];
    report(DaemonEventKind::kSrqOffender, srq, who.qpn, who.held, who.limit);
  }
  for (const auto& victim : {alarm.drop, alarm.quarantine}) {
    QueuePair* qp = victim ? queue_pairs_.find(*victim) : nullptr;
    const receive::Member* member = qp != nullptr ? member_of(*qp, srq) : nullptr;
    if (member == nullptr) continue;
    if (victim == alarm.drop)
      drop_connection(*qp, srq, *member);
    else
      report(DaemonEventKind::kSrqQuarantined, srq, qp->qpn, srq.provisioner->held_by(*member));
  }
}

void ReceiveQueues::tell_drawers(SharedReceiveQueue& srq) {
  for (const receive::TopDrawers::Drawer& who : srq.drawers.ranked())
    if (who.count != 0)
      report(DaemonEventKind::kSrqDrawer, srq, who.qpn, who.count, srq.drawers.total());
}

/// Reports the queue pair that drew most. A queue with one user has no runaway: if it runs low, no
/// other queue pair is affected.
void ReceiveQueues::tell_runaway(SharedReceiveQueue& srq) {
  const receive::TopDrawers::Drawer* who = srq.drawers.majority();
  if (who == nullptr || (srq.users <= 1 && srq.xrc_domain == XrcDomainId())) return;
  Tenant& tenant = *srq.session->tenant;
  tenant.next_receive_report = clock_.now + receive::kRunawayPause;
  tenant.counters.receive.runaways.add();
  report(DaemonEventKind::kSrqRunaway, srq, who->qpn, who->certain(), srq.drawers.total());
}

void ReceiveQueues::report(DaemonEventKind kind, const SharedReceiveQueue& srq, Qpn qpn,
                           std::uint32_t amount, std::uint32_t of) {
  log_.add({.kind = kind,
            .tenant = srq.session->tenant->id,
            .process = srq.session->process,
            .srq = srq.number,
            .qpn = qpn,
            .amount = amount,
            .of = of});
}

}  // namespace softhca::engine
