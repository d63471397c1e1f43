// How a tenant has divided what it has (mechanism A7): levels that it has made, which of its
// programs belong to which level, and amounts. Pure: the outcome is a configuration to put into
// force.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/resource/resource_manager.hpp"

namespace softhca::resource {

struct OwnDivision {
  std::vector<LevelConfig> levels;          ///< made by the tenant, without amounts, in order
  std::map<std::string, LevelRules> rules;  ///< by level, one of its own or of the operator's
  std::vector<AllocationChange> changes;    ///< amounts, in order

  bool empty() const { return levels.empty() && rules.empty() && changes.empty(); }
};

/// What a tenant says of one of its levels; what is not there stays as it is.
struct LevelEdit {
  std::string level;
  bool make = false;  ///< there is none of that name yet
  std::optional<bool> is_default;
  std::optional<std::optional<std::uint8_t>> dscp;  ///< no value in it: the tenant's
  std::optional<std::vector<std::string>> cgroups;
  std::optional<std::vector<std::uint8_t>> service_levels = {};
  std::optional<std::vector<std::uint8_t>> traffic_classes = {};
  std::vector<AllocationChange> changes;  ///< of this level
};

/// Nothing: it is done. The division is no longer of use otherwise.
using EditOutcome = std::optional<AllocationRefusal>;
/// `given`: the tenant as the operator has given it, without what it has divided itself.
using DivisionEdit = std::function<EditOutcome(const TenantConfig& given, OwnDivision& division)>;

/// Refuses what is not the tenant's to say: levels and rules of the operator's; names that are
/// taken or no names. Afterwards one level is for programs that ask for none.
EditOutcome edit_levels(const TenantConfig& given, OwnDivision& division,
                        std::span<const LevelEdit> edits);
EditOutcome remove_level(const TenantConfig& given, OwnDivision& division, const std::string& name);
EditOutcome rename_level(const TenantConfig& given, OwnDivision& division, const std::string& from,
                         const std::string& to);

/// Replaces those of the changes that say the same of the same with `later`.
void supersede(std::vector<AllocationChange>& changes, const AllocationChange& later);
/// Takes out changes of which `later` says the same of the same.
void take_out(std::vector<AllocationChange>& changes, std::span<const AllocationChange> later);

/// `in_force` with the tenant as it is given and divided. Refused: what a tenant may not change,
/// what exceeds what it is given, more levels than it may have. Rules of levels that are not there,
/// or that the operator keeps for others, have no effect.
AllocationResult with_division(const Config& in_force, const TenantConfig& given,
                               const OwnDivision& division, const Held& held = {});

/// `in_force` with changes that a tenant may ask for itself: it may divide what it has among its
/// levels. `given`: what the operator has given it. Refused as above.
AllocationResult with_own_changes(const Config& in_force, const TenantConfig& given,
                                  std::span<const AllocationChange> changes, const Held& held = {});

/// A tenant without what it has divided itself, except for amounts of the operator's levels.
TenantConfig without_own_levels(TenantConfig tenant);

}  // namespace softhca::resource
