// SPDX-License-Identifier: Apache-2.0

#include "daemon/operate/admin/admin_view.hpp"

#include <unistd.h>

#include <algorithm>

#include "daemon/configuration/address.hpp"
#include "daemon/device/adapter/adjuster.hpp"
#include "daemon/device/adapter/setup.hpp"
#include "daemon/engine/datagrams/shared_qp.hpp"
#include "daemon/engine/ports/port_binding.hpp"
#include "daemon/engine/requests/watching.hpp"
#include "daemon/qos/collect/pcb_pool.hpp"
#include "daemon/qos/schedule/kick_arbitrator.hpp"
#include "daemon/qos/schedule/tvl_table.hpp"

namespace softhca::control {
namespace {

using std::chrono::steady_clock;
using std::chrono::system_clock;

constexpr std::size_t kLargestPage = 1000;

/// `own`: the part of the daemon itself, beyond what the operator divides.
Json to_json(const QuotaPool& pool, std::uint32_t own = 0) {
  return {{"total", pool.total() - own},
          {"unallocated", pool.unallocated()},
          {"lent", pool.lent()},
          {"recalled", pool.recalled()},
          {"shared_free", pool.shared_free()}};
}

std::string hex(const MacAddress& mac) {
  std::string text;
  for (const auto byte : mac.bytes) {
    constexpr char kDigits[] = "0123456789abcdef";
    const auto value = static_cast<unsigned>(byte);
    if (!text.empty()) text += ':';
    text += kDigits[value >> 4];
    text += kDigits[value & 15];
  }
  return text;
}

/// Returns the text of an event, for the operator. The queue pair and the process have their own
/// fields.
std::string text_of(const engine::DaemonEvent& event) {
  using engine::DaemonEventKind;
  const std::string amount = std::to_string(event.amount);
  const std::string of = std::to_string(event.of);
  const std::string srq = "shared receive queue " + std::to_string(event.srq);
  switch (event.kind) {
    case DaemonEventKind::kSrqSoftLimit:
      return "holds " + amount + " receives of " + srq + " and draws more; its soft limit is " + of;
    case DaemonEventKind::kSrqHardLimit:
      return "holds " + amount + " receives of " + srq +
             " and gets no more: its hard limit is reached";
    case DaemonEventKind::kSrqConnectionDropped:
      return "was dropped: it holds " + amount + " receives of " + srq;
    case DaemonEventKind::kSrqQuarantined:
      return "entered quarantine: it holds " + amount + " receives of " + srq;
    case DaemonEventKind::kSrqQuarantineOver:
      return "left quarantine: it holds " + amount + " receives of " + srq;
    case DaemonEventKind::kSrqWatermark:
      return srq + " has " + amount + " receives left and room for " + of;
    case DaemonEventKind::kSrqLimitReached:
      return srq + " has " + amount +
             " receives left, fewer than its program's limit, and room for " + of;
    case DaemonEventKind::kSrqOffender:
      return "draws much from " + srq + ", holds " + amount + " receives" +
             (event.of != 0 ? " of at most " + of : "");
    case DaemonEventKind::kSrqDrawer:
      return "drew " + amount + " of the last " + of + " receives of " + srq;
    case DaemonEventKind::kSrqRunaway:
      return "drew " + amount + " of the last " + of + " receives of " + srq +
             ", which has an eighth left";
    case DaemonEventKind::kGuaranteeNotKept:
      return "for " + amount + " ms: " + event.cause;
    case DaemonEventKind::kForgedPackets:
      return amount + " packets in a second, the last " + event.cause;
    case DaemonEventKind::kQueuePairError:
    case DaemonEventKind::kHostileMemory:
      break;
  }
  return event.cause;
}

/// Returns the sums of what TVLs hold and wait for: the TVLs of a tenant or, if `level` is not
/// null, of that level.
Json tvl_totals(const engine::EngineView& engine, TenantId tenant, const engine::Level* level) {
  std::uint64_t execution = 0, completion = 0, waiting = 0, started = 0;
  std::uint64_t execution_waits = 0, completion_waits = 0, kicks_refused = 0;
  for (std::uint16_t i = 0; i < engine.tvls.size(); ++i) {
    const schedule::Tvl& tvl = engine.tvls[TvlId(i)];
    if (!tvl.used || tvl.tenant != tenant) continue;
    if (level != nullptr && tvl.qos_class != level->qos_class) continue;
    const schedule::TvlCounters& counters = engine.arbitrator.counters(TvlId(i));
    execution += tvl.execution.in_use.value();
    completion += tvl.completion.in_use.value();
    waiting += counters.waiting.value();
    started += counters.started.value();
    execution_waits += counters.execution_waits.value();
    completion_waits += counters.completion_waits.value();
    kicks_refused += counters.refused.value();
  }
  return {{"execution_credits", execution},
          {"completion_credits", completion},
          {"kick_list", waiting},
          {"started", started},
          {"execution_waits", execution_waits},
          {"completion_waits", completion_waits},
          {"kicks_refused", kicks_refused}};
}

/// Returns the number and the sum of the waits from kick to start so far.
Json to_json(const Histogram& wait) {
  return {{"count", wait.count()}, {"sum_s", static_cast<double>(wait.sum()) * 1e-9}};
}

/// Returns the counters of a level's programs. The tenant's counters count the same events.
Json counters_of(const engine::EngineView& engine, const engine::Tenant& tenant,
                 const engine::Level& level) {
  const engine::LevelCounters& c = level.counters;
  const collect::CollectGroup& group = engine.pcbs.group(level.qos_class);
  return {{"name", level.name},
          {"commands_vcb", c.commands_vcb.value()},
          {"commands_doorbell", c.commands_doorbell.value()},
          {"send_queue_mode", c.send_queue_mode.value()},
          {"arbitration_wait", to_json(c.arbitration_wait)},
          {"sessions", c.sessions.value()},
          {"pcbs",
           {{"guaranteed", group.pcbs.guaranteed.value()},
            {"lent", group.pcbs.lent.value()},
            {"in_use", group.pcbs.in_use.value()},
            {"dedicated", group.dedicated_in_use.value()},
            {"refused", group.refused.value()}}},
          {"tvl_totals", tvl_totals(engine, tenant.id, &level)}};
}

Json counters_of(const engine::EngineView& engine, const engine::Tenant& tenant) {
  const engine::TenantCounters& c = tenant.counters;
  const collect::CollectGroup& group = engine.pcbs.group(tenant.qos_class);
  const auto transport = [&](transport::Count what) {
    return c.transport[static_cast<std::size_t>(what)].value();
  };
  Json levels = Json::array();
  for (const auto& level : tenant.levels) levels.push_back(counters_of(engine, tenant, *level));
  std::uint64_t doorbells = 0;
  for (const Counter& counter : c.doorbells) doorbells += counter.value();
  Json out = {{"name", tenant.name},
              {"levels", std::move(levels)},
              {"commands_vcb", c.commands_vcb.value()},
              {"commands_doorbell", c.commands_doorbell.value()},
              {"send_queue_mode", c.send_queue_mode.value()},
              {"commands_given_back", c.commands_given_back.value()},
              {"stalled_queue_pairs", c.stalled_queue_pairs.value()},
              {"set_aside_queue_pairs", c.set_aside_queue_pairs.value()},
              {"doorbells", doorbells},
              {"tx_packets", c.wire.tx_packets.value()},
              {"tx_bytes", c.wire.tx_bytes.value()},
              {"rx_packets", c.wire.rx_packets.value()},
              {"rx_bytes", c.wire.rx_bytes.value()},
              {"local_messages", c.local_messages.value()},
              {"local_bytes", c.local_bytes.value()},
              {"completions", c.completion.completions.value()},
              {"completion_errors", c.completion.completion_errors.value()},
              {"retransmitted_packets", transport(transport::Count::kRetransmittedPackets)},
              {"hostile_memory", c.refused.hostile_memory.value()},
              {"arbitration_wait", to_json(c.arbitration_wait)},
              {"sessions", c.sessions.value()},
              {"queue_pairs", c.queue_pairs.value()},
              {"pcbs",
               {{"guaranteed", engine.pcbs.guaranteed(tenant.qos_class)},
                {"lent", lent_by(engine, tenant).pcbs},
                {"in_use", group.all_in_use.value()},
                {"dedicated", group.dedicated_in_use.value()},
                {"refused", group.refused.value()}}},
              {"tvl_totals", tvl_totals(engine, tenant.id, nullptr)}};
  add_throttling(out, tenant.rate);
  return out;
}

}  // namespace

std::size_t page_limit(const Json& params) {
  return std::min(param<std::size_t>(params, "limit", kLargestPage), kLargestPage);
}

Json to_json(const Quota& quota) {
  return {{"guaranteed", quota.guaranteed.value()},
          {"in_use", quota.in_use.value()},
          {"shared", quota.shared_in_use()},
          {"high_water", quota.high_water.value()},
          {"draining", quota.draining.value()},
          {"lent", quota.lent.value()},
          {"may_share", quota.may_share}};
}

void AdminView::add_to(AdminMethods& methods) {
  const auto add = [&](const char* name, RpcResult (AdminView::*method)(const Json&)) {
    methods.add(name, [this, method](const Json& params) { return (this->*method)(params); });
  };
  add("status", &AdminView::status);
  add("counters", &AdminView::counters);
  add("events", &AdminView::events);
  add("qp.set", &AdminView::set_queue_pair);
  add("tenants", &AdminView::tenants);
  add("tenant.show", &AdminView::tenant_show);
  add("explain", &AdminView::explain);
  add("qps", &AdminView::queue_pairs);
  add("qp.show", &AdminView::show_queue_pair);
  add("srqs", &AdminView::shared_receive_queues);
}

const engine::Tenant* AdminView::find_tenant(const std::string& name) const {
  for (const auto& tenant : adapter_.tenants)
    if (tenant->name == name) return tenant.get();
  return nullptr;
}

const engine::Tenant* AdminView::find_tenant(TenantId id) const {
  for (const auto& tenant : adapter_.tenants)
    if (tenant->id == id) return tenant.get();
  return nullptr;
}

double AdminView::uptime() const {
  return std::chrono::duration<double>(steady_clock::now() - started_).count();
}

RpcResult AdminView::status(const Json&) {
  const double busy = static_cast<double>(adapter_.worker.busy().value()) * 1e-9;
  const double up = uptime();
  return Json{{"version", adapter_.version},
              {"pid", ::getpid()},
              {"uptime_s", up},
              {"runtime_dir", adapter_.config.daemon.runtime_dir},
              {"device", adapter_.config.device.name},
              {"engine",
               {{"busy_s", busy},
                {"busy_share", up > 0 ? busy / up : 0},
                {"polls", adapter_.worker.polls().value()},
                {"sleeps", adapter_.worker.sleeps().value()}}},
              {"tenants", adapter_.tenants.size()},
              {"sessions", sessions_().size()},
              {"ports", ports()},
              {"pools", pools()},
              {"faults", faults_ ? faults_() : Json::array()}};
}

Json AdminView::ports() const {
  Json ports = Json::array();
  for (const auto& binding : adapter_.engine.ports) {
    const port::PortCounters c = binding->port->counters();
    ports.push_back({{"name", binding->name},
                     {"up", binding->port->link_up()},
                     {"mtu", binding->port->mtu()},
                     {"mac", hex(binding->port->mac())},
                     {"rx_frames", c.rx_frames},
                     {"rx_bytes", c.rx_bytes},
                     {"rx_missed", c.rx_missed},
                     {"tx_frames", c.tx_frames},
                     {"tx_bytes", c.tx_bytes},
                     {"tx_dropped", c.tx_dropped}});
  }
  return ports;
}

/// Returns the pools that are divided among tenants, and those that tenants take from on request.
Json AdminView::pools() const {
  Json pools = {
      {"vcbs", to_json(adapter_.vcbs)},
      {"pcbs", to_json(adapter_.engine.pcbs.quota(), kOwnServices * engine::SharedQp::kSends)},
      {"execution_credits", to_json(adapter_.engine.tvls.execution_pool())},
      {"completion_credits", to_json(adapter_.engine.tvls.completion_pool())}};
  configuration::for_each_kind([&](configuration::Kind kind) {
    const std::uint64_t total = adapter_.totals.limit(kind);
    const std::uint64_t in_use = adapter_.totals.in_use(kind);
    pools[configuration::name_of(kind)] = {
        {"total", total}, {"in_use", in_use}, {"free", total - std::min(total, in_use)}};
  });
  return pools;
}

RpcResult AdminView::counters(const Json&) {
  Json tenants = Json::array();
  for (const auto& tenant : adapter_.tenants)
    tenants.push_back(counters_of(adapter_.engine, *tenant));
  return Json{{"time_s", uptime()},
              {"engine",
               {{"busy_s", static_cast<double>(adapter_.worker.busy().value()) * 1e-9},
                {"polls", adapter_.worker.polls().value()},
                {"sleeps", adapter_.worker.sleeps().value()}}},
              {"tenants", std::move(tenants)}};
}

void AdminView::take_engine_events() {
  std::vector<engine::LoggedEvent> taken;
  taken.reserve(engine::EventLog::kKept);
  const auto [next, now] = adapter_.worker.run(engine::CopyEvents{engine_events_, taken});
  engine_events_ = next;
  const system_clock::time_point wall = system_clock::now();
  for (const auto& [event, past] : taken) {
    const engine::Tenant* tenant = find_tenant(event.tenant);
    adapter_.journal.add(
        {.time = wall - std::chrono::duration_cast<system_clock::duration>(now - event.time),
         .kind = engine::name_of(event.kind),
         .tenant = tenant == nullptr ? "" : tenant->name,
         .text = text_of(event),
         .queue_pair = event.qpn.value,
         .process = event.process,
         .peer = event.peer.is_zero() ? "" : configuration::to_string(event.peer),
         .peer_queue_pair = event.peer_qpn.value,
         .past = by_calendar(past, now, wall)});
  }
}

RpcResult AdminView::events(const Json& params) {
  take_engine_events();
  const auto page =
      adapter_.journal.after(param<std::uint64_t>(params, "after", 0), page_limit(params));
  Json events = Json::array();
  for (const JournalEntry& entry : page.entries) {
    const auto since = entry.time.time_since_epoch();
    Json event = {{"number", entry.number},
                  {"time", std::chrono::duration<double>(since).count()},
                  {"kind", entry.kind},
                  {"text", entry.text}};
    if (!entry.tenant.empty()) event["tenant"] = entry.tenant;
    if (entry.queue_pair != 0) event["qpn"] = entry.queue_pair;
    if (entry.process != 0) event["pid"] = entry.process;
    if (!entry.peer.empty()) event["peer"] = entry.peer;
    if (entry.peer_queue_pair != 0) event["peer_qpn"] = entry.peer_queue_pair;
    events.push_back(std::move(event));
  }
  return Json{{"events", std::move(events)}, {"last", page.last}, {"lost", page.lost}};
}

}  // namespace softhca::control
