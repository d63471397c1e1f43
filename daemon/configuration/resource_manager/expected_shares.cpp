// SPDX-License-Identifier: Apache-2.0

#include "daemon/configuration/resource_manager/expected_shares.hpp"

#include <algorithm>
#include <span>

namespace softhca::configuration {
namespace {

std::uint64_t left_of(std::uint64_t total, std::uint64_t taken) {
  return total - std::min(total, taken);
}

/// Amounts that no tenant is guaranteed.
struct Rest {
  std::uint64_t vcbs, pcbs, execution_credits, completion_credits;
};

Rest rest_of(const Config& config, const Held& held) {
  Held sum = held;
  for (const TenantConfig& tenant : config.tenants) sum += held_by(tenant);
  const PoolsConfig& pools = config.pools;
  return {.vcbs = left_of(pools.vcbs, sum.vcbs),
          .pcbs = left_of(pools.pcbs - pools.dedicated_pcbs, sum.pcbs),
          .execution_credits = left_of(pools.execution_credits, sum.execution_credits),
          .completion_credits = left_of(pools.completion_credits, sum.completion_credits)};
}

std::uint32_t weight_of(std::span<const TvlConfig> tvls) {
  std::uint32_t weight = 1;
  for (const TvlConfig& tvl : tvls) weight = std::max(weight, tvl.weight);
  return weight;
}

/// Adds the guarantees of these TVLs, and the amounts that they may use in addition.
void add_credits(ExpectedShare& share, std::span<const TvlConfig> tvls, const Rest* shared) {
  for (const TvlConfig& tvl : tvls) {
    share.execution_credits.guaranteed += tvl.execution_credits;
    share.completion_credits.guaranteed += tvl.completion_credits;
  }
  share.execution_credits.ceiling =
      share.execution_credits.guaranteed + (shared != nullptr ? shared->execution_credits : 0);
  share.completion_credits.ceiling =
      share.completion_credits.guaranteed + (shared != nullptr ? shared->completion_credits : 0);
}

ExpectedShare share_of(const TenantConfig& tenant, const Rest& rest) {
  const Rest* const shared = tenant.shared ? &rest : nullptr;
  ExpectedShare share{.tenant = tenant.name, .level = {}};
  share.vcbs = {tenant.vcbs, tenant.vcbs + (shared != nullptr ? rest.vcbs : 0)};
  share.pcbs = {tenant.pcbs, tenant.pcbs + (shared != nullptr ? rest.pcbs : 0)};
  share.tvls = {tenant.tvls.size(), tenant.tvls.size()};
  add_credits(share, tenant.tvls, shared);
  share.weight = weight_of(tenant.tvls);
  return share;
}

void add_levels(const TenantConfig& tenant, const Rest& rest, const Held& held,
                std::vector<ExpectedShare>& shares) {
  const ExpectedShare whole = shares.back();
  const std::size_t first = shares.size();
  std::uint64_t vcbs = tenant.vcbs, pcbs = tenant.pcbs, tvls = tenant.tvls.size();
  for (const HeldPart& part : held.parts)
    if (part.tenant == tenant.name) {
      vcbs = left_of(vcbs, part.vcbs);
      pcbs = left_of(pcbs, part.pcbs);
    }
  for (const LevelConfig& level : tenant.levels) {
    vcbs = left_of(vcbs, level.vcbs);
    pcbs = left_of(pcbs, level.pcbs);
    tvls = left_of(tvls, level.tvls);
  }
  std::span<const TvlConfig> lanes(tenant.tvls);
  const auto undivided = lanes.last(tvls);
  std::uint64_t weights = 0;
  for (const LevelConfig& level : tenant.levels) {
    ExpectedShare& share = shares.emplace_back();
    share.tenant = tenant.name;
    share.level = level.name;
    const bool draws = level.shared && tenant.shared;
    const auto ceiling = [&](std::uint64_t own, std::uint64_t of_tenant, std::uint64_t of_pool) {
      return own + (level.shared ? of_tenant : 0) + (draws ? of_pool : 0);
    };
    share.vcbs = {level.vcbs, ceiling(level.vcbs, vcbs, rest.vcbs)};
    share.pcbs = {level.pcbs, ceiling(level.pcbs, pcbs, rest.pcbs)};
    share.tvls = {level.tvls, level.tvls != 0 ? level.tvls : tvls};
    add_credits(share, lanes.first(level.tvls), draws ? &rest : nullptr);
    if (level.tvls == 0) {  // it uses the TVLs that belong to no level
      ExpectedShare of_tenant;
      add_credits(of_tenant, undivided, tenant.shared ? &rest : nullptr);
      share.execution_credits.ceiling = of_tenant.execution_credits.ceiling;
      share.completion_credits.ceiling = of_tenant.completion_credits.ceiling;
    }
    share.weight = weight_of(lanes.first(level.tvls));
    weights += share.weight;
    lanes = lanes.subspan(level.tvls);
  }
  for (std::size_t i = first; i < shares.size(); ++i) {
    shares[i].weights = weights;
    shares[i].engine = whole.engine * shares[i].weight / static_cast<double>(weights);
  }
}

}  // namespace

std::vector<ExpectedShare> expected_shares(const Config& config, const Held& held) {
  const Rest rest = rest_of(config, held);
  std::uint64_t weights = 0;
  for (const TenantConfig& tenant : config.tenants) weights += weight_of(tenant.tvls);
  std::vector<ExpectedShare> shares;
  for (const TenantConfig& tenant : config.tenants) {
    ExpectedShare& share = shares.emplace_back(share_of(tenant, rest));
    share.weights = weights;
    share.engine = share.weight / static_cast<double>(weights);
    add_levels(tenant, rest, held, shares);
  }
  return shares;
}

}  // namespace softhca::configuration
