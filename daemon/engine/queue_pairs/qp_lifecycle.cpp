// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/queue_pairs/qp_lifecycle.hpp"

#include <algorithm>

#include "daemon/engine/records/costs.hpp"

namespace softhca::engine {
namespace {

// The retries of a peer fall into this time: its early retries and, with the timeouts of common
// programs (up to 0.5 s), several counted ones.
constexpr Duration kTimeWait = std::chrono::seconds(4);
constexpr unsigned kResponsesAtTheEnd = 32;

constexpr std::uint32_t kFlushedPerTurn = 64;

// In the error state the program may still post receives, but no doorbell reports them. The engine
// polls for them, at intervals that double while it finds none.
constexpr std::chrono::duration<std::uint32_t, std::milli> kFirstFlushInterval{1};
constexpr auto kLastFlushInterval = 256 * kFirstFlushInterval;
// Long intervals end together, at multiples of this, so that an otherwise idle engine with many
// such queue pairs can sleep in between.
constexpr Duration kFlushGrid = std::chrono::milliseconds(8);

Time next_flush(Time now, Duration interval) {
  const Time due = now + interval;
  if (interval <= kFlushGrid) return due;
  return due + (kFlushGrid - due.time_since_epoch() % kFlushGrid);
}

}  // namespace

bool QpLifecycle::install(QueuePair& qp, Qpn number) {
  parts_.cpu.charge(*qp.session, kInstallCost);
  const bool added = number == Qpn() ? queue_pairs_.add(qp) : queue_pairs_.add(qp, number);
  if (!added) return false;
  enter(qp);
  return true;
}

bool QpLifecycle::install_own(QueuePair& qp) {
  if (!queue_pairs_.add_own(qp)) return false;
  enter(qp);
  return true;
}

void QpLifecycle::enter(QueuePair& qp) {
  qp.record.state_since = clock_.now;
  choose_transport(qp, false);
  levels_.join(qp);
  if (qp.srq != nullptr) ++qp.srq->users;
  qp.tenant->counters.queue_pairs.add();
}

void QpLifecycle::set_state(QueuePair& qp, QpState state) {
  parts_.history.enter(qp, state);
  qp.record.durable->state = static_cast<std::uint8_t>(state);
  qp.record.durable->cause = static_cast<std::uint8_t>(qp.error.cause);
}

transport::ReplayPlaces QpLifecycle::replays_of(const QueuePair& qp) {
  return {parts_.state.replays(qp.slot).all, &qp.record.durable->replays_used};
}

/// Sends the responses that the queue pair owes, then stores what its TIME-WAIT needs.
void QpLifecycle::remember(QueuePair& qp) {
  auto* const rc = std::get_if<transport::Rc>(&qp.transport);
  if (rc == nullptr || !may_receive(qp.state)) return;
  QpEnvironment env(parts_, qp);
  if (const auto answer = rc->take_leave(env, kResponsesAtTheEnd))
    time_wait_.add({.qpn = qp.qpn,
                    .tenant = qp.tenant->id,
                    .udp_source_port = qp.connection.route.udp_source_port,
                    .path = qp.connection.route.path,
                    .answer = *answer,
                    .until = clock_.now + kTimeWait});
}

void QpLifecycle::remove(QueuePair& qp, bool with_session) {
  parts_.cpu.charge(*qp.session, kRemoveCost);
  remember(qp);
  reset(qp, 0);
  parts_.commands.forget(qp);
  parts_.cpu.minimums().set_queue_pair(qp.slot, {});
  if (qp.sq.rates != nullptr) {
    parts_.peer_rates.forget(qp.sq.rates->peers.inbound);
    parts_.peer_rates.forget(qp.sq.rates->peers.served);
  }
  parts_.events.forget(*qp.session, qp.user_handle);
  parts_.receives.leave(qp);
  multicast_.detach_all(qp);
  levels_.leave(qp);
  parts_.history.forget(qp);
  queue_pairs_.remove(qp, clock_.now, with_session);
  qp.tenant->counters.queue_pairs.subtract();
}

bool QpLifecycle::has_sent(const QueuePair& qp, std::uint32_t sequence_end) const {
  const schedule::QpSlot slot(qp.slot);
  if (qp.state != QpState::kRts || qp.error.pending || !scheduler_.is_open(slot)) return true;
  if (qp.sq.stalled) return QpStall::waits_for_peer(qp);
  return ring_distance(sequence_end, scheduler_.next_sequence(slot)) <= 0 &&
         QpStall::has_sent_all(qp);
}

// --- states

/// Selects the transport of the queue pair. REQUIRES: none of its requests is in progress.
void QpLifecycle::choose_transport(QueuePair& qp, bool local) {
  if (auto* rc = std::get_if<transport::Rc>(&qp.transport)) {
    qp.connection.position = rc->position();
    rc->reset();
  } else if (auto* uc = std::get_if<transport::Uc>(&qp.transport)) {
    qp.connection.position = uc->position();
  } else if (auto* within = std::get_if<transport::Local>(&qp.transport)) {
    qp.connection.position = within->position();
  }
  const auto open = [&](auto& transport) -> auto& {
    transport.open(requests_, qp.sq.ring.entries());
    return transport;
  };
  if (local)
    open(qp.transport.emplace<transport::Local>()).position() = qp.connection.position;
  else if (qp.type == QpType::kUd)
    open(qp.transport.emplace<transport::Ud>());
  else if (qp.type == QpType::kUc)
    open(qp.transport.emplace<transport::Uc>()).resume(qp.connection.position);
  else
    open(qp.transport.emplace<transport::Rc>()).resume(qp.connection.position);
}

void QpLifecycle::apply_attributes(QueuePair& qp) {
  qp.connection.route.invalidate();
  if (qp.type != QpType::kUd) {
    qp.connection.route.cc_enabled = true;
    // A new path may change between local delivery and the wire. Requests in progress stay on the
    // old one.
    const bool local = addresses_.is_local(qp.connection.route.path.destination);
    if (qp.sq.started == 0 && local != qp.is_local()) choose_transport(qp, local);
    qp.connection.route.udp_source_port =
        wire::source_port(qp.connection.route.path.flow_label, qp.qpn, qp.connection.destination);
  }
  qp.rc.xrc = is_xrc(qp.type);
  configure(qp);
}

void QpLifecycle::configure(QueuePair& qp) {
  if (auto* rc = std::get_if<transport::Rc>(&qp.transport))
    rc->configure(qp.rc, {replays_of(qp), kept_, qp.tenant->kept}, is_responder(qp.type));
  else if (auto* uc = std::get_if<transport::Uc>(&qp.transport))
    uc->configure({.mtu = qp.rc.mtu, .destination = qp.connection.destination, .pkey = qp.rc.pkey});
  else if (auto* ud = std::get_if<transport::Ud>(&qp.transport))
    ud->configure({.mtu = qp.rc.mtu, .self = qp.qpn, .qkey = qp.qkey, .pkey = qp.rc.pkey});
  else
    std::get<transport::Local>(qp.transport).configure(qp.rc, is_reliable(qp.type));
}

void QpLifecycle::enter_ready_to_receive(QueuePair& qp, Psn rq_psn) {
  levels_.assign(qp);
  qp.rc.selective_repeat = reliability_.selective_repeat;
  qp.rc.out_of_order = static_cast<std::uint16_t>(reliability_.out_of_order);
  qp.rc.flight = reliability_.flight;
  apply_attributes(qp);
  qp.connection.position = {.receive = rq_psn};
  std::visit([&](auto& transport) { transport.reset_receiver(rq_psn); }, qp.transport);
  qp.store_taken();
  set_state(qp, QpState::kRtr);
}

void QpLifecycle::enter_ready_to_send(QueuePair& qp, Psn sq_psn) {
  apply_attributes(qp);
  if (qp.state == QpState::kRtr) {
    qp.connection.position.send = sq_psn;
    if (parts_.captures.on()) parts_.captures.restart(qp);
    std::visit([&](auto& transport) { transport.reset_sender(sq_psn); }, qp.transport);
    qp.store_sent();
    if (qp.sends()) open_send_queue(qp);
  }
  set_state(qp, QpState::kRts);
  scheduler_.unblock(schedule::QpSlot(qp.slot));
  parts_.cpu.make_ready(qp);
}

void QpLifecycle::open_send_queue(QueuePair& qp) {
  scheduler_.open(schedule::QpSlot(qp.slot), qp.qos_class, qp.sq.ring.entries(),
                  qp.sq.first_sequence);
}

void QpLifecycle::enter_drain(QueuePair& qp, bool notify) {
  set_state(qp, QpState::kSqd);
  qp.sq.sqd_notify = notify;
  qp.record.durable->set_event(QpDurable::kWantsDrained, notify);
  if (qp.sends()) stall_.give_back(qp, QpStall::Started::kNone);
  execution_.report_drained(qp);
}

void QpLifecycle::enter_error(QueuePair& qp) {
  qp.error.pending = false;
  if (qp.state == QpState::kReset) return;
  if (qp.state != QpState::kError) {
    if (qp.sends() && !scheduler_.is_open(schedule::QpSlot(qp.slot))) open_send_queue(qp);
    if (qp.error.cause != QpFailure::kNone)
      parts_.history.add(qp, QpEventKind::kFailed,
                         {.detail = static_cast<std::uint32_t>(qp.error.cause)});
    set_state(qp, QpState::kError);
    // An error that the program itself requests, as at each orderly disconnect, is not reported to
    // the operator.
    if (qp.error.cause != QpFailure::kNone) note_failure(qp);
  }
  stall_.forget(qp);
  scheduler_.unblock(schedule::QpSlot(qp.slot));
  flush(qp);
}

void QpLifecycle::note_failure(const QueuePair& qp) {
  qp.tenant->counters.completion.failed(qp.error.cause).add();
  DaemonEvent event =
      event_of(DaemonEventKind::kQueuePairError, *qp.session, qp.qpn, text_of(qp.error.cause));
  if (const Refusal& why = parts_.history.refusal(qp); explains(why, qp.error.cause))
    event.refusal = why;
  if (qp.type != QpType::kUd) {
    event.peer = qp.connection.route.path.destination;
    event.peer_qpn = qp.connection.destination;
  }
  event_log_.add(event, parts_.history.past(qp));
}

/// Settles the memory accesses of the queue pair: its program may reuse the memory of a posted
/// command as soon as the command is flushed.
void QpLifecycle::settle_memory(QueuePair& qp) {
  parts_.memory_waits.settle(qp.tenant->counters.memory);
  parts_.memory_waits.forget(*qp.tenant, qp.slot);
}

void QpLifecycle::flush(QueuePair& qp) {
  QpEnvironment env(parts_, qp);
  settle_memory(qp);
  parts_.congestion.release(qp);
  parts_.peer_rates.leave(qp);
  parts_.slow_memory.leave(qp);
  std::visit([&](auto& transport) { transport.flush(env); }, qp.transport);
  execution_.release_held(qp);
  if (qp.rq.drawn) parts_.receives.complete(qp, {.verdict = Verdict::kFlushed});
  if (qp.receives()) {
    parts_.cpu.make_ready(qp);  // its receives are flushed in its turns
  } else if (qp.type != QpType::kXrcSend && !qp.error.last_wqe_raised) {
    qp.error.last_wqe_raised = true;
    qp.record.durable->set_event(QpDurable::kLastWqeRaised, true);
    parts_.events.raise(qp, EventType::kQpLastWqeReached);
  }
  qp.error.pending = false;
}

bool QpLifecycle::flush_receives(QueuePair& qp) {
  if (!qp.receives()) return false;
  for (std::uint32_t i = 0; i < kFlushedPerTurn; ++i) {
    if (qp.rq.ring.take(*qp.rq.work) != shm::Take::kTaken) {
      qp.error.flush_interval =
          i != 0 ? kFirstFlushInterval
                 : std::clamp(2 * qp.error.flush_interval, kFirstFlushInterval, kLastFlushInterval);
      timers_.arm(TimerId(qp.slot), next_flush(clock_.now, qp.error.flush_interval));
      return false;
    }
    parts_.receives.complete(qp, {.verdict = Verdict::kFlushed});
    parts_.history.add_if_any(qp, QpEventKind::kReceivesFlushed);
    parts_.cpu.add(kFlushCost);
  }
  return true;
}

/// Commands and receives in progress are discarded without completions. Commands that still wait in
/// VCBs and doorbells for the tenant's turn are recognized by their sequence numbers.
void QpLifecycle::reset(QueuePair& qp, std::uint32_t send_sequence) {
  qp.sq.first_sequence = qp.sq.not_begun = qp.sq.done = send_sequence;
  settle_memory(qp);
  stall_.forget(qp);
  qp.sq.discarding = true;
  scheduler_.close(schedule::QpSlot(qp.slot));
  parts_.commands.release_all(qp);
  std::visit([](auto& transport) { transport.reset(); }, qp.transport);
  if (qp.rq.drawn && qp.srq != nullptr)
    parts_.receives.complete(qp, {.verdict = Verdict::kFlushed});  // else the SRQ would lose a slot
  qp.rq.drawn = qp.rq.given_up = false;
  qp.rq.ring.restart();
  qp.error.pending = qp.error.last_wqe_raised = qp.connection.established_raised =
      qp.connection.peer_seen = false;
  qp.error.cause = QpFailure::kNone;
  parts_.history.forget_refusal(qp);
  parts_.congestion.release(qp);
  parts_.peer_rates.leave(qp);
  parts_.slow_memory.leave(qp);
  timers_.cancel(TimerId(qp.slot));
  parts_.cpu.remove(qp);
  qp.sq.discarding = false;
  levels_.restore(qp);
  store_reset(qp, send_sequence);
}

/// Stores that nothing is posted or under way. The state comes first: an engine that ends in
/// between leaves a queue pair in RESET.
void QpLifecycle::store_reset(QueuePair& qp, std::uint32_t send_sequence) {
  QpDurable& durable = *qp.record.durable;
  set_state(qp, QpState::kReset);
  keep_store_order();
  durable.posted_end = durable.not_begun = durable.attempted = send_sequence;
  durable.received = 0;
  durable.events = durable.is_failing = durable.local_atomic = 0;
  qp.sq.resumed = qp.sq.skips_first = qp.rq.resumed = false;
  qp.store_sent();
  qp.store_taken();
}

}  // namespace softhca::engine
