// The methods `qps` and `srqs`: lists that may be long, so they come in pages, and their changing
// parts are copied on the engine's thread, a few at a time.
#include <algorithm>
#include <optional>

#include "daemon/control/admin/admin_view.hpp"

namespace softhca::control {
namespace {

// Objects looked at in one task of the engine: some microseconds.
constexpr std::size_t kQueuePairStep = 128;
constexpr std::size_t kSrqStep = 1;  // its score board is ranked

/// What the engine changes of a queue pair.
struct QpShot {
  engine::QpState state{};
  Qpn destination;
  Gid peer;
  bool local = false;
  std::uint32_t commands = 0;
  std::uint32_t dedicated = 0;
  std::uint32_t started = 0;
  std::uint32_t mtu = 0;
  std::uint32_t srq = 0;
  engine::RetryCounters retries;
  std::uint32_t srq_held = 0;
  std::uint32_t srq_limit = 0;
  Json rate;  ///< null: it has none
  const char* failure = nullptr;
};

struct ShownQp {
  const Session* session;
  const engine::QueuePair* qp;
};

/// What the engine changes of a provisioned queue (mechanism D).
struct ProvisionShot {
  SrqPolicy policy;
  std::uint32_t active = 0;
  std::uint32_t held = 0;
  std::uint32_t unassigned = 0;
  receive::Alarm board;
};

struct SrqShot {
  std::uint32_t number = 0;
  std::optional<std::uint32_t> available;
  std::uint32_t limit = 0;
  std::uint32_t users = 0;
  bool failed = false;
  std::optional<ProvisionShot> provision;
};

struct ShownSrq {
  const Session* session;
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

const char* name_of(engine::QpState state) {
  constexpr const char* kNames[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
  return kNames[static_cast<std::size_t>(state)];
}

QpShot shot_of(engine::Engine&, const engine::QueuePair& qp) {
  const bool provisioned = qp.srq != nullptr && qp.srq->provisioner != nullptr;
  return {.state = qp.state,
          .destination = qp.connection.destination,
          .peer = qp.connection.route.path.destination,
          .local = qp.is_local(),
          .commands = qp.sq.commands,
          .dedicated = qp.sq.dedicated,
          .started = qp.sq.started,
          .mtu = qp.rc.mtu,
          .srq = qp.srq == nullptr ? 0 : qp.srq->number,
          .retries = qp.retries,
          .srq_held = provisioned ? qp.srq->provisioner->held_by(qp.rq.member) : 0,
          .srq_limit = provisioned ? qp.srq->provisioner->limit_of(qp.rq.member) : 0,
          .rate = qp.sq.rate == nullptr ? Json() : control::to_json(*qp.sq.rate),
          .failure = qp.error.cause};
}

SrqShot shot_of(engine::Engine& engine, engine::SharedReceiveQueue& srq) {
  SrqShot shot{.number = srq.number,
               .available = srq.ring.available(),
               .limit = srq.limit,
               .users = srq.users,
               .failed = srq.failed,
               .provision = {}};
  if (const receive::Provisioner* p = srq.provisioner.get())
    shot.provision = ProvisionShot{.policy = p->policy(),
                                   .active = p->accounts_in_use(),
                                   .held = p->held(),
                                   .unassigned = p->unassigned(),
                                   .board = p->score_board(engine.now())};
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
              {"mtu", shot.mtu},
              {"retransmitted_packets", shot.retries.packets},
              {"timeouts", shot.retries.timeouts},
              {"early_retries", shot.retries.early},
              {"rnr_naks_received", shot.retries.rnr_naks},
              {"sequence_naks_received", shot.retries.sequence_naks}};
  const Session::ObjectCounts has = entry.session->object_counts();
  if (has.level != nullptr) out["level"] = has.level->name;
  const bool connected = qp.type != engine::QpType::kUd && shot.state >= engine::QpState::kRtr;
  if (connected && shot.peer != Gid{}) {
    out["destination"] = resource::to_string(shot.peer);
    out["destination_qpn"] = shot.destination.value;
    out["path"] = shot.local ? "local" : "wire";
  }
  if (shot.srq != 0) {
    out["srq"] = shot.srq;
    out["srq_held"] = shot.srq_held;
    out["srq_limit"] = shot.srq_limit;
  }
  if (!shot.rate.is_null()) out["rate"] = shot.rate;
  if (shot.failure != nullptr) out["failure"] = shot.failure;
  return out;
}

Json to_json(const ProvisionShot& shot) {
  const SrqPolicy& policy = shot.policy;
  Json board = Json::array();
  for (std::size_t i = 0; i < shot.board.count; ++i) {
    const receive::Offender& who = shot.board.offenders[i];
    board.push_back(
        {{"qpn", who.qpn.value}, {"held", who.held}, {"limit", who.limit}, {"score", who.score}});
  }
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
          {"score_board", std::move(board)}};
}

Json to_json(const ShownSrq& entry, const SrqShot& shot) {
  Json out = {{"srq", shot.number},
              {"tenant", entry.session->tenant().name},
              {"pid", entry.session->peer().pid},
              {"max_wr", entry.max_wr},
              {"limit", shot.limit},
              {"queue_pairs", shot.users},
              {"failed", shot.failed}};
  if (shot.available) out["available"] = *shot.available;
  if (shot.provision) out["provisioning"] = to_json(*shot.provision);
  const Session::ObjectCounts has = entry.session->object_counts();
  if (has.level != nullptr) out["level"] = has.level->name;
  return out;
}

/// shot_of() for each entry's object, taken on the engine's thread, `step` in one task.
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

/// Queue pairs in the order of their numbers: {tenant?, after?, limit?}; `next` is there when there
/// are more.
RpcResult AdminView::queue_pairs(const Json& params) {
  const auto tenant = param<std::string>(params, "tenant", "");
  if (!tenant.empty() && find_tenant(tenant) == nullptr) return no_such("tenant", tenant);
  const auto after = param<std::int64_t>(params, "after", -1);
  const std::size_t limit = std::max<std::size_t>(page_limit(params), 1);
  std::vector<ShownQp> found;
  for (const Session* session : sessions_())
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

/// Shared receive queues in the order of their numbers; parameters and `next` as for queue_pairs().
RpcResult AdminView::shared_receive_queues(const Json& params) {
  const auto tenant = param<std::string>(params, "tenant", "");
  if (!tenant.empty() && find_tenant(tenant) == nullptr) return no_such("tenant", tenant);
  const auto after = param<std::int64_t>(params, "after", -1);
  const std::size_t limit = std::max<std::size_t>(page_limit(params), 1);
  std::vector<ShownSrq> found;
  for (const Session* session : sessions_())
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
