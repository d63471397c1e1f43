#include "daemon/engine/engine.hpp"
#include "daemon/engine/costs.hpp"
#include "daemon/engine/datagram_service.hpp"

#include <algorithm>
#include <atomic>
#include <cassert>

namespace softhca::engine {
namespace {

// The retries of a peer fall into this: its early ones and, with the timeouts of common programs
// (up to 0.5 s), several counted ones.
constexpr Duration kTimeWait = std::chrono::seconds(4);
constexpr unsigned kResponsesAtTheEnd = 32;

}  // namespace

const char* name_of(FrameDrop reason) {
  switch (reason) {
    case FrameDrop::kUnknownAddress:
      return "unknown_address";
    case FrameDrop::kUnknownQueuePair:
      return "unknown_queue_pair";
    case FrameDrop::kForeignPeer:
      return "foreign_peer";
    case FrameDrop::kForeignVlan:
      return "foreign_vlan";
    case FrameDrop::kWrongTransport:
      return "wrong_transport";
    case FrameDrop::kPartitionKey:
      return "partition_key";
    case FrameDrop::kNoGroupMember:
      return "no_group_member";
    case FrameDrop::kCount:
      break;
  }
  return "unknown";
}

const char* name_of(SendQueueCause cause) {
  switch (cause) {
    case SendQueueCause::kNoPcb:
      return "no_pcb";
    case SendQueueCause::kOrder:
      return "order";
    case SendQueueCause::kKickListFull:
      return "kick_list_full";
    case SendQueueCause::kCount:
      break;
  }
  return "unknown";
}

Engine::Engine(const EngineLimits& limits, EventSink& events)
    : async_events_(events, clock_),
      completion_events_(events, async_events_, clock_),
      multicast_(addresses_),
      pcbs_({.pcbs = limits.pcbs,
             .dedicated = limits.dedicated_pcbs,
             .max_groups = static_cast<std::uint16_t>(limits.tenants + limits.levels)}),
      queue_pairs_(limits.queue_pairs),
      overflow_places_(queue_pairs_),
      scheduler_({.max_queue_pairs = queue_pairs_.slots(),
                  // Tenants, then levels by number, which is that of their collect group.
                  .max_tenants = static_cast<std::uint16_t>(2 * limits.tenants + limits.levels),
                  .quantum = 16,
                  .doorbells = limits.doorbells},
                 overflow_places_),
      tvls_({.max_tvls = limits.tvls,
             .execution_credits = limits.execution_credits,
             .completion_credits = limits.completion_credits}),
      arbitrator_(tvls_, pcbs_.size()),
      memory_(limits.memory_regions, limits.memory_windows),
      cpu_(clock_, queue_pairs_.slots(), limits.tenants,
           static_cast<std::uint16_t>(scheduler_.max_tenants())),
      commands_(clock_, queue_pairs_, cpu_, pcbs_, scheduler_, arbitrator_),
      ingress_(clock_, queue_pairs_, cpu_, commands_, pcbs_, scheduler_, arbitrator_, async_events_,
               event_log_, limits.vcbs, limits.tenants),
      dispatch_(clock_, queue_pairs_, cpu_, commands_, pcbs_, scheduler_, arbitrator_),
      lending_(clock_, addresses_, ingress_, pcbs_, tvls_, arbitrator_, limits.tenants),
      receive_queues_(clock_, queue_pairs_, cpu_, async_events_, completion_events_, event_log_),
      payloads_(pcbs_, memory_, receive_queues_),
      packets_(clock_, congestion_parameters_, addresses_, cpu_, payloads_),
      congestion_(clock_, congestion_parameters_, packets_),
      parts_{.ended = *this,
             .commands = commands_,
             .pcbs = pcbs_,
             .memory = memory_,
             .receives = receive_queues_,
             .congestion = congestion_,
             .cpu = cpu_,
             .events = async_events_},
      first_level_party_(limits.tenants) {
  timers_.reserve(queue_pairs_.slots());
}

Engine::~Engine() = default;

/// The send queue scheduler takes turns between levels as between tenants: each has dedicated PCBs
/// and a kick list for them that it may run out of.
TenantId Engine::party_of(LevelId level) const {
  return TenantId(static_cast<std::uint16_t>(first_level_party_ + level.value));
}

void Engine::add_level(const Level& level) {
  commands_.reset(party_of(level.id));
  scheduler_.reset(party_of(level.id));
}

void Engine::add_tenant(Tenant& tenant) {
  commands_.reset(tenant.id);
  scheduler_.reset(tenant.id);
  addresses_.add(tenant);
  rates_.reserve(addresses_.tenants().size());
}

void Engine::remove_tenant(Tenant& tenant) {
  addresses_.remove(tenant);
  rates_.forget(tenant);
}

Expected<TvlId> Engine::add_tvl(const schedule::TvlConfig& config) {
  const auto added = tvls_.add(config);
  if (added) arbitrator_.reset(*added);
  find_weights();
  return added;
}

Outcome Engine::change_tvl(TvlId id, const schedule::TvlConfig& config) {
  const Outcome changed = tvls_.change(id, config);
  arbitrator_.refresh();
  find_weights();
  return changed;
}

Outcome Engine::close_tvl(TvlId id) {
  const Outcome closed = tvls_.close(id);
  if (closed) leave_tvl(id);
  arbitrator_.refresh();
  find_weights();
  return closed;
}

/// A tenant weighs in the engine's time as much as the heaviest of its TVLs in the arbitrator's
/// rounds, and so does a level among those of its tenant.
void Engine::find_weights() {
  std::vector<std::uint32_t> tenants(first_level_party_, 1), parties(scheduler_.max_tenants(), 1);
  for (std::uint16_t i = 0; i < tvls_.size(); ++i) {
    const schedule::Tvl& tvl = tvls_[TvlId(i)];
    if (!tvl.used || tvl.closing || tvl.purpose != schedule::TvlPurpose::kCommands) continue;
    assert(tvl.tenant.value < tenants.size());
    const TenantId party = tvl.level == kNoLevel ? tvl.tenant : party_of(tvl.level);
    for (std::uint32_t* weight : {&tenants[tvl.tenant.value], &parties[party.value]})
      *weight = std::max(*weight, tvl.weight);
  }
  for (schedule::RunQueue* order : {&cpu_.order(), &ingress_.order()}) {
    for (std::uint16_t i = 0; i < tenants.size(); ++i)
      order->set_tenant_weight(TenantId(i), tenants[i]);
    for (std::uint16_t i = 0; i < parties.size(); ++i) order->set_weight(TenantId(i), parties[i]);
  }
}

/// That of its level, else one of the tenant's that no level has. Who was there before all of them
/// were divided goes on with the default level's.
std::optional<TvlId> Engine::tvl_for(const QueuePair& qp, schedule::TvlPurpose purpose) const {
  const TenantId tenant = qp.tenant->id;
  if (const auto own = tvls_.pick_tvl(tenant, qp.session->level_id(), qp.qpn, purpose)) return own;
  for (const bool wanted : {true, false})
    for (const auto& level : qp.tenant->levels)
      if (level->is_default == wanted)
        if (const auto other = tvls_.pick_tvl(tenant, level->id, qp.qpn, purpose)) return other;
  return std::nullopt;
}

void Engine::join_tvls(QueuePair& qp) {
  const auto tvl = tvl_for(qp, schedule::TvlPurpose::kCommands);
  const auto dedicated = tvl_for(qp, schedule::TvlPurpose::kDedicated);
  assert(tvl && dedicated);  // every tenant is configured with both
  qp.tvl = *tvl;
  qp.dedicated_tvl = *dedicated;
  tvls_.attach(qp.tvl);
  tvls_.attach(qp.dedicated_tvl);
}

void Engine::leave_tvls(QueuePair& qp) {
  tvls_.detach(qp.tvl);
  tvls_.detach(qp.dedicated_tvl);
}

/// False: there is no other one.
bool Engine::leave_tvl(QueuePair& qp, TvlId id) {
  for (const auto purpose : {schedule::TvlPurpose::kCommands, schedule::TvlPurpose::kDedicated}) {
    TvlId& tvl = purpose == schedule::TvlPurpose::kCommands ? qp.tvl : qp.dedicated_tvl;
    if (tvl != id) continue;
    const auto other = tvl_for(qp, purpose);
    if (!other) return false;
    tvls_.detach(id);
    tvls_.attach(*other);
    tvl = *other;
  }
  return true;
}

/// Its queue pairs go on with the other TVLs of their level, and so do their commands that wait for
/// a credit, in their order. The last TVL keeps them.
void Engine::leave_tvl(TvlId id) {
  bool last = false;
  queue_pairs_.for_each([&](QueuePair& qp) { last |= !leave_tvl(qp, id); });
  if (last) return;
  const bool dedicated = tvls_[id].purpose == schedule::TvlPurpose::kDedicated;
  while (const auto pcb = arbitrator_.first(id)) {
    const QueuePair& qp = commands_.owner(*pcb);
    arbitrator_.move(*pcb, dedicated ? qp.dedicated_tvl : qp.tvl);
  }
}

void Engine::install(Session& session) {
  session.party = session.level != nullptr ? party_of(session.level->id) : session.tenant->id;
  cpu_.order().join(session.party, session.tenant->id);
  ingress_.add(session);
  find_weights();
  pcbs_.recall(session.group());
  session.tenant->counters.sessions.add();
  if (session.level != nullptr) session.level->counters.sessions.add();
}

void Engine::remove(Session& session) {
  ingress_.remove(session);
  async_events_.forget(session);
  session.tenant->counters.sessions.subtract();
  if (session.level != nullptr) session.level->counters.sessions.subtract();
}

bool Engine::install(QueuePair& qp) {
  cpu_.charge(*qp.session, kInstallCost);
  if (!queue_pairs_.add(qp)) return false;
  enter(qp);
  return true;
}

void Engine::enter(QueuePair& qp) {
  qp.party = qp.session->party;
  join_tvls(qp);
  if (qp.srq != nullptr) ++qp.srq->users;
  qp.tenant->counters.queue_pairs.add();
}

/// For the time after its end; pays first what it owes.
void Engine::remember(QueuePair& qp) {
  if (!is_responder(qp.type) || qp.local || !may_receive(qp.state)) return;
  QpEnvironment env(parts_, qp);
  qp.responder.transmit(env, kResponsesAtTheEnd);
  if (const auto answer = qp.responder.last_acknowledgement(env))
    time_wait_.add({qp.qpn, qp.tenant->id, *answer, qp.route, clock_.now + kTimeWait});
}

void Engine::remove(QueuePair& qp) {
  cpu_.charge(*qp.session, kRemoveCost);
  remember(qp);
  reset(qp, 0);
  async_events_.forget(*qp.session, qp.user_handle);
  receive_queues_.leave(qp);
  multicast_.detach_all(qp);
  leave_tvls(qp);
  queue_pairs_.remove(qp);
  qp.tenant->counters.queue_pairs.subtract();
}

bool Engine::poll(Time now) {
  clock_.now = now;
  rates_.release([this](const Tenant& tenant) {
    scheduler_.unblock_tenant(tenant.id);
    for (const auto& level : tenant.levels) scheduler_.unblock_tenant(party_of(level->id));
  });
  // First, as what comes now may have them.
  std::size_t work = give_back_buffers();
  work += packets_.receive([this](PortBinding& binding, const wire::ParsedFrame& frame) {
    receive_frame(binding, frame);
  });
  cpu_.choose_budget();
  if (!datagram_services_.empty()) work += run_datagram_services();
  work += ingress_.collect();
  work += ingress_.relieve_doorbells();
  work += dispatch_.fetch();
  work += start_commands();
  work += run_ready();
  work += timers_.advance(now, [this](TimerId id) {
    if (QueuePair* qp = queue_pairs_.at(id.value)) expire(*qp);
  });
  finish_batch();
  return work != 0;
}

void Engine::finish_batch() {
  packets_.finish_batch();
  if (completion_events_.any_overflowed()) fail_users_of_overflowed();
  completion_events_.deliver();
  announce_datagrams();
  if (clock_.now >= async_events_.next_deadline()) async_events_.retry();
}

Time Engine::next_deadline() const {
  return std::min({timers_.next_deadline(), completion_events_.next_deadline(),
                   async_events_.next_deadline(), packets_.next_deadline(), rates_.next_release(),
                   next_neighbour_try()});
}

}  // namespace softhca::engine
