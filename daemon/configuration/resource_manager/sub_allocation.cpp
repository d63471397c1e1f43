// SPDX-License-Identifier: Apache-2.0

#include "daemon/configuration/resource_manager/sub_allocation.hpp"

#include <algorithm>

#include "daemon/configuration/schema/level_rules.hpp"
#include "daemon/configuration/schema/text_rules.hpp"
#include "daemon/configuration/schema/wrap.hpp"

namespace softhca::configuration {
namespace {

using Cause = AllocationRefusal::Cause;

AllocationRefusal refused(Cause cause, const TenantConfig& tenant, const char* resource,
                          const std::string& text) {
  const std::string who = "tenant " + tenant.name;
  return {cause, who, resource, 0, 0, who + ": " + text};
}

LevelConfig* find_own(SubAllocation& division, std::string_view name) {
  const auto found = std::ranges::find(division.levels, name, &LevelConfig::name);
  return found != division.levels.end() ? &*found : nullptr;
}

EditOutcome check_name(const TenantConfig& given, SubAllocation& division,
                       const std::string& name) {
  if (!is_safe_name(name))
    return refused(Cause::kBadAmount, given, "levels",
                   "the name of a level " + std::string(kSafeName.complaint));
  if (find_level(given, name) != nullptr || find_own(division, name) != nullptr)
    return refused(Cause::kBadAmount, given, "levels",
                   quoted(name) + " is already a level of the tenant");
  return std::nullopt;
}

/// Requires that the level was created by the tenant.
EditOutcome require_own(const TenantConfig& given, SubAllocation& division,
                        const std::string& name) {
  if (find_own(division, name) != nullptr) return std::nullopt;
  if (find_level(given, name) != nullptr)
    return refused(
        Cause::kNotAllowed, given, "levels",
        "the operator made level " + name + "; the tenant may change only its amounts and rules");
  return refused(Cause::kNoSuchThing, given, "levels", "no such level: " + quoted(name));
}

EditOutcome set_default(const TenantConfig& given, SubAllocation& division, LevelConfig& level,
                        bool is_default) {
  if (!is_default)
    return level.is_default ? refused(Cause::kBadAmount, given, "default",
                                      "level " + level.name +
                                          " is the default one; make another the default instead")
                            : EditOutcome();
  if (!given.levels.empty())
    return refused(Cause::kNotAllowed, given, "default",
                   "the operator has made levels of this tenant; only the operator may choose the "
                   "default one");
  for (LevelConfig& other : division.levels) other.is_default = false;
  level.is_default = true;
  return std::nullopt;
}

EditOutcome check_cgroups(const TenantConfig& given, const std::vector<std::string>& cgroups) {
  if (cgroups.size() > kMostRulesOfLevel)
    return refused(Cause::kBadAmount, given, "cgroups",
                   std::to_string(cgroups.size()) + " cgroups given, a level has at most " +
                       std::to_string(kMostRulesOfLevel));
  for (const std::string& path : cgroups)
    if (!is_cgroup_path(path))
      return refused(Cause::kBadAmount, given, "cgroups",
                     "cgroup " + quoted(path.substr(0, 64)) + ' ' + kCgroupPath.complaint);
  return std::nullopt;
}

/// Checks the paths of queue pairs that belong to a level: none may belong to another one.
EditOutcome check_paths(const TenantConfig& given, const SubAllocation& division,
                        const std::string& level, const LevelRules& rules) {
  if (std::ranges::any_of(rules.service_levels, [](auto n) { return n > kMostServiceLevel; }))
    return refused(Cause::kBadAmount, given, "service_levels",
                   "service levels are 0 to " + std::to_string(kMostServiceLevel));
  const auto taken = [&](Cause cause, const std::string& by, const auto& theirs) -> EditOutcome {
    if (by == level && cause == Cause::kBadAmount) return std::nullopt;
    const std::string whose =
        " belongs to " +
        std::string(cause == Cause::kNotAllowed ? "the operator's level " : "level ") + by +
        " already";
    if (const auto both = common_service_level(rules.service_levels, theirs.service_levels))
      return refused(cause, given, "service_levels",
                     "service level " + std::to_string(*both) + whose);
    if (const auto both = common_traffic_class(rules.traffic_classes, theirs.traffic_classes))
      return refused(cause, given, "traffic_classes",
                     "traffic class " + std::to_string(*both) + whose);
    return std::nullopt;
  };
  for (const LevelConfig& of_operator : given.levels)
    if (auto wrong = taken(Cause::kNotAllowed, of_operator.name, of_operator)) return wrong;
  for (const auto& [other, theirs] : division.rules)
    if (auto wrong = taken(Cause::kBadAmount, other, theirs)) return wrong;
  return std::nullopt;
}

EditOutcome edit_rules(const TenantConfig& given, SubAllocation& division, const LevelEdit& edit) {
  if (!edit.cgroups && !edit.service_levels && !edit.traffic_classes) return std::nullopt;
  const LevelConfig* of_operator = find_level(given, edit.level);
  if (of_operator != nullptr && is_reserved(*of_operator))
    return refused(Cause::kNotAllowed, given, "cgroups",
                   "the operator assigns programs to level " + edit.level +
                       " by its socket, users, groups or cgroups; the tenant cannot add rules");
  LevelRules& rules = division.rules[edit.level];
  if (edit.cgroups) rules.cgroups = *edit.cgroups;
  if (edit.service_levels) rules.service_levels = *edit.service_levels;
  if (edit.traffic_classes) rules.traffic_classes = *edit.traffic_classes;
  if (auto wrong = check_cgroups(given, rules.cgroups)) return wrong;
  if (auto wrong = check_paths(given, division, edit.level, rules)) return wrong;
  if (rules.empty()) division.rules.erase(edit.level);
  return std::nullopt;
}

EditOutcome edit_own(const TenantConfig& given, SubAllocation& division, const LevelEdit& edit) {
  LevelConfig& level = *find_own(division, edit.level);
  if (edit.dscp && *edit.dscp && given.dscp)
    return refused(Cause::kNotAllowed, given, "dscp",
                   "the operator has set dscp = " + std::to_string(*given.dscp) +
                       " for the tenant; levels that the tenant made cannot have another");
  if (edit.dscp) level.dscp = *edit.dscp;
  return edit.is_default ? set_default(given, division, level, *edit.is_default) : EditOutcome();
}

/// True if the change concerns TVLs that the level no longer has.
bool is_void(const AllocationChange& change, const AllocationChange& tvls) {
  return change.tenant == tvls.tenant && change.level == tvls.level && is_of_tvl(change.setting) &&
         (tvls.amount == 0 || (change.tvl && *change.tvl >= tvls.amount));
}

bool says_anew(const AllocationChange& later, const AllocationChange& earlier) {
  return later.tenant == earlier.tenant && later.level == earlier.level &&
         later.setting == earlier.setting && (!later.tvl || later.tvl == earlier.tvl);
}

bool is_credits(LiveSetting setting) {
  return setting == LiveSetting::kExecutionCredits || setting == LiveSetting::kCompletionCredits;
}

bool is_divided(LiveSetting setting) {
  return setting == LiveSetting::kVcbs || setting == LiveSetting::kPcbs ||
         setting == LiveSetting::kTvls;
}

/// True if the tenant may set this for a level that it has created.
bool is_of_own_level(LiveSetting setting) {
  return setting == LiveSetting::kShared || setting == LiveSetting::kWeight || is_of_rate(setting);
}

/// Checks that the tenant may make the changes. `tenant`: includes the levels that it has created.
EditOutcome check_allowed(const TenantConfig& tenant, std::span<const AllocationChange> changes) {
  const std::string who = "tenant " + tenant.name;
  const auto not_allowed = [&](const AllocationChange& change, const std::string& text) {
    return AllocationRefusal{Cause::kNotAllowed, who, name_of(change.setting), 0, 0,
                             who + ' ' + text};
  };
  for (const AllocationChange& change : changes) {
    if (change.tenant != tenant.name) return not_allowed(change, "may change only its own levels");
    const LevelConfig* level = find_level(tenant, change.level);
    const bool own = level != nullptr && level->own && is_of_own_level(change.setting);
    if (is_credits(change.setting) || is_of_srq(change.setting) || own ||
        (is_divided(change.setting) && !change.level.empty()))
      continue;
    return not_allowed(change, "may not change " + name_of(change.setting) +
                                   " here; it may change vcbs, pcbs and tvls of its levels, the "
                                   "credits of its TVLs, srq, and shared, rates and weight of the "
                                   "levels that it made");
  }
  return std::nullopt;
}

/// Checks the sums of credits and weights over all TVLs, and the greatest weight: they must not
/// exceed those that the operator has given.
EditOutcome check_within(const TenantConfig& given, const TenantConfig& before,
                         const TenantConfig& after) {
  const std::string who = "tenant " + given.name;
  const auto sum_of = [](const TenantConfig& tenant, std::uint32_t TvlConfig::*amount) {
    std::uint64_t sum = 0;
    for (const TvlConfig& tvl : tenant.tvls) sum += tvl.*amount;
    return sum;
  };
  constexpr std::pair<LiveSetting, std::uint32_t TvlConfig::*> kSums[] = {
      {LiveSetting::kExecutionCredits, &TvlConfig::execution_credits},
      {LiveSetting::kCompletionCredits, &TvlConfig::completion_credits},
      {LiveSetting::kWeight, &TvlConfig::weight}};
  for (const auto& [setting, amount] : kSums) {
    const std::uint64_t total = sum_of(given, amount), was = sum_of(before, amount),
                        is = sum_of(after, amount);
    if (is <= total) continue;
    const std::uint64_t asked = is - std::min(is, was), free = total - std::min(total, was);
    return AllocationRefusal{Cause::kNotFree,
                             who,
                             name_of(setting),
                             asked,
                             free,
                             who + ": asked for " + std::to_string(asked) + " more " +
                                 name_of(setting) + ", " + std::to_string(free) +
                                 " of the tenant's " + std::to_string(total) + " are free"};
  }
  const auto greatest = [](const TenantConfig& tenant) {
    return std::ranges::max(tenant.tvls, {}, &TvlConfig::weight).weight;
  };
  if (greatest(after) <= greatest(given)) return std::nullopt;
  return AllocationRefusal{Cause::kNotFree,
                           who,
                           name_of(LiveSetting::kWeight),
                           greatest(after),
                           greatest(given),
                           who + ": asked for weight " + std::to_string(greatest(after)) +
                               " of a TVL, more than the greatest that the operator gave it, " +
                               std::to_string(greatest(given))};
}

EditOutcome check_levels(const TenantConfig& given, const SubAllocation& division,
                         const Held& held) {
  std::uint64_t draining = 0;
  for (const HeldPart& part : held.parts)
    if (part.tenant == given.name) draining += part.levels;
  const std::uint64_t asked = division.levels.size();
  const std::uint64_t most =
      given.further_levels.own - std::min<std::uint64_t>(given.further_levels.own, draining);
  if (asked > most && asked != 0) {
    AllocationRefusal refusal = refused(
        Cause::kNotFree, given, "levels",
        "asked for " + std::to_string(asked) +
            " levels of its own, own_levels = " + std::to_string(given.further_levels.own) +
            (draining != 0
                 ? ", of which programs of removed levels still hold " + std::to_string(draining)
                 : ""));
    refusal.asked = asked;
    refusal.free = most;
    return refusal;
  }
  for (const LevelConfig& level : division.levels)
    if (find_level(given, level.name) != nullptr)
      return refused(Cause::kBadAmount, given, "levels",
                     "the operator has made a level of the same name, " + quoted(level.name) +
                         "; rename the tenant's");
  return std::nullopt;
}

bool has_default(const std::vector<LevelConfig>& levels) {
  return std::ranges::any_of(levels, &LevelConfig::is_default);
}

/// Returns the tenant with its own levels and rules, without amounts. Later settings of the
/// operator take precedence.
TenantConfig with_levels(const TenantConfig& given, const SubAllocation& division) {
  TenantConfig tenant = given;
  for (LevelConfig level : division.levels) {
    if (given.dscp) level.dscp.reset();
    if (has_default(given.levels)) level.is_default = false;
    tenant.levels.push_back(std::move(level));
  }
  if (!tenant.levels.empty() && !has_default(tenant.levels))
    tenant.levels.front().is_default = true;
  for (LevelConfig& level : tenant.levels) {
    const auto rules = division.rules.find(level.name);
    if (rules != division.rules.end() && !is_reserved(level)) level.own_rules = rules->second;
  }
  return tenant;
}

AllocationResult over(const Config& base, const Config& in_force, const TenantConfig& given,
                      std::span<const AllocationChange> changes, const Held& held) {
  if (auto wrong = check_allowed(*find_tenant(base, given.name), changes)) return std::move(*wrong);
  AllocationResult result = with_changes(base, in_force, changes, held);
  if (!result) return result;
  if (auto wrong = check_within(given, *find_tenant(in_force, given.name),
                                *find_tenant(*result, given.name)))
    return std::move(*wrong);
  return result;
}

EditOutcome edit_level(const TenantConfig& given, SubAllocation& division, const LevelEdit& edit) {
  if (edit.make) {
    if (auto wrong = check_name(given, division, edit.level)) return wrong;
    LevelConfig& level = division.levels.emplace_back();
    level.name = edit.level;
    level.own = true;
  } else if (find_own(division, edit.level) == nullptr &&
             find_level(given, edit.level) == nullptr) {
    return refused(Cause::kNoSuchThing, given, "levels", "no such level: " + quoted(edit.level));
  }
  if (edit.is_default || edit.dscp) {
    if (auto wrong = require_own(given, division, edit.level)) return wrong;
    if (auto wrong = edit_own(given, division, edit)) return wrong;
  }
  if (auto wrong = edit_rules(given, division, edit)) return wrong;
  for (const AllocationChange& change : edit.changes) supersede(division.changes, change);
  return std::nullopt;
}

}  // namespace

void supersede(std::vector<AllocationChange>& changes, const AllocationChange& later) {
  std::erase_if(changes, [&](const auto& earlier) {
    return says_anew(later, earlier) ||
           (later.setting == LiveSetting::kTvls && is_void(earlier, later));
  });
  changes.push_back(later);
}

void take_out(std::vector<AllocationChange>& changes, std::span<const AllocationChange> later) {
  std::erase_if(changes, [&](const AllocationChange& earlier) {
    return std::ranges::any_of(later, [&](const auto& each) { return says_anew(each, earlier); });
  });
}

EditOutcome edit_levels(const TenantConfig& given, SubAllocation& division,
                        std::span<const LevelEdit> edits) {
  for (const LevelEdit& edit : edits)
    if (auto wrong = edit_level(given, division, edit)) return wrong;
  if (!given.levels.empty() || division.levels.empty() || has_default(division.levels))
    return std::nullopt;
  return refused(
      Cause::kBadAmount, given, "default",
      "programs that ask for no level need a default level; set default = true for one level");
}

EditOutcome remove_level(const TenantConfig& given, SubAllocation& division,
                         const std::string& name) {
  if (auto wrong = require_own(given, division, name)) return wrong;
  if (find_own(division, name)->is_default && division.levels.size() > 1)
    return refused(Cause::kBadAmount, given, "default",
                   "level " + name + " is the default one; make another the default first");
  std::erase_if(division.levels, [&](const LevelConfig& level) { return level.name == name; });
  std::erase_if(division.changes, [&](const auto& change) { return change.level == name; });
  division.rules.erase(name);
  return std::nullopt;
}

EditOutcome rename_level(const TenantConfig& given, SubAllocation& division,
                         const std::string& from, const std::string& to) {
  if (auto wrong = require_own(given, division, from)) return wrong;
  if (auto wrong = check_name(given, division, to)) return wrong;
  find_own(division, from)->name = to;
  for (AllocationChange& change : division.changes)
    if (change.level == from) change.level = to;
  if (auto rules = division.rules.extract(from)) {
    rules.key() = to;
    division.rules.insert(std::move(rules));
  }
  return std::nullopt;
}

AllocationResult with_division(const Config& in_force, const TenantConfig& given,
                               const SubAllocation& division, const Held& held) {
  if (auto wrong = check_levels(given, division, held)) return std::move(*wrong);
  Config base = in_force;
  for (TenantConfig& tenant : base.tenants)
    if (tenant.name == given.name) tenant = with_levels(given, division);
  return over(base, in_force, given, division.changes, held);
}

AllocationResult with_own_changes(const Config& in_force, const TenantConfig& given,
                                  std::span<const AllocationChange> changes, const Held& held) {
  return over(in_force, in_force, given, changes, held);
}

/// The tenant's own levels come after the operator's, and so do their TVLs.
TenantConfig without_own_levels(TenantConfig tenant) {
  std::erase_if(tenant.levels, [](const LevelConfig& level) { return level.own; });
  for (LevelConfig& level : tenant.levels) level.own_rules = {};
  return tenant;
}

}  // namespace softhca::configuration
