// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/requests/level_settings.hpp"

#include <cstdint>
#include <vector>

#include "daemon/engine/records/tenant.hpp"

namespace softhca::engine {

using configuration::LevelConfig;

namespace {

PathRules rules_of(const std::vector<std::uint8_t>& service_levels,
                   const std::vector<std::uint8_t>& traffic_classes) {
  PathRules rules;
  for (const std::uint8_t each : service_levels)
    rules.service_levels |= static_cast<std::uint16_t>(1u << each);
  for (const std::uint8_t each : traffic_classes)
    rules.dscps |= std::uint64_t{1} << PathRules::dscp_of(each);
  return rules;
}

}  // namespace

const LevelConfig* settings_of(const configuration::TenantConfig& config, const Level& level) {
  return configuration::find_level(config, level.name);
}

bool may_share(const configuration::TenantConfig& config, const Level* level) {
  const LevelConfig* entry = level == nullptr ? nullptr : settings_of(config, *level);
  return config.shared && (entry == nullptr || entry->shared);
}

std::span<const configuration::TvlConfig> tvls_of(const configuration::TenantConfig& config,
                                                  const Level* level) {
  std::span<const configuration::TvlConfig> tvls(config.tvls);
  for (const LevelConfig& entry : config.levels) {
    if (level != nullptr && level->name == entry.name) return tvls.first(entry.tvls);
    tvls = tvls.subspan(entry.tvls);
  }
  return tvls;
}

void set_rules(Level& level, const LevelConfig* config) {
  level.rules = level.own_rules = {};
  if (config == nullptr) return;
  level.rules = rules_of(config->service_levels, config->traffic_classes);
  level.own_rules = rules_of(config->own_rules.service_levels, config->own_rules.traffic_classes);
}

}  // namespace softhca::engine
