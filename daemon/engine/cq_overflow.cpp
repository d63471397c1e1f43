#include "daemon/engine/cq_overflow.hpp"

#include <utility>

#include "daemon/engine/costs.hpp"

namespace softhca::engine {

void fail_users_of_overflowed(CompletionEvents& completion_events, ReceiveQueues& receive_queues,
                              CpuScheduler& cpu) {
  const auto concerns = [](const CompletionQueue* cq) { return cq != nullptr && cq->users_go_on; };
  completion_events.for_each_overflowed([&](CompletionQueue& overflowed) {
    Session& session = *overflowed.session;
    if (std::exchange(session.overflows, true)) return;
    cpu.charge(session, receive_queues.size() * kSweepCost);
    session.queue_pairs.for_each([&](QueuePair& qp) {
      cpu.charge(session, kSweepCost);
      if (concerns(qp.sq.cq) || concerns(qp.rq.cq))
        cpu.fail_later(qp, QpFailure::kCompletionQueueOverflow);
    });
  });
  receive_queues.fail_users_of_overflowed();
  while (CompletionQueue* cq = completion_events.take_overflowed())
    cq->users_go_on = cq->session->overflows = false;
}

}  // namespace softhca::engine
