#include "daemon/engine/receive_queues.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "daemon/engine/costs.hpp"

namespace softhca::engine {
namespace {

// Posts looked at in one draw; those beyond are looked at in the next.
constexpr unsigned kPostsPerDraw = 256;

/// IBA has no importance of connections; where the operator names none, the class selector of the
/// path (RFC 2474, 4.2.2) orders them as everywhere else in the network.
std::uint8_t importance_of(const QueuePair& qp) {
  const std::uint8_t own = qp.rq.member.own_importance;
  if (own != receive::Member::kByPath) return own;
  return static_cast<std::uint8_t>(qp.connection.route.path.traffic_class >> 5);
}

}  // namespace

void ReceiveQueues::add(SharedReceiveQueue& srq) {
  constexpr std::uint32_t kNumbers = 1u << 24;  // as the wire has bits for
  do {
    next_number_ = (next_number_ + 1) % kNumbers;
  } while (next_number_ == 0 || xrc_.contains(next_number_));
  srq.number = next_number_;
  if (srq.xrc_domain != XrcDomainId()) xrc_[srq.number] = &srq;
  shared_.push_back(&srq);
}

void ReceiveQueues::remove(SharedReceiveQueue& srq) {
  if (srq.xrc_domain != XrcDomainId()) leave_xrc_targets(srq);
  async_events_.forget(*srq.session, srq.user_handle);
  if (srq.provisioner) srq.provisioner->retire();
  std::erase(shared_, &srq);
}

Provisioners ReceiveQueues::make_provisioners(const Tenant& tenant, const SrqPolicy& policy) const {
  Provisioners made;
  if (!policy.wanted()) return made;
  for (SharedReceiveQueue* srq : shared_) {
    Tenant& owner = *srq->session->tenant;
    if (&owner == &tenant && !srq->provisioner)
      made.emplace_back(srq, std::make_unique<receive::Provisioner>(srq->ring.entries(), policy,
                                                                    owner.counters.receive));
  }
  return made;
}

void ReceiveQueues::start_provisioning(SharedReceiveQueue& srq,
                                       std::unique_ptr<receive::Provisioner> made) {
  assert(!srq.provisioner);
  srq.provisioner = std::move(made);
  srq.ring.available();
  srq.accounted = srq.ring.posted();
}

void ReceiveQueues::set_policy(Tenant& tenant, const SrqPolicy& policy) {
  tenant.receive_policy = policy;
  for (SharedReceiveQueue* srq : shared_) {
    if (srq->session->tenant != &tenant) continue;
    assert(srq->provisioner || !policy.wanted());
    if (srq->provisioner) srq->provisioner->set_policy(policy);
  }
}

void ReceiveQueues::set_terms(Qpn qpn, const ReceiveTerms& terms) {
  QueuePair& qp = *queue_pairs_.find(qpn);
  receive::Member& member = qp.rq.member;
  if (terms.importance) member.own_importance = *terms.importance;
  if (terms.limit) qp.srq->provisioner->set_limit(member, *terms.limit);
}

/// Draws a receive work request into qp.rq.work. A hostile ring fails its owner.
shm::Take ReceiveQueues::draw(QueuePair& qp) {
  if (qp.srq != nullptr) return draw_shared(qp, *qp.srq);
  const shm::Take take = qp.rq.ring.take(qp.rq.work);
  qp.rq.drawn = take == shm::Take::kTaken;
  if (take == shm::Take::kHostile) {
    qp.tenant->counters.refused.hostile_memory.add();
    async_events_.raise(qp, EventType::kQpFatal);
    log_.add(event_of(DaemonEventKind::kHostileMemory, *qp.session, qp.qpn, "receive ring"));
    cpu_.fail_later(qp,
                    "its receive ring names more receives than it has (memory overwritten?); "
                    "restart the program");
  }
  return take;
}

shm::Take ReceiveQueues::draw_shared(QueuePair& qp, SharedReceiveQueue& srq) {
  if (srq.failed) return shm::Take::kEmpty;
  const shm::Take take = srq.provisioner ? draw_provisioned(qp, srq) : srq.ring.take(qp.rq.work);
  qp.rq.drawn = take == shm::Take::kTaken;
  if (take == shm::Take::kHostile) {
    qp.tenant->counters.refused.hostile_memory.add();
    fail(srq);
    log_.add(
        event_of(DaemonEventKind::kHostileMemory, *srq.session, qp.qpn, "shared receive ring"));
  } else {
    check_limit(srq);
  }
  return take;
}

void ReceiveQueues::fail(SharedReceiveQueue& srq) {
  srq.failed = true;
  async_events_.raise(*srq.session, srq.user_handle, EventType::kSrqError);
}

/// kEmpty: there is none, or none for this queue pair.
shm::Take ReceiveQueues::draw_provisioned(QueuePair& qp, SharedReceiveQueue& srq) {
  receive::Provisioner& provisioner = *srq.provisioner;
  const auto available = account_posts(srq);
  if (!available) return shm::Take::kHostile;
  if (*available == 0) return shm::Take::kEmpty;
  qp.rq.member.importance = importance_of(qp);
  const receive::Decision decision = provisioner.decide(qp.rq.member, qp.qpn, clock_.now);
  const std::uint32_t held = provisioner.held_by(qp.rq.member);
  if (decision == receive::Decision::kGrantedOverSoftLimit)
    report(DaemonEventKind::kSrqSoftLimit, srq, qp.qpn, held);
  if (decision == receive::Decision::kRefusedFirst)
    report(DaemonEventKind::kSrqHardLimit, srq, qp.qpn, held);
  if (decision == receive::Decision::kDropConnection) drop_connection(qp, srq, qp.rq.member);
  if (!receive::is_granted(decision)) return shm::Take::kEmpty;
  const shm::Take take = srq.ring.take(qp.rq.work);
  if (take != shm::Take::kTaken) return take;
  provisioner.drawn(qp.rq.member, clock_.now);
  if (const auto alarm = provisioner.watch(*available - 1, clock_.now))
    act_on(*alarm, srq, *available - 1);
  return take;
}

/// Tells the provisioner what was posted. Returns the work requests at hand; none: the ring is
/// hostile.
std::optional<std::uint32_t> ReceiveQueues::account_posts(SharedReceiveQueue& srq) {
  const auto available = srq.ring.available();
  if (!available) return std::nullopt;
  const std::uint32_t posted = srq.ring.posted();
  receive::Provisioner& provisioner = *srq.provisioner;
  // A producer counter that was set back counts for nothing until it is beyond what it was.
  for (unsigned n = 0; n < kPostsPerDraw && ring_distance(posted, srq.accounted) > 0; ++n) {
    if (provisioner.unreplenished() == 0) {
      srq.accounted = posted;
    } else {
      provisioner.posted(srq.ring.first_address(srq.accounted++));
    }
  }
  return available;
}

void ReceiveQueues::act_on(const receive::Alarm& alarm, SharedReceiveQueue& srq,
                           std::uint32_t available) {
  report(DaemonEventKind::kSrqWatermark, srq, Qpn(), available);
  for (std::size_t i = 0; i < alarm.count; ++i)
    report(DaemonEventKind::kSrqOffender, srq, alarm.offenders[i].qpn, alarm.offenders[i].held);
  if (!alarm.drop) return;
  QueuePair* victim = queue_pairs_.find(*alarm.drop);
  const receive::Member* member = victim != nullptr ? member_of(*victim, srq) : nullptr;
  if (member != nullptr) drop_connection(*victim, srq, *member);
}

/// The connection fails by itself: its peer is told nothing and times out.
void ReceiveQueues::drop_connection(QueuePair& qp, SharedReceiveQueue& srq,
                                    const receive::Member& member) {
  if (qp.error.pending || qp.state == QpState::kError) return;
  qp.tenant->counters.receive.connections_dropped.add();
  report(DaemonEventKind::kSrqConnectionDropped, srq, qp.qpn, srq.provisioner->held_by(member));
  async_events_.raise(qp, EventType::kQpFatal);
  cpu_.fail_later(qp, "it drew too much from its shared receive queue");
}

void ReceiveQueues::report(DaemonEventKind kind, const SharedReceiveQueue& srq, Qpn qpn,
                           std::uint32_t amount) {
  log_.add({.kind = kind,
            .tenant = srq.session->tenant->id,
            .process = srq.session->process,
            .srq = srq.number,
            .qpn = qpn,
            .amount = amount});
}

void ReceiveQueues::set_limit(SharedReceiveQueue& srq, std::uint32_t limit) {
  srq.limit = limit;
  check_limit(srq);
}

void ReceiveQueues::check_limit(SharedReceiveQueue& srq) {
  if (srq.limit == 0 || srq.ring.available().value_or(0) >= srq.limit) return;
  srq.limit = 0;
  async_events_.raise(*srq.session, srq.user_handle, EventType::kSrqLimitReached);
}

void ReceiveQueues::fail_users_of_overflowed() {
  for (SharedReceiveQueue* srq : shared_)
    if (srq->cq != nullptr && srq->cq->users_go_on) fail(*srq);
}

bool ReceiveQueues::has_receive(QueuePair& qp) {
  if (qp.rq.drawn || (qp.srq == nullptr && !qp.receives())) return true;
  shm::ReceiveRing& ring = qp.srq != nullptr ? qp.srq->ring : qp.rq.ring;
  return ring.available().value_or(1) != 0;
}

/// An XRC target may have lost the queue it drew from: then there is nothing to complete.
void ReceiveQueues::complete(QueuePair& qp, const transport::ReceiveCompletion& completion) {
  const bool xrc = qp.type == QpType::kXrcReceive;
  if (xrc && qp.srq == nullptr) return;
  shm::Completion out;
  out.qpn = qp.qpn.value;
  out.index = qp.rq.work.index;
  out.byte_len = completion.byte_len;
  out.imm = completion.imm;
  out.status = status_of(completion.verdict);
  out.opcode = completion.from_write ? abi::CompletionOpcode::kReceiveRdmaWithImm
                                     : abi::CompletionOpcode::kReceive;
  out.flags =
      static_cast<std::uint8_t>((completion.has_grh ? abi::kCompletionGrh : 0) |
                                (completion.is_ipv4 ? abi::kCompletionIpv4 : 0) |
                                (completion.has_imm ? abi::kCompletionWithImm : 0) |
                                (completion.invalidated ? abi::kCompletionWithInvalidate : 0));
  out.is_receive = xrc ? abi::kCompletionOfXrcReceive : abi::kCompletionOfReceive;
  out.source_qpn = xrc ? qp.srq->number : completion.source.value;
  if (qp.srq != nullptr && qp.srq->provisioner) {
    qp.srq->provisioner->completed(qp.rq.member,
                                   qp.rq.work.count == 0 ? 0 : qp.rq.work.entries[0].addr);
  }
  qp.rq.drawn = false;
  completion_events_.push(xrc ? *qp.srq->cq : *qp.rq.cq, out, completion.solicited);
}

}  // namespace softhca::engine
