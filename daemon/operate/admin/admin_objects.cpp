// SPDX-License-Identifier: Apache-2.0

// The methods `qps` and `srqs`. Their lists may be long, so they come in pages, and the engine's
// thread copies the changing parts of a few objects at a time.
#include <algorithm>
#include <optional>

#include "daemon/operate/admin/admin_view.hpp"
#include "daemon/operate/admin/srq_advice.hpp"

namespace softhca::control {
namespace {

// Objects copied in one task of the engine, which takes some microseconds.
constexpr std::size_t kQueuePairStep = 128;
constexpr std::size_t kSrqStep = 1;  // ranking its score board takes long

/// The state of a queue pair that the engine changes.
struct QpShot {
  engine::QpState state{};
  Qpn destination;
  Gid peer;
  bool local = false;
  std::uint32_t commands = 0;
  std::uint32_t dedicated = 0;
  std::uint32_t started = 0;
  std::uint32_t begun = 0;  ///< total so far
  std::uint32_t mtu = 0;
  std::uint32_t srq = 0;
  engine::RetryCounters retries;
  std::uint32_t srq_held = 0;
  std::uint32_t srq_limit = 0;
  std::uint8_t srq_rule = 0;
  bool srq_quarantined = false;
  const engine::Level* level = nullptr;  ///< only the control thread removes levels
  Json rate;                             ///< null: none
  engine::QpFailure failure = engine::QpFailure::kNone;
};

struct ShownQp {
  const DeviceSession* session;
  const engine::QueuePair* qp;
};

/// The state of a provisioned queue that the engine changes (mechanism D).
struct ProvisionShot {
  SrqPolicy policy;
  std::uint32_t active = 0;
  std::uint32_t held = 0;
  std::uint32_t unassigned = 0;
  std::uint32_t quarantined = 0;
  std::uint64_t refused = 0;
  receive::Alarm board;
};

/// A queue pair of the score board or, if the queue has no accounts, of the top drawers.
struct UserShot {
  Qpn qpn;
  Gid peer;
  std::uint8_t rule = 0;
  bool own_limit = false;
  receive::Offender account;
  std::uint32_t draws = 0;  ///< lower bound of its draws, of those counted lately
};

struct SrqShot {
  std::uint32_t number = 0;
  std::optional<std::uint32_t> available;
  std::uint32_t limit = 0;
  std::uint32_t queue_pairs = 0;
  bool failed = false;
  receive::QueueLevel level;
  std::uint64_t draws = 0;
  std::uint32_t lately = 0;  ///< draws counted for the top drawers
  std::uint64_t empty = 0;
  std::uint32_t most_waiting = 0;
  std::vector<UserShot> users;
  std::optional<ProvisionShot> provision;
};

struct ShownSrq {
  const DeviceSession* session;
  engine::SharedReceiveQueue* srq;
  std::uint32_t max_wr;
};

const char* name_of(engine::QpType type) {
  switch (type) {
    case engine::QpType::kRc:
      return "RC";
    case engine::QpType::kUc:
      return "UC";
    case engine::QpType::kUd:
      return "UD";
    case engine::QpType::kXrcSend:
      return "XRC_SEND";
    case engine::QpType::kXrcReceive:
      return "XRC_RECV";
  }
  return "?";
}

QpShot shot_of(engine::Engine& engine, const engine::QueuePair& qp) {
  const bool provisioned = qp.srq != nullptr && qp.srq->provisioner != nullptr;
  engine::QueuePair* const found = provisioned ? engine.find_queue_pair(qp.qpn) : nullptr;
  if (found == &qp) engine.receive_queues().follow_rules(*found);
  return {
      .state = qp.state,
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
      .rate = qp.sq.rates == nullptr
                  ? Json()
                  : control::to_json(*qp.sq.rates, engine.cpu().minimums().of_queue_pair(qp.slot)),
      .failure = qp.error.cause};
}

/// Returns the queue pairs that drew lately.
std::vector<UserShot> users_of(engine::Engine& engine, const engine::SharedReceiveQueue& srq,
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
    const engine::QueuePair* qp = engine.find_queue_pair(user.qpn);
    if (qp == nullptr || qp->srq != &srq) continue;
    user.peer = qp->connection.route.path.destination;
    user.rule = qp->rq.member.terms.rule;
    user.own_limit = qp->rq.member.limit != receive::Member::kByPolicy;
  }
  return users;
}

SrqShot shot_of(engine::Engine& engine, engine::SharedReceiveQueue& srq) {
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
                                   .board = p->score_board(engine.clock().now)};
  shot.users = users_of(engine, srq, shot.provision ? shot.provision->board : receive::Alarm{});
  return shot;
}

Json to_json(const ShownQp& entry, const QpShot& shot) {
  const engine::QueuePair& qp = *entry.qp;
  Json out = {{"qpn", qp.qpn.value},
              {"type", name_of(qp.type)},
              {"state", name_of(shot.state)},
              {"tenant", entry.session->tenant().name},
              {"pid", entry.session->peer().pid},
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
  if (!shot.rate.is_null()) out["rate"] = shot.rate;
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
              {"pid", entry.session->peer().pid},
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

/// Returns shot_of() of each entry's object, taken on the engine's thread, `step` objects in one
/// task.
template <class Shot, class Entry, class Object>
std::vector<Shot> shots_of(engine::Worker& worker, const std::vector<Entry>& entries,
                           Object* Entry::*object, std::size_t step) {
  std::vector<Shot> shots(entries.size());
  for (std::size_t first = 0; first < entries.size(); first += step)
    worker.run([&](engine::Engine& engine) {
      const std::size_t end = std::min(first + step, entries.size());
      for (std::size_t i = first; i < end; ++i) shots[i] = shot_of(engine, *(entries[i].*object));
    });
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
      session->for_each_qp([&](const engine::QueuePair& qp) {
        if (qp.qpn.value > after) found.push_back({session, &qp});
      });
  const std::size_t taken = std::min(found.size(), limit);
  const auto end = found.begin() + static_cast<std::ptrdiff_t>(taken);
  std::partial_sort(found.begin(), end, found.end(),
                    [](const auto& a, const auto& b) { return a.qp->qpn < b.qp->qpn; });
  const bool more = end != found.end();
  found.resize(taken);
  const auto shots = shots_of<QpShot>(adapter_.worker, found, &ShownQp::qp, kQueuePairStep);
  Json list = Json::array();
  for (std::size_t i = 0; i < found.size(); ++i) list.push_back(to_json(found[i], shots[i]));
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
  const auto shots = shots_of<SrqShot>(adapter_.worker, found, &ShownSrq::srq, kSrqStep);
  Json list = Json::array();
  for (std::size_t i = 0; i < found.size(); ++i) list.push_back(to_json(found[i], shots[i]));
  Json out = {{"srqs", std::move(list)}};
  if (more) out["next"] = found.back().srq->number;
  return out;
}

}  // namespace softhca::control
