// SPDX-License-Identifier: Apache-2.0

#include "daemon/configuration/resource_manager/on_demand.hpp"

#include <algorithm>

#include "daemon/configuration/config_check.hpp"
#include "daemon/configuration/resource_manager/owners.hpp"
#include "daemon/configuration/schema/text_rules.hpp"
#include "daemon/configuration/tenant_amounts.hpp"

namespace softhca::configuration {
namespace {

using Cause = AllocationRefusal::Cause;

AllocationRefusal refuse(Cause cause, const std::string& who, const std::string& why) {
  return {cause, who, {}, 0, 0, who + ": " + why};
}

/// Returns the first address of the template that no tenant has.
Expected<Gid> free_address(const TenantConfig& of, const Config& config,
                           std::span<const Gid> taken) {
  const auto is_in = [](const auto& list, const Gid& gid) {
    return std::ranges::find(list, gid) != list.end();
  };
  for (const Gid& gid : of.addresses)
    if (!is_in(taken, gid) && std::ranges::none_of(config.tenants, [&](const TenantConfig& tenant) {
          return is_in(tenant.addresses, gid);
        }))
      return gid;
  if (of.addresses.empty())
    return Error{"template " + of.name + " lists no addresses; name one for the tenant"};
  return Error{"template " + of.name + " has no free address (all " +
               std::to_string(of.addresses.size()) + " are in use); name one for the tenant"};
}

/// Returns what is wrong with the requested addresses, besides what check_together() finds.
std::optional<AllocationRefusal> find_bad_address(const TenantRequest& request,
                                                  const std::string& who,
                                                  std::span<const Gid> taken) {
  if (request.addresses.size() > kMostAddresses)
    return refuse(Cause::kBadAmount, who,
                  std::to_string(request.addresses.size()) + " addresses given, at most " +
                      std::to_string(kMostAddresses) + " are possible");
  for (const Gid& gid : request.addresses)
    if (std::ranges::find(taken, gid) != taken.end())
      return refuse(Cause::kBadAmount, who,
                    to_string(gid) +
                        " still belongs to a removed tenant with running programs; end them or "
                        "give another address");
  return std::nullopt;
}

/// Sets the owner, group and mode of the socket. As in the file, the control socket has the same
/// owner unless another one is set.
void give_socket(TenantConfig& tenant, const TenantRequest& request) {
  const auto give = [&](std::string SocketConfig::*member, const std::optional<std::string>& to) {
    if (!to) return;
    if (tenant.control.*member == tenant.socket.*member) tenant.control.*member = *to;
    tenant.socket.*member = *to;
  };
  give(&SocketConfig::owner, request.owner);
  give(&SocketConfig::group, request.group);
  if (request.mode) tenant.socket.mode = *request.mode;
}

/// Returns the changes to what the template gives.
std::vector<AllocationChange> changes_of(const TenantRequest& request) {
  std::vector<AllocationChange> changes;
  const auto add = [&](LiveSetting setting, std::uint64_t amount) {
    changes.push_back({.tenant = request.name, .setting = setting, .amount = amount});
  };
  if (request.share) add(LiveSetting::kShare, request.share->tenths);
  if (request.workload) add(LiveSetting::kClass, static_cast<std::uint64_t>(*request.workload));
  return changes;
}

std::optional<AllocationRefusal> find_unknown_owner(const TenantRequest& request,
                                                    const std::string& who) {
  if (request.owner)
    if (const auto user = user_id(*request.owner); !user)
      return refuse(Cause::kBadAmount, who, user.error().message);
  if (request.group)
    if (const auto group = group_id(*request.group); !group)
      return refuse(Cause::kBadAmount, who, group.error().message);
  return std::nullopt;
}

}  // namespace

AllocationResult with_tenant(const Config& in_force, const TenantRequest& request,
                             std::span<const Gid> taken, const Held& held) {
  if (!is_safe_name(request.name))
    return refuse(Cause::kBadAmount, "the name of a tenant", kSafeName.complaint);
  const std::string who = "tenant " + request.name;
  if (find_tenant(in_force, request.name) != nullptr)
    return AllocationRefusal{Cause::kNotFree,
                             who,
                             "name",
                             1,
                             0,
                             who + ": this tenant already exists; choose another name"};
  const auto of = std::ranges::find(in_force.templates, request.template_name, &TenantConfig::name);
  if (of == in_force.templates.end())
    return refuse(Cause::kNoSuchThing, who, "no such template: " + request.template_name);
  if (auto unknown = find_unknown_owner(request, who)) return std::move(*unknown);
  if (auto bad = find_bad_address(request, who, taken)) return std::move(*bad);
  TenantConfig tenant = *of;
  tenant.name = request.name;
  tenant.addresses = request.addresses;
  if (tenant.addresses.empty()) {
    const auto free = free_address(*of, in_force, taken);
    if (!free)
      return AllocationRefusal{
          Cause::kNotFree, who, "addresses", 1, 0, who + ": " + free.error().message};
    tenant.addresses = {*free};
  }
  give_socket(tenant, request);
  Config with_template = in_force;
  with_template.tenants.push_back(std::move(tenant));
  if (request.share && request.share->tenths != 0) {
    TenantConfig& made = with_template.tenants.back();
    made.share = *request.share;
    follow_limits(made, in_force.pools);
  }
  AllocationResult wanted = with_changes(with_template, in_force, changes_of(request), held);
  if (!wanted) return wanted;
  if (const auto possible = check_together(*wanted); !possible)
    return AllocationRefusal{Cause::kBadAmount, who, {}, 0, 0, possible.error().message};
  return wanted;
}

}  // namespace softhca::configuration
