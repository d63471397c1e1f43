// SPDX-License-Identifier: Apache-2.0

// The method `explain`: the causes for which send commands of a tenant or level have waited.
#include "daemon/engine/records/costs.hpp"
#include "daemon/operate/admin/admin_view.hpp"

namespace softhca::control {
namespace {

using engine::Guarantee;
using engine::WaitCause;

/// The operator's remedy for a cause.
struct Remedy {
  WaitCause cause;
  const char* setting;  ///< setting of the configuration; empty: none helps
  const char* help;
};
constexpr Remedy kRemedies[] = {
    {WaitCause::kEngine, "weight, rate.min_bytes_per_second",
     "its commands wait for engine time. `weight` of its TVLs sets its share beside other tenants; "
     "a minimum rate comes first. Without other tenants it has the whole engine"},
    {WaitCause::kNoVcb, "vcbs",
     "its processes have too few VCBs for what they post, and ring doorbells instead"},
    {WaitCause::kNoPcb, "pcbs", "it uses all PCBs that it may have"},
    {WaitCause::kKickList, "kick_list", "the kick lists of its TVLs are full"},
    {WaitCause::kExecutionCredit, "execution_credits",
     "its TVLs have no execution credit left for the commands in their kick lists"},
    {WaitCause::kCompletionCredit, "completion_credits",
     "its TVLs have no completion credit left for the commands in their kick lists"},
    {WaitCause::kRate, "rate", "it has used up a limit in its `rate`"},
    {WaitCause::kPeerRate, "inbound_rate, served_rate of the peer",
     "a peer in this daemon has used up a rate: inbound_rate of what it receives, or served_rate "
     "of what is read from it"},
    {WaitCause::kMemory, "",
     "programs' memory that is not shared with the daemon is slow: page faults, or an address "
     "space that changes often. The programs are its own, or its peers' in this daemon"},
    {WaitCause::kOrder, "",
     "earlier commands of the same queue pair come first: a fence, reads at max_rd_atomic, or a "
     "drain"},
    {WaitCause::kReceiver, "", "the peer posts too few receives"},
    {WaitCause::kAcknowledgement, "",
     "the peer has not acknowledged yet: round-trip time, a slow or silent peer, or loss (see "
     "`qps`)"},
    {WaitCause::kCongestion, "[congestion], [reliability]",
     "congestion on the path slows its queue pairs down, by notifications or losses"},
    {WaitCause::kNeighbour, "", "the next hop does not answer requests for its link address"},
    {WaitCause::kPort, "", "the port takes no more packets: its link is saturated"},
};
static_assert(std::size(kRemedies) == static_cast<std::size_t>(WaitCause::kCount));

double seconds(const Counter& nanoseconds) {
  return static_cast<double>(nanoseconds.value()) * 1e-9;
}

/// The waits of a tenant without levels, of one level, or of a tenant with all its levels.
struct Waits {
  std::array<double, static_cast<std::size_t>(WaitCause::kCount)> time{};
  std::array<double, static_cast<std::size_t>(Guarantee::kCount)> not_kept{};

  void add(const engine::WaitCounters& counters) {
    for (std::size_t i = 0; i < time.size(); ++i) time[i] += seconds(counters.time[i]);
    for (std::size_t i = 0; i < not_kept.size(); ++i) not_kept[i] += seconds(counters.not_kept[i]);
  }
};

Json to_json(const Waits& waits) {
  Json causes = Json::array();
  for (const Remedy& remedy : kRemedies)
    causes.push_back({{"cause", engine::name_of(remedy.cause)},
                      {"seconds", waits.time[static_cast<std::size_t>(remedy.cause)]},
                      {"setting", remedy.setting},
                      {"help", remedy.help}});
  Json not_kept = Json::object();
  for (std::size_t i = 0; i < waits.not_kept.size(); ++i)
    not_kept[engine::name_of(static_cast<Guarantee>(i))] = waits.not_kept[i];
  return {{"causes", std::move(causes)}, {"guarantees_not_kept_s", std::move(not_kept)}};
}

double engine_seconds(const engine::Tenant& tenant) {
  return static_cast<double>(tenant.counters.engine_time.value()) / engine::kUnitsPerSecond;
}

}  // namespace

RpcResult AdminView::explain(const Json& params) {
  if (!params.is_object() || !params.contains("name"))
    return invalid_params("name the tenant: {\"name\": NAME, \"level\": LEVEL}");
  const auto name = params.at("name").get<std::string>();
  const auto level_name = param<std::string>(params, "level", "");
  const engine::Tenant* tenant = find_tenant(name);
  if (tenant == nullptr) return no_such("tenant", name);
  const engine::TenantCounters& counters = tenant->counters;
  Waits waits;
  std::uint64_t commands = counters.commands_vcb.value() + counters.commands_doorbell.value();
  bool found = level_name.empty();
  if (found) waits.add(counters.waits);
  for (const auto& level : tenant->levels) {
    if (!level_name.empty() && level->name != level_name) continue;
    waits.add(level->counters.waits);
    found = true;
    if (!level_name.empty())
      commands = level->counters.commands_vcb.value() + level->counters.commands_doorbell.value();
  }
  if (!found) return no_such("level", name + "/" + level_name);
  double engine = 0;
  for (const auto& each : adapter_.tenants) engine += engine_seconds(*each);
  Json out = to_json(waits);
  out["tenant"] = name;
  if (!level_name.empty()) out["level"] = level_name;
  out["time_s"] = uptime();
  out["commands"] = commands;
  // The causes of doorbells are counted only for the tenant as a whole.
  if (level_name.empty())
    for (std::size_t i = 0; i < counters.doorbells.size(); ++i)
      out["doorbells"][engine::name_of(static_cast<engine::DoorbellCause>(i))] =
          counters.doorbells[i].value();
  out["engine_s"] = {{"tenant", engine_seconds(*tenant)}, {"all_tenants", engine}};
  return out;
}

}  // namespace softhca::control
