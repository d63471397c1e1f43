#include "daemon/resource/resource_manager.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "daemon/base/quota_division.hpp"

namespace softhca::resource {
namespace {

using Cause = AllocationRefusal::Cause;

constexpr std::array<const char*, 6> kNames = {
    "vcbs", "pcbs", "tvls", "execution_credits", "completion_credits", "kick_list"};

constexpr std::uint64_t kMostTvls = 64;         // of a tenant, as the configuration has it
constexpr std::uint64_t kMostOfAny = 1u << 20;  // likewise, of anything else

std::uint64_t least_of(Allocation allocation) {
  return allocation == Allocation::kTvls || allocation == Allocation::kKickList ? 1 : 0;
}
std::uint64_t most_of(Allocation allocation) {
  return allocation == Allocation::kTvls ? kMostTvls : kMostOfAny;
}

bool is_of_tvl(Allocation allocation) {
  return allocation == Allocation::kExecutionCredits ||
         allocation == Allocation::kCompletionCredits || allocation == Allocation::kKickList;
}

std::string quoted(const std::string& name) { return '"' + name + '"'; }

AllocationRefusal no_such(const std::string& who, const std::string& message) {
  return {Cause::kNoSuchThing, who, {}, 0, 0, message};
}

AllocationRefusal bad_amount(const std::string& who, const AllocationChange& change) {
  const std::string resource = name_of(change.allocation);
  return {Cause::kBadAmount,
          who,
          resource,
          change.amount,
          0,
          who + ": " + resource + " = " + std::to_string(change.amount) + " is not between " +
              std::to_string(least_of(change.allocation)) + " and " +
              std::to_string(most_of(change.allocation))};
}

AllocationRefusal not_free(const std::string& who, const char* resource, std::uint64_t asked,
                           std::uint64_t free, std::uint64_t total, std::uint64_t held) {
  std::string message = who + ": asked for " + std::to_string(asked) + " more " + resource + ", " +
                        std::to_string(free) + " of pools." + resource + " = " +
                        std::to_string(total) + " are unallocated";
  if (held != 0)
    message += "; removed tenants and levels whose programs still run hold " + std::to_string(held);
  return {Cause::kNotFree, who, resource, asked, free, std::move(message)};
}

void set(TvlConfig& tvl, Allocation allocation, std::uint32_t amount) {
  if (allocation == Allocation::kExecutionCredits) tvl.execution_credits = amount;
  if (allocation == Allocation::kCompletionCredits) tvl.completion_credits = amount;
  if (allocation == Allocation::kKickList) tvl.kick_list = amount;
}

/// The levels' own, and one for those that have none.
std::uint64_t least_tvls(const TenantConfig& tenant) {
  std::uint64_t sum = 0;
  bool undivided = tenant.levels.empty();
  for (const LevelConfig& level : tenant.levels) {
    sum += level.tvls;
    undivided = undivided || level.tvls == 0;
  }
  return sum + (undivided ? 1 : 0);
}

/// A8: from the shared part, then the default level, then the others in proportion.
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

void set_tvl_count(TenantConfig& tenant, std::uint32_t count) {
  TvlConfig more = tenant.tvls.back();
  more.execution_credits = more.completion_credits = 0;
  tenant.tvls.resize(count, more);
}

TenantConfig* find(std::vector<TenantConfig>& tenants, const std::string& name) {
  const auto at = std::find_if(tenants.begin(), tenants.end(),
                               [&](const TenantConfig& tenant) { return tenant.name == name; });
  return at == tenants.end() ? nullptr : &*at;
}

/// TVLs are made and taken away first, so that the others of the request may speak of new ones.
std::optional<AllocationRefusal> make(Config& config, const AllocationChange& change) {
  const std::string who = "tenant " + change.tenant;
  TenantConfig* tenant = find(config.tenants, change.tenant);
  if (tenant == nullptr) return no_such(who, "there is no tenant " + quoted(change.tenant));
  if (change.amount < least_of(change.allocation) || change.amount > most_of(change.allocation))
    return bad_amount(who, change);
  const auto amount = static_cast<std::uint32_t>(change.amount);
  if (!is_of_tvl(change.allocation)) {
    if (change.tvl)
      return no_such(who,
                     who + ": " + name_of(change.allocation) + " are of the tenant, not of a TVL");
    if (change.allocation == Allocation::kVcbs)
      set_total(*tenant, &TenantConfig::vcbs, &LevelConfig::vcbs, amount);
    if (change.allocation == Allocation::kPcbs)
      set_total(*tenant, &TenantConfig::pcbs, &LevelConfig::pcbs, amount);
    if (change.allocation == Allocation::kTvls && amount < least_tvls(*tenant))
      return AllocationRefusal{
          Cause::kBadAmount,
          who,
          "tvls",
          amount,
          0,
          who + ": its levels need " + std::to_string(least_tvls(*tenant)) + " tvls"};
    if (change.allocation == Allocation::kTvls) set_tvl_count(*tenant, amount);
  } else if (!change.tvl) {
    for (TvlConfig& tvl : tenant->tvls) set(tvl, change.allocation, amount);
  } else if (*change.tvl < tenant->tvls.size()) {
    set(tenant->tvls[*change.tvl], change.allocation, amount);
  } else {
    return no_such(who, who + " has no TVL " + std::to_string(*change.tvl) + ": it has " +
                            std::to_string(tenant->tvls.size()) + ", counted from 0");
  }
  return std::nullopt;
}

/// A hard cap of no credit at all would never let it send.
std::optional<AllocationRefusal> find_stuck(const Config& config) {
  for (const TenantConfig& tenant : config.tenants)
    for (std::size_t i = 0; i < tenant.tvls.size() && !tenant.shared; ++i) {
      const TvlConfig& tvl = tenant.tvls[i];
      if (tvl.execution_credits != 0 && tvl.completion_credits != 0) continue;
      const std::string who = "tenant " + tenant.name + ": TVL " + std::to_string(i);
      const char* what = tvl.execution_credits == 0 ? kNames[3] : kNames[4];
      return AllocationRefusal{
          Cause::kBadAmount,
          who,
          what,
          0,
          0,
          who + " would have no " + what +
              " and may draw from none (shared = false), so it could never send"};
    }
  return std::nullopt;
}

/// One pool: its size, and what each tenant has of it.
struct Pool {
  const char* name;
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
      return not_free("tenant " + tenant.name, pool.name, more, free, pool.total,
                      held.*pool.amount);
    free -= more;
  }
  return std::nullopt;
}

/// What a level has of a pool that its tenant divides.
struct Part {
  const char* name;
  std::uint32_t TenantConfig::*total;
  std::uint32_t LevelConfig::*amount;
  std::uint64_t HeldPart::*held;
};

std::string of_levels(const Part& part, const TenantConfig& tenant, std::uint64_t free,
                      std::uint64_t held) {
  std::string text = std::to_string(free) + " of the tenant's " +
                     std::to_string(tenant.*part.total) + " are undivided";
  if (held != 0) text += "; removed levels whose programs still run hold " + std::to_string(held);
  return text;
}

/// Within a tenant: what its levels have, and those that were removed still hold.
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
                             who + ": its levels have " + std::to_string(kept) + " " + part.name +
                                 ", more than " + std::to_string(total) +
                                 (held.*part.held != 0 ? ", those that were removed and whose "
                                                         "programs still run included"
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

const char* name_of(Allocation allocation) { return kNames[static_cast<std::size_t>(allocation)]; }

std::optional<Allocation> allocation_of(std::string_view name) {
  const auto at = std::find(kNames.begin(), kNames.end(), name);
  if (at == kNames.end()) return std::nullopt;
  return static_cast<Allocation>(at - kNames.begin());
}

AllocationResult with_changes(const Config& in_force, std::span<const AllocationChange> changes,
                              const Held& held) {
  Config wanted = in_force;
  for (const bool tvls : {true, false})
    for (const AllocationChange& change : changes)
      if ((change.allocation == Allocation::kTvls) == tvls)
        if (auto refusal = make(wanted, change)) return std::move(*refusal);
  if (auto refusal = find_stuck(wanted)) return std::move(*refusal);
  if (auto refusal = check_room(in_force, wanted, held)) return std::move(*refusal);
  return wanted;
}

std::optional<AllocationRefusal> check_room(const Config& in_force, const Config& wanted,
                                            const Held& held) {
  const PoolsConfig& pools = wanted.pools;
  const Pool all[] = {{"tenants", pools.tenants, &Held::tenants},
                      {"vcbs", pools.vcbs, &Held::vcbs},
                      {"pcbs", pools.pcbs - pools.dedicated_pcbs, &Held::pcbs},
                      {"tvls", pools.tvls, &Held::tvls},
                      {"execution_credits", pools.execution_credits, &Held::execution_credits},
                      {"completion_credits", pools.completion_credits, &Held::completion_credits},
                      {"levels", kMaxLevels, &Held::levels},
                      {"dedicated_pcbs", pools.dedicated_pcbs, &Held::dedicated_pcbs}};
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
  sum.dedicated_pcbs += more.dedicated_pcbs;
  sum.parts.insert(sum.parts.end(), more.parts.begin(), more.parts.end());
  return sum;
}

}  // namespace softhca::resource
