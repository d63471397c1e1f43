// SPDX-License-Identifier: Apache-2.0

// Tenants on demand: made from templates of the configuration, and removed again.
#include <algorithm>

#include "daemon/device/adapter/log.hpp"
#include "daemon/frontend/unix/server/server.hpp"
#include "daemon/operate/reload/reload.hpp"

namespace softhca::control {

using configuration::AllocationRefusal;
using configuration::TenantOnDemand;

namespace {

using Cause = ReloadRefusal::Cause;

ReloadRefusal not_possible(AllocationRefusal::Cause cause, std::string why) {
  return {Cause::kNotFree, {std::move(why)}, {.cause = cause}};
}

ReloadResult refused(ReloadRefusal refusal) {
  ReloadResult result;
  result.refusal = std::move(refusal);
  return result;
}

std::vector<TenantOnDemand> without(std::vector<TenantOnDemand> tenants, const std::string& name) {
  std::erase_if(tenants, [&](const TenantOnDemand& each) { return each.request.name == name; });
  return tenants;
}

/// Returns the requests without their changes of this tenant.
std::vector<configuration::SavedRequest> without(std::vector<configuration::SavedRequest> saved,
                                                 const std::string& name) {
  for (configuration::SavedRequest& request : saved)
    std::erase_if(request.changes, [&](const auto& change) { return change.tenant == name; });
  std::erase_if(saved, [](const configuration::SavedRequest& r) { return r.changes.empty(); });
  return saved;
}

/// Prepares the file of saved tenants with `made`. Refuses if `made`, or a tenant that fits now,
/// would not fit after a restart.
std::optional<ReloadRefusal> prepare_to_keep(const Layers& layers, const TenantOnDemand& made) {
  const std::string& name = made.request.name;
  std::vector<TenantOnDemand> tenants = without(layers.tenants(), name);
  tenants.push_back(made);
  const auto laid = layers.after_restart(layers.saved(), tenants);
  for (const auto& [absent, why] : laid.absent)
    if (!layers.absent().contains(absent) || absent == name)
      return ReloadRefusal{
          Cause::kNotFree,
          {"tenant " + absent +
           " would not fit the configuration file after a restart: " + why.message},
          why};
  if (const auto written = layers.prepare(layers.saved(), tenants); !written)
    return ReloadRefusal{Cause::kSetup, {written.error().message}, {}};
  return std::nullopt;
}

}  // namespace

ReloadResult Reloader::create_tenant(const configuration::TenantRequest& request, const Actor& by,
                                     bool save) {
  const std::string who = "tenant " + request.name;
  std::vector<Gid> taken;
  for (const Departures::OfTenant& leaving : departures_.tenants()) {
    const configuration::TenantConfig& had = adapter_.settings(*leaving.tenant);
    if (had.name == request.name)
      return refused(
          {Cause::kNotFree,
           {who + ": a tenant of that name is being removed; " +
            std::to_string(server_.connections(*leaving.tenant)) +
            " connections of its programs are left; softhcactl tenant remove " + request.name +
            " --end closes them"},
           {.cause = AllocationRefusal::Cause::kNotFree, .resource = "name", .asked = 1}});
    taken.insert(taken.end(), had.addresses.begin(), had.addresses.end());
  }
  const auto wanted = configuration::with_tenant(adapter_.config, request, taken,
                                                 departures_.held_besides(adapter_.config));
  if (!wanted) return refused({Cause::kNotFree, {wanted.refusal().message}, wanted.refusal()});
  const configuration::TenantConfig& tenant = (*wanted).tenants.back();
  TenantOnDemand made{request, save};
  made.request.addresses = tenant.addresses;
  // A saved tenant of this name that is not in force gives way.
  const TenantOnDemand* const before = layers_.find(request.name);
  const bool rewrite = save || (before != nullptr && before->saved);
  if (rewrite)
    if (auto why = prepare_to_keep(layers_, made)) return refused(std::move(*why));
  ReloadResult result = put(*wanted);
  if (!result) return result;
  given_.tenants.push_back(tenant);
  std::vector<TenantOnDemand> tenants = without(layers_.tenants(), request.name);
  tenants.push_back(std::move(made));
  layers_.forget(request.name);
  layers_.set_tenants(tenants);
  if (rewrite)
    if (const auto kept = layers_.keep(layers_.saved(), std::move(tenants)); !kept)
      result.kept.push_back("in force, but not saved: " + kept.error().message);
  adapter_.journal.add({.kind = "tenant_created",
                        .tenant = request.name,
                        .text = "made of template " + request.template_name});
  record("tenant create", by, result);
  return result;
}

ReloadResult Reloader::remove_tenant(const std::string& name, bool end, const Actor& by) {
  ReloadResult result;
  const bool is_made = layers_.find(name) != nullptr;
  if (is_made) {
    result = take_away(name);
    if (!result) return result;
    record("tenant remove", by, result);
  } else if (!draining(name)) {
    using AllocationCause = AllocationRefusal::Cause;
    if (find_tenant(adapter_.config, name) == nullptr)
      return refused(not_possible(AllocationCause::kNoSuchThing, "no such tenant: " + name));
    return refused(not_possible(
        AllocationCause::kNotAllowed,
        "tenant " + name + " is from the configuration file; remove it there and reload"));
  }
  if (end) departures_.end(name);
  departures_.end_overdue();  // as the next tick would do
  departures_.finish_tenants();
  if (const auto connections = draining(name))
    log_line(spdlog::level::info, {.tenant = name},
             "tenant " + name + ": is being removed, " + std::to_string(*connections) +
                 " connections of its programs are left");
  return result;
}

/// Removes a tenant. REQUIRES: it was made on demand.
ReloadResult Reloader::take_away(const std::string& name) {
  const bool saved = layers_.find(name)->saved;
  std::vector<TenantOnDemand> tenants = without(layers_.tenants(), name);
  std::vector<configuration::SavedRequest> requests =
      saved ? without(layers_.saved(), name) : layers_.saved();
  if (saved)
    if (const auto written = layers_.prepare(requests, tenants); !written)
      return refused({Cause::kSetup, {written.error().message}, {}});
  ReloadResult result;
  if (!layers_.absent().contains(name)) {
    configuration::Config wanted = adapter_.config;
    const auto is_it = [&](const configuration::TenantConfig& tenant) {
      return tenant.name == name;
    };
    std::erase_if(wanted.tenants, is_it);
    result = put(wanted);
    if (!result) return result;
    std::erase_if(given_.tenants, is_it);
  }
  layers_.forget(name);
  layers_.set_tenants(tenants);
  if (saved)
    if (const auto kept = layers_.keep(std::move(requests), std::move(tenants)); !kept)
      result.kept.push_back("removed, but still saved: " + kept.error().message);
  return result;
}

std::string Reloader::socket_of(const std::string& tenant) const {
  return folder_of(adapter_.config, tenant_of(adapter_, tenant)) + "/socket";
}

std::optional<ReloadRefusal> check_on_demand(const Layers& layers,
                                             const configuration::Overlaid& laid) {
  std::optional<ReloadRefusal> refusal;
  for (const auto& [name, why] : laid.absent) {
    if (layers.absent().contains(name)) continue;
    const bool for_room = why.cause == AllocationRefusal::Cause::kNotFree;
    if (!refusal) refusal = {for_room ? Cause::kNotFree : Cause::kNotLive, {}, why};
    refusal->lines.push_back("tenant " + name + ", made on demand, would not fit: " + why.message +
                             "; remove it first: softhcactl tenant remove " + name);
  }
  return refusal;
}

}  // namespace softhca::control
