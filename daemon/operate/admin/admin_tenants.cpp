// SPDX-License-Identifier: Apache-2.0

// The methods `tenants` and `tenant.show`.
#include <algorithm>

#include "daemon/control_thread/process_name.hpp"
#include "daemon/counters/pool_counters.hpp"
#include "daemon/counters/tenant_counters.hpp"
#include "daemon/device/adapter/adjuster.hpp"
#include "daemon/device/adapter/guid.hpp"
#include "daemon/device/session/device_session.hpp"
#include "daemon/engine/ports/port_binding.hpp"
#include "daemon/operate/admin/admin_view.hpp"
#include "daemon/operate/admin/counter_json.hpp"
#include "daemon/qos/collect/pcb_pool.hpp"
#include "daemon/qos/schedule/kick_arbitrator.hpp"
#include "daemon/qos/schedule/tvl_table_spread.hpp"

namespace softhca::control {
namespace {

/// Adds the name of the device if the tenant has several.
void add_device(Json& out, const Adapter& adapter, const engine::Tenant& tenant,
                std::uint8_t device) {
  const std::string name = adapter.name_among_several(tenant, device);
  if (!name.empty()) out["device"] = name;
}

/// Most shared receive queues in one answer to a tenant.
constexpr std::size_t kLargestOwnPage = 64;

Json addresses_of(const engine::Tenant& tenant, const Adapter& adapter) {
  Json out = Json::array();
  for (const auto& address : tenant.addresses) {
    Json entry = {{"address", configuration::to_string(address.gid)}};
    if (address.port) entry["port"] = adapter.engine.ports[address.port->value]->name;
    add_device(entry, adapter, tenant, address.device);
    if (control::ports_of(tenant.addresses, address.device) > 1)
      entry["device_port"] = address.device_port;
    out.push_back(std::move(entry));
  }
  return out;
}

/// Returns the ports of a device, with the ports of the daemon that they are on.
Json ports_of(const engine::Tenant& tenant, const Adapter& adapter, std::uint8_t device) {
  Json out = Json::array();
  for (std::uint8_t number = 1; number <= control::ports_of(tenant.addresses, device); ++number) {
    const DevicePart part{device, number};
    Json port = {{"number", number},
                 {"link", adapter.link_up(tenant.addresses, part) ? "up" : "down"},
                 {"path_mtu", adapter.path_mtu(tenant, part)}};
    std::vector<std::string> names;
    for (const engine::Tenant::Address& address : tenant.addresses)
      if (part.has(address) && address.port)
        if (const std::string& name = adapter.engine.ports[address.port->value]->name;
            std::ranges::find(names, name) == names.end())
          names.push_back(name);
    port["ports"] = names;
    out.push_back(std::move(port));
  }
  return out;
}

/// Returns the devices of a tenant.
Json devices_of(const engine::Tenant& tenant, const Adapter& adapter) {
  Json out = Json::array();
  for (const configuration::TenantDevice& device : adapter.devices(tenant)) {
    const auto index = static_cast<std::uint8_t>(out.size());
    Json entry = {{"name", device.name},
                  {"guid", guid_text(adapter.node_guid(tenant, index))},
                  {"rate", configuration::codes_of(device.rate).word},
                  {"link", adapter.link_up(tenant.addresses, {index}) ? "up" : "down"},
                  {"ports", ports_of(tenant, adapter, index)}};
    if (!device.pci.empty()) entry["pci"] = device.pci;
    if (device.numa) entry["numa"] = *device.numa;
    out.push_back(std::move(entry));
  }
  return out;
}

/// Returns the limits and the use of objects that a tenant's programs take on request, by kind.
Json limits_of(const configuration::Accounts& accounts) {
  Json out = Json::object();
  configuration::for_each_kind([&](configuration::Kind kind) {
    out[configuration::name_of(kind)] = counters_in(counters::kLimit, {&accounts, kind});
  });
  return out;
}

/// Returns the VCBs of a tenant together with those of its levels (mechanism A3).
Json vcbs_of(const engine::Tenant& tenant) {
  Json out = control::to_json(tenant.control.vcbs);
  out["refused"] = tenant.control.vcbs_refused.value();
  if (tenant.levels.empty()) return out;
  std::uint64_t guaranteed = tenant.control.vcbs.guaranteed.value();
  for (const auto& level : tenant.levels) guaranteed += level->control.vcbs.guaranteed.value();
  out["guaranteed"] = guaranteed;
  out["in_use"] = tenant.control.all_vcbs_in_use.value();
  out["high_water"] = tenant.control.all_vcbs_high_water.value();
  return out;
}

/// Adds whether the tenant made the level, and the rules that assign programs to it. `config`: null
/// if the level is no longer configured.
void add_rules(Json& entry, const configuration::LevelConfig* config) {
  if (config == nullptr) return;
  entry["own"] = config->own;
  const auto add = [&](const char* key, const auto& rules) {
    if (!rules.empty()) entry[key] = rules;
  };
  add("cgroups", config->cgroups);
  add("service_levels", config->service_levels);
  add("traffic_classes", config->traffic_classes);
  add("own_cgroups", config->own_rules.cgroups);
  add("own_service_levels", config->own_rules.service_levels);
  add("own_traffic_classes", config->own_rules.traffic_classes);
}

/// `sent`: null for a tenant or level that is leaving.
void add_minimum(Json& out, const SentLimits* sent, const Counter& first) {
  out["minimum"] = {{"bytes_per_second", sent != nullptr ? sent->min_bytes_per_second : 0},
                    {"first_bytes", first.value()}};
}

Json levels_of(const engine::Tenant& tenant, const configuration::TenantConfig* config,
               const engine::EngineView& engine) {
  Json out = Json::array();
  for (const auto& level : tenant.levels) {
    const collect::CollectGroup& group = engine.pcbs.group(level->qos_class);
    Json pcbs = control::to_json(group.pcbs);
    pcbs["refused"] = group.refused.value();
    Json vcbs = control::to_json(level->control.vcbs);
    vcbs["refused"] = level->control.vcbs_refused.value();
    Json entry = {{"name", level->name},
                  {"default", level->is_default},
                  {"leaving", level->control.leaving},
                  {"vcbs", std::move(vcbs)},
                  {"pcbs", std::move(pcbs)}};
    add_counters(entry, counters::kLevelWork, level->counters);
    add_throttling(entry, level->rate);
    const configuration::LevelConfig* settings =
        config != nullptr ? find_level(*config, level->name) : nullptr;
    add_minimum(entry, settings != nullptr ? &settings->rates.sent : nullptr,
                level->rate.minimum_bytes);
    add_throttling(entry, level->peer_rates);
    add_rules(entry, settings);
    out.push_back(std::move(entry));
  }
  return out;
}

Json to_json(const engine::Tenant& tenant, const Adapter& adapter) {
  const engine::EngineView& engine = adapter.engine;
  const collect::CollectGroup& group = engine.pcbs.group(tenant.qos_class);
  Json pcbs = control::to_json(group.pcbs);
  pcbs["guaranteed"] = engine.pcbs.guaranteed(tenant.qos_class);
  pcbs["lent"] = lent_by(engine, tenant).pcbs;
  pcbs["in_use"] = group.all_in_use.value();
  pcbs["high_water"] = group.all_high_water.value();
  pcbs["refused"] = group.refused.value();
  pcbs["dedicated"] = group.dedicated_in_use.value();
  pcbs["dedicated_refused"] = group.dedicated_refused.value();
  Json out = {{"name", tenant.name},
              {"addresses", addresses_of(tenant, adapter)},
              {"leaving", tenant.control.leaving},
              {"sessions", tenant.counters.sessions.value()},
              {"queue_pairs", tenant.counters.queue_pairs.value()},
              {"vcbs", vcbs_of(tenant)},
              {"pcbs", std::move(pcbs)}};
  add_throttling(out, tenant.peer_rates);
  return out;
}

}  // namespace

RpcResult AdminView::tenants(const Json&) {
  Json out = Json::array();
  for (const auto& tenant : adapter_.tenants) {
    Json entry = to_json(*tenant, adapter_);
    entry["link"] = adapter_.link_up(tenant->addresses) ? "up" : "down";
    out.push_back(std::move(entry));
  }
  return Json{{"tenants", std::move(out)}};
}

void AdminView::add_own(AdminMethods& methods, const engine::Tenant& tenant) {
  // `own` gets parameters in which `key` is the tenant's name.
  const auto add = [&, name = tenant.name](const char* method, const char* key, auto own) {
    methods.add(method, [name, key, own](const Json& params) -> RpcResult {
      Json of_tenant = params.is_object() ? params : Json::object();
      if (param<std::string>(of_tenant, key, name) != name)
        return RpcError{RpcCode::kNotAllowed, "this socket is for tenant " + name + " only", {}};
      of_tenant[key] = name;
      return own(of_tenant);
    });
  };
  add("tenant.show", "name", [this](const Json& params) { return tenant_show(params); });
  add("explain", "name", [this](const Json& params) {
    RpcResult explained = explain(params);
    // A tenant must not know how busy others are.
    if (explained) explained.value().erase("engine_s");
    return explained;
  });
  add("qps", "tenant", [this](const Json& params) { return queue_pairs(params); });
  add("srqs", "tenant", [this](Json params) {
    // Each queue is a request to the engine.
    params["limit"] = std::min<std::size_t>(page_limit(params), kLargestOwnPage);
    return shared_receive_queues(params);
  });
  methods.add("events",
              [this, name = tenant.name](const Json& params) { return own_events(name, params); });
  methods.add("qp.set", [this, name = tenant.name](const Json& params) {
    return set_own_queue_pair(name, params);
  });
}

RpcResult AdminView::tenant_show(const Json& params) {
  if (!params.is_object() || !params.contains("name"))
    return invalid_params("name the tenant: {\"name\": NAME}");
  const auto name = params.at("name").get<std::string>();
  const engine::Tenant* tenant = find_tenant(name);
  if (tenant == nullptr) return no_such("tenant", name);
  Json out = to_json(*tenant, adapter_);
  out["devices"] = devices_of(*tenant, adapter_);
  out["link"] = adapter_.link_up(tenant->addresses) ? "up" : "down";
  out["path_mtu"] = adapter_.path_mtu(*tenant);
  const configuration::TenantConfig* config = configuration::find_tenant(adapter_.config, name);
  if (config != nullptr) {
    out["share"] = to_text(config->share);
    out["class"] = configuration::kWorkloadWords[static_cast<std::size_t>(config->workload)];
  }
  if (const Json machine = machine_of(*tenant); !machine.is_null()) out["machine"] = machine;
  add_minimum(out, config != nullptr ? &config->rates.sent : nullptr, tenant->rate.minimum_bytes);
  out["levels"] = levels_of(*tenant, config, adapter_.engine);
  out["limits"] = limits_of(tenant->control.accounts);
  if (connections_) out["connections"] = connections_(*tenant);
  out["tvls"] = lanes_of(*tenant);
  out["processes"] = sessions_of(*tenant);
  return out;
}

Json AdminView::machine_of(const engine::Tenant& tenant) {
  const auto& machine = tenant.control.machine;
  const std::uint64_t bytes =
      machine != nullptr ? machine->bytes() : Adapter::settings(tenant).programs.guest_memory;
  if (bytes == 0) return {};
  const char* const off = machine == nullptr ? "off" : "starting";
  return {{"guest_memory", bytes},
          {"state", machine != nullptr && machine->has_started() ? "runs" : off}};
}

Json AdminView::lanes_of(const engine::Tenant& tenant) const {
  Json out = Json::array();
  const schedule::TvlTable& tvls = adapter_.engine.tvls;
  for (std::uint16_t i = 0; i < tvls.size(); ++i) {
    const schedule::Tvl& tvl = tvls[TvlId(i)];
    if (!tvl.used || tvl.tenant != tenant.id) continue;
    const schedule::TvlCounters& counters = adapter_.engine.arbitrator.counters(TvlId(i));
    const bool dedicated = tvl.purpose == schedule::TvlPurpose::kDedicated;
    Json entry = {{"tvl", i},
                  {"purpose", dedicated ? "dedicated" : "commands"},
                  {"closing", tvl.closing},
                  {"weight", tvl.weight},
                  {"execution_credits", control::to_json(tvl.execution)},
                  {"completion_credits", control::to_json(tvl.completion)},
                  {"kick_list",
                   {{"limit", tvl.max_kick_list},
                    {"waiting", counters.waiting.value()},
                    {"high_water", counters.waiting_high_water.value()},
                    {"refused", counters.refused.value()}}},
                  {"started", counters.started.value()},
                  {"execution_waits", counters.execution_waits.value()},
                  {"completion_waits", counters.completion_waits.value()}};
    if (const engine::Level* level = tenant.find_level(tvl.qos_class)) entry["level"] = level->name;
    out.push_back(std::move(entry));
  }
  return out;
}

Json AdminView::sessions_of(const engine::Tenant& tenant) const {
  Json out = Json::array();
  for (const DeviceSession* session : sessions_()) {
    if (&session->tenant() != &tenant) continue;
    const PeerIdentity& peer = session->process();
    const DeviceSession::ObjectCounts has = session->object_counts();
    Json entry = {{"session", has.id},
                  {"pid", peer.pid},
                  {"uid", peer.uid},
                  {"gid", peer.gid},
                  {"comm", name_of_process(peer.pid)},
                  {"vcbs", has.vcbs},
                  {"queue_pairs", has.queue_pairs},
                  {"completion_queues", has.completion_queues},
                  {"shared_receive_queues", has.shared_receive_queues},
                  {"memory_regions", has.memory_regions},
                  {"protection_domains", has.protection_domains},
                  {"address_handles", has.address_handles}};
    if (has.level != nullptr) entry["level"] = has.level->name;
    add_device(entry, adapter_, tenant, has.device);
    out.push_back(std::move(entry));
  }
  return out;
}

}  // namespace softhca::control
