// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/requests/showing.hpp"

#include <algorithm>

#include "daemon/engine/engine.hpp"

namespace softhca::engine {
namespace {

GateShot shot_of(const RateGate& gate) {
  return {.limits = gate.limits(), .held = gate.held.value() != 0, .held_ns = gate.held_ns.value()};
}

std::optional<QpRatesShot> rates_of(Engine& engine, const QueuePair& qp) {
  if (qp.sq.rates == nullptr) return std::nullopt;
  const QpRates& rates = *qp.sq.rates;
  return QpRatesShot{
      .sent = shot_of(rates.sent),
      .inbound = shot_of(rates.peers.inbound),
      .served = shot_of(rates.peers.served),
      .min_bytes_per_second = engine.cpu().minimums().of_queue_pair(qp.slot).per_second};
}

QpShot shot_of(Engine& engine, const QueuePair& qp) {
  const bool provisioned = qp.srq != nullptr && qp.srq->provisioner != nullptr;
  QueuePair* const found = provisioned ? engine.durable().queue_pairs.find(qp.qpn) : nullptr;
  if (found == &qp) engine.receive_queues().follow_rules(*found);
  return {.state = qp.state,
          .destination = qp.connection.destination,
          .peer = qp.connection.route.path.destination,
          .local = qp.is_local(),
          .commands = qp.sq.commands,
          .dedicated = qp.sq.dedicated,
          .started = qp.sq.started,
          .begun = qp.sq.not_begun,
          .mtu = qp.rc.mtu,
          .srq = qp.srq == nullptr ? 0 : qp.srq->number,
          .retries = qp.record.retries,
          .srq_held = provisioned ? qp.srq->provisioner->held_by(qp.rq.member) : 0,
          .srq_limit = provisioned ? qp.srq->provisioner->limit_of(qp.rq.member) : 0,
          .srq_rule = qp.rq.member.terms.rule,
          .srq_quarantined = provisioned && qp.srq->provisioner->is_quarantined(qp.rq.member),
          .level = level_of(qp),
          .rates = rates_of(engine, qp),
          .failure = qp.error.cause};
}

/// Returns the queue pairs that drew lately.
std::vector<UserShot> users_of(Engine& engine, const SharedReceiveQueue& srq,
                               const receive::Alarm& board) {
  std::vector<UserShot> users;
  for (std::size_t i = 0; i < board.count; ++i) {
    users.push_back({.qpn = board.offenders[i].qpn});
    users.back().account = board.offenders[i];
  }
  for (const receive::TopDrawers::Drawer& who : srq.drawers.ranked()) {
    if (who.count == 0) continue;
    auto user = std::find_if(users.begin(), users.end(),
                             [&](const UserShot& u) { return u.qpn == who.qpn; });
    if (user == users.end() && srq.provisioner) continue;
    if (user == users.end()) user = users.insert(user, UserShot{.qpn = who.qpn});
    user->draws = who.certain();
  }
  for (UserShot& user : users) {
    const QueuePair* qp = engine.durable().queue_pairs.find(user.qpn);
    if (qp == nullptr || qp->srq != &srq) continue;
    user.peer = qp->connection.route.path.destination;
    user.rule = qp->rq.member.terms.rule;
    user.own_limit = qp->rq.member.limit != receive::Member::kByPolicy;
  }
  return users;
}

}  // namespace

std::optional<FoundQp> FindQp::run(Engine& engine) const {
  const QueuePair* const qp = engine.durable().queue_pairs.find(qpn);
  if (qp == nullptr) return std::nullopt;
  FoundQp found{.tenant = qp->tenant, .user = std::nullopt, .is_local = qp->is_local()};
  if (qp->session != nullptr) found.user = qp->session->user;
  return found;
}

QpDetails ShowQp::run(Engine& engine) const {
  const QueuePair& qp = *engine.durable().queue_pairs.find(qpn);
  return {.type = qp.type,
          .state = qp.state,
          .since = qp.record.state_since,
          .now = engine.clock().now,
          .source = qp.connection.route.path.source,
          .access = qp.access,
          .qkey = qp.qkey,
          .rc = qp.rc,
          .refusal = engine.queue_pairs().refusal(qp),
          .past = engine.queue_pairs().past(qp)};
}

void CopyQps::run(Engine& engine) const {
  for (std::size_t i = 0; i < queue_pairs.size(); ++i) shots[i] = shot_of(engine, *queue_pairs[i]);
}

SrqShot CopySrq::run(Engine& engine) const {
  SrqShot shot{.number = srq.number,
               .available = srq.ring.available(),
               .limit = srq.level.armed(),
               .queue_pairs = srq.users,
               .failed = srq.failed,
               .level = srq.level,
               .draws = srq.drawers.draws(),
               .lately = srq.drawers.total(),
               .empty = srq.empty,
               .most_waiting = srq.most_waiting,
               .users = {},
               .provision = {}};
  if (const receive::Provisioner* p = srq.provisioner.get())
    shot.provision = ProvisionShot{.policy = p->policy(),
                                   .active = p->accounts_in_use(),
                                   .held = p->figures().held,
                                   .unassigned = p->unassigned(),
                                   .quarantined = p->figures().quarantined,
                                   .refused = p->figures().refused,
                                   .board = p->ranking(engine.clock().now)};
  shot.users = users_of(engine, srq, shot.provision ? shot.provision->board : receive::Alarm{});
  return shot;
}

void CheckPaths::run(Engine& engine) const {
  for (std::size_t i = 0; i < paths.size(); ++i) reaches[i] = engine.packets().reach_of(paths[i]);
}

}  // namespace softhca::engine
