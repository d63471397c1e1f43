// SPDX-License-Identifier: Apache-2.0

// The sub-allocation of a tenant (mechanism A7): levels that it has created, the rules that assign
// its programs to levels, and amounts. The functions are pure: the result is a configuration to put
// into effect.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/configuration/resource_manager/resource_manager.hpp"

namespace softhca::configuration {

struct SubAllocation {
  std::vector<LevelConfig> levels;          ///< created by the tenant, without amounts, in order
  std::map<std::string, LevelRules> rules;  ///< by level, the tenant's or the operator's
  std::vector<AllocationChange> changes;    ///< amounts, in order

  bool empty() const { return levels.empty() && rules.empty() && changes.empty(); }
};

/// A tenant's changes to one of its levels. Members without a value change nothing.
struct LevelEdit {
  std::string level;
  bool make = false;  ///< creates the level
  std::optional<bool> is_default;
  std::optional<std::optional<std::uint8_t>> dscp;  ///< without an inner value: the tenant's
  std::optional<std::vector<std::string>> cgroups;
  std::optional<std::vector<std::uint8_t>> service_levels = {};
  std::optional<std::vector<std::uint8_t>> traffic_classes = {};
  std::vector<AllocationChange> changes;  ///< changes to this level
};

/// The refusal of an edit. Nothing: it is done. After a refusal the division must not be used.
using EditOutcome = std::optional<AllocationRefusal>;
/// `given`: the tenant as the operator has configured it, without its sub-allocation.
using DivisionEdit = std::function<EditOutcome(const TenantConfig& given, SubAllocation& division)>;

/// Applies edits. Refuses those to levels and rules of the operator, and names that are taken or
/// invalid. Afterwards one level is the default, for programs that ask for none.
EditOutcome edit_levels(const TenantConfig& given, SubAllocation& division,
                        std::span<const LevelEdit> edits);
EditOutcome remove_level(const TenantConfig& given, SubAllocation& division,
                         const std::string& name);
EditOutcome rename_level(const TenantConfig& given, SubAllocation& division,
                         const std::string& from, const std::string& to);

/// Adds `later` and removes the changes that it replaces.
void supersede(std::vector<AllocationChange>& changes, const AllocationChange& later);
/// Removes the changes that `later` replaces.
void take_out(std::vector<AllocationChange>& changes, std::span<const AllocationChange> later);

/// Returns `in_force` with the tenant's configuration and sub-allocation. Refusals: a change that a
/// tenant may not make, an amount beyond the tenant's, or more levels than it may have. Rules of
/// levels that do not exist, or that the operator has reserved, have no effect.
AllocationResult with_division(const Config& in_force, const TenantConfig& given,
                               const SubAllocation& division, const Held& held = {});

/// Returns `in_force` with changes that the tenant itself requests: it may divide its amounts among
/// its levels. `given`: the tenant as the operator has configured it. Refusals as above.
AllocationResult with_own_changes(const Config& in_force, const TenantConfig& given,
                                  std::span<const AllocationChange> changes, const Held& held = {});

/// Returns a tenant without its own levels and rules. Amounts of the operator's levels remain.
TenantConfig without_own_levels(TenantConfig tenant);

}  // namespace softhca::configuration
