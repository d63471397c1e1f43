// State changes of queue pairs: what happens to commands and receives under way.
#include <algorithm>

#include "daemon/engine/costs.hpp"
#include "daemon/engine/engine.hpp"

namespace softhca::engine {
namespace {

constexpr std::uint32_t kFlushedPerTurn = 64;

// In the error state receives may still be posted, and nobody rings for them: they are looked for,
// the less often the longer none came.
constexpr Duration kFirstFlushInterval = std::chrono::milliseconds(1);
constexpr Duration kLastFlushInterval = std::chrono::milliseconds(256);
// Long waits end together, at multiples of this, so that an engine with many such queue pairs and
// nothing else to do sleeps in between.
constexpr Duration kFlushGrid = std::chrono::milliseconds(8);

Time next_flush(Time now, Duration interval) {
  const Time due = now + interval;
  if (interval <= kFlushGrid) return due;
  return due + (kFlushGrid - due.time_since_epoch() % kFlushGrid);
}

}  // namespace

/// Takes over what modify_qp changed in qp.rc, qp.qkey and the like.
void Engine::apply_attributes(QueuePair& qp) {
  qp.route.invalidate();
  if (qp.type != QpType::kUd) {
    qp.route.reacts = true;
    // A new path may lead in or out of this daemon; what is under way stays on its own.
    if (qp.started == 0) qp.local = addresses_.is_local(qp.route.path.destination);
    qp.route.udp_source_port = wire::source_port(qp.route.path.flow_label, qp.qpn, qp.destination);
  }
  qp.rc.xrc = is_xrc(qp.type);
  qp.requester.configure(qp.rc);
  // Between queue pairs of one daemon nothing is repeated, so nothing is remembered.
  transport::RcAttributes rc = qp.rc;
  if (!is_responder(qp.type) || qp.local) rc.max_dest_rd_atomic = 0;
  qp.responder.configure(rc, replays_);
  const transport::UcAttributes uc{
      .mtu = qp.rc.mtu, .destination = qp.destination, .pkey = qp.rc.pkey};
  qp.uc_requester.configure(uc);
  qp.uc_responder.configure(uc);
  const transport::UdAttributes ud{
      .mtu = qp.rc.mtu, .self = qp.qpn, .qkey = qp.qkey, .pkey = qp.rc.pkey};
  qp.ud_requester.configure(ud);
  qp.ud_responder.configure(ud);
}

void Engine::enter_ready_to_receive(QueuePair& qp, Psn rq_psn) {
  apply_attributes(qp);
  qp.responder.reset(rq_psn);
  qp.uc_responder.reset(rq_psn);
  qp.ud_responder.reset();
  qp.state = QpState::kRtr;
}

void Engine::enter_ready_to_send(QueuePair& qp, Psn sq_psn) {
  apply_attributes(qp);
  if (qp.state == QpState::kRtr) {
    qp.requester.reset(sq_psn);
    qp.uc_requester.reset(sq_psn);
    qp.ud_requester.reset(sq_psn);
    if (qp.sends()) open_send_queue(qp);
  }
  qp.state = QpState::kRts;
  scheduler_.unblock(schedule::QpSlot(qp.slot));
  cpu_.make_ready(qp);
}

void Engine::open_send_queue(QueuePair& qp) {
  scheduler_.open(schedule::QpSlot(qp.slot), qp.qos_class, qp.send_ring.entries(),
                  qp.first_sequence);
}

/// What has not begun waits in the send queue.
void Engine::enter_drain(QueuePair& qp, bool notify) {
  qp.state = QpState::kSqd;
  qp.sqd_notify = notify;
  if (qp.sends()) give_back(qp, false);
  check_drained(qp);
}

/// What has begun is complete, also what was given back after that.
void Engine::check_drained(QueuePair& qp) {
  if (qp.state != QpState::kSqd || qp.commands != 0 || !qp.sqd_notify) return;
  if (qp.sends() && qp.has_begun(scheduler_.next_sequence(schedule::QpSlot(qp.slot)))) return;
  qp.sqd_notify = false;
  async_events_.raise(qp, EventType::kSendQueueDrained);
}

/// All types go to ERR, as Linux rxe does it; IBA 10.3.1 would let UC and UD stop at SQE.
void Engine::enter_error(QueuePair& qp) {
  qp.error_pending = false;
  if (qp.state == QpState::kReset) return;
  if (qp.state != QpState::kError) {
    if (qp.sends() && !scheduler_.is_open(schedule::QpSlot(qp.slot))) open_send_queue(qp);
    qp.state = QpState::kError;
    // What its program asks for, as at each orderly disconnect, is no news for the operator.
    if (qp.failure != nullptr)
      event_log_.add(event_of(DaemonEventKind::kQueuePairError, *qp.session, qp.qpn, qp.failure));
  }
  qp.stalled = qp.probing = false;
  scheduler_.unblock(schedule::QpSlot(qp.slot));
  flush(qp);
}

void Engine::flush(QueuePair& qp) {
  QpEnvironment env(parts_, qp);
  congestion_.release(qp);
  qp.requester.flush(env);
  qp.uc_requester.flush(env);
  while (!qp.queue.empty()) complete_command(qp, qp.queue.pop(), Verdict::kFlushed);
  qp.progress = LocalProgress{};
  release_held(qp);
  qp.responder.flush(env);
  qp.uc_responder.flush(env);
  qp.ud_responder.flush(env);
  if (qp.receive_drawn) receive_queues_.complete(qp, {.verdict = Verdict::kFlushed});
  if (qp.receives()) {
    cpu_.make_ready(qp);  // its receives are flushed in its turns
  } else if (qp.type != QpType::kXrcSend && !qp.last_wqe_raised) {
    qp.last_wqe_raised = true;
    async_events_.raise(qp, EventType::kQpLastWqeReached);
  }
  qp.error_pending = false;
}

/// In the error state, some receives at a time, so that a consumer that posts as fast as it is
/// flushed has no more than its turns. True when there may be more; else they are looked for later.
bool Engine::flush_receives(QueuePair& qp) {
  if (!qp.receives()) return false;
  for (std::uint32_t i = 0; i < kFlushedPerTurn; ++i) {
    if (qp.receive_ring.take(qp.receive) != shm::Take::kTaken) {
      qp.flush_interval =
          i != 0 ? kFirstFlushInterval
                 : std::clamp(2 * qp.flush_interval, kFirstFlushInterval, kLastFlushInterval);
      timers_.arm(TimerId(qp.slot), next_flush(clock_.now, qp.flush_interval));
      return false;
    }
    receive_queues_.complete(qp, {.verdict = Verdict::kFlushed});
    cpu_.add(kFlushCost);
  }
  return true;
}

/// To RESET: commands and receives under way vanish without completions. Commands that still lie in
/// VCBs and doorbells, where they wait for the tenant's turn, are known by their numbers.
void Engine::reset(QueuePair& qp, std::uint32_t send_sequence) {
  qp.first_sequence = qp.not_begun = send_sequence;
  qp.stalled = qp.probing = false;
  qp.discarding = true;
  scheduler_.close(schedule::QpSlot(qp.slot));
  commands_.release_all(qp);
  qp.requester.reset(Psn());
  qp.uc_requester.reset(Psn());
  qp.responder.reset(Psn());
  qp.responder.release();
  qp.uc_responder.reset(Psn());
  qp.ud_responder.reset();
  qp.progress = LocalProgress{};
  if (qp.receive_drawn && qp.srq != nullptr)
    receive_queues_.complete(qp, {.verdict = Verdict::kFlushed});  // or the SRQ would lose a slot
  qp.receive_drawn = false;
  qp.receive_ring.restart();
  qp.error_pending = qp.last_wqe_raised = qp.established_raised = qp.heard = false;
  qp.failure = nullptr;
  congestion_.release(qp);
  timers_.cancel(TimerId(qp.slot));
  cpu_.remove(qp);
  qp.discarding = false;
  qp.state = QpState::kReset;
}

}  // namespace softhca::engine
