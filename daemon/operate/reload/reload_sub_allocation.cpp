// SPDX-License-Identifier: Apache-2.0

// Tenants' sub-allocations: requests on their control sockets.
#include <algorithm>

#include "daemon/engine/requests/tenant_requests.hpp"
#include "daemon/frontend/unix/server/server.hpp"
#include "daemon/operate/reload/reload.hpp"

namespace softhca::control {

using configuration::AllocationRefusal;
using configuration::AllocationResult;
using configuration::TenantConfig;
using Changes = std::span<const configuration::AllocationChange>;

namespace {

ReloadResult refused_as(AllocationRefusal refusal) {
  ReloadResult result;
  result.refusal = refusal_of(std::move(refusal));
  return result;
}

AllocationRefusal being_removed(const engine::Tenant& tenant) {
  const std::string who = "tenant " + tenant.name;
  return {AllocationRefusal::Cause::kNotAllowed, who, {}, 0, 0, who + " is being removed"};
}

Actor itself(const engine::Tenant& tenant, const Actor& by) {
  Actor self = by;
  self.tenant = tenant.name;
  return self;
}

}  // namespace

ReloadResult Reloader::change_own(const engine::Tenant& tenant, Changes changes, const Actor& by) {
  const Actor self = itself(tenant, by);
  ReloadResult result = put_changes(with_own_changes(tenant, changes), self);
  if (!result) return result;
  configuration::SubAllocation division = layers_.own_of(tenant.name);
  for (const configuration::AllocationChange& change : changes) supersede(division.changes, change);
  layers_.set_own(tenant.name, std::move(division));
  record("set", self, result);
  return result;
}

AllocationResult Reloader::with_own_changes(const engine::Tenant& tenant, Changes changes) const {
  const TenantConfig* given = find_tenant(given_, tenant.name);
  if (given == nullptr) return being_removed(tenant);
  return configuration::with_own_changes(adapter_.config, *given, changes,
                                         departures_.held_besides(adapter_.config));
}

ReloadResult Reloader::divide(const engine::Tenant& tenant, const configuration::DivisionEdit& edit,
                              const char* cause, const Actor& by) {
  const TenantConfig* given = find_tenant(given_, tenant.name);
  if (given == nullptr) return refused_as(being_removed(tenant));
  configuration::SubAllocation division = layers_.own_of(tenant.name);
  if (auto wrong = edit(*given, division)) return refused_as(std::move(*wrong));
  const Actor self = itself(tenant, by);
  ReloadResult result = put_changes(
      with_division(adapter_.config, *given, division, departures_.held_besides(adapter_.config)),
      self);
  if (!result) return result;
  layers_.set_own(tenant.name, std::move(division));
  record(cause, self, result);
  return result;
}

/// Renames a level. Only the name changes, so nothing can fail once the name is free.
ReloadResult Reloader::rename_own_level(const engine::Tenant& tenant, const std::string& from,
                                        const std::string& to, const Actor& by) {
  const TenantConfig* given = find_tenant(given_, tenant.name);
  if (given == nullptr) return refused_as(being_removed(tenant));
  configuration::SubAllocation division = layers_.own_of(tenant.name);
  if (auto wrong = configuration::rename_level(*given, division, from, to))
    return refused_as(std::move(*wrong));
  const auto named = [&](const std::string& name) {
    return std::ranges::find(tenant.levels, name, [](const auto& level) { return level->name; });
  };
  const std::string who = "tenant " + tenant.name;
  if (named(to) != tenant.levels.end())
    return refused_as(
        {AllocationRefusal::Cause::kBadAmount, who, "levels", 0, 0,
         who + ": programs of a removed level \"" + to + "\" still run; choose another name"});
  configuration::Config wanted = adapter_.config;
  for (TenantConfig& each : wanted.tenants)
    for (configuration::LevelConfig& level : each.levels)
      if (each.name == tenant.name && level.name == from) level.name = to;
  ReloadResult result;
  result.plan = plan_reload(adapter_.config, wanted);
  adapter_.change_rows(engine::RenameLevel{**named(from), to});
  adapter_.put_in_force(std::move(wanted));
  server_.rename_level(tenant, from, to);
  layers_.set_own(tenant.name, std::move(division));
  const std::string text = "level " + from + " is now " + to;
  adapter_.journal.add({.kind = "set", .tenant = tenant.name, .text = text});
  record("level renamed", itself(tenant, by), result);
  return result;
}

}  // namespace softhca::control
