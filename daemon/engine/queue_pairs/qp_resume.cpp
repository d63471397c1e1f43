// SPDX-License-Identifier: Apache-2.0

// A queue pair of an earlier engine goes on (qp_durable.hpp). Its commands that are not complete
// are in its send queue, as those of a stalled queue pair (qp_stall.hpp). They are fetched again
// and have the PSNs that they had. What the peer has of them is a duplicate to it.
#include <algorithm>

#include "daemon/engine/queue_pairs/local_link.hpp"
#include "daemon/engine/queue_pairs/qp_lifecycle.hpp"

namespace softhca::engine {
namespace {

// Packets of an unreliable connection that may have left after its position was stored. A gap costs
// nothing, but a PSN that the peer has seen would be dropped as a late one.
constexpr std::uint32_t kMostUnrecorded = 256;

/// Commits the completions that the earlier engine was about to push, if they are in their queues.
void settle_pushes(const QueuePair& qp, QpDurable& left, ReceiveQueues& receives) {
  shm::Completion completion{.qpn = qp.qpn.value};
  if ((left.sent_pushes & kPushes) != 0 && qp.sq.cq != nullptr) {
    completion.index = left.sent_index;
    left.settle_sent(qp.sq.cq->ring.has(left.sent_counter, completion));
  }
  if ((left.taken_pushes & kPushes) == 0) return;
  const SharedReceiveQueue* const xrc =
      qp.type == QpType::kXrcReceive ? receives.find_xrc(qp, left.drawn_srq) : nullptr;
  const CompletionQueue* const cq = xrc != nullptr ? xrc->cq : qp.rq.cq;
  completion.index = left.taken_index;
  completion.is_receive = abi::kCompletionOfReceive;
  left.settle_taken(cq != nullptr && cq->ring.has(left.taken_counter, completion));
}

}  // namespace

bool QpLifecycle::resume(QueuePair& qp) {
  if (!queue_pairs_.is_left(qp.qpn)) return false;
  QpDurable& left = parts_.state.queue_pair(qp.slot);
  const auto state = static_cast<QpState>(left.state);
  settle_pushes(qp, left, parts_.receives);
  qp.sq.first_sequence = qp.sq.done = left.done();
  // Until take_over() nothing changes the record.
  enter_former(qp, state);
  queue_pairs_.take_over(qp);
  qp.sq.not_begun = left.not_begun;
  qp.sq.sqd_notify = (left.events & QpDurable::kWantsDrained) != 0;
  qp.error.last_wqe_raised = (left.events & QpDurable::kLastWqeRaised) != 0;
  qp.error.cause = left.cause < static_cast<std::uint8_t>(QpFailure::kCount)
                       ? static_cast<QpFailure>(left.cause)
                       : QpFailure::kFatal;
  qp.sq.resumed = qp.rq.resumed = true;
  qp.sq.skips_first = !is_reliable(qp.type) && left.attempted == qp.sq.done + 1;
  qp.connection.established_raised = qp.connection.peer_seen =
      left.taken_position(qp.rc.mtu).established;
  if (qp.receives()) qp.rq.ring.resume(left.received);
  if (left.drawn != 0 && !redraw(qp)) qp.record.durable->drawn = 0;
  resume_transport(qp);
  if (qp.sends()) resume_send_queue(qp);
  if (state == QpState::kError) flush(qp);
  if (state == QpState::kSqd) execution_.report_drained(qp);
  if (left.is_failing != 0 && state != QpState::kError) parts_.cpu.fail_later(qp, qp.error.cause);
  if (state != QpState::kReset) parts_.cpu.make_ready(qp);
  return true;
}

/// Takes the queue pair to the state that it had.
void QpLifecycle::enter_former(QueuePair& qp, QpState state) {
  switch (state) {
    case QpState::kReset:
    case QpState::kSqe:
      return;
    case QpState::kInit:
      return enter_init(qp);
    case QpState::kError:
      if (qp.sends()) open_send_queue(qp);
      return set_state(qp, state);
    case QpState::kRtr:
    case QpState::kRts:
    case QpState::kSqd:
      break;
  }
  enter_init(qp);
  enter_ready_to_receive(qp, Psn());
  if (state == QpState::kRtr) return;
  enter_ready_to_send(qp, Psn());
  if (state == QpState::kSqd) set_state(qp, state);
}

/// Takes up the receive of a shared receive queue that was drawn. Returns false if there is none:
/// the queue is gone, or the record is wrong.
bool QpLifecycle::redraw(QueuePair& qp) {
  shm::ReceiveWork& work = *qp.rq.work;
  if (work.count > abi::kMaxSge) return false;
  if (qp.type == QpType::kXrcReceive) parts_.receives.choose(qp, qp.record.durable->drawn_srq);
  if (qp.srq == nullptr) return false;
  work.bytes = 0;
  for (std::uint32_t i = 0; i < work.count; ++i) work.bytes += work.entries[i].length;
  const std::uint32_t after = qp.record.durable->drawn_counter + 1;
  if (ring_distance(after, qp.srq->ring.taken()) > 0) {
    qp.srq->ring.resume(after);
    qp.srq->ring.publish_taken();
  }
  qp.rq.drawn = true;
  return true;
}

void QpLifecycle::resume_transport(QueuePair& qp) {
  const transport::SentPosition sent = qp.record.durable->sent_position();
  transport::TakenPosition taken = qp.record.durable->taken_position(qp.rc.mtu);
  // The first packet of a send chooses the queue. Only a wrong record has none.
  if (qp.type == QpType::kXrcReceive && qp.srq == nullptr &&
      taken.message.kind == transport::PartOfMessage::Kind::kSend)
    taken.message = {};
  if (auto* const within = std::get_if<transport::Local>(&qp.transport)) {
    const transport::WirePosition former{.send = sent.psn,
                                         .send_sequence = sent.sequence,
                                         .receive = taken.expected,
                                         .receive_sequence = taken.sequence};
    return within->reset(&former);
  }
  QpEnvironment env(parts_, qp);
  const transport::ReplayPlaces replays = parts_.state.replays(qp.slot);
  if (auto* const rc = std::get_if<transport::Rc>(&qp.transport)) {
    rc->resume_sender(sent);
    rc->resume_receiver(taken, replays, env);
  } else if (auto* const uc = std::get_if<transport::Uc>(&qp.transport)) {
    uc->resume_sender({sent.psn + kMostUnrecorded});
    uc->resume_receiver(taken, env);
  } else {
    std::get<transport::Ud>(qp.transport).reset_sender(sent.psn);
  }
}

/// Announces the commands that the earlier engine had announced and not completed.
void QpLifecycle::resume_send_queue(QueuePair& qp) {
  const schedule::QpSlot slot(qp.slot);
  const std::uint32_t count = qp.record.durable->posted_end - qp.sq.done;
  if (!scheduler_.is_open(slot) || count == 0) return;
  scheduler_.ring(slot, qp.sq.done + std::min(count, qp.sq.ring.entries()));
}

void QpLifecycle::end_resuming() {
  queue_pairs_.drop_left();
  queue_pairs_.for_each([this](QueuePair& qp) {
    if (qp.is_local() && qp.state != QpState::kError) QpLocalLink(parts_, qp).resume();
  });
}

}  // namespace softhca::engine
