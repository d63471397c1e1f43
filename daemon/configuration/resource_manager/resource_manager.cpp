// SPDX-License-Identifier: Apache-2.0

#include "daemon/configuration/resource_manager/resource_manager.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "daemon/configuration/config_levels.hpp"
#include "daemon/configuration/resource_manager/minimum_check.hpp"
#include "daemon/configuration/schema/wrap.hpp"
#include "daemon/configuration/tenant_amounts.hpp"
#include "daemon/qos/pools/quota_division.hpp"

namespace softhca::configuration {
namespace {

using Cause = AllocationRefusal::Cause;

AllocationRefusal no_such(const std::string& who, const std::string& message) {
  return {Cause::kNoSuchThing, who, {}, 0, 0, message};
}

AllocationRefusal bad_value(const std::string& who, LiveSetting setting, std::string message) {
  return {Cause::kBadAmount, who, name_of(setting), 0, 0, std::move(message)};
}

AllocationRefusal bad_amount(const std::string& who, const AllocationChange& change,
                             const Range& range) {
  const std::string resource = name_of(change.setting);
  return bad_value(who, change.setting,
                   who + ": " + resource + " = " + std::to_string(change.amount) +
                       " is not between " + std::to_string(range.least) + " and " +
                       std::to_string(range.most));
}

/// `size`: the key of the configuration with the value `total`.
AllocationRefusal not_free(const std::string& who, const char* resource, const char* size,
                           std::uint64_t asked, std::uint64_t free, std::uint64_t total,
                           std::uint64_t held) {
  std::string message = who + ": asked for " + std::to_string(asked) + " more " + resource + ", " +
                        std::to_string(free) + " of " + size + " = " + std::to_string(total) +
                        " are unallocated";
  if (held != 0)
    message += "; programs of removed tenants and levels still hold " + std::to_string(held);
  return {Cause::kNotFree, who, resource, asked, free, std::move(message)};
}

/// Returns the number of TVLs that a tenant needs: its levels' own, and one for the levels that
/// have none.
std::uint64_t least_tvls(const TenantConfig& tenant) {
  std::uint64_t sum = 0;
  bool undivided = tenant.levels.empty();
  for (const LevelConfig& level : tenant.levels) {
    sum += level.tvls;
    undivided = undivided || level.tvls == 0;
  }
  return sum + (undivided ? 1 : 0);
}

/// Sets a total of a tenant. A decrease is taken from the shared part, then from the default level,
/// then from the others in proportion (A8).
void set_total(TenantConfig& tenant, std::uint32_t TenantConfig::*total,
               std::uint32_t LevelConfig::*part, std::uint32_t amount) {
  const std::uint32_t before = tenant.*total;
  tenant.*total = amount;
  if (amount >= before || tenant.levels.empty()) return;
  std::vector<std::uint32_t> parts;
  std::optional<std::size_t> default_level;
  std::uint32_t divided = 0;
  for (const LevelConfig& level : tenant.levels) {
    if (level.is_default) default_level = parts.size();
    parts.push_back(level.*part);
    divided += level.*part;
  }
  const Division after = after_decrease(before - divided, parts, default_level, before - amount);
  for (std::size_t i = 0; i < parts.size(); ++i) tenant.levels[i].*part = after.levels[i];
}

/// Sets the amounts that follow from share and class. Those that the operator has given stay.
void follow(TenantConfig& tenant, const PoolsConfig& pools) {
  const TenantAmounts amounts =
      amounts_of(tenant.share, tenant.workload, pools, tenant.tvls.size());
  const auto set_in = [](auto& of, Followed amount, auto& value, const auto& to) {
    if (!of.given.has(amount)) value = to;
  };
  if (!tenant.given.has(Followed::kVcbs))
    set_total(tenant, &TenantConfig::vcbs, &LevelConfig::vcbs, amounts.vcbs);
  if (!tenant.given.has(Followed::kPcbs))
    set_total(tenant, &TenantConfig::pcbs, &LevelConfig::pcbs, amounts.pcbs);
  set_in(tenant, Followed::kVcbsPerProcess, tenant.vcbs_per_process, amounts.vcbs_per_process);
  set_in(tenant, Followed::kLends, tenant.lends, amounts.lends);
  set_in(tenant, Followed::kPriority, tenant.priority, amounts.priority);
  const std::size_t low =
      tenant.further_levels.are == Levels::kDefault ? tenant.levels.front().tvls : 0;
  for (std::size_t i = 0; i < tenant.tvls.size(); ++i) {
    TvlConfig& tvl = tenant.tvls[i];
    const TvlConfig& to = amounts.tvl;
    set_in(tvl, Followed::kWeight, tvl.weight, i < low ? weight_of_low(to.weight) : to.weight);
    set_in(tvl, Followed::kExecutionCredits, tvl.execution_credits, to.execution_credits);
    set_in(tvl, Followed::kCompletionCredits, tvl.completion_credits, to.completion_credits);
    set_in(tvl, Followed::kKickList, tvl.kick_list, to.kick_list);
  }
}

/// Sets the number of TVLs, and the credits that follow from it. Added TVLs are copies of the last
/// one, with the guaranteed credits that follow, if any.
void set_tvl_count(TenantConfig& tenant, std::uint32_t count, const PoolsConfig& pools) {
  const TvlConfig each = amounts_of(tenant.share, tenant.workload, pools, count).tvl;
  TvlConfig more = tenant.tvls.back();
  more.execution_credits = more.completion_credits = 0;
  tenant.tvls.resize(count, more);
  if (tenant.share.tenths == 0) return;
  for (TvlConfig& tvl : tenant.tvls) {
    if (!tvl.given.has(Followed::kExecutionCredits)) tvl.execution_credits = each.execution_credits;
    if (!tvl.given.has(Followed::kCompletionCredits))
      tvl.completion_credits = each.completion_credits;
  }
}

/// Sets the share or the class. The number of TVLs does not follow if the tenant has levels, which
/// divide them.
void set_share_or_class(TenantConfig& tenant, const AllocationChange& change,
                        const PoolsConfig& pools) {
  set(tenant, change.setting, change.amount);
  if (tenant.levels.empty() && !tenant.given.has(Followed::kTvls))
    set_tvl_count(tenant, amounts_of(tenant.share, tenant.workload, pools).tvls, pools);
  follow(tenant, pools);
}

/// Returns the index of the first TVL of the level. A level's TVLs come after those of the levels
/// before it.
std::size_t first_tvl(const TenantConfig& tenant, const LevelConfig& level) {
  std::size_t first = 0;
  for (const LevelConfig& before : tenant.levels) {
    if (before.name == level.name) break;
    first += before.tvls;
  }
  return first;
}

/// Gives the level `count` TVLs. It takes them from those that belong to no level, or returns them
/// there. All other TVLs keep their owners and values.
std::optional<AllocationRefusal> set_level_tvls(TenantConfig& tenant, LevelConfig& level,
                                                std::uint32_t count, const std::string& who) {
  std::uint32_t divided = 0;
  for (const LevelConfig& each : tenant.levels) divided += each.tvls;
  const std::size_t free = tenant.tvls.size() - divided;
  const auto at = [&](std::size_t index) {
    return tenant.tvls.begin() + static_cast<std::ptrdiff_t>(index);
  };
  const std::size_t end = first_tvl(tenant, level) + level.tvls;
  if (count > level.tvls) {
    const std::uint32_t more = count - level.tvls;
    if (more > free)
      return AllocationRefusal{Cause::kNotFree,
                               who,
                               "tvls",
                               more,
                               free,
                               who + ": asked for " + std::to_string(more) + " more tvls, " +
                                   std::to_string(free) + " of the tenant's " +
                                   std::to_string(tenant.tvls.size()) + " belong to no level"};
    std::rotate(at(end), at(divided), at(divided + more));
  } else {
    std::rotate(at(end - (level.tvls - count)), at(end), tenant.tvls.end());
  }
  level.tvls = count;
  return std::nullopt;
}

std::optional<AllocationRefusal> make_of_level(TenantConfig& tenant, LevelConfig& level,
                                               const AllocationChange& change,
                                               const std::string& who) {
  const auto amount = static_cast<std::uint32_t>(change.amount);
  switch (change.setting) {
    case LiveSetting::kVcbs:
      level.vcbs = amount;
      break;
    case LiveSetting::kPcbs:
      level.pcbs = amount;
      break;
    case LiveSetting::kShared:
      level.shared = amount != 0;
      break;
    case LiveSetting::kTvls:
      return set_level_tvls(tenant, level, amount, who);
    default:
      if (is_of_rate(change.setting)) {
        set(level, change.setting, change.amount);
        break;
      }
      return no_such(who, who + ": " + name_of(change.setting) +
                              " can only be set for the whole tenant: softhcactl set " +
                              tenant.name + " " + name_of(change.setting) + "=N");
  }
  return std::nullopt;
}

std::optional<AllocationRefusal> make_of_tenant(TenantConfig& tenant,
                                                const AllocationChange& change,
                                                const PoolsConfig& pools, const std::string& who) {
  const auto amount = static_cast<std::uint32_t>(change.amount);
  switch (change.setting) {
    case LiveSetting::kShare:
    case LiveSetting::kClass:
      set_share_or_class(tenant, change, pools);
      break;
    case LiveSetting::kVcbs:
      set_total(tenant, &TenantConfig::vcbs, &LevelConfig::vcbs, amount);
      break;
    case LiveSetting::kPcbs:
      set_total(tenant, &TenantConfig::pcbs, &LevelConfig::pcbs, amount);
      break;
    case LiveSetting::kTvls:
      if (amount == 0 || amount < least_tvls(tenant))
        return bad_value(who, change.setting,
                         tenant.levels.empty() ? who + ": tvls = 0; a tenant needs at least 1"
                                               : who + ": its levels need at least " +
                                                     std::to_string(least_tvls(tenant)) + " tvls");
      set_tvl_count(tenant, amount, pools);
      break;
    default:
      set(tenant, change.setting, change.amount);
  }
  tenant.given.add(name_of(change.setting));
  return std::nullopt;
}

std::optional<AllocationRefusal> make_of_tvls(TenantConfig& tenant, const LevelConfig* level,
                                              const AllocationChange& change,
                                              const std::string& who) {
  std::span<TvlConfig> tvls(tenant.tvls);
  if (level != nullptr) tvls = tvls.subspan(first_tvl(tenant, *level), level->tvls);
  if (tvls.empty()) return no_such(who, who + " has no TVL of its own");
  if (change.tvl && *change.tvl >= tvls.size())
    return no_such(who, who + " has no TVL " + std::to_string(*change.tvl) + ": it has TVLs 0 to " +
                            std::to_string(tvls.size() - 1));
  if (change.tvl) tvls = tvls.subspan(*change.tvl, 1);
  for (TvlConfig& tvl : tvls) {
    set(tvl, change.setting, change.amount);
    tvl.given.add(name_of(change.setting));
  }
  return std::nullopt;
}

std::optional<AllocationRefusal> make(Config& config, const AllocationChange& change) {
  std::string who = "tenant " + change.tenant;
  auto* tenant = const_cast<TenantConfig*>(find_tenant(config, change.tenant));
  if (tenant == nullptr) return no_such(who, "no such tenant: " + quoted(change.tenant));
  LevelConfig* level = nullptr;
  if (!change.level.empty()) {
    level = const_cast<LevelConfig*>(find_level(*tenant, change.level));
    if (level == nullptr) return no_such(who, who + " has no level " + quoted(change.level));
    who += ": level " + change.level;
  }
  const Range range = range_of(change.setting, config.pools);
  if (change.amount < range.least || change.amount > range.most)
    return bad_amount(who, change, range);
  if (is_of_tvl(change.setting)) return make_of_tvls(*tenant, level, change, who);
  if (change.tvl)
    return no_such(who, who + ": " + name_of(change.setting) +
                            " is not a setting of one TVL; leave out .tvl" +
                            std::to_string(*change.tvl));
  if (level != nullptr) return make_of_level(*tenant, *level, change, who);
  return make_of_tenant(*tenant, change, config.pools, who);
}

constexpr int kLastRank = 5;

/// Ranks changes so that their order makes no difference. Shares and classes come before amounts
/// that do not follow from them. Then come changes that give back before those that take, totals
/// before parts, and the number of TVLs before their settings.
int rank_of(const Config& in_force, const AllocationChange& change) {
  const bool of_level = !change.level.empty();
  if (change.setting == LiveSetting::kShare || change.setting == LiveSetting::kClass) return 0;
  if (change.setting == LiveSetting::kTvls) {
    if (!of_level) return 2;
    const TenantConfig* tenant = find_tenant(in_force, change.tenant);
    const LevelConfig* level = tenant != nullptr ? find_level(*tenant, change.level) : nullptr;
    return level != nullptr && change.amount < level->tvls ? 1 : 3;
  }
  return of_level || is_of_tvl(change.setting) ? kLastRank : 4;
}

/// Returns the error if the tenant or level has a hard cap without any credit: it could never send.
std::optional<AllocationRefusal> find_stuck(const TenantConfig& tenant, const LevelConfig* level) {
  std::span<const TvlConfig> tvls(tenant.tvls);
  std::string who = "tenant " + tenant.name;
  if (level != nullptr) {
    tvls = tvls.subspan(first_tvl(tenant, *level), level->tvls);
    who += ": level " + level->name;
  }
  if (level != nullptr ? level->shared : tenant.shared) return std::nullopt;
  for (std::size_t i = 0; i < tvls.size(); ++i) {
    if (tvls[i].execution_credits != 0 && tvls[i].completion_credits != 0) continue;
    const LiveSetting lacking = tvls[i].execution_credits == 0 ? LiveSetting::kExecutionCredits
                                                               : LiveSetting::kCompletionCredits;
    return bad_value(who, lacking,
                     who + ": TVL " + std::to_string(i) + " would have no " + name_of(lacking) +
                         " and cannot share any (shared = false), so it could never send");
  }
  return std::nullopt;
}

/// One pool: its size, and the amount that each tenant has of it.
struct Pool {
  const char* name;
  const char* size;  ///< its expression in keys of the configuration
  std::uint64_t total;
  std::uint64_t Held::*amount;
};

std::optional<AllocationRefusal> check_pool(const Pool& pool, const Config& in_force,
                                            const Config& wanted, const Held& held) {
  const auto before = [&](const TenantConfig& tenant) {
    const TenantConfig* old = find_tenant(in_force, tenant.name);
    return old == nullptr ? 0 : held_by(*old).*pool.amount;
  };
  std::uint64_t kept = held.*pool.amount;
  for (const TenantConfig& tenant : wanted.tenants)
    kept += std::min(before(tenant), held_by(tenant).*pool.amount);
  std::uint64_t free = pool.total - std::min(pool.total, kept);
  for (const TenantConfig& tenant : wanted.tenants) {
    const std::uint64_t now = held_by(tenant).*pool.amount;
    const std::uint64_t more = now - std::min(now, before(tenant));
    if (more > free)
      return not_free("tenant " + tenant.name, pool.name, pool.size, more, free, pool.total,
                      held.*pool.amount);
    free -= more;
  }
  return std::nullopt;
}

/// The amount that a level has of a pool that its tenant divides.
struct Part {
  const char* name;
  std::uint32_t TenantConfig::*total;
  std::uint32_t LevelConfig::*amount;
  std::uint64_t HeldPart::*held;
};

std::string of_levels(const Part& part, const TenantConfig& tenant, std::uint64_t free,
                      std::uint64_t held) {
  std::string text = std::to_string(free) + " of the tenant's " +
                     std::to_string(tenant.*part.total) + " belong to no level";
  if (held != 0) text += "; programs of removed levels still hold " + std::to_string(held);
  return text;
}

/// Checks a part within its tenant: the amounts of its levels, and those that removed levels still
/// hold.
std::optional<AllocationRefusal> check_part(const Part& part, const TenantConfig& tenant,
                                            const TenantConfig* in_force, const HeldPart& held) {
  const auto before = [&](const LevelConfig& level) -> std::uint64_t {
    const LevelConfig* old = in_force != nullptr ? find_level(*in_force, level.name) : nullptr;
    return old != nullptr ? old->*part.amount : 0;
  };
  const std::string who = "tenant " + tenant.name;
  const std::uint64_t total = tenant.*part.total;
  std::uint64_t kept = held.*part.held;
  for (const LevelConfig& level : tenant.levels)
    kept += std::min<std::uint64_t>(before(level), level.*part.amount);
  if (kept > total)
    return AllocationRefusal{Cause::kNotFree,
                             who,
                             part.name,
                             kept,
                             total,
                             who + ": its levels hold " + std::to_string(kept) + " " + part.name +
                                 ", more than its " + std::to_string(total) +
                                 (held.*part.held != 0 ? ", including removed levels with running "
                                                         "programs"
                                                       : "")};
  std::uint64_t free = total - kept;
  for (const LevelConfig& level : tenant.levels) {
    const std::uint64_t now = level.*part.amount;
    const std::uint64_t more = now - std::min(now, before(level));
    if (more > free)
      return AllocationRefusal{Cause::kNotFree,
                               who + ": level " + level.name,
                               part.name,
                               more,
                               free,
                               who + ": level " + level.name + ": asked for " +
                                   std::to_string(more) + " more " + part.name + ", " +
                                   of_levels(part, tenant, free, held.*part.held)};
    free -= more;
  }
  return std::nullopt;
}

std::optional<AllocationRefusal> check_division(const Config& in_force, const TenantConfig& tenant,
                                                const Held& held) {
  const auto of_tenant =
      std::find_if(held.parts.begin(), held.parts.end(),
                   [&](const HeldPart& part) { return part.tenant == tenant.name; });
  const HeldPart kept = of_tenant == held.parts.end() ? HeldPart{} : *of_tenant;
  const TenantConfig* before = find_tenant(in_force, tenant.name);
  constexpr Part kParts[] = {{"vcbs", &TenantConfig::vcbs, &LevelConfig::vcbs, &HeldPart::vcbs},
                             {"pcbs", &TenantConfig::pcbs, &LevelConfig::pcbs, &HeldPart::pcbs}};
  for (const Part& part : kParts)
    if (auto refusal = check_part(part, tenant, before, kept)) return refusal;
  return std::nullopt;
}

}  // namespace

std::optional<AllocationRefusal> find_mistake(const TenantConfig& tenant) {
  if (auto refusal = find_stuck(tenant, nullptr)) return refusal;
  for (const LevelConfig& level : tenant.levels)
    if (auto refusal = find_stuck(tenant, &level)) return refusal;
  const std::string who = "tenant " + tenant.name;
  if (tenant.tvls.size() < least_tvls(tenant))
    return bad_value(who, LiveSetting::kTvls,
                     who +
                         ": its levels have all its TVLs, and the levels without TVLs of their own "
                         "need one more; raise tvls");
  if (const auto wrong = find_wrong_minimum(tenant))
    return bad_value(who, wrong->key, who + ": " + wrong->text);
  const auto& limits = tenant.srq.limits;
  if (tenant.srq.statistical &&
      std::all_of(limits.begin(), limits.end(), [](std::uint32_t l) { return l == 0; }))
    return bad_value(who, LiveSetting::kSrqStatistical,
                     who + ": srq.statistical has no limit to change; set srq.limit too");
  return std::nullopt;
}

AllocationResult with_changes(const Config& in_force, std::span<const AllocationChange> changes,
                              const Held& held) {
  return with_changes(in_force, in_force, changes, held);
}

AllocationResult with_changes(const Config& base, const Config& in_force,
                              std::span<const AllocationChange> changes, const Held& held) {
  Config wanted = base;
  for (int rank = 0; rank <= kLastRank; ++rank)
    for (const AllocationChange& change : changes)
      if (rank_of(base, change) == rank)
        if (auto refusal = make(wanted, change)) return std::move(*refusal);
  for (const TenantConfig& tenant : wanted.tenants)
    if (auto refusal = find_mistake(tenant)) return std::move(*refusal);
  if (auto refusal = check_room(in_force, wanted, held)) return std::move(*refusal);
  return wanted;
}

std::optional<AllocationRefusal> check_room(const Config& in_force, const Config& wanted,
                                            const Held& held) {
  if (auto excess = find_excess(wanted.tenants))
    return AllocationRefusal{Cause::kNotFree,   "the tenants", name_of(LiveSetting::kShare), 0, 0,
                             std::move(*excess)};
  const PoolsConfig& pools = wanted.pools;
  const Pool all[] = {
      {"tenants", "pools.tenants", pools.tenants, &Held::tenants},
      {"vcbs", "pools.vcbs", pools.vcbs, &Held::vcbs},
      {"pcbs", "pools.pcbs - pools.dedicated_pcbs", pools.pcbs - pools.dedicated_pcbs, &Held::pcbs},
      {"tvls", "pools.tvls", pools.tvls, &Held::tvls},
      {"execution_credits", "pools.execution_credits", pools.execution_credits,
       &Held::execution_credits},
      {"completion_credits", "pools.completion_credits", pools.completion_credits,
       &Held::completion_credits},
      {"levels", "the daemon's limit of levels", kMaxLevels, &Held::levels},
      {"dedicated_pcbs", "pools.dedicated_pcbs", pools.dedicated_pcbs, &Held::dedicated_pcbs},
      {"rate.min_bytes_per_second", "pools.min_bytes_per_second", pools.min_bytes_per_second,
       &Held::min_bytes_per_second}};
  for (const Pool& pool : all)
    if (auto refusal = check_pool(pool, in_force, wanted, held)) return refusal;
  for (const TenantConfig& tenant : wanted.tenants)
    if (auto refusal = check_division(in_force, tenant, held)) return refusal;
  return std::nullopt;
}

Held held_by(const TenantConfig& tenant) {
  Held held{.tenants = 1,
            .vcbs = tenant.vcbs,
            .pcbs = tenant.pcbs,
            .tvls = tenant.tvls.size(),
            .levels = tenant.levels.size(),
            .min_bytes_per_second = tenant.rates.sent.min_bytes_per_second,
            .dedicated_pcbs = std::max<std::uint64_t>(tenant.levels.size(), 1),
            .parts = {}};
  for (const TvlConfig& tvl : tenant.tvls) {
    held.execution_credits += tvl.execution_credits;
    held.completion_credits += tvl.completion_credits;
  }
  return held;
}

Held& operator+=(Held& sum, const Held& more) {
  sum.tenants += more.tenants;
  sum.vcbs += more.vcbs;
  sum.pcbs += more.pcbs;
  sum.tvls += more.tvls;
  sum.execution_credits += more.execution_credits;
  sum.completion_credits += more.completion_credits;
  sum.levels += more.levels;
  sum.min_bytes_per_second += more.min_bytes_per_second;
  sum.dedicated_pcbs += more.dedicated_pcbs;
  sum.parts.insert(sum.parts.end(), more.parts.begin(), more.parts.end());
  return sum;
}

}  // namespace softhca::configuration
