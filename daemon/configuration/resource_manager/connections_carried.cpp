// SPDX-License-Identifier: Apache-2.0

#include "daemon/configuration/resource_manager/connections_carried.hpp"

#include <algorithm>
#include <span>

namespace softhca::configuration {
namespace {

std::uint32_t times(std::uint64_t has, std::uint32_t each) {
  if (each == 0) return kCarriesAll;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(has / each, kCarriesAll));
}

std::uint32_t carried(const ConnectionsConfig& config, std::uint32_t pcbs,
                      std::span<const TvlConfig> tvls) {
  const std::uint32_t by_pcbs = times(pcbs, config.pcbs_each);
  std::uint64_t credits = 0;
  for (const TvlConfig& tvl : tvls) credits += tvl.completion_credits;
  if (credits == 0) return by_pcbs;
  return std::min(by_pcbs, times(credits, config.pcbs_each));
}

}  // namespace

std::vector<Carried> carried_by(const TenantConfig& tenant) {
  std::vector<Carried> parts;
  std::span<const TvlConfig> tvls(tenant.tvls);
  std::uint32_t pcbs = tenant.pcbs;
  for (const LevelConfig& level : tenant.levels) {
    parts.push_back({.level = level.name,
                     .connections = carried(tenant.connections, level.pcbs, tvls.first(level.tvls)),
                     .shares = level.shared});
    tvls = tvls.subspan(level.tvls);
    pcbs -= level.pcbs;
  }
  parts.push_back({.level = {}, .connections = carried(tenant.connections, pcbs, tvls)});
  return parts;
}

}  // namespace softhca::configuration
