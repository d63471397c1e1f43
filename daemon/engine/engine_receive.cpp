// Drawing receive work requests. A shared receive queue may be provisioned (mechanism D): then
// each draw first learns what the consumer posted, and asks whether the queue pair may have one.
#include <algorithm>
#include <cassert>
#include <utility>

#include "daemon/engine/engine.hpp"

namespace softhca::engine {
namespace {

// Posts looked at in one draw; those beyond are looked at in the next.
constexpr unsigned kPostsPerDraw = 256;

/// IBA has no importance of connections; the class selector of the path (RFC 2474, 4.2.2) orders
/// them everywhere else in the network.
std::uint8_t importance_of(const QueuePair& qp) {
  return qp.importance == QueuePair::kByTrafficClass
             ? static_cast<std::uint8_t>(qp.route.path.traffic_class >> 5)
             : qp.importance;
}

}  // namespace

const char* name_of(DaemonEventKind kind) {
  switch (kind) {
    case DaemonEventKind::kSrqSoftLimit:
      return "srq_soft_limit";
    case DaemonEventKind::kSrqHardLimit:
      return "srq_hard_limit";
    case DaemonEventKind::kSrqConnectionDropped:
      return "srq_connection_dropped";
    case DaemonEventKind::kSrqWatermark:
      return "srq_watermark";
    case DaemonEventKind::kSrqOffender:
      return "srq_offender";
    case DaemonEventKind::kQueuePairError:
      return "queue_pair_error";
    case DaemonEventKind::kHostileMemory:
      return "hostile_memory";
  }
  return "unknown";
}

void Engine::install(SharedReceiveQueue& srq) {
  constexpr std::uint32_t kNumbers = 1u << 24;  // as the wire has bits for
  do {
    next_srq_number_ = (next_srq_number_ + 1) % kNumbers;
  } while (next_srq_number_ == 0 || xrc_queues_.contains(next_srq_number_));
  srq.number = next_srq_number_;
  if (srq.xrc_domain != XrcDomainId()) xrc_queues_[srq.number] = &srq;
  shared_receive_queues_.push_back(&srq);
}

void Engine::remove(SharedReceiveQueue& srq) {
  if (srq.xrc_domain != XrcDomainId()) leave_xrc_targets(srq);
  async_events_.forget(*srq.session, srq.user_handle);
  if (srq.provisioner) srq.provisioner->retire();
  std::erase(shared_receive_queues_, &srq);
}

Provisioners Engine::make_provisioners(const Tenant& tenant, const receive::Policy& policy) const {
  Provisioners made;
  if (!policy.wanted()) return made;
  for (SharedReceiveQueue* srq : shared_receive_queues_) {
    Tenant& owner = *srq->session->tenant;
    if (&owner == &tenant && !srq->provisioner)
      made.emplace_back(srq, std::make_unique<receive::Provisioner>(srq->ring.entries(), policy,
                                                                    owner.counters.receive));
  }
  return made;
}

void Engine::start_provisioning(SharedReceiveQueue& srq,
                                std::unique_ptr<receive::Provisioner> made) {
  assert(!srq.provisioner);
  srq.provisioner = std::move(made);
  srq.ring.available();
  srq.accounted = srq.ring.posted();
}

void Engine::set_receive_policy(Tenant& tenant, const receive::Policy& policy) {
  tenant.receive_policy = policy;
  for (SharedReceiveQueue* srq : shared_receive_queues_) {
    if (srq->session->tenant != &tenant) continue;
    assert(srq->provisioner || !policy.wanted());
    if (srq->provisioner) srq->provisioner->set_policy(policy);
  }
}

void Engine::set_receive_limit(QueuePair& qp, std::uint32_t limit) {
  qp.srq->provisioner->set_limit(qp.member, limit);
}

void Engine::set_importance(QueuePair& qp, std::uint8_t importance) {
  qp.importance = importance == QueuePair::kByTrafficClass
                      ? importance
                      : std::min<std::uint8_t>(importance, receive::kImportances - 1);
}

/// Draws a receive work request into qp.receive. A hostile ring fails its owner.
shm::Take Engine::draw(QueuePair& qp) {
  if (qp.srq != nullptr) return draw_shared(qp, *qp.srq);
  const shm::Take take = qp.receive_ring.take(qp.receive);
  qp.receive_drawn = take == shm::Take::kTaken;
  if (take == shm::Take::kHostile) {
    qp.tenant->counters.hostile_memory.add();
    async_events_.raise(qp, EventType::kQpFatal);
    report(DaemonEventKind::kHostileMemory, *qp.session, qp.qpn, "receive ring");
    fail_later(qp, "its receive ring holds nonsense");
  }
  return take;
}

shm::Take Engine::draw_shared(QueuePair& qp, SharedReceiveQueue& srq) {
  if (srq.failed) return shm::Take::kEmpty;
  const shm::Take take = srq.provisioner ? draw_provisioned(qp, srq) : srq.ring.take(qp.receive);
  qp.receive_drawn = take == shm::Take::kTaken;
  if (take == shm::Take::kHostile) {
    qp.tenant->counters.hostile_memory.add();
    fail_receive_queue(srq);
    report(DaemonEventKind::kHostileMemory, *srq.session, qp.qpn, "shared receive ring");
  } else {
    check_limit(srq);
  }
  return take;
}

void Engine::fail_receive_queue(SharedReceiveQueue& srq) {
  srq.failed = true;
  async_events_.raise(*srq.session, srq.user_handle, EventType::kSrqError);
}

/// kEmpty: there is none, or none for this queue pair.
shm::Take Engine::draw_provisioned(QueuePair& qp, SharedReceiveQueue& srq) {
  receive::Provisioner& provisioner = *srq.provisioner;
  const auto available = account_posts(srq);
  if (!available) return shm::Take::kHostile;
  if (*available == 0) return shm::Take::kEmpty;
  qp.member.importance = importance_of(qp);
  const receive::Decision decision = provisioner.decide(qp.member, qp.qpn, clock_.now);
  const std::uint32_t held = provisioner.held_by(qp.member);
  if (decision == receive::Decision::kGrantedOverSoftLimit)
    report(DaemonEventKind::kSrqSoftLimit, srq, qp.qpn, held);
  if (decision == receive::Decision::kRefusedFirst)
    report(DaemonEventKind::kSrqHardLimit, srq, qp.qpn, held);
  if (decision == receive::Decision::kDropConnection) drop_connection(qp, srq, qp.member);
  if (!receive::is_granted(decision)) return shm::Take::kEmpty;
  const shm::Take take = srq.ring.take(qp.receive);
  if (take != shm::Take::kTaken) return take;
  provisioner.drawn(qp.member, clock_.now);
  if (const auto alarm = provisioner.watch(*available - 1, clock_.now))
    act_on(*alarm, srq, *available - 1);
  return take;
}

/// Tells the provisioner what was posted; work requests at hand, none: the ring is hostile.
std::optional<std::uint32_t> Engine::account_posts(SharedReceiveQueue& srq) {
  const auto available = srq.ring.available();
  if (!available) return std::nullopt;
  const std::uint32_t posted = srq.ring.posted();
  receive::Provisioner& provisioner = *srq.provisioner;
  // A producer word that was set back counts for nothing until it is beyond what it was.
  for (unsigned n = 0; n < kPostsPerDraw && ring_distance(posted, srq.accounted) > 0; ++n) {
    if (provisioner.unreplenished() == 0) {
      srq.accounted = posted;
    } else {
      provisioner.posted(srq.ring.first_address(srq.accounted++));
    }
  }
  return available;
}

void Engine::act_on(const receive::Alarm& alarm, SharedReceiveQueue& srq, std::uint32_t available) {
  report(DaemonEventKind::kSrqWatermark, srq, Qpn(), available);
  for (std::size_t i = 0; i < alarm.count; ++i)
    report(DaemonEventKind::kSrqOffender, srq, alarm.offenders[i].qpn, alarm.offenders[i].held);
  if (!alarm.drop) return;
  QueuePair* victim = find(*alarm.drop);
  const receive::Member* member = victim != nullptr ? member_of(*victim, srq) : nullptr;
  if (member != nullptr) drop_connection(*victim, srq, *member);
}

/// It fails by itself: its peer is told nothing and times out.
void Engine::drop_connection(QueuePair& qp, SharedReceiveQueue& srq,
                             const receive::Member& member) {
  if (qp.error_pending || qp.state == QpState::kError) return;
  qp.tenant->counters.receive.connections_dropped.add();
  report(DaemonEventKind::kSrqConnectionDropped, srq, qp.qpn, srq.provisioner->held_by(member));
  async_events_.raise(qp, EventType::kQpFatal);
  fail_later(qp, "it drew too much from its shared receive queue");
}

void Engine::report(DaemonEventKind kind, const SharedReceiveQueue& srq, Qpn qpn,
                    std::uint32_t amount) {
  event_log_.add({.time = clock_.now,
                  .kind = kind,
                  .tenant = srq.session->tenant->id,
                  .process = srq.session->process,
                  .srq = srq.number,
                  .qpn = qpn,
                  .amount = amount});
}

void Engine::set_limit(SharedReceiveQueue& srq, std::uint32_t limit) {
  srq.limit = limit;
  check_limit(srq);
}

void Engine::check_limit(SharedReceiveQueue& srq) {
  if (srq.limit == 0 || srq.ring.available().value_or(0) >= srq.limit) return;
  srq.limit = 0;
  async_events_.raise(*srq.session, srq.user_handle, EventType::kSrqLimitReached);
}

}  // namespace softhca::engine
