// SPDX-License-Identifier: Apache-2.0

#include "daemon/configuration/config_levels.hpp"

#include <algorithm>
#include <span>
#include <string>

#include "daemon/configuration/schema/level_rules.hpp"

namespace softhca::configuration {

std::uint32_t weight_of_low(std::uint32_t weight) { return std::max(weight / 4, 1u); }

void add_default_levels(TenantConfig& tenant) {
  const auto half = static_cast<std::uint32_t>(tenant.tvls.size() / 2);
  for (std::uint32_t i = 0; i < half; ++i) {
    std::uint32_t& weight = tenant.tvls[i].weight;
    weight = weight_of_low(weight);
  }
  LevelConfig level{.vcbs = tenant.vcbs / 4, .pcbs = tenant.pcbs / 4, .shared = true};
  level.name = "low";
  level.tvls = half;
  level.is_default = true;
  tenant.levels.push_back(level);
  level.name = "high";
  level.tvls = static_cast<std::uint32_t>(tenant.tvls.size()) - half;
  level.is_default = false;
  tenant.levels.push_back(level);
}

void LevelsCheck::complain(const Value& table, std::string_view key, const std::string& text) {
  const Value* value = table.table() ? table.table()->find(key) : nullptr;
  problems_.add(value ? value->line : table.line, path_ + '.' + std::string(key), text);
}

void LevelsCheck::add(const Value& table) {
  const LevelConfig& level = tenant_.levels.back();
  check_name(table);
  check_amount(table, "vcbs", level.vcbs, tenant_.vcbs, vcbs_);
  check_amount(table, "pcbs", level.pcbs, tenant_.pcbs, pcbs_);
  check_tvls(table, level);
  check_paths(table, level);
  const auto defaults = std::count_if(tenant_.levels.begin(), tenant_.levels.end(),
                                      [](const LevelConfig& l) { return l.is_default; });
  if (level.is_default && defaults > 1)
    complain(table, "default", "is true for an earlier level; a tenant has one default level");
}

void LevelsCheck::check_name(const Value& table) {
  const std::string& name = tenant_.levels.back().name;
  const auto last = std::prev(tenant_.levels.end());
  const auto earlier = std::find_if(tenant_.levels.begin(), last,
                                    [&](const LevelConfig& l) { return l.name == name; });
  if (!name.empty() && earlier != last)
    complain(table, "name",
             "\"" + name + "\" is already a level of the tenant; each needs its own");
}

void LevelsCheck::check_amount(const Value& table, std::string_view key, std::uint32_t asked,
                               std::uint32_t total, std::uint32_t& divided) {
  const std::uint32_t left = total - divided;
  if (asked > left)
    complain(table, key,
             "takes " + std::to_string(asked) + ", but only " + std::to_string(left) +
                 " of the tenant's " + std::to_string(total) +
                 " are left; lower a level or raise the tenant's");
  divided += std::min(asked, left);
}

void LevelsCheck::check_tvls(const Value& table, const LevelConfig& level) {
  if (level.tvls == 0 && needs_undivided_ == nullptr) needs_undivided_ = &table;
  for (std::size_t i = tvls_; i < tvls_ + level.tvls && !level.shared; ++i)
    if (tenant_.tvls[i].execution_credits == 0 || tenant_.tvls[i].completion_credits == 0) {
      complain(table, "shared",
               "is false and a TVL has no execution or completion credits of its own, so it could "
               "never send; give every TVL both");
      break;
    }
  tvls_ += level.tvls;
}

void LevelsCheck::check_paths(const Value& table, const LevelConfig& level) {
  for (const LevelConfig& other : std::span(tenant_.levels).first(tenant_.levels.size() - 1)) {
    const auto refuse = [&](const char* key, std::optional<std::uint8_t> both) {
      if (both)
        complain(table, key, std::to_string(*both) + " already belongs to level " + other.name);
    };
    refuse("service_levels", common_service_level(level.service_levels, other.service_levels));
    refuse("traffic_classes", common_traffic_class(level.traffic_classes, other.traffic_classes));
  }
}

void LevelsCheck::finish() {
  if (needs_undivided_ != nullptr && tvls_ == tenant_.tvls.size())
    complain(*needs_undivided_, "tvls",
             "is 0, but the other levels have all TVLs of the tenant; leave one for this level");
  const bool has_default = std::any_of(tenant_.levels.begin(), tenant_.levels.end(),
                                       [](const LevelConfig& l) { return l.is_default; });
  if (!tenant_.levels.empty() && !has_default) tenant_.levels.front().is_default = true;
}

}  // namespace softhca::configuration
