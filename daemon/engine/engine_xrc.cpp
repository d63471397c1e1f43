// XRC targets (InfiniBand specification, annex A14): each request names a shared receive queue of
// the target's domain. Its receives are drawn from that one, complete where that one says, and
// remote keys are checked against its protection domain. The queue may go between two packets.
#include <algorithm>

#include "daemon/engine/engine.hpp"

namespace softhca::engine {

/// Null: there is none that this target may use.
SharedReceiveQueue* Engine::find_xrc_queue(const QueuePair& qp, std::uint32_t number) const {
  const auto found = xrc_queues_.find(number);
  if (found == xrc_queues_.end()) return nullptr;
  SharedReceiveQueue& srq = *found->second;
  return srq.xrc_domain == qp.xrc_domain && !srq.failed ? &srq : nullptr;
}

Verdict Engine::choose_receive_queue(QueuePair& qp, std::uint32_t number) {
  SharedReceiveQueue* srq = find_xrc_queue(qp, number);
  if (srq == nullptr) return Verdict::kRemoteInvalidRequest;
  if (srq == qp.srq) return Verdict::kOk;
  // Left of a message that broke off: it cannot serve one for another queue.
  if (qp.receive_drawn) complete_receive(qp, {.verdict = Verdict::kFlushed});
  use_receive_queue(qp, srq);
  return Verdict::kOk;
}

/// What it holds of the queue before stays on its account there.
void Engine::use_receive_queue(QueuePair& qp, SharedReceiveQueue* srq) {
  if (qp.srq == srq) return;
  if (qp.srq != nullptr) qp.xrc_members.push_back({qp.srq, qp.member});
  qp.srq = srq;
  qp.member = {};
  const auto known = std::find_if(qp.xrc_members.begin(), qp.xrc_members.end(),
                                  [&](const XrcMember& m) { return m.srq == srq; });
  if (known == qp.xrc_members.end()) return;
  qp.member = known->member;
  qp.xrc_members.erase(known);
}

/// Null: it has no share of that queue.
const receive::Member* Engine::member_of(const QueuePair& qp, const SharedReceiveQueue& srq) {
  if (qp.srq == &srq) return &qp.member;
  for (const XrcMember& other : qp.xrc_members)
    if (other.srq == &srq) return &other.member;
  return nullptr;
}

/// The queue pair is going.
void Engine::leave_receive_queues(QueuePair& qp) {
  if (qp.srq == nullptr) return;
  if (qp.srq->provisioner) qp.srq->provisioner->leave(qp.member);
  for (XrcMember& other : qp.xrc_members)
    if (other.srq->provisioner) other.srq->provisioner->leave(other.member);
  if (qp.type != QpType::kXrcReceive) --qp.srq->users;
}

/// The queue is going. What a target has drawn of it is gone, too; the rest of its message is
/// refused.
void Engine::leave_xrc_targets(SharedReceiveQueue& srq) {
  xrc_queues_.erase(srq.number);
  charge_sweep(*srq.session);
  queue_pairs_.for_each([&](QueuePair& qp) {
    if (qp.type != QpType::kXrcReceive) return;
    std::erase_if(qp.xrc_members, [&](const XrcMember& m) { return m.srq == &srq; });
    if (qp.srq != &srq) return;
    qp.srq = nullptr;
    qp.member = {};
    qp.receive_drawn = false;
  });
}

/// Whose memory a peer's keys may name.
memory::PdId Engine::remote_pd(const QueuePair& qp) const {
  if (qp.type != QpType::kXrcReceive) return qp.pd;
  return qp.srq != nullptr ? qp.srq->pd : memory::PdId();
}

void Engine::share(QueuePair& qp, const QpHolder& holder) { qp.other_holders.push_back(holder); }

void Engine::unshare(QueuePair& qp, const QpHolder& holder) {
  async_events_.forget(*holder.session, holder.user_handle);
  if (holder == QpHolder{qp.session, qp.user_handle}) {
    const QpHolder heir = qp.other_holders.front();
    qp.other_holders.erase(qp.other_holders.begin());
    queue_pairs_.hand_over(qp, *heir.session);
    qp.user_handle = heir.user_handle;
    ready_.remove(qp.slot);
    qp.party = heir.session->party;
    leave_tvls(qp);
    join_tvls(qp);  // of the heir's level: that of who goes may be gone next
    make_ready(qp);
    return;
  }
  const auto found = std::find(qp.other_holders.begin(), qp.other_holders.end(), holder);
  if (found != qp.other_holders.end()) qp.other_holders.erase(found);
}

}  // namespace softhca::engine
