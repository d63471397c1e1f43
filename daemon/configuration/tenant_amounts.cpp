// SPDX-License-Identifier: Apache-2.0

#include "daemon/configuration/tenant_amounts.hpp"

#include <algorithm>

namespace softhca::configuration {
namespace {

/// What a class decides. It does not change the weight: a tenant that asks for less than its part
/// of the engine's time waits for the piece in service only. The wire priority is set because no
/// program can choose it. The DSCP is not: programs choose it by their traffic class.
struct ClassRules {
  bool has_vcbs;  ///< a share of the VCBs is guaranteed
  std::uint32_t vcbs_per_process;
  std::uint32_t tvls;
  std::uint32_t kick_list;  ///< at most that of [pools]
  bool lends;
  std::optional<std::uint8_t> priority;
};

constexpr std::uint32_t kAnyKickList = kMostOfAny;

constexpr ClassRules kStandardRules{.has_vcbs = true,
                                    .vcbs_per_process = 16,
                                    .tvls = 1,
                                    .kick_list = kAnyKickList,
                                    .lends = true,
                                    .priority = {}};
/// Short messages that must not wait. Each process has all VCBs that it can use at once, so it
/// rings no doorbell. Queue pairs on four short lists wait for fewer others. Guarantees are not
/// lent, as a borrower may return them late.
constexpr ClassRules kLatencyRules{.has_vcbs = true,
                                   .vcbs_per_process = kMaxVcbsPerProcess,
                                   .tvls = 4,
                                   .kick_list = 64,
                                   .lends = false,
                                   .priority = 5};
/// Long messages, for which a doorbell costs little: the VCBs are left to others. All credits are
/// on one TVL, where a single queue pair can use them.
constexpr ClassRules kBulkRules{.has_vcbs = false,
                                .vcbs_per_process = 4,
                                .tvls = 1,
                                .kick_list = kAnyKickList,
                                .lends = true,
                                .priority = 1};

const ClassRules& rules_of(Workload workload) {
  switch (workload) {
    case Workload::kStandard:
      break;
    case Workload::kLatency:
      return kLatencyRules;
    case Workload::kBulk:
      return kBulkRules;
  }
  return kStandardRules;
}

/// A share of 5 % weighs as much as a tenant without a share. Finer steps would make the turns of
/// TVLs longer.
constexpr std::uint32_t kTenthsOfWeight = 50;

std::uint32_t weight_of(Share share) {
  return std::max((share.tenths + kTenthsOfWeight / 2) / kTenthsOfWeight, 1u);
}

std::uint32_t part_in(Share share, std::uint64_t total) {
  return static_cast<std::uint32_t>(part_of(share, total));
}

/// Returns the credits of one of `tvls` TVLs. With a share each has one at least.
std::uint32_t credits_of(Share share, std::uint32_t total, std::uint32_t tvls) {
  return share.tenths == 0 ? 0 : std::max(part_in(share, total) / tvls, 1u);
}

}  // namespace

TenantAmounts amounts_of(Share share, Workload workload, const PoolsConfig& pools,
                         std::optional<std::size_t> tvls) {
  const ClassRules& rules = rules_of(workload);
  const auto count = static_cast<std::uint32_t>(tvls.value_or(rules.tvls));
  return {.vcbs = rules.has_vcbs ? part_in(share, pools.vcbs) : 0,
          .vcbs_per_process = rules.vcbs_per_process,
          .pcbs = part_in(share, pools.pcbs - std::min(pools.pcbs, pools.dedicated_pcbs)),
          .tvls = count,
          .tvl = {.weight = weight_of(share),
                  .execution_credits = credits_of(share, pools.execution_credits, count),
                  .completion_credits = credits_of(share, pools.completion_credits, count),
                  .kick_list = std::min(pools.kick_list, rules.kick_list)},
          .lends = rules.lends,
          .priority = rules.priority};
}

void give(TenantConfig& tenant, const TenantAmounts& amounts) {
  tenant.vcbs = amounts.vcbs;
  tenant.vcbs_per_process = amounts.vcbs_per_process;
  tenant.pcbs = amounts.pcbs;
  tenant.lends = amounts.lends;
  tenant.priority = amounts.priority;
}

ObjectLimits limits_of(Share share, Share unshared, std::size_t tenants, const PoolsConfig& pools) {
  ObjectLimits limits = totals_of(pools);
  for (std::uint64_t& limit : limits.values)
    limit = std::max<std::uint64_t>(part_of(share, limit) + part_of(unshared, limit) / tenants, 1);
  return limits;
}

void follow_limits(TenantConfig& tenant, const PoolsConfig& pools) {
  const ObjectLimits limits = limits_of(tenant.share, {}, 1, pools);
  for_each_kind([&](Kind kind) {
    if (!tenant.given.has(kind)) tenant.limits[kind] = limits[kind];
  });
}

Share unshared(std::span<const Share> shares) {
  Share rest = kWhole;
  for (const Share share : shares) rest.tenths -= std::min(rest.tenths, share.tenths);
  return rest;
}

std::optional<std::string> find_excess(std::span<const TenantConfig> tenants) {
  Share sum;
  std::string list;
  for (const TenantConfig& tenant : tenants) {
    if (tenant.share.tenths == 0) continue;
    sum.tenths += tenant.share.tenths;
    list += (list.empty() ? "" : ", ") + tenant.name + ' ' + to_text(tenant.share);
  }
  if (sum.tenths <= kWhole.tenths) return std::nullopt;
  return "the shares of the tenants add up to " + to_text(sum) + " (" + list +
         "), at most 100% is possible; lower one";
}

}  // namespace softhca::configuration
