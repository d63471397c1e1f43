// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/receive/receive_queues.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "daemon/engine/records/costs.hpp"
#include "daemon/engine/records/qp_failure.hpp"

namespace softhca::engine {
namespace {

// Most posts that one draw accounts for. The next draw accounts for the rest.
constexpr unsigned kPostsPerDraw = 256;

/// Returns the importance of a queue pair. IBA does not define one. If the operator sets none, the
/// class selector of the path (RFC 2474, 4.2.2) orders queue pairs, as everywhere else in the
/// network.
std::uint8_t importance_of(const QueuePair& qp, const receive::Member& member) {
  if (member.own_importance != receive::Member::kByPath) return member.own_importance;
  if (member.terms.importance != receive::Terms::kByPath) return member.terms.importance;
  return static_cast<std::uint8_t>(qp.connection.route.path.traffic_class >> 5);
}

/// True if the rule applies: the level of its process, its peer and its queue decide. A rule with
/// peers never applies to datagrams.
bool fits(const SrqRule& rule, const QueuePair& qp, const SharedReceiveQueue& srq) {
  if (rule.queue && *rule.queue != srq.number) return false;
  const Level* level = qp.session->level;
  if (!rule.level.empty() && (level == nullptr || level->name != rule.level)) return false;
  if (rule.peers.empty()) return true;
  const Gid& peer = qp.connection.route.path.destination;
  return qp.type != QpType::kUd && !peer.is_zero() &&
         std::any_of(rule.peers.begin(), rule.peers.end(),
                     [&](const AddressPrefix& prefix) { return prefix.contains(peer); });
}

receive::Terms terms_of(const QueuePair& qp, const SharedReceiveQueue& srq) {
  const SrqRules& rules = srq.session->tenant->receive_rules;
  const auto first = std::find_if(rules.begin(), rules.end(),
                                  [&](const SrqRule& rule) { return fits(rule, qp, srq); });
  if (first == rules.end()) return {};
  return {.limit = first->limit.value_or(receive::Terms::kByPolicy),
          .importance = first->importance.value_or(receive::Terms::kByPath),
          .kind = first->kind,
          .on_exceed = first->on_exceed,
          .rule = static_cast<std::uint8_t>(first - rules.begin() + 1)};
}

}  // namespace

bool ReceiveQueues::choose_number(SharedReceiveQueue& srq, std::uint32_t number) {
  constexpr std::uint32_t kNumbers = 1u << 24;  // the width of the field on the wire
  if (number != 0) {
    if (number >= kNumbers || xrc_.contains(number)) return false;
    // The numbers that follow are those that were used least recently.
    next_number_ = std::max(next_number_, number);
  } else {
    do {
      next_number_ = (next_number_ + 1) % kNumbers;
    } while (next_number_ == 0 || xrc_.contains(next_number_));
    number = next_number_;
  }
  srq.number = number;
  return true;
}

bool ReceiveQueues::add(SharedReceiveQueue& srq, std::uint32_t number) {
  if (!choose_number(srq, number)) return false;
  if (number != 0) {
    srq.ring.resume(srq.ring.published_taken());
    srq.level.arm(srq.ring.published_limit());
  }
  srq.ring.publish_limit(srq.level.armed());
  if (srq.xrc_domain != XrcDomainId()) xrc_[srq.number] = &srq;
  srq.drawers = receive::TopDrawers(srq.ring.entries());
  restart_level(srq);
  srq.place = static_cast<std::uint32_t>(shared_.size());
  shared_.push_back(&srq);
  srq.session->receive_queues.push_back(srq);
  ++srq.session->receive_queue_count;
  return true;
}

std::unique_ptr<receive::Provisioner> ReceiveQueues::resize(
    SharedReceiveQueue& srq, const shm::ReceiveRing& ring,
    std::unique_ptr<receive::Provisioner> made) {
  assert(made || !srq.provisioner);
  srq.ring.replace(ring);
  srq.ring.publish_limit(srq.level.armed());
  srq.ring.publish_move();
  srq.drawers.resize(srq.ring.entries());
  restart_level(srq);
  if (!made) return nullptr;
  auto before = std::move(srq.provisioner);
  if (before) before->retire(made.get());
  start_provisioning(srq, std::move(made));
  return before;
}

void ReceiveQueues::remove(SharedReceiveQueue& srq) {
  cpu_.charge(*srq.session, kRemoveCost);
  if (!srq.retired) retire(srq);
  async_events_.forget(*srq.session, srq.user_handle);
  if (srq.provisioner) srq.provisioner->retire();
  shared_[srq.place] = shared_.back();
  shared_[srq.place]->place = srq.place;
  shared_.pop_back();
  srq.session->receive_queues.remove(srq);
  --srq.session->receive_queue_count;
}

Provisioners ReceiveQueues::make_provisioners(const Tenant& tenant, const SrqPolicy& policy,
                                              const SrqRules& rules) const {
  Provisioners made;
  if (!accounts_wanted(policy, rules)) return made;
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

void ReceiveQueues::set_policy(Tenant& tenant, const SrqPolicy& policy, const SrqRules& rules) {
  tenant.receive_policy = policy;
  tenant.receive_rules = rules;
  if (++rules_ == 0) rules_ = 1;
  for (SharedReceiveQueue* srq : shared_) {
    if (srq->session->tenant != &tenant) continue;
    set_watermark(*srq);
    assert(srq->provisioner || !accounts_wanted(policy, rules));
    if (!srq->provisioner) continue;
    srq->provisioner->set_policy(policy);
    // Queue pairs without an account follow with their next draw.
    srq->provisioner->for_each_account([&](Qpn qpn) {
      QueuePair* qp = queue_pairs_.find(qpn);
      receive::Member* member = qp != nullptr ? member_of(*qp, *srq) : nullptr;
      if (member != nullptr) follow_rules(*qp, *srq, *member);
    });
  }
}

void ReceiveQueues::path_changed(QueuePair& qp) {
  qp.rq.member.rules = 0;
  for (XrcMember& other : qp.rq.xrc_members) other.member.rules = 0;
}

void ReceiveQueues::follow_rules(QueuePair& qp) { follow_rules(qp, *qp.srq, qp.rq.member); }

void ReceiveQueues::follow_rules(const QueuePair& qp, SharedReceiveQueue& srq,
                                 receive::Member& member) {
  if (member.rules == rules_ || !srq.provisioner) return;
  const receive::Terms terms = terms_of(qp, srq);
  member.rules = rules_;
  member.terms.importance = terms.importance;
  member.importance = importance_of(qp, member);
  srq.provisioner->set_terms(member, terms);
}

void ReceiveQueues::set_terms(Qpn qpn, const ReceiveTerms& terms) {
  QueuePair& qp = *queue_pairs_.find(qpn);
  receive::Member& member = qp.rq.member;
  follow_rules(qp);
  if (terms.importance) member.own_importance = *terms.importance;
  if (terms.limit) qp.srq->provisioner->set_limit(member, *terms.limit);
}

/// Draws a receive work request into qp.rq.work. A hostile ring fails its owner.
shm::Take ReceiveQueues::draw(QueuePair& qp) {
  if (qp.srq != nullptr) return draw_shared(qp, *qp.srq);
  const shm::Take take = qp.rq.ring.take(*qp.rq.work);
  qp.rq.drawn = take == shm::Take::kTaken;
  if (take == shm::Take::kHostile) {
    qp.tenant->counters.refused.hostile_memory.add();
    async_events_.raise(qp, EventType::kQpFatal);
    log_.add(event_of(DaemonEventKind::kHostileMemory, *qp.session, qp.qpn, "receive ring"));
    cpu_.fail_later(qp, QpFailure::kReceiveRing);
  }
  return take;
}

shm::Take ReceiveQueues::draw_shared(QueuePair& qp, SharedReceiveQueue& srq) {
  if (srq.failed || qp.rq.given_up) return shm::Take::kEmpty;
  const shm::Take take = srq.provisioner ? draw_provisioned(qp, srq) : srq.ring.take(*qp.rq.work);
  qp.rq.drawn = take == shm::Take::kTaken;
  if (qp.rq.drawn) {
    qp.record.durable->drawn_srq = srq.number;
    qp.record.durable->drawn_counter = srq.ring.taken() - 1;
    keep_store_order();
    qp.record.durable->drawn = 1;
    keep_store_order();
    srq.ring.publish_taken();
  }
  if (take == shm::Take::kHostile) {
    qp.tenant->counters.refused.hostile_memory.add();
    fail(srq);
    log_.add(
        event_of(DaemonEventKind::kHostileMemory, *srq.session, qp.qpn, "shared receive ring"));
    return take;
  }
  note_draw(qp, srq, take);
  if (srq.level.must_look(srq.ring.known())) look_at_level(srq, qp.rq.drawn ? 1 : 0);
  return take;
}

void ReceiveQueues::fail(SharedReceiveQueue& srq) {
  if (std::exchange(srq.failed, true)) return;
  async_events_.raise(*srq.session, srq.user_handle, EventType::kSrqError);
}

/// Draws from a provisioned queue. kEmpty: the queue is empty, or this queue pair may not draw.
shm::Take ReceiveQueues::draw_provisioned(QueuePair& qp, SharedReceiveQueue& srq) {
  receive::Provisioner& provisioner = *srq.provisioner;
  const auto available = account_posts(srq);
  if (!available) return shm::Take::kHostile;
  if (*available == 0) return shm::Take::kEmpty;
  if (qp.rq.member.rules != rules_) follow_rules(qp);
  qp.rq.member.importance = importance_of(qp, qp.rq.member);
  const receive::Decision decision = provisioner.decide(qp.rq.member, qp.qpn, clock_.now);
  if (decision != receive::Decision::kGranted) report(srq, qp, decision);
  if (!receive::is_granted(decision)) return shm::Take::kEmpty;
  const shm::Take take = srq.ring.take(*qp.rq.work);
  if (take == shm::Take::kTaken) provisioner.drawn(qp.rq.member, clock_.now);
  return take;
}

void ReceiveQueues::report(const SharedReceiveQueue& srq, QueuePair& qp,
                           receive::Decision decision) {
  const std::uint32_t held = srq.provisioner->held_by(qp.rq.member);
  switch (decision) {
    case receive::Decision::kGranted:
    case receive::Decision::kRefused:
      return;
    case receive::Decision::kGrantedOverSoftLimit:
      return report(DaemonEventKind::kSrqSoftLimit, srq, qp.qpn, held,
                    srq.provisioner->limit_of(qp.rq.member));
    case receive::Decision::kGrantedAgain:
      return report(DaemonEventKind::kSrqQuarantineOver, srq, qp.qpn, held);
    case receive::Decision::kRefusedFirst:
      return report(DaemonEventKind::kSrqHardLimit, srq, qp.qpn, held);
    case receive::Decision::kQuarantined:
      return report(DaemonEventKind::kSrqQuarantined, srq, qp.qpn, held);
    case receive::Decision::kDropConnection:
      return drop_connection(qp, srq, qp.rq.member);
  }
}

/// Reports new posts to the provisioner. Returns the number of available work requests. Nothing:
/// the ring is hostile.
std::optional<std::uint32_t> ReceiveQueues::account_posts(SharedReceiveQueue& srq) {
  const auto available = srq.ring.available();
  if (!available) return std::nullopt;
  const std::uint32_t posted = srq.ring.posted();
  receive::Provisioner& provisioner = *srq.provisioner;
  // If the program sets its producer counter back, no post counts until the counter exceeds its
  // former value.
  for (unsigned n = 0; n < kPostsPerDraw && ring_distance(posted, srq.accounted) > 0; ++n) {
    if (provisioner.unreplenished() == 0) {
      srq.accounted = posted;
    } else {
      provisioner.posted(srq.ring.first_address(srq.accounted++));
    }
  }
  return available;
}

/// Drops the connection. For a reliable service, the peer's next message is refused with "remote
/// operation error", and then the queue pair fails. The peer thus learns the cause instead of
/// retrying until it times out.
void ReceiveQueues::drop_connection(QueuePair& qp, const SharedReceiveQueue& srq,
                                    const receive::Member& member) {
  if (qp.error.pending || qp.state == QpState::kError || qp.rq.given_up) return;
  qp.tenant->counters.receive.connections_dropped.add();
  report(DaemonEventKind::kSrqConnectionDropped, srq, qp.qpn, srq.provisioner->held_by(member));
  if (is_responder(qp.type)) {
    qp.rq.given_up = true;
    return;
  }
  async_events_.raise(qp, EventType::kQpFatal);
  cpu_.fail_later(qp, QpFailure::kDrewTooMuch);
}

bool ReceiveQueues::has_receive(QueuePair& qp) {
  if (qp.rq.drawn || qp.rq.given_up || (qp.srq == nullptr && !qp.receives())) return true;
  shm::ReceiveRing& ring = qp.srq != nullptr ? qp.srq->ring : qp.rq.ring;
  return ring.available().value_or(1) != 0;
}

/// An XRC target may have lost the queue from which it drew. Then there is nothing to complete.
void ReceiveQueues::complete(QueuePair& qp, const transport::ReceiveCompletion& completion) {
  const bool xrc = qp.type == QpType::kXrcReceive;
  if (xrc && qp.srq == nullptr) return;
  shm::Completion out;
  out.qpn = qp.qpn.value;
  out.index = qp.rq.work->index;
  out.byte_len = completion.byte_len;
  out.imm = completion.verdict == Verdict::kFlushed ? flush_error(qp.error.cause) : completion.imm;
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
                                   qp.rq.work->count == 0 ? 0 : qp.rq.work->entries[0].addr);
  }
  qp.rq.drawn = qp.rq.resumed = false;
  CompletionQueue& cq = xrc ? *qp.srq->cq : *qp.rq.cq;
  QpDurable& durable = *qp.record.durable;
  const std::uint32_t received = qp.receives() ? qp.rq.ring.taken() : durable.received;
  durable.begin_taken({cq.ring.next_counter(), out.index},
                      qp.taken_behind(completion.verdict == Verdict::kOk), received % 2 != 0);
  completion_queues_.push(cq, out, completion.solicited);
  durable.end_taken(received);
}

}  // namespace softhca::engine
