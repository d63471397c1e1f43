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

/// Each tenant is a class of its own, beside its levels.
std::uint16_t classes_of(const EngineLimits& limits) {
  return static_cast<std::uint16_t>(limits.tenants + limits.levels);
}

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
             .max_groups = classes_of(limits)}),
      queue_pairs_(limits.queue_pairs),
      overflow_places_(queue_pairs_),
      scheduler_({.max_queue_pairs = queue_pairs_.slots(),
                  .max_classes = classes_of(limits),
                  .quantum = 16,
                  .doorbells = limits.doorbells},
                 overflow_places_),
      tvls_({.max_tvls = limits.tvls,
             .execution_credits = limits.execution_credits,
             .completion_credits = limits.completion_credits}),
      arbitrator_(tvls_, pcbs_.size()),
      memory_(limits.memory_regions, limits.memory_windows),
      requests_(pcbs_.size()),
      cpu_(clock_, queue_pairs_.slots(), limits.tenants, classes_of(limits)),
      commands_(clock_, queue_pairs_, cpu_, pcbs_, scheduler_, arbitrator_),
      ingress_(clock_, queue_pairs_, cpu_, commands_, pcbs_, scheduler_, arbitrator_, async_events_,
               event_log_, limits.vcbs, limits.tenants),
      dispatch_(clock_, queue_pairs_, cpu_, commands_, pcbs_, scheduler_, arbitrator_),
      lending_(clock_, addresses_, ingress_, pcbs_, tvls_, arbitrator_, limits.tenants),
      tvl_assignment_(queue_pairs_, commands_, cpu_, ingress_, tvls_, arbitrator_, limits.tenants,
                      classes_of(limits)),
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
             .events = async_events_,
             .queue_pairs = queue_pairs_} {
  timers_.reserve(queue_pairs_.slots());
}

Engine::~Engine() = default;

void Engine::add_level(const Level& level) {
  commands_.reset(level.qos_class);
  scheduler_.reset(level.qos_class);
}

void Engine::add_tenant(Tenant& tenant) {
  commands_.reset(tenant.qos_class);
  scheduler_.reset(tenant.qos_class);
  addresses_.add(tenant);
  rates_.reserve(addresses_.tenants().size());
  packets_.add_user(tenant.id);
}

void Engine::remove_tenant(Tenant& tenant) {
  addresses_.remove(tenant);
  rates_.forget(tenant);
}

void Engine::install(Session& session) {
  session.qos_class =
      session.level != nullptr ? session.level->qos_class : session.tenant->qos_class;
  cpu_.order().join(session.qos_class, session.tenant->id);
  ingress_.add(session);
  tvl_assignment_.find_weights();
  async_events_.reserve(ingress_.sessions().size());
  pcbs_.recall(session.qos_class);
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
  qp.qos_class = qp.session->qos_class;
  choose_transport(qp, false);
  tvl_assignment_.join(qp);
  if (qp.srq != nullptr) ++qp.srq->users;
  qp.tenant->counters.queue_pairs.add();
}

/// For the time after its end; pays first what it owes.
void Engine::remember(QueuePair& qp) {
  auto* const rc = std::get_if<transport::Rc>(&qp.transport);
  if (rc == nullptr || !may_receive(qp.state)) return;
  QpEnvironment env(parts_, qp);
  if (const auto answer = rc->take_leave(env, kResponsesAtTheEnd))
    time_wait_.add({qp.qpn, qp.tenant->id, *answer, qp.route, clock_.now + kTimeWait});
}

void Engine::remove(QueuePair& qp) {
  cpu_.charge(*qp.session, kRemoveCost);
  remember(qp);
  reset(qp, 0);
  async_events_.forget(*qp.session, qp.user_handle);
  receive_queues_.leave(qp);
  multicast_.detach_all(qp);
  tvl_assignment_.leave(qp);
  queue_pairs_.remove(qp);
  qp.tenant->counters.queue_pairs.subtract();
}

bool Engine::poll(Time now) {
  clock_.now = now;
  rates_.release([this](const Tenant& tenant) {
    scheduler_.unblock_class(tenant.qos_class);
    for (const auto& level : tenant.levels) scheduler_.unblock_class(level->qos_class);
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
