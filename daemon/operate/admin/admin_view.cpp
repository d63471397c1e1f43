// SPDX-License-Identifier: Apache-2.0

#include "daemon/operate/admin/admin_view.hpp"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "daemon/configuration/address.hpp"
#include "daemon/counters/daemon_counters.hpp"
#include "daemon/counters/pool_counters.hpp"
#include "daemon/counters/port_counters.hpp"
#include "daemon/counters/tenant_counters.hpp"
#include "daemon/device/adapter/adjuster.hpp"
#include "daemon/device/adapter/refusal_text.hpp"
#include "daemon/device/adapter/setup.hpp"
#include "daemon/engine/datagrams/shared_qp.hpp"
#include "daemon/engine/ports/port_binding.hpp"
#include "daemon/engine/requests/diagnostic_requests.hpp"
#include "daemon/operate/admin/counter_json.hpp"
#include "daemon/qos/collect/pcb_pool.hpp"
#include "daemon/qos/schedule/kick_arbitrator.hpp"
#include "daemon/qos/schedule/tvl_table_spread.hpp"

namespace softhca::control {
namespace {

using std::chrono::steady_clock;
using std::chrono::system_clock;

constexpr std::size_t kLargestPage = 1000;

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
      return "holds " + amount + " receives of " + srq + "; its hard limit refuses it more";
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
      return "is one of those that draw most from " + srq + ": it holds " + amount + " receives" +
             (event.of != 0 ? ", its limit is " + of : "");
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
  Json out = counters_in(counters::kTvl, schedule::Tvl());
  add_counters(out, counters::kKicks, schedule::TvlCounters());
  for (std::uint16_t i = 0; i < engine.tvls.size(); ++i) {
    const schedule::Tvl& tvl = engine.tvls[TvlId(i)];
    if (!tvl.used || tvl.tenant != tenant) continue;
    if (level != nullptr && tvl.qos_class != level->qos_class) continue;
    add_counters(out, counters::kTvl, tvl);
    add_counters(out, counters::kKicks, engine.arbitrator.counters(TvlId(i)));
  }
  return out;
}

/// Returns the counters of a tenant or a level, without those of its PCBs and TVLs.
template <class Of>
Json own_counters_of(const Of& of) {
  const Histogram& wait = of.counters.arbitration_wait;  // from kick to start
  Json out = {{"name", of.name},
              {"arbitration_wait",
               {{"count", wait.count()}, {"sum_s", static_cast<double>(wait.sum()) * 1e-9}}}};
  counters::for_each_table(of, [&](const auto& rows, const auto& from, counters::Label) {
    add_counters(out, rows, from);
  });
  return out;
}

/// Returns the counters of a level's programs. The tenant's counters count the same events.
Json counters_of(const engine::EngineView& engine, const engine::Tenant& tenant,
                 const engine::Level& level) {
  const collect::CollectGroup& group = engine.pcbs.group(level.qos_class);
  Json out = own_counters_of(level);
  out["pcbs"] = {{"guaranteed", group.pcbs.guaranteed.value()},
                 {"lent", group.pcbs.lent.value()},
                 {"in_use", group.pcbs.in_use.value()},
                 {"dedicated", group.dedicated_in_use.value()},
                 {"refused", group.refused.value()}};
  out["tvl_totals"] = tvl_totals(engine, tenant.id, &level);
  return out;
}

Json counters_of(const engine::EngineView& engine, const engine::Tenant& tenant) {
  const collect::CollectGroup& group = engine.pcbs.group(tenant.qos_class);
  Json out = own_counters_of(tenant);
  out["levels"] = Json::array();
  for (const auto& level : tenant.levels)
    out["levels"].push_back(counters_of(engine, tenant, *level));
  out["pcbs"] = {{"guaranteed", engine.pcbs.guaranteed(tenant.qos_class)},
                 {"lent", lent_by(engine, tenant).pcbs},
                 {"in_use", group.all_in_use.value()},
                 {"dedicated", group.dedicated_in_use.value()},
                 {"refused", group.refused.value()}};
  out["tvl_totals"] = tvl_totals(engine, tenant.id, nullptr);
  add_throttling(out, tenant.rate);
  return out;
}

}  // namespace

std::size_t page_limit(const Json& params) {
  return std::min(param<std::size_t>(params, "limit", kLargestPage), kLargestPage);
}

Json to_json(const Quota& quota) {
  Json out = counters_in(counters::kQuota, quota);
  out["may_share"] = quota.may_share;
  return out;
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
  const double up = uptime();
  Json engine = counters_in(counters::kEngine, adapter_.worker);
  engine["busy_share"] = up > 0 ? engine["busy_s"].get<double>() / up : 0;
  engine["yield_share"] = lost_share_;
  Json out = {{"version", adapter_.lineage.version},
              {"pid", ::getppid()},  // of the keeper
              {"uptime_s",
               std::chrono::duration<double>(steady_clock::now() - adapter_.lineage.started.steady)
                   .count()},
              {"adapter_pid", ::getpid()},
              {"runtime_dir", adapter_.config.daemon.runtime_dir},
              {"device", adapter_.config.device.name},
              {"engine", std::move(engine)},
              {"tenants", adapter_.tenants.size()},
              {"sessions", sessions_().size()},
              {"ports", ports()},
              {"pools", pools()}};
  for (const auto& [name, part] : parts_) out[name] = part();
  return out;
}

