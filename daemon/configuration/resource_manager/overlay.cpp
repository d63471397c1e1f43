// SPDX-License-Identifier: Apache-2.0

#include "daemon/configuration/resource_manager/overlay.hpp"

#include <algorithm>

namespace softhca::configuration {
namespace {

/// Applies tenants and requests until no further one fits.
void make_saved(Overlaid& out, const std::vector<TenantOnDemand>& tenants,
                const std::vector<SavedRequest>& saved, const Held& held) {
  std::vector<const TenantOnDemand*> absent;
  std::vector<const SavedRequest*> waiting;
  for (const TenantOnDemand& tenant : tenants) absent.push_back(&tenant);
  for (const SavedRequest& request : saved) waiting.push_back(&request);
  const auto make = [&](const AllocationResult& made, const auto& key, auto& left_out) {
    if (made) {
      out.given = *made;
      left_out.erase(key);
    } else {
      left_out.insert_or_assign(key, made.refusal());
    }
    return static_cast<bool>(made);
  };
  for (bool some = true; some;) {
    const auto tenants_made = std::erase_if(absent, [&](const TenantOnDemand* tenant) {
      return make(with_tenant(out.given, tenant->request, {}, held), tenant->request.name,
                  out.absent);
    });
    const auto requests_made = std::erase_if(waiting, [&](const SavedRequest* request) {
      return make(with_changes(out.given, request->changes, held), request->number, out.left_out);
    });
    some = tenants_made + requests_made != 0;
  }
}

/// Applies the requests that were left out and fit only together.
void make_together(Overlaid& out, const Config& file, const std::vector<TenantOnDemand>& tenants,
                   const std::vector<SavedRequest>& saved, const Held& held) {
  Overlaid alone{.given = file,
                 .in_force = {},
                 .left_out = {},
                 .absent = {},
                 .undivided = {},
                 .without_amounts = {}};
  make_saved(alone, tenants, {}, held);
  if (alone.absent.size() > out.absent.size()) return;  // a tenant gets its room from a request
  std::vector<AllocationChange> all;
  for (const SavedRequest& request : saved)
    all.insert(all.end(), request.changes.begin(), request.changes.end());
  if (auto made = with_changes(alone.given, all, held)) {
    out.given = *made;
    out.left_out.clear();
  }
}

void put_without_amounts(Overlaid& out, const TenantConfig& given, const SubAllocation& division,
                         const AllocationRefusal& why, const Held& held) {
  out.undivided.emplace(given.name, why);
  SubAllocation bare = division;
  bare.changes.clear();
  if (bare.empty()) return;
  const auto made = with_division(out.in_force, given, bare, held);
  if (!made) return;
  out.in_force = *made;
  out.without_amounts.emplace(given.name, std::make_shared<const SubAllocation>(std::move(bare)));
}

void put_division(Overlaid& out, const TenantConfig& given, const SubAllocation& division,
                  const Held& held) {
  if (auto made = with_division(out.in_force, given, division, held))
    out.in_force = *made;
  else
    put_without_amounts(out, given, division, made.refusal(), held);
}

/// True if a change of the tenant changes amounts that follow.
bool amounts_follow(const std::string& tenant, std::span<const AllocationChange> changes) {
  return std::ranges::any_of(changes, [&](const AllocationChange& change) {
    return change.tenant == tenant && change.level.empty() &&
           (change.setting == LiveSetting::kShare || change.setting == LiveSetting::kClass ||
            change.setting == LiveSetting::kTvls);
  });
}

}  // namespace

void supersede(std::vector<SavedRequest>& saved, const std::vector<AllocationChange>& later) {
  for (SavedRequest& request : saved) take_out(request.changes, later);
  std::erase_if(saved, [](const SavedRequest& request) { return request.changes.empty(); });
}

Overlaid lay_over(const Config& file, const std::vector<TenantOnDemand>& tenants,
                  const std::vector<SavedRequest>& saved, const SubAllocations& own,
                  const Held& held) {
  Overlaid out{.given = file,
               .in_force = {},
               .left_out = {},
               .absent = {},
               .undivided = {},
               .without_amounts = {}};
  make_saved(out, tenants, saved, held);
  if (!out.left_out.empty()) make_together(out, file, tenants, saved, held);
  out.in_force = out.given;
  for (const auto& [tenant, division] : own) {
    const TenantConfig* given = find_tenant(out.given, tenant);
    if (given != nullptr) put_division(out, *given, *division, held);
  }
  return out;
}

AllocationResult lay_changes(Overlaid& laid, std::span<const AllocationChange> changes,
                             const SubAllocations& own, const Held& held) {
  Config base = laid.in_force;
  for (TenantConfig& tenant : base.tenants)
    if (const TenantConfig* given = find_tenant(laid.given, tenant.name))
      if (amounts_follow(tenant.name, changes)) tenant = *given;
  const AllocationResult made = with_changes(base, laid.in_force, changes, held);
  if (!made) return made;
  const AllocationResult given = with_changes(laid.given, changes, held);
  laid.in_force = *made;
  for (TenantConfig& tenant : laid.given.tenants) {
    if (std::ranges::find(changes, tenant.name, &AllocationChange::tenant) == changes.end())
      continue;
    tenant = given ? *find_tenant(*given, tenant.name)
                   : without_own_levels(*find_tenant(*made, tenant.name));
    const auto division = own.find(tenant.name);
    if (division == own.end() || !amounts_follow(tenant.name, changes)) continue;
    SubAllocation left = *division->second;
    take_out(left.changes, changes);
    put_division(laid, tenant, left, held);
  }
  return laid.in_force;
}

}  // namespace softhca::configuration
