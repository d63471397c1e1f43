// SPDX-License-Identifier: Apache-2.0

#include "daemon/operate/admin/admin_connections.hpp"

#include <algorithm>

#include "daemon/configuration/address.hpp"
#include "daemon/control_thread/process_name.hpp"
#include "daemon/counters/daemon_counters.hpp"
#include "daemon/operate/admin/admin_view.hpp"
#include "daemon/operate/admin/counter_json.hpp"

namespace softhca::control {
namespace {

using namespace management;

std::string text_of(const rdma_cm::SocketAddress& address) {
  if (!address.is_set()) return "";
  const std::string host = address.is_any() ? "*" : configuration::to_string(address.address);
  const bool bracketed = host.find(':') != std::string::npos;
  return (bracketed ? "[" + host + "]" : host) + ":" + std::to_string(address.port);
}

const char* text_of(rdma_cm::PortSpace space) {
  switch (space) {
    case rdma_cm::PortSpace::kTcp:
      return "tcp";
    case rdma_cm::PortSpace::kUdp:
      return "udp";
    case rdma_cm::PortSpace::kIpoib:
      break;
  }
  return "ipoib";
}

void add_process(Json& to, pid_t process) {
  if (process == 0) return;
  to["pid"] = process;
  to["comm"] = name_of_process(process);
}

Json to_json(const engine::Tenant& tenant, const rdma_cm::ConnectionInfo& info) {
  char service[20];
  std::snprintf(service, sizeof service, "0x%016llx",
                static_cast<unsigned long long>(info.service_id));
  Json out = {{"tenant", tenant.name},
              {"state", info.manager_state ? cm::name_of(*info.manager_state)
                                           : rdma_cm::name_of(info.state)},
              {"role", info.role == rdma_cm::Role::kActive ? "active" : "passive"},
              {"local", text_of(info.local)},
              {"peer", text_of(info.remote)},
              {"port_space", text_of(info.space)},
              {"service_id", service},
              {"qpn", info.qpn.value}};
  add_process(out, info.process);
  return out;
}

Json to_json(const engine::Tenant& tenant, const rdma_cm::ListenerInfo& info) {
  Json out = {{"tenant", tenant.name},
              {"local", text_of(info.local)},
              {"port_space", text_of(info.space)},
              {"backlog", info.backlog},
              {"waiting", info.waiting}};
  add_process(out, info.process);
  return out;
}

/// Returns the page of `all` from index `after` on, with at most `limit` entries. The page has
/// `next` if more entries follow.
Json page_of(const char* name, std::vector<Json> all, const Json& params) {
  const auto after = static_cast<std::size_t>(param<std::uint64_t>(params, "after", 0));
  const std::size_t begin = std::min(after, all.size());
  const std::size_t end = begin + std::min(page_limit(params), all.size() - begin);
  Json list = Json::array();
  for (std::size_t i = begin; i < end; ++i) list.push_back(std::move(all[i]));
  Json out = {{name, std::move(list)}};
  if (end < all.size()) out["next"] = end;
  return out;
}

Json discarded_of(const std::array<Counter, gsa::kDiscards>& counters) {
  Json out = Json::object();
  for (std::size_t i = 1; i < gsa::kDiscards; ++i)
    out[gsa::name_of(static_cast<gsa::Discard>(i))] = counters[i].value();
  return out;
}

}  // namespace

void ConnectionsView::add_to(AdminMethods& methods) {
  const auto add = [&](const char* name, RpcResult (ConnectionsView::*method)(const Json&)) {
    methods.add(name, [this, method](const Json& params) { return (this->*method)(params); });
  };
  add("connections", &ConnectionsView::connections);
  add("listeners", &ConnectionsView::listeners);
  add("gsa", &ConnectionsView::general_services);
}

template <class Visit>
std::optional<RpcError> ConnectionsView::for_each_service(const Json& params, Visit&& visit) {
  const auto name = param<std::string>(params, "tenant", "");
  bool found = name.empty();
  for (const auto& tenant : adapter_.tenants) {
    if (!name.empty() && tenant->name != name) continue;
    found = true;
    if (const rdma_cm::Service* service = connections_.find(*tenant)) visit(*tenant, *service);
  }
  if (!found) return no_such("tenant", name);
  return std::nullopt;
}

RpcResult ConnectionsView::connections(const Json& params) {
  std::vector<Json> all;
  const auto refused = for_each_service(params, [&](const auto& tenant, const auto& service) {
    service.for_each_connection(
        [&](const rdma_cm::ConnectionInfo& info) { all.push_back(to_json(tenant, info)); });
  });
  if (refused) return *refused;
  return page_of("connections", std::move(all), params);
}

Json ConnectionsView::limits(const engine::Tenant& tenant) {
  const auto figures = connections_.figures(tenant);
  if (!figures) return nullptr;
  Json limits = Json::object(), levels = Json::array();
  for (const ConnectionFigures::Limit& limit : figures->limits) {
    Json& entry = limits[limit.key] = {{"limit", limit.limit}, {"refused", limit.refused}};
    if (limit.in_use) entry["in_use"] = *limit.in_use;
  }
  const auto carried = [](std::uint32_t count) {
    return count == rdma_cm::ConnectionAdmission::kAll ? Json() : Json(count);
  };
  for (const rdma_cm::ConnectionAdmission::View& level : figures->levels)
    levels.push_back({{"level", level.level},
                      {"carried", carried(level.carries)},
                      {"admitted", level.admitted},
                      {"refused", level.refused}});
  return {{"limits", std::move(limits)},
          {"admission",
           {{"admitted", figures->admitted},
            {"most", carried(figures->most_admitted)},
            {"levels", std::move(levels)}}}};
}

RpcResult ConnectionsView::listeners(const Json& params) {
  std::vector<Json> all;
  const auto refused = for_each_service(params, [&](const auto& tenant, const auto& service) {
    service.for_each_listener(
        [&](const rdma_cm::ListenerInfo& info) { all.push_back(to_json(tenant, info)); });
  });
  if (refused) return *refused;
  return page_of("listeners", std::move(all), params);
}

RpcResult ConnectionsView::general_services(const Json&) {
  Json out = view_of(agent_);
  out["shared"] = view_of(shared_);
  return out;
}

/// Returns the client that `key` names: its tenant, and its number or its class and messages.
Json ConnectionsView::view_of(gsa::ClientKey key, bool of_class) const {
  Json out = Json::object();
  for (const auto& tenant : adapter_.tenants)
    if (tenant->id == engine::tenant_of(key)) out["tenant"] = tenant->name;
  const std::uint32_t selector = engine::selector_of(key);
  if (!of_class) {
    out["number"] = selector;
    return out;
  }
  out["class"] = engine::class_of(selector);
  out["messages"] = engine::messages_of(selector);
  return out;
}

Json ConnectionsView::view_of(GeneralServices& services) const {
  const engine::PoolView view = services.view();
  const bool of_class = &services == &agent_;
  Json clients = Json::array(), sources = Json::array();
  for (const gsa::ClientView& client : view.clients) {
    Json entry = view_of(client.key, of_class);
    add_counters(entry, counters::kClients, client.counters);
    entry.update({{"name", client.name},
                  {"borrowed", client.borrowed},
                  {"discarded", discarded_of(client.counters.discarded)}});
    clients.push_back(std::move(entry));
  }
  for (const gsa::SourceView& source : view.sources) {
    Json entry = view_of(source.client, of_class);
    entry.update({{"source", configuration::to_string(source.source)},
                  {"established", source.established},
                  {"in_use", source.held},
                  {"recent", source.recent},
                  {"received", source.received},
                  {"discarded", source.discarded}});
    sources.push_back(std::move(entry));
  }
  Json buffers = counters_in(counters::kReceivePool, services.pool_counters());
  buffers.update({{"limit", view.parameters.buffers},
                  {"low_threshold", view.low_threshold},
                  {"high_threshold", view.high_threshold}});
  Json out = counters_in(counters::kSharedQp, services.counters());
  out.update({{"buffers", std::move(buffers)},
              {"discarded", discarded_of(services.pool_counters().discarded)},
              {"clients", std::move(clients)},
              {"sources", std::move(sources)}});
  return out;
}

}  // namespace softhca::control
