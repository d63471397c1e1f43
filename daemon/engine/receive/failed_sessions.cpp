// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/receive/failed_sessions.hpp"

#include "daemon/engine/records/costs.hpp"

namespace softhca::engine {
namespace {

bool has_failed(const CompletionQueue* cq) { return cq != nullptr && cq->failed; }

void fail_if_it_must(CpuScheduler& cpu, AsyncEvents& async_events, QueuePair& qp) {
  if (qp.error.pending || qp.state == QpState::kError) return;
  // An XRC target does not depend on the memory of a process.
  if (qp.session->failed && qp.sends() && qp.state != QpState::kReset) {
    async_events.raise(qp, EventType::kQpFatal);
    cpu.fail_later(qp, QpFailure::kSessionMemory);
  } else if (has_failed(qp.sq.cq) || has_failed(qp.rq.cq)) {
    cpu.fail_later(qp, QpFailure::kCompletionQueueOverflow);
  }
}

/// Checks one object of the session. False: all of its objects have been checked.
bool look_at_one(CpuScheduler& cpu, AsyncEvents& async_events, ReceiveQueues& receive_queues,
                 Session& session) {
  // Objects that were checked, or came meanwhile, stand behind the others.
  if (session.unseen.queue_pairs != 0 && !session.queue_pairs.empty()) {
    --session.unseen.queue_pairs;
    QueuePair& qp = *session.queue_pairs.front();
    session.queue_pairs.rotate();
    fail_if_it_must(cpu, async_events, qp);
  } else if (session.unseen.receive_queues != 0 && !session.receive_queues.empty()) {
    --session.unseen.receive_queues;
    SharedReceiveQueue& srq = *session.receive_queues.front();
    session.receive_queues.rotate();
    if (has_failed(srq.cq)) receive_queues.fail(srq);
  } else {
    return false;
  }
  cpu.charge(session, kSweepCost);
  return true;
}

}  // namespace

void look_through(CpuScheduler& cpu, Session& session) {
  session.unseen.queue_pairs = session.queue_pair_count;
  session.unseen.receive_queues = session.receive_queue_count;
  if (!session.of_failing.linked) cpu.failing.push_back(session);
}

std::size_t fail_some(CpuScheduler& cpu, AsyncEvents& async_events, ReceiveQueues& receive_queues) {
  std::size_t looks = 0;
  for (; looks < kFailedPerStep && !cpu.failing.empty(); ++looks) {
    Session& session = *cpu.failing.front();
    cpu.failing.rotate();
    if (!look_at_one(cpu, async_events, receive_queues, session)) cpu.failing.remove(session);
  }
  return looks;
}

}  // namespace softhca::engine