Json AdminView::ports() const {
  Json ports = Json::array();
  for (const auto& binding : adapter_.engine.ports) {
    Json port = counters_in(counters::kPort, binding->port->counters());
    port.update({{"name", binding->name},
                 {"up", binding->link_up()},
                 {"state", binding->state()},
                 {"mtu", binding->port->mtu()},
                 {"mac", hex(binding->port->mac())}});
    const auto interfaces = adapter_.config.ports[binding->id.value].interfaces();
    if (interfaces.size() > 1) port["link"] = interfaces[binding->port->link_in_use()];
    ports.push_back(std::move(port));
  }
  return ports;
}

/// Returns the pools that are divided among tenants, and those that tenants take from on request.
Json AdminView::pools() const {
  const auto pool = [](const QuotaPool& of, std::uint32_t own = 0) {
    return counters_in(counters::kPool, {&of, own});
  };
  Json pools = {
      {"vcbs", pool(adapter_.vcbs)},
      {"pcbs", pool(adapter_.engine.pcbs.quota(), kOwnServices * engine::SharedQp::kSends)},
      {"execution_credits", pool(adapter_.engine.tvls.execution_pool())},
      {"completion_credits", pool(adapter_.engine.tvls.completion_pool())}};
  configuration::for_each_kind([&](configuration::Kind kind) {
    pools[configuration::name_of(kind)] = counters_in(counters::kTotal, {&adapter_.totals, kind});
  });
  return pools;
}

RpcResult AdminView::counters(const Json&) {
  Json tenants = Json::array();
  for (const auto& tenant : adapter_.tenants)
    tenants.push_back(counters_of(adapter_.engine, *tenant));
  return Json{{"time_s", uptime()},
              {"engine", counters_in(counters::kEngine, adapter_.worker)},
              {"tenants", std::move(tenants)}};
}

/// Returns which check failed, to be added to the text of an event; empty if that is not known.
std::string AdminView::reason_of(const engine::DaemonEvent& event) const {
  const std::string text =
      reason_text(event.refusal, configuration::to_string(event.peer), event.peer_qpn);
  return text.empty() ? "" : ": " + text;
}

std::string AdminView::reason_text(const Refusal& refusal, const std::string& peer,
                                   Qpn peer_qpn) const {
  const engine::Tenant* const owner = refusal.has_tenant ? find_tenant(refusal.tenant) : nullptr;
  return control::text_of(
      refusal, {.address = peer, .qpn = peer_qpn, .tenant = owner == nullptr ? "?" : owner->name});
}

void AdminView::tick() {
  take_engine_events();
  const auto now = steady_clock::now();
  const std::uint64_t lost = adapter_.worker.lost().value();
  const std::chrono::duration<double, std::nano> time = now - std::exchange(ticked_, now);
  // A yield counts as a whole when it ends.
  lost_share_ =
      std::min(static_cast<double>(lost - std::exchange(lost_, lost)) / time.count(), 1.0);
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
         .text = text_of(event) + reason_of(event),
         .queue_pair = event.qpn.value,
         .process = event.process,
         .peer = event.peer.is_zero() ? "" : configuration::to_string(event.peer),
         .peer_queue_pair = event.peer_qpn.value,
         .cause = event.refusal ? name_of(event.refusal.cause) : "",
         .vendor_error = vendor_error(event.refusal),
         .past = by_calendar(past, now, wall)});
  }
}

RpcResult AdminView::events(const Json& params) {
  take_engine_events();
  const auto page =
      adapter_.journal.after(param<std::uint64_t>(params, "after", 0), page_limit(params),
                             param<std::string>(params, "tenant", ""));
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
    if (!entry.cause.empty()) event["cause"] = entry.cause;
    if (entry.vendor_error != 0) event["vendor_err"] = entry.vendor_error;
    events.push_back(std::move(event));
  }
  return Json{{"events", std::move(events)}, {"last", page.last}, {"lost", page.lost}};
}

RpcResult AdminView::own_events(const std::string& tenant, const Json& params) {
  Json asked = params.is_object() ? params : Json::object();
  asked["tenant"] = tenant;
  RpcResult page = events(asked);
  if (!page) return page;
  Json kept = Json::array();
  for (Json& event : page.value().at("events"))
    if (event.at("kind").get_ref<const std::string&>().starts_with("srq_"))
      kept.push_back(std::move(event));
  page.value()["events"] = std::move(kept);
  return page;
}

}  // namespace softhca::control
