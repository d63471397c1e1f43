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

/// Returns the first address of `of` that no tenant has. `owner`: the template or its device.
Expected<Gid> free_address(const std::vector<Gid>& of, const std::string& owner,
                           const Config& config, std::span<const Gid> taken) {
  const auto is_in = [](const auto& list, const Gid& gid) {
    return std::ranges::find(list, gid) != list.end();
  };
  for (const Gid& gid : of)
    if (!is_in(taken, gid) && std::ranges::none_of(config.tenants, [&](const TenantConfig& tenant) {
          return is_in(tenant.addresses, gid);
        }))
      return gid;
  if (of.empty()) return Error{owner + " lists no addresses; name one for the tenant"};
  return Error{owner + " has no free address (all " + std::to_string(of.size()) +
               " are in use); name one for the tenant"};
}

/// Gives the tenant one free address of the template, or of each of its devices.
Outcome give_free_addresses(TenantConfig& tenant, const TenantConfig& of, const Config& config,
                            std::span<const Gid> taken) {
  const std::string who = "template " + of.name;
  const auto give = [&](const std::vector<Gid>& list, const std::string& whose) -> Outcome {
    const auto free = free_address(list, whose, config, taken);
    if (!free) return free.error();
    tenant.addresses.push_back(*free);
    return {};
  };
  if (of.devices.size() < 2) return give(of.addresses, who);
  for (const TenantDevice& device : of.devices)
    if (auto given = give(device.addresses, who + ", device " + device.name + ","); !given)
      return given;
  return {};
}

/// Divides the addresses of the tenant among its devices: one has all, of several each has one.
Outcome divide_addresses(TenantConfig& tenant) {
  if (tenant.devices.size() == 1) tenant.devices.front().addresses = tenant.addresses;
  if (tenant.devices.size() < 2) return {};
  if (tenant.addresses.size() != tenant.devices.size())
    return Error{std::to_string(tenant.addresses.size()) +
                 " addresses given, but the template has " + std::to_string(tenant.devices.size()) +
                 " devices; give one for each"};
  for (std::size_t i = 0; i < tenant.devices.size(); ++i)
    tenant.devices[i].addresses = {tenant.addresses[i]};
  return {};
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
  if (tenant.addresses.empty())
    if (const auto given = give_free_addresses(tenant, *of, in_force, taken); !given)
      return AllocationRefusal{
          Cause::kNotFree, who, "addresses", 1, 0, who + ": " + given.error().message};
  if (const auto divided = divide_addresses(tenant); !divided)
    return refuse(Cause::kBadAmount, who, divided.error().message);
  give_socket(tenant, request);
  if (request.guest_memory) tenant.programs.guest_memory = *request.guest_memory;
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
  if (const std::string wrong = find_wrong_region((*wanted).tenants.back()); !wrong.empty())
    return refuse(Cause::kBadAmount, who, "guest_memory " + wrong);
  return wanted;
}

}  // namespace softhca::configuration
