// SPDX-License-Identifier: Apache-2.0

// The amounts that follow from a tenant's share of the pools and from its class. An amount that the
// operator gives takes precedence. The functions are pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "daemon/configuration/config.hpp"

namespace softhca::configuration {

struct TenantAmounts {
  std::uint32_t vcbs = 0;
  std::uint32_t vcbs_per_process = 0;
  std::uint32_t pcbs = 0;
  std::uint32_t tvls = 0;
  TvlConfig tvl;  ///< of each of its TVLs
  bool lends = true;
  std::optional<std::uint8_t> priority;
};

/// Returns the amounts of a tenant with this share and class. `tvls`: its number of TVLs, if that
/// does not follow.
TenantAmounts amounts_of(Share share, Workload workload, const PoolsConfig& pools,
                         std::optional<std::size_t> tvls = {});
/// Sets the amounts of a tenant, except those of its TVLs.
void give(TenantConfig& tenant, const TenantAmounts& amounts);
/// Sets the limits of a tenant on demand that are not given to its share.
void follow_limits(TenantConfig& tenant, const PoolsConfig& pools);

/// Returns the limits of what a tenant's programs take on demand: its share of each total, and an
/// equal part of what the shares leave; at least 1. `unshared`: what the shares leave; `tenants`:
/// the number of those that divide it.
ObjectLimits limits_of(Share share, Share unshared, std::size_t tenants, const PoolsConfig& pools);

/// Returns the share that no tenant has.
Share unshared(std::span<const Share> shares);
/// Returns the error if the shares of the tenants add up to more than the pools.
std::optional<std::string> find_excess(std::span<const TenantConfig> tenants);

}  // namespace softhca::configuration
