// SPDX-License-Identifier: Apache-2.0

// The methods `qps` and `srqs`. Their lists may be long, so they come in pages, and the engine's
// thread copies the changing parts of a few objects at a time.
#include <algorithm>
#include <span>
#include <vector>

#include "daemon/configuration/address.hpp"
#include "daemon/device/session/device_session.hpp"
#include "daemon/engine/requests/showing.hpp"
#include "daemon/operate/admin/admin_view.hpp"
#include "daemon/operate/admin/srq_advice.hpp"

namespace softhca::control {
namespace {

using engine::ProvisionShot;
using engine::QpShot;
using engine::SrqShot;
using engine::UserShot;

// Queue pairs copied by one request to the engine, which takes some microseconds.
constexpr std::size_t kQueuePairStep = 128;

struct ShownQp {
  const DeviceSession* session;
  const engine::QueuePair* qp;
};

struct ShownSrq {
  const DeviceSession* session;
  engine::SharedReceiveQueue* srq;
  std::uint32_t max_wr;
};

Json to_json(const ShownQp& entry, const QpShot& shot) {
  const engine::QueuePair& qp = *entry.qp;
  Json out = {{"qpn", qp.qpn.value},
              {"type", name_of(qp.type)},
              {"state", name_of(shot.state)},
              {"tenant", entry.session->tenant().name},
              {"pid", entry.session->process().pid},
              {"tvl", qp.sq.tvl.value},
              {"commands", shot.commands},
              {"dedicated", shot.dedicated},
              {"started", shot.started},
              {"begun", shot.begun},
              {"mtu", shot.mtu},
              {"retransmitted_packets", shot.retries.packets},
              {"timeouts", shot.retries.timeouts},
              {"early_retries", shot.retries.early},
              {"rnr_naks_received", shot.retries.rnr_naks},
              {"sequence_naks_received", shot.retries.sequence_naks}};
  if (shot.level != nullptr) out["level"] = shot.level->name;
  const bool connected = qp.type != engine::QpType::kUd && shot.state >= engine::QpState::kRtr;
  if (connected && shot.peer != Gid{}) {
    out["destination"] = configuration::to_string(shot.peer);
    out["destination_qpn"] = shot.destination.value;
    out["path"] = shot.local ? "local" : "wire";
  }
  if (shot.srq != 0) {
    out["srq"] = shot.srq;
    out["srq_held"] = shot.srq_held;
    out["srq_limit"] = shot.srq_limit;
    out["srq_quarantined"] = shot.srq_quarantined;
    if (shot.srq_rule != 0) out["srq_rule"] = shot.srq_rule;
  }
  if (shot.rates) out["rate"] = control::to_json(*shot.rates);
  if (shot.failure != engine::QpFailure::kNone) out["failure"] = text_of(shot.failure);
  return out;
}

Json to_json(const ProvisionShot& shot) {
  const SrqPolicy& policy = shot.policy;
  return {{"policy",
           {{"limits", policy.limits},
            {"kind", kLimitKinds[static_cast<std::size_t>(policy.kind)]},
            {"on_exceed", kOnExceeds[static_cast<std::size_t>(policy.on_exceed)]},
            {"statistical", policy.statistical},
            {"overcommit", policy.overcommit},
            {"watermark", policy.watermark}}},
          {"active_queue_pairs", shot.active},
          {"held", shot.held},
          {"unassigned", shot.unassigned},
          {"quarantined", shot.quarantined},
          {"refused", shot.refused}};
}

/// Returns a user of the queue; with an account, also what it holds and its score.
Json to_json(const UserShot& user, bool has_account) {
  Json out = {{"qpn", user.qpn.value}, {"draws", user.draws}};
  if (user.peer != Gid{}) out["peer"] = configuration::to_string(user.peer);
  if (user.rule != 0) out["rule"] = user.rule;
  if (!has_account) return out;
  out["held"] = user.account.held;
  out["limit"] = user.account.limit;
  out["score"] = user.account.score;
  out["quarantined"] = user.account.quarantined;
  return out;
}

SrqFigures figures_of(const ShownSrq& entry, const SrqShot& shot) {
  SrqFigures figures{.queue_pairs = shot.queue_pairs,
                     .size = entry.max_wr,
                     .most_available = shot.level.most(),
                     .peak = shot.level.peak(),
                     .draws = shot.draws,
                     .empty = shot.empty,
                     .most_waiting = shot.most_waiting,
                     .refused = shot.provision ? shot.provision->refused : 0,
                     .lately = shot.lately,
                     .users = {}};
  for (const UserShot& user : shot.users)
    figures.users.push_back({.qpn = user.qpn,
                             .peer = user.peer != Gid{} ? configuration::to_string(user.peer) : "",
                             .held = user.account.held,
                             .limit = user.account.limit,
                             .soft = user.account.soft,
                             .quarantined = user.account.quarantined,
                             .own_limit = user.own_limit,
                             .rule = user.rule,
                             .draws = user.draws > shot.lately / 2 ? user.draws : 0});
  return figures;
}

Json to_json(const ShownSrq& entry, const SrqShot& shot) {
  Json board = Json::array();
  for (const UserShot& user : shot.users)
    board.push_back(to_json(user, shot.provision.has_value()));
  Json out = {{"srq", shot.number},
              {"tenant", entry.session->tenant().name},
              {"pid", entry.session->process().pid},
              {"max_wr", entry.max_wr},
              {"limit", shot.limit},
              {"queue_pairs", shot.queue_pairs},
              {"failed", shot.failed},
              {"peak", shot.level.peak()},
              {"draws", shot.draws},
              {"found_empty", shot.empty},
              {"most_waiting", shot.most_waiting},
              {"score_board", std::move(board)},
              {"advice", advice_on(figures_of(entry, shot))}};
  if (shot.available) out["available"] = *shot.available;
  if (shot.provision) out["provisioning"] = to_json(*shot.provision);
  const DeviceSession::ObjectCounts has = entry.session->object_counts();
  if (has.level != nullptr) out["level"] = has.level->name;
  return out;
}

/// Returns the state of the queue pairs, a few of them by each request.
std::vector<QpShot> shots_of(engine::Worker& worker, const std::vector<ShownQp>& entries) {
  std::vector<const engine::QueuePair*> queue_pairs;
  for (const ShownQp& entry : entries) queue_pairs.push_back(entry.qp);
  std::vector<QpShot> shots(entries.size());
  for (std::size_t first = 0; first < entries.size(); first += kQueuePairStep) {
    const std::size_t count = std::min(kQueuePairStep, entries.size() - first);
    worker.run(engine::CopyQps{std::span(queue_pairs).subspan(first, count),
                               std::span(shots).subspan(first, count)});
  }
  return shots;
}

}  // namespace

/// Lists queue pairs in the order of their numbers: {tenant?, after?, limit?}. The answer has
/// `next` if there are more.
RpcResult AdminView::queue_pairs(const Json& params) {
  const auto tenant = param<std::string>(params, "tenant", "");
  if (!tenant.empty() && find_tenant(tenant) == nullptr) return no_such("tenant", tenant);
  const auto after = param<std::int64_t>(params, "after", -1);
  const std::size_t limit = std::max<std::size_t>(page_limit(params), 1);
  std::vector<ShownQp> found;
  for (const DeviceSession* session : sessions_())
    if (tenant.empty() || session->tenant().name == tenant)
      session->queue_pairs().for_each([&](const engine::QueuePair& qp) {
        if (qp.qpn.value > after) found.push_back({session, &qp});
      });
  const std::size_t taken = std::min(found.size(), limit);
  const auto end = found.begin() + static_cast<std::ptrdiff_t>(taken);
  std::partial_sort(found.begin(), end, found.end(),
                    [](const auto& a, const auto& b) { return a.qp->qpn < b.qp->qpn; });
  const bool more = end != found.end();
  found.resize(taken);
  const auto shots = shots_of(adapter_.worker, found);
  Json list = Json::array();
  for (std::size_t i = 0; i < found.size(); ++i) {
    list.push_back(to_json(found[i], shots[i]));
    const engine::QueuePair& qp = *found[i].qp;
    if (const std::string device = adapter_.name_among_several(*qp.tenant, qp.rq.device);
        !device.empty())
      list.back()["device"] = device;
  }
  Json out = {{"qps", std::move(list)}};
  if (more) out["next"] = found.back().qp->qpn.value;
  return out;
}

/// Lists shared receive queues in the order of their numbers. Parameters and `next` as for
/// queue_pairs().
RpcResult AdminView::shared_receive_queues(const Json& params) {
  const auto tenant = param<std::string>(params, "tenant", "");
  if (!tenant.empty() && find_tenant(tenant) == nullptr) return no_such("tenant", tenant);
  const auto after = param<std::int64_t>(params, "after", -1);
  const std::size_t limit = std::max<std::size_t>(page_limit(params), 1);
  std::vector<ShownSrq> found;
  for (const DeviceSession* session : sessions_())
    if (tenant.empty() || session->tenant().name == tenant)
      session->for_each_srq(
          [&](std::uint32_t, engine::SharedReceiveQueue& srq, std::uint32_t max_wr) {
            if (srq.number > after) found.push_back({session, &srq, max_wr});
          });
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.srq->number < b.srq->number; });
  const bool more = found.size() > limit;
  found.resize(std::min(found.size(), limit));
  Json list = Json::array();
  for (const ShownSrq& entry : found)
    list.push_back(to_json(entry, adapter_.worker.run(engine::CopySrq{*entry.srq})));
  Json out = {{"srqs", std::move(list)}};
  if (more) out["next"] = found.back().srq->number;
  return out;
}

}  // namespace softhca::control
