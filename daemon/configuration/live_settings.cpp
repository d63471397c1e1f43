// SPDX-License-Identifier: Apache-2.0

#include "daemon/configuration/live_settings.hpp"

#include <algorithm>
#include <array>
#include <cassert>

#include "daemon/configuration/schema/schema.hpp"

namespace softhca::configuration {
namespace {

/// A key of the schema that can be set.
struct SettingKeys {
  const Key* of_tenant = nullptr;        ///< key of the tenant or of a table in it
  const Key* table_of_tenant = nullptr;  ///< key of that table
  const Key* of_level = nullptr;         ///< key of the level or of a table in it
  const Key* table_of_level = nullptr;
  const Key* of_tvl = nullptr;
  std::string name;

  /// Returns the key of the setting, of a TVL or of a tenant.
  const Key& key() const { return *(of_tvl != nullptr ? of_tvl : of_tenant); }
};

using Settings = std::array<SettingKeys, kLiveSettings>;

SettingKeys* keys_of(Settings& settings, const Key& key) {
  return key.set ? &settings[static_cast<std::size_t>(*key.set)] : nullptr;
}

/// Adds the keys of a section, and of the tables in it.
void add_keys(Settings& settings, const Schema& section, const Key* SettingKeys::*at,
              const Key* SettingKeys::*table) {
  for (const Key& key : section.keys) {
    if (SettingKeys* keys = keys_of(settings, key)) {
      keys->*at = &key;
      keys->name = key.name;
    }
    if (key.at.type != Type::kTable) continue;
    for (const Key& inner : key.table().keys)
      if (SettingKeys* keys = keys_of(settings, inner)) {
        keys->*at = &inner;
        keys->*table = &key;
        keys->name = std::string(key.name) + '.' + inner.name;
      }
  }
}

Settings make_settings() {
  Settings settings;
  add_keys(settings, schema_of<TenantConfig>(), &SettingKeys::of_tenant,
           &SettingKeys::table_of_tenant);
  add_keys(settings, schema_of<LevelConfig>(), &SettingKeys::of_level,
           &SettingKeys::table_of_level);
  for (const Key& key : schema_of<TvlConfig>().keys)
    if (SettingKeys* keys = keys_of(settings, key)) {
      keys->of_tvl = &key;
      keys->name = key.name;
    }
  return settings;
}

const SettingKeys& keys_of(LiveSetting setting) {
  static const Settings settings = make_settings();
  return settings[static_cast<std::size_t>(setting)];
}

}  // namespace

const std::string& name_of(LiveSetting setting) { return keys_of(setting).name; }

std::optional<LiveSetting> live_setting_of(std::string_view name) {
  for (std::size_t i = 0; i < kLiveSettings; ++i)
    if (name == name_of(static_cast<LiveSetting>(i))) return static_cast<LiveSetting>(i);
  return std::nullopt;
}

ValueForm form_of(LiveSetting setting) {
  switch (keys_of(setting).key().at.type) {
    case Type::kBoolean:
      return ValueForm::kYesNo;
    case Type::kWord:
      return ValueForm::kWord;
    case Type::kFactor:
      return ValueForm::kFactor;
    case Type::kShare:
      return ValueForm::kShare;
    default:
      return ValueForm::kNumber;
  }
}

std::span<const std::string_view> words_of(LiveSetting setting) {
  return keys_of(setting).key().words;
}

Range range_of(LiveSetting setting, const PoolsConfig& pools) {
  const SettingKeys& it = keys_of(setting);
  Range range = range_of(it.key());
  if (it.key().in_pool)
    range.most = amount_in(*find_key(schema_of<PoolsConfig>(), it.name), &pools);
  if (it.of_level != nullptr) range.least = std::min(range.least, range_of(*it.of_level).least);
  return range;
}

bool is_of_tvl(LiveSetting setting) { return keys_of(setting).of_tvl != nullptr; }
bool is_of_level(LiveSetting setting) {
  return is_of_tvl(setting) || keys_of(setting).of_level != nullptr;
}

void set(TvlConfig& tvl, LiveSetting setting, std::uint64_t amount) {
  assert(is_of_tvl(setting));
  set_amount(*keys_of(setting).of_tvl, &tvl, amount);
}

void set(LevelConfig& level, LiveSetting setting, std::uint64_t amount) {
  const SettingKeys& it = keys_of(setting);
  assert(it.table_of_level != nullptr);
  set_amount(*it.of_level, it.table_of_level->at.reach(&level), amount);
}

void set(TenantConfig& tenant, LiveSetting setting, std::uint64_t amount) {
  const SettingKeys& it = keys_of(setting);
  assert(it.of_tenant != nullptr);
  void* section = it.table_of_tenant != nullptr ? it.table_of_tenant->at.reach(&tenant) : &tenant;
  set_amount(*it.of_tenant, section, amount);
}

}  // namespace softhca::configuration
