// SPDX-License-Identifier: Apache-2.0

#include "daemon/operate/reload/revisions.hpp"

#include <algorithm>
#include <utility>

#include "daemon/control_thread/process_name.hpp"

namespace softhca::control {

Actor actor_of(const PeerIdentity& peer) {
  return {.peer = peer,
          .program = peer.pid != 0 ? printable(name_of_process(peer.pid)) : std::string(),
          .tenant = {}};
}

namespace {

std::shared_ptr<const std::vector<configuration::TenantOnDemand>> on_demand_in_force(
    const Layers& layers) {
  std::vector<configuration::TenantOnDemand> tenants = layers.tenants();
  std::erase_if(tenants, [&](const configuration::TenantOnDemand& tenant) {
    return layers.absent().contains(tenant.request.name);
  });
  return std::make_shared<const std::vector<configuration::TenantOnDemand>>(std::move(tenants));
}

/// True if a rollback to one tenant restores the other: they have the same amounts, and the same of
/// these are given.
bool is_same(const configuration::TenantConfig& one, const configuration::TenantConfig& other) {
  return one == other && one.given.is_same(other.given) &&
         std::ranges::equal(one.tvls, other.tvls,
                            [](const auto& a, const auto& b) { return a.given.is_same(b.given); });
}

}  // namespace

void Revisions::add(std::string cause, Actor actor, const configuration::ReloadPlan& plan,
                    const configuration::Config& in_force, const configuration::Config& given,
                    const Layers& layers) {
  Revision revision{.number = ++last_,
                    .time = std::chrono::system_clock::now(),
                    .cause = std::move(cause),
                    .actor = std::move(actor),
                    .differences = plan.differences,
                    .in_force = keep(in_force.tenants),
                    .own = layers.own(),
                    .on_demand = nullptr,
                    .given = {}};
  if (revision.differences.size() > Revision::kMostDifferences) {
    revision.more = revision.differences.size() - Revision::kMostDifferences;
    revision.differences.resize(Revision::kMostDifferences);
  }
  // A tenant's own requests do not change tenants on demand.
  const bool same = !revision.actor.tenant.empty() && !revisions_.empty();
  revision.on_demand = same ? revisions_.back().on_demand : on_demand_in_force(layers);
  const std::string tenant = revision.actor.tenant;
  revisions_.push_back(std::move(revision));
  revisions_.back().given = keep(given.tenants);
  drop_beyond(tenant, tenant.empty() ? kKept : kKeptOfTenant);
  // Drops the revisions of tenants that are gone, so that those of short-lived tenants do not add
  // up.
  std::erase_if(revisions_, [&](const Revision& kept) {
    return !kept.actor.tenant.empty() && find_tenant(in_force, kept.actor.tenant) == nullptr;
  });
}

const Revision* Revisions::find(std::uint64_t number) const {
  const auto found = std::ranges::find(revisions_, number, &Revision::number);
  return found != revisions_.end() ? &*found : nullptr;
}

/// Returns shared tenants. A tenant that is equal to one of the last revision is shared with it.
KeptTenants Revisions::keep(const std::vector<configuration::TenantConfig>& tenants) const {
  KeptTenants kept;
  for (const configuration::TenantConfig& tenant : tenants) {
    std::shared_ptr<const configuration::TenantConfig> same;
    if (!revisions_.empty())
      for (const auto* earlier : {&revisions_.back().in_force, &revisions_.back().given})
        for (const auto& each : *earlier)
          if (same == nullptr && is_same(*each, tenant)) same = each;
    kept.push_back(same != nullptr ? same
                                   : std::make_shared<const configuration::TenantConfig>(tenant));
  }
  return kept;
}

void Revisions::drop_beyond(const std::string& tenant, std::size_t most) {
  const auto by = [&](const Revision& revision) { return revision.actor.tenant == tenant; };
  if (static_cast<std::size_t>(std::ranges::count_if(revisions_, by)) > most)
    revisions_.erase(std::ranges::find_if(revisions_, by));
}

std::vector<configuration::TenantConfig> tenants_of(const KeptTenants& kept) {
  std::vector<configuration::TenantConfig> tenants;
  for (const auto& tenant : kept) tenants.push_back(*tenant);
  return tenants;
}

}  // namespace softhca::control
