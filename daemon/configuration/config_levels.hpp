// SPDX-License-Identifier: Apache-2.0

// Checks that the levels of a tenant fit into its allocation and do not conflict.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/configuration/config.hpp"
#include "daemon/configuration/schema/reader.hpp"

namespace softhca::configuration {

/// Adds the levels of a tenant that asks for default levels: `low`, the default level, and `high`.
/// Each has half of the TVLs and is guaranteed a quarter of the VCBs and PCBs; both share the rest.
/// TVLs of `high` have the tenant's weight, those of `low` a quarter of it. REQUIRES: the amounts
/// of the tenant are read; it has no levels and two TVLs or more.
void add_default_levels(TenantConfig& tenant);
/// Returns the weight of a TVL of `low` if those of `high` have `weight`.
std::uint32_t weight_of_low(std::uint32_t weight);

class LevelsCheck {
 public:
  /// `tenant` is being read: its own amounts are known, and its levels are added to it one by one.
  /// `path`: "tenant.level" or "template.level".
  LevelsCheck(TenantConfig& tenant, std::string path, Problems& problems)
      : tenant_(tenant), path_(std::move(path)), problems_(problems) {}

  /// Checks the last level of the tenant, which was read from `table`.
  void add(const Value& table);
  /// Ends the check after the last level. If no level is marked as the default level, the first one
  /// becomes it.
  void finish();

 private:
  void complain(const Value& table, std::string_view key, const std::string& text);
  void check_name(const Value& table);
  void check_amount(const Value& table, std::string_view key, std::uint32_t asked,
                    std::uint32_t total, std::uint32_t& divided);
  void check_tvls(const Value& table, const LevelConfig& level);
  /// Checks that no earlier level claims the same service levels or traffic classes.
  void check_paths(const Value& table, const LevelConfig& level);

  TenantConfig& tenant_;
  std::string path_;
  Problems& problems_;
  std::uint32_t vcbs_ = 0;  // amounts divided so far
  std::uint32_t pcbs_ = 0;
  std::size_t tvls_ = 0;
  const Value* needs_undivided_ = nullptr;  // the first level without TVLs of its own
};

}  // namespace softhca::configuration
