// SPDX-License-Identifier: Apache-2.0

#include "daemon/operate/metrics/collector.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "daemon/counters/daemon_counters.hpp"
#include "daemon/counters/pool_counters.hpp"
#include "daemon/counters/port_counters.hpp"
#include "daemon/counters/tenant_counters.hpp"
#include "daemon/engine/packets/peer_authentication.hpp"
#include "daemon/engine/packets/peer_table.hpp"
#include "daemon/operate/metrics/families.hpp"
#include "daemon/roce/wire/mad.hpp"

namespace softhca::metrics {
namespace {

using counters::Label;
using engine::Level;
using engine::Tenant;

Labels with(const Labels& labels, Label label) {
  return label.name == nullptr ? labels : metrics::with(labels, label.name, label.value);
}

/// Returns the labels of a tenant and a level. If `level` is null, the label "level" is "": the
/// value is shared by the tenant's levels, or it is not divided into levels.
Labels labels_of(const Tenant& tenant, const Level* level) {
  return {{"tenant", tenant.name}, {"level", level == nullptr ? "" : level->name}};
}

/// Adds all tables of a structure that has several.
template <class S>
void add_tables(Families& out, const S& of, const Labels& labels) {
  counters::for_each_table(of, [&](const auto& rows, const auto& from, Label label = {}) {
    out.table(rows, from, with(labels, label));
  });
}

/// Adds the distributions of a tenant.
void add_distributions(Families& out, const Tenant& tenant) {
  const Labels labels{{"tenant", tenant.name}};
  const engine::TenantCounters& c = tenant.counters;
  out.histogram("softhca_arbitration_wait_seconds", "Time from a command's kick to its start.",
                labels, c.arbitration_wait, 256, std::uint64_t{1} << 34, 1e-9);
  out.summary("softhca_command_engine_seconds",
              "Time that the engine worked for all tenants between the kick of a command and its "
              "successful end.",
              labels, c.command_engine_time, 1e-9);
  out.histogram(
      "softhca_connection_establish_seconds",
      "Time from a program's connect, or a peer's request, to the established connection.", labels,
      tenant.control.connections.establish_ns, std::uint64_t{1} << 12, std::uint64_t{1} << 36,
      1e-9);
}

/// Adds the distributions of the waits of a level, or of a tenant's commands without a level.
void add_distributions(Families& out, const engine::WaitCounters& waits, const Labels& labels) {
  for (std::size_t i = 0; i < waits.of_one.size(); ++i)
    if (waits.of_one[i].count() != 0)
      out.histogram("softhca_command_waited_seconds",
                    "Time that single commands waited, by cause; one command in 61 is sampled.",
                    metrics::with(labels, "cause", counters::name_at<engine::WaitCause>(i)),
                    waits.of_one[i], 4096, std::uint64_t{1} << 34, 1e-9);
  for (std::size_t i = 0; i < waits.in_stage.size(); ++i)
    if (waits.in_stage[i].count() != 0)
      out.histogram("softhca_command_stage_seconds",
                    "Time that single commands spent in each stage, from post to successful end; "
                    "one command in 61 is sampled.",
                    metrics::with(labels, "stage", counters::name_at<engine::CommandStage>(i)),
                    waits.in_stage[i], 64, std::uint64_t{1} << 34, 1e-9);
  out.histogram("softhca_command_seconds",
                "Time from a command's kick to its successful end; one command in 61 is sampled.",
                labels, waits.duration, 1024, std::uint64_t{1} << 34, 1e-9);
}

/// Adds what a class of a tenant (`level` null) or of one of its levels has of the pools, its
/// doorbells and its waits.
void add_class(Families& out, const ExportedData& source, const Tenant& tenant,
               const Level* level) {
  const Labels labels = labels_of(tenant, level);
  const QosClassId id = level == nullptr ? tenant.qos_class : level->qos_class;
  const collect::CollectGroup& group = source.engine.pcbs.group(id);
  out.table(counters::kQuota, level == nullptr ? tenant.control.vcbs : level->control.vcbs,
            with(labels, {"resource", "vcbs"}));
  out.table(counters::kQuota, group.pcbs, with(labels, {"resource", "pcbs"}));
  out.table(counters::kGroup, group, labels);
  out.table(counters::kVcbsRefused,
            level == nullptr ? tenant.control.vcbs_refused : level->control.vcbs_refused, labels);
  out.table(counters::kDoorbells, source.engine.scheduler.counters(id), labels);
  const engine::WaitCounters& waits =
      level == nullptr ? tenant.counters.waits : level->counters.waits;
  out.table(counters::kWaits, waits, labels);
  add_distributions(out, waits, labels);
}

void add_tenant(Families& out, const ExportedData& source, const Tenant& tenant) {
  const Labels labels{{"tenant", tenant.name}};
  add_tables(out, tenant, labels);
  add_distributions(out, tenant);
  const collect::PcbPool& pcbs = source.engine.pcbs;
  out.table(counters::kTenantGroup, pcbs.group(tenant.qos_class), labels);
  out.gauge("softhca_pcbs_guaranteed", "PCBs guaranteed to the tenant and its levels.", labels,
            pcbs.guaranteed(tenant.qos_class));
  configuration::for_each_kind([&](configuration::Kind kind) {
    out.table(counters::kLimit, {&tenant.control.accounts, kind},
              metrics::with(labels, "resource", configuration::name_of(kind)));
  });
  out.table(counters::kMachine, tenant.control, labels);
  add_class(out, source, tenant, nullptr);
  for (const auto& level : tenant.levels) {
    const Labels own = labels_of(tenant, level.get());
    add_tables(out, *level, own);
    out.histogram("softhca_level_arbitration_wait_seconds",
                  "Time from a command's kick to its start.", own, level->counters.arbitration_wait,
                  256, std::uint64_t{1} << 34, 1e-9);
    add_class(out, source, tenant, level.get());
  }
}

void add_pools(Families& out, const ExportedData& source) {
  const auto pool = [&](const char* name, const QuotaPool& of, std::uint32_t own = 0) {
    out.table(counters::kPool, {&of, own}, {{"pool", name}});
  };
  const engine::EngineView& engine = source.engine;
  std::uint32_t own_pcbs = 0;
  for (const auto* services : {&source.general_services, &source.shared_datagrams})
    own_pcbs += engine.pcbs.guaranteed(services->tenant.qos_class);
  pool("vcbs", source.vcbs);
  pool("pcbs", engine.pcbs.quota(), own_pcbs);
  pool("execution_credits", engine.tvls.execution_pool());
  pool("completion_credits", engine.tvls.completion_pool());
  configuration::for_each_kind([&](configuration::Kind kind) {
    out.table(counters::kTotal, {&source.totals, kind}, {{"pool", configuration::name_of(kind)}});
  });
  out.table(counters::kPcbs, engine.pcbs, {});
  out.table(counters::kDoorbellPlaces, engine.scheduler, {});
}

template <class F>
void for_each_tvl(const ExportedData& source, TenantId tenant, F&& f) {
  const schedule::TvlTable& tvls = source.engine.tvls;
  for (std::uint16_t i = 0; i < tvls.size(); ++i)
    if (tvls[TvlId(i)].used && tvls[TvlId(i)].tenant == tenant) f(TvlId(i), tvls[TvlId(i)]);
}

void add_tvls(Families& out, const ExportedData& source, const Tenant& tenant) {
  for_each_tvl(source, tenant.id, [&](TvlId id, const schedule::Tvl& tvl) {
    const bool dedicated = tvl.purpose == schedule::TvlPurpose::kDedicated;
    const Labels labels = with(metrics::with(labels_of(tenant, tenant.find_level(tvl.qos_class)),
                                             "tvl", std::to_string(id.value)),
                               {"purpose", dedicated ? "dedicated" : "commands"});
    out.table(counters::kCredits, tvl.execution, with(labels, {"kind", "execution"}));
    out.table(counters::kCredits, tvl.completion, with(labels, {"kind", "completion"}));
    out.table(counters::kTvl, tvl, labels);
    out.table(counters::kKicks, source.engine.arbitrator.counters(id), labels);
  });
}

/// Adds the limits of connections of all tenants, and how many connections their guarantees carry.
void add_connection_limits(Families& out, const ExportedData& source) {
  using management::rdma_cm::ConnectionAdmission;
  for (const management::ConnectionFigures& figures : source.connections) {
    const Labels labels{{"tenant", figures.tenant}};
    for (const auto& limit : figures.limits)
      out.gauge("softhca_connection_limit",
                "Limits of the tenant for rdma_cm; connects_per_second = 0: unlimited.",
                metrics::with(labels, "limit", name_of(limit.refusal)), limit.limit);
    for (const ConnectionAdmission::View& level : figures.levels) {
      const Labels own = metrics::with(labels, "level", level.level);
      out.gauge("softhca_connections_admitted",
                "Connections being set up or established, by level of their programs.", own,
                level.admitted);
      out.gauge("softhca_connections_carried", "Connections for which the guarantees suffice.", own,
                level.carries == ConnectionAdmission::kAll ? std::numeric_limits<double>::infinity()
                                                           : level.carries);
      out.counter("softhca_connections_not_carried_total",
                  "Connections refused because the guarantees do not suffice.", own,
                  static_cast<double>(level.refused));
    }
  }
}

/// Returns the number of a management class that the daemon itself is a client of. "" for classes
/// of programs, which a tenant chooses freely.
std::string class_label(std::uint32_t selector) {
  for (const auto own :
       {wire::ManagementClass::kCommunication, wire::ManagementClass::kPerformance})
    if (selector == engine::class_selector(static_cast<std::uint8_t>(own)))
      return std::to_string(engine::class_of(selector));
  return "";
}

/// Returns the name of the tenant that a client belongs to. Empty: the tenant is gone.
std::string tenant_name(const ExportedData& source, management::gsa::ClientKey key) {
  for (const auto& tenant : source.tenants)
    if (tenant->id == engine::tenant_of(key)) return tenant->name;
  return "";
}

/// `of_class`: the clients are registered for management classes.
void add_clients(Families& out, const ExportedData& source, const ExportedSharedQp& services,
                 const Labels& queue_pair, bool of_class) {
  // By tenant and class.
  std::map<std::pair<std::string, std::string>, management::gsa::ClientCounters> sums;
  for (const auto& client : services.clients()) {
    const std::uint32_t selector = engine::selector_of(client.key);
    auto& sum = sums[{tenant_name(source, client.key), of_class ? class_label(selector) : ""}];
    sum.add_totals(client.counters);
    sum.share.add(client.counters.share.value());
    sum.asked.add(client.counters.asked.value());
    sum.held.add(client.counters.held.value());
  }
  for (const auto& [of, sum] : sums)
    out.table(counters::kClients, sum,
              metrics::with(metrics::with(queue_pair, "tenant", of.first), "class", of.second));
}

/// Adds the figures of queue pair 1 (general services) or 2 (between programs).
void add_services(Families& out, const ExportedData& source, const ExportedSharedQp& services,
                  bool of_class) {
  const Labels labels{{"queue_pair", of_class ? "1" : "2"}};
  out.table(counters::kSharedQp, services.counters, labels);
  out.table(counters::kReceivePool, services.pool, labels);
  out.counter(
      "softhca_gsa_engine_seconds_total", "Engine time for the queue pair.", labels,
      static_cast<double>(services.tenant.counters.engine_time.value()) / engine::kUnitsPerSecond);
  out.gauge("softhca_gsa_pcbs", "PCBs that only the queue pair can take.", labels,
            source.engine.pcbs.guaranteed(services.tenant.qos_class));
  double execution = 0, completion = 0;
  for_each_tvl(source, services.tenant.id, [&](TvlId, const schedule::Tvl& tvl) {
    execution += tvl.execution.guaranteed.value();
    completion += tvl.completion.guaranteed.value();
  });
  const char* const kName = "softhca_gsa_credits";
  const char* const kHelp = "Credits that only the queue pair can take.";
  out.gauge(kName, kHelp, with(labels, {"kind", "execution"}), execution);
  out.gauge(kName, kHelp, with(labels, {"kind", "completion"}), completion);
  add_clients(out, source, services, labels, of_class);
}

void add_peers(Families& out, const engine::PeerAuthentication& authentication) {
  if (authentication.table() == nullptr) return;
  for (const auto& peer : authentication.table()->peers()) {
    const auto taken = [&](std::string key, std::uint64_t packets) {
      out.counter("softhca_peer_packets_total",
                  "Packets accepted from hosts that share keys, by key.",
                  {{"peer", peer->name()}, {"key", std::move(key)}}, static_cast<double>(packets));
    };
    for (std::size_t i = 0; i < peer->key_count(); ++i)
      taken(std::to_string(i + 1), peer->taken_with(i));
    taken("plain", peer->taken_plain());
  }
}

void add_restarts(Families& out, const keeper::Restarts& restarts) {
  out.table(counters::kRestarts, restarts, {});
  std::array<double, std::size(keeper::kBlackoutBounds)> bounds;
  std::ranges::transform(keeper::kBlackoutBounds, bounds.begin(),
                         [](std::uint32_t ms) { return ms * 1e-3; });
  std::array<std::uint64_t, keeper::kBlackoutCounters> counts;
  std::ranges::transform(restarts.blackouts, counts.begin(),
                         [](const auto& count) { return count.load(); });
  out.histogram("softhca_blackout_seconds", "Time without service when another adapter took over.",
                bounds, counts, static_cast<double>(restarts.blackout_ns_sum.load()) * 1e-9);
}

void add_daemon(Families& out, const ExportedData& source) {
  const BuildInfo& build = source.build;
  out.gauge("softhca_build_info", "Always 1; the labels have the version and how it was built.",
            {{"version", build.version}, {"compiler", build.compiler}, {"dpdk", build.dpdk}}, 1);
  out.gauge("process_start_time_seconds", "Start time of the daemon since 1970.", {},
            std::chrono::duration<double>(source.started.time_since_epoch()).count());
  if (source.dropped_log_lines != nullptr)
    out.counter("softhca_log_lines_dropped_total",
                "Log lines dropped because the log was read too slowly.", {},
                static_cast<double>(source.dropped_log_lines->value()));
  if (source.restarts != nullptr) add_restarts(out, *source.restarts);
  out.table(counters::kReloads, source.reloads, {});
  out.table(counters::kEngine, source.worker, {});
  out.table(counters::kFaults, source.engine.faults, {});
}

}  // namespace

std::vector<prometheus::MetricFamily> Collector::collect() const {
  Families out;
  const std::lock_guard lock(source_.tenants_changing);
  for (const auto& tenant : source_.tenants) {
    add_tenant(out, source_, *tenant);
    add_tvls(out, source_, *tenant);
  }
  add_pools(out, source_);
  add_connection_limits(out, source_);
  add_services(out, source_, source_.general_services, true);
  add_services(out, source_, source_.shared_datagrams, false);
  for (const auto& binding : source_.engine.ports)
    add_tables(out, *binding, {{"port", binding->name}});
  add_peers(out, source_.engine.authentication);
  add_daemon(out, source_);
  return out.take();
}

}  // namespace softhca::metrics
