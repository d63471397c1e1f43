// SPDX-License-Identifier: Apache-2.0

// XRC targets: a receive is drawn from the queue that a request names and completes on that queue's
// completion queue. Remote keys are checked against the queue's protection domain.
#include <algorithm>

#include "daemon/engine/receive/receive_queues.hpp"
#include "daemon/engine/records/costs.hpp"

namespace softhca::engine {
namespace {

constexpr std::size_t kLooksAtOnce = 1024;  // 100 us if none of them is in the cache

}  // namespace

SharedReceiveQueue* ReceiveQueues::find_xrc(const QueuePair& qp, std::uint32_t number) const {
  const auto found = xrc_.find(number);
  if (found == xrc_.end()) return nullptr;
  SharedReceiveQueue& srq = *found->second;
  return srq.xrc_domain == qp.xrc_domain && !srq.failed ? &srq : nullptr;
}

Verdict ReceiveQueues::choose(QueuePair& qp, std::uint32_t number) {
  SharedReceiveQueue* srq = find_xrc(qp, number);
  if (srq == nullptr) return Verdict::kRemoteInvalidRequest;
  if (srq == qp.srq) return Verdict::kOk;
  // A receive left from an incomplete message cannot serve a message for another queue.
  if (qp.rq.drawn) complete(qp, {.verdict = Verdict::kFlushed});
  use(qp, srq);
  return Verdict::kOk;
}

/// Switches the target to a queue. Receives of the former queue stay on the target's account there,
/// if it has one.
void ReceiveQueues::use(QueuePair& qp, SharedReceiveQueue* srq) {
  if (qp.srq == srq) return;
  if (qp.srq != nullptr && qp.rq.member.is_known())
    qp.rq.xrc_members.push_back({qp.srq, qp.rq.member});
  qp.srq = srq;
  qp.rq.member = {};
  const auto known = std::find_if(qp.rq.xrc_members.begin(), qp.rq.xrc_members.end(),
                                  [&](const XrcMember& m) { return m.srq == srq; });
  if (known == qp.rq.xrc_members.end()) return;
  qp.rq.member = known->member;
  qp.rq.xrc_members.erase(known);
}

/// Returns the share of the target in the queue; null if it has none.
receive::Member* ReceiveQueues::member_of(QueuePair& qp, const SharedReceiveQueue& srq) {
  if (qp.srq == &srq) return &qp.rq.member;
  for (XrcMember& other : qp.rq.xrc_members)
    if (other.srq == &srq) return &other.member;
  return nullptr;
}

void ReceiveQueues::leave(QueuePair& qp) {
  if (qp.srq == nullptr) return;
  if (qp.srq->provisioner) qp.srq->provisioner->leave(qp.rq.member);
  for (XrcMember& other : qp.rq.xrc_members)
    if (other.srq->provisioner) other.srq->provisioner->leave(other.member);
  if (qp.type != QpType::kXrcReceive) --qp.srq->users;
}

void ReceiveQueues::retire(SharedReceiveQueue& srq) {
  srq.retired = true;
  xrc_.erase(srq.number);
}

bool ReceiveQueues::drop_retired(const Session& payer, std::uint32_t& slot) {
  const auto is_retired = [](const XrcMember& member) { return member.srq->retired; };
  std::size_t looks = 0;
  for (; slot < queue_pairs_.slots() && looks < kLooksAtOnce; ++slot, ++looks) {
    QueuePair* const qp = queue_pairs_.at(slot);
    if (qp == nullptr || qp->type != QpType::kXrcReceive) continue;
    looks += qp->rq.xrc_members.size();
    std::erase_if(qp->rq.xrc_members, is_retired);
    if (qp->srq == nullptr || !qp->srq->retired) continue;
    qp->srq = nullptr;
    qp->rq.member = {};
    qp->rq.drawn = false;
    qp->record.durable->drawn = 0;
  }
  cpu_.charge(payer, looks * kSweepCost);
  return slot == queue_pairs_.slots();
}

}  // namespace softhca::engine
