// SPDX-License-Identifier: Apache-2.0

// The pools, and their use by tenants.
#include "daemon/operate/metrics/collect.hpp"
#include "daemon/qos/collect/pcb_pool.hpp"
#include "daemon/qos/schedule/kick_arbitrator.hpp"
#include "daemon/qos/schedule/send_queue_scheduler.hpp"
#include "daemon/qos/schedule/tvl_table.hpp"

namespace softhca::metrics {
namespace {

std::uint32_t vcbs_guaranteed(const engine::Tenant& tenant) {
  std::uint32_t sum = tenant.control.vcbs.guaranteed.value();
  for (const auto& level : tenant.levels) sum += level->control.vcbs.guaranteed.value();
  return sum;
}

const char* purpose_of(const schedule::Tvl& tvl) {
  return tvl.purpose == schedule::TvlPurpose::kDedicated ? "dedicated" : "commands";
}

const engine::Tenant* find_tenant(const Source& source, TenantId id) {
  for (const auto& tenant : source.tenants)
    if (tenant->id == id) return tenant.get();
  return nullptr;
}

/// Adds a pool that is divided into guarantees and a shared rest. `own`: the part of the daemon
/// itself, beyond what the operator divides.
void add_pool(Families& out, const char* name, const QuotaPool& pool, std::uint32_t own = 0) {
  const Labels labels{{"pool", name}};
  const auto gauge = [&](const char* metric, const char* help, double value) {
    out.gauge(metric, help, labels, value);
  };
  gauge("softhca_pool_size", "Size of the pool.", pool.total() - own);
  gauge("softhca_pool_in_use", "In use by all tenants.", pool.in_use());
  gauge("softhca_pool_high_water", "Most in use at once.", pool.high_water());
  gauge("softhca_pool_unallocated", "Guaranteed to no tenant.", pool.unallocated());
  gauge("softhca_pool_lent", "Guaranteed, idle and lent to the shared rest.", pool.lent());
  gauge("softhca_pool_recalled", "Lent, recalled and not returned yet.", pool.recalled());
  gauge("softhca_pool_shared_in_use", "In use beyond the guarantees in force.",
        pool.shared_in_use());
  gauge("softhca_pool_overdrawn", "In use beyond the guarantees in force and the shared rest.",
        pool.overdrawn());
}

void add_quota(Families& out, const Labels& labels, const Quota& q) {
  const auto gauge = [&](const char* name, const char* help, std::uint32_t value) {
    out.gauge(name, help, labels, value);
  };
  gauge("softhca_level_guaranteed", "Guaranteed; for level \"\": shared among the tenant's levels.",
        q.guaranteed.value());
  gauge("softhca_level_lent", "Guaranteed, idle and lent to the shared rest.", q.lent.value());
  gauge("softhca_level_in_use", "In use; for level \"\": by levels beyond their guarantees.",
        q.in_use.value());
  gauge("softhca_level_shared_in_use", "In use beyond the guarantee in force.", q.shared_in_use());
  gauge("softhca_level_high_water", "Most in use at once.", q.high_water.value());
  gauge("softhca_level_draining", "In use beyond a reduced guarantee, until returned.",
        q.draining.value());
  out.counter("softhca_level_recalls_total", "Recalls of lent VCBs or PCBs.", labels,
              number(q.recalls));
  out.counter("softhca_level_recall_waits_total",
              "Recalls of lent VCBs or PCBs that found none free.", labels, number(q.recall_waits));
}

void add_credits(Families& out, const Labels& tvl, const char* kind, const Quota& q,
                 const Counter& waits) {
  const Labels labels = with(tvl, "kind", kind);
  const auto gauge = [&](const char* name, const char* help, std::uint32_t value) {
    out.gauge(name, help, labels, value);
  };
  gauge("softhca_credits_guaranteed", "Credits that the TVL is guaranteed.", q.guaranteed.value());
  gauge("softhca_credits_lent", "Guaranteed, idle and lent to the shared rest.", q.lent.value());
  gauge("softhca_credits_in_use", "Credits in use.", q.in_use.value());
  gauge("softhca_credits_shared_in_use", "In use beyond the guarantee in force.",
        q.shared_in_use());
  gauge("softhca_credits_high_water", "Most credits in use at once.", q.high_water.value());
  gauge("softhca_credits_draining", "In use beyond a reduced guarantee, until returned.",
        q.draining.value());
  out.counter("softhca_credit_waits_total", "Turns of the TVL that found no free credit.", labels,
              number(waits));
  out.counter("softhca_credits_recalls_total", "Recalls of lent credits.", labels,
              number(q.recalls));
  out.counter("softhca_credits_recall_waits_total", "Recalls of lent credits that found none free.",
              labels, number(q.recall_waits));
}

}  // namespace

void add_pools(Families& out, const Source& source) {
  const engine::EngineView& engine = source.engine;
  add_pool(out, "vcbs", source.vcbs);
  std::uint32_t own_pcbs = 0;
  for (const auto* services : {&source.general_services, &source.shared_datagrams})
    own_pcbs += engine.pcbs.guaranteed(services->tenant.qos_class);
  add_pool(out, "pcbs", engine.pcbs.quota(), own_pcbs);
  add_pool(out, "execution_credits", engine.tvls.execution_pool());
  add_pool(out, "completion_credits", engine.tvls.completion_pool());
  configuration::for_each_kind([&](configuration::Kind kind) {
    const configuration::Accounts& totals = source.totals;
    const Labels labels{{"pool", configuration::name_of(kind)}};
    out.gauge("softhca_pool_size", "Size of the pool.", labels,
              static_cast<double>(totals.limit(kind)));
    out.gauge("softhca_pool_in_use", "In use by all tenants.", labels,
              static_cast<double>(totals.in_use(kind)));
    out.gauge("softhca_pool_high_water", "Most in use at once.", labels,
              static_cast<double>(totals.high_water(kind)));
  });
  out.gauge("softhca_dedicated_pcbs", "PCBs reserved for doorbells that find no other PCB.", {},
            engine.pcbs.dedicated());
  const schedule::SendQueueScheduler& scheduler = engine.scheduler;
  out.gauge("softhca_doorbell_places", "Queue pairs that may have doorbells in the daemon.", {},
            scheduler.config().entries);
  out.gauge("softhca_doorbell_places_in_use", "Queue pairs with doorbells in the daemon.", {},
            scheduler.linked());
  out.gauge("softhca_doorbell_places_high_water",
            "Most queue pairs with doorbells in the daemon at once.", {},
            scheduler.linked_high_water());
}

void add_objects(Families& out, const Source& source, const engine::Tenant& tenant) {
  const Labels labels{{"tenant", tenant.name}};
  const engine::TenantCounters& c = tenant.counters;
  const collect::PcbPool& pcbs = source.engine.pcbs;
  const collect::CollectGroup& group = pcbs.group(tenant.qos_class);
  const auto gauge = [&](const char* name, const char* help, double value) {
    out.gauge(name, help, labels, value);
  };
  gauge("softhca_queue_pairs", "Queue pairs.", c.queue_pairs.value());
  gauge("softhca_memory_regions", "Memory regions.", c.memory_regions.value());
  gauge("softhca_registered_bytes", "Bytes of memory regions.", number(c.memory.registered_bytes));
  gauge("softhca_sessions", "Opened device contexts.", c.sessions.value());
  gauge("softhca_vcbs_guaranteed", "VCBs guaranteed to the tenant and its levels.",
        vcbs_guaranteed(tenant));
  gauge("softhca_vcbs_in_use", "VCBs held by the tenant's processes.",
        tenant.control.all_vcbs_in_use.value());
  gauge("softhca_vcbs_high_water", "Most VCBs held at once.",
        tenant.control.all_vcbs_high_water.value());
  out.counter("softhca_vcbs_added_total", "VCBs given to programs while they ran.", labels,
              number(tenant.control.vcbs_added));
  out.counter("softhca_vcbs_taken_back_total", "VCBs taken back from programs while they ran.",
              labels, number(tenant.control.vcbs_taken_back));
  gauge("softhca_pcbs_guaranteed", "PCBs guaranteed to the tenant and its levels.",
        pcbs.guaranteed(tenant.qos_class));
  gauge("softhca_pcbs_in_use", "PCBs in use, except dedicated ones.", group.all_in_use.value());
  gauge("softhca_pcbs_high_water", "Most PCBs in use at once.", group.all_high_water.value());
}

void add_quotas(Families& out, const Source& source, const engine::Tenant& tenant) {
  const auto add = [&](const engine::Level* level, const Quota& vcbs, const Counter& vcbs_refused,
                       const collect::CollectGroup& group) {
    const Labels labels = labels_of(tenant, level);
    add_quota(out, with(labels, "resource", "vcbs"), vcbs);
    add_quota(out, with(labels, "resource", "pcbs"), group.pcbs);
    const char* refused = "Requests that found none free.";
    out.counter("softhca_level_refused_total", refused, with(labels, "resource", "vcbs"),
                number(vcbs_refused));
    out.counter("softhca_level_refused_total", refused, with(labels, "resource", "pcbs"),
                number(group.refused));
    out.counter("softhca_level_refused_total", refused, with(labels, "resource", "dedicated_pcbs"),
                number(group.dedicated_refused));
    out.gauge("softhca_dedicated_pcbs_limit", "Dedicated PCBs that may be in use at once.", labels,
              group.dedicated_limit.value());
    out.gauge("softhca_dedicated_pcbs_in_use", "Dedicated PCBs in use.", labels,
              group.dedicated_in_use.value());
    out.gauge("softhca_dedicated_pcbs_high_water", "Most dedicated PCBs in use at once.", labels,
              group.dedicated_high_water.value());
  };
  const collect::PcbPool& pcbs = source.engine.pcbs;
  add(nullptr, tenant.control.vcbs, tenant.control.vcbs_refused, pcbs.group(tenant.qos_class));
  for (const auto& level : tenant.levels)
    add(level.get(), level->control.vcbs, level->control.vcbs_refused,
        pcbs.group(level->qos_class));
}

void add_limits(Families& out, const engine::Tenant& tenant) {
  const configuration::Accounts& accounts = tenant.control.accounts;
  configuration::for_each_kind([&](configuration::Kind kind) {
    const Labels labels{{"tenant", tenant.name}, {"resource", configuration::name_of(kind)}};
    const auto gauge = [&](const char* name, const char* help, std::uint64_t value) {
      out.gauge(name, help, labels, static_cast<double>(value));
    };
    gauge("softhca_tenant_limit", "Limit of the tenant.", accounts.limit(kind));
    gauge("softhca_tenant_in_use", "In use by the tenant.", accounts.in_use(kind));
    gauge("softhca_tenant_high_water", "Most in use by the tenant at once.",
          accounts.high_water(kind));
    const auto refused = [&](const char* by, std::uint64_t value) {
      out.counter("softhca_tenant_refused_total",
                  "Requests refused by the tenant's limit or by the pool's total.",
                  with(labels, "by", by), static_cast<double>(value));
    };
    refused("tenant", accounts.refused(kind));
    refused("adapter", accounts.refused_by_whole(kind));
  });
}

void add_lanes(Families& out, const Source& source) {
  const schedule::TvlTable& tvls = source.engine.tvls;
  for (std::uint16_t i = 0; i < tvls.size(); ++i) {
    const schedule::Tvl& tvl = tvls[TvlId(i)];
    const engine::Tenant* tenant = tvl.used ? find_tenant(source, tvl.tenant) : nullptr;
    if (tenant == nullptr) continue;
    const schedule::TvlCounters& counters = source.engine.arbitrator.counters(TvlId(i));
    const Labels labels =
        with(with(labels_of(*tenant, tenant->find_level(tvl.qos_class)), "tvl", std::to_string(i)),
             "purpose", purpose_of(tvl));
    add_credits(out, labels, "execution", tvl.execution, counters.execution_waits);
    add_credits(out, labels, "completion", tvl.completion, counters.completion_waits);
    out.gauge("softhca_kick_list_limit", "Commands the virtual kick list may hold.", labels,
              tvl.max_kick_list);
    out.gauge("softhca_kick_list_waiting", "Commands in the virtual kick list.", labels,
              counters.waiting.value());
    out.gauge("softhca_kick_list_high_water", "Most commands in the virtual kick list at once.",
              labels, counters.waiting_high_water.value());
    out.counter("softhca_kick_list_refused_total",
                "Commands that found the virtual kick list full.", labels,
                number(counters.refused));
    out.counter("softhca_commands_started_total", "Commands started by the arbitrator.", labels,
                number(counters.started));
  }
}

void add_doorbells(Families& out, const Source& source, const engine::Tenant& tenant,
                   const engine::Level* level) {
  const schedule::DoorbellCounters& c =
      source.engine.scheduler.counters(level == nullptr ? tenant.qos_class : level->qos_class);
  const Labels labels = labels_of(tenant, level);
  const auto count = [&](const char* name, const char* help, const Counter& counter) {
    out.counter(name, help, labels, number(counter));
  };
  count(
      "softhca_doorbells_accepted_total",
      "Doorbells that the send queue scheduler accepted, from programs or made from VCB commands.",
      c.accepted);
  count("softhca_doorbells_stale_total", "Doorbells for commands that were already fetched.",
        c.stale);
  count("softhca_doorbells_hostile_total", "Doorbells that name commands beyond the send queue.",
        c.hostile);
  count("softhca_doorbells_pruned_total", "Doorbells moved to the doorbell overflow buffer.",
        c.pruned);
  count("softhca_doorbells_joined_total",
        "Doorbells added to one that was in the overflow buffer already.", c.joined);
  count("softhca_doorbells_recovered_total",
        "Doorbells read back from the overflow buffer, each with those added to it.", c.recovered);
  count("softhca_doorbells_lost_total",
        "Doorbells that the program overwrote in the overflow buffer.", c.lost);
  count("softhca_doorbells_dropped_total",
        "Doorbells in the overflow buffer when their queue pair ended.", c.dropped);
  out.gauge("softhca_doorbell_overflow_in_use",
            "Queue pairs with a doorbell in the overflow buffer.", labels, c.overflow.value());
  out.gauge("softhca_doorbell_overflow_high_water",
            "Most queue pairs with a doorbell in the overflow buffer at once.", labels,
            c.overflow_high_water.value());
}

}  // namespace softhca::metrics
