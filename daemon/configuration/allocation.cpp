// SPDX-License-Identifier: Apache-2.0

#include "daemon/configuration/allocation.hpp"

#include <algorithm>
#include <array>
#include <cassert>

#include "daemon/configuration/schema/schema.hpp"

namespace softhca::configuration {
namespace {

/// A key of the schema that can be set.
struct Setting {
  const Key* of_tenant = nullptr;        ///< key of the tenant or of a table in it
  const Key* table_of_tenant = nullptr;  ///< key of that table
  const Key* of_level = nullptr;         ///< key of the level or of a table in it
  const Key* table_of_level = nullptr;
  const Key* of_tvl = nullptr;
  std::string name;

  /// Returns the key of the setting, of a TVL or of a tenant.
  const Key& key() const { return *(of_tvl != nullptr ? of_tvl : of_tenant); }
};

using Settings = std::array<Setting, kAllocations>;

Setting* setting_of(Settings& settings, const Key& key) {
  return key.set ? &settings[static_cast<std::size_t>(*key.set)] : nullptr;
}

/// Adds the keys of a section, and of the tables in it.
void add_keys(Settings& settings, const Schema& section, const Key* Setting::*at,
              const Key* Setting::*table) {
  for (const Key& key : section.keys) {
    if (Setting* setting = setting_of(settings, key)) {
      setting->*at = &key;
      setting->name = key.name;
    }
    if (key.at.type != Type::kTable) continue;
    for (const Key& inner : key.table().keys)
      if (Setting* setting = setting_of(settings, inner)) {
        setting->*at = &inner;
        setting->*table = &key;
        setting->name = std::string(key.name) + '.' + inner.name;
      }
  }
}

Settings make_settings() {
  Settings settings;
  add_keys(settings, schema_of<TenantConfig>(), &Setting::of_tenant, &Setting::table_of_tenant);
  add_keys(settings, schema_of<LevelConfig>(), &Setting::of_level, &Setting::table_of_level);
  for (const Key& key : schema_of<TvlConfig>().keys)
    if (Setting* setting = setting_of(settings, key)) {
      setting->of_tvl = &key;
      setting->name = key.name;
    }
  return settings;
}

const Setting& setting(Allocation allocation) {
  static const Settings settings = make_settings();
  return settings[static_cast<std::size_t>(allocation)];
}

}  // namespace

const std::string& name_of(Allocation allocation) { return setting(allocation).name; }

std::optional<Allocation> allocation_of(std::string_view name) {
  for (std::size_t i = 0; i < kAllocations; ++i)
    if (name == name_of(static_cast<Allocation>(i))) return static_cast<Allocation>(i);
  return std::nullopt;
}

ValueForm form_of(Allocation allocation) {
  switch (setting(allocation).key().at.type) {
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

std::span<const std::string_view> words_of(Allocation allocation) {
  return setting(allocation).key().words;
}

Range range_of(Allocation allocation, const PoolsConfig& pools) {
  const Setting& it = setting(allocation);
  Range range = range_of(it.key());
  if (it.key().in_pool)
    range.most = amount_in(*find_key(schema_of<PoolsConfig>(), it.name), &pools);
  if (it.of_level != nullptr) range.least = std::min(range.least, range_of(*it.of_level).least);
  return range;
}

bool is_of_tvl(Allocation allocation) { return setting(allocation).of_tvl != nullptr; }
bool is_of_level(Allocation allocation) {
  return is_of_tvl(allocation) || setting(allocation).of_level != nullptr;
}

void set(TvlConfig& tvl, Allocation allocation, std::uint64_t amount) {
  assert(is_of_tvl(allocation));
  set_amount(*setting(allocation).of_tvl, &tvl, amount);
}

void set(LevelConfig& level, Allocation allocation, std::uint64_t amount) {
  const Setting& it = setting(allocation);
  assert(it.table_of_level != nullptr);
  set_amount(*it.of_level, it.table_of_level->at.reach(&level), amount);
}

void set(TenantConfig& tenant, Allocation allocation, std::uint64_t amount) {
  const Setting& it = setting(allocation);
  assert(it.of_tenant != nullptr);
  void* section = it.table_of_tenant != nullptr ? it.table_of_tenant->at.reach(&tenant) : &tenant;
  set_amount(*it.of_tenant, section, amount);
}

}  // namespace softhca::configuration
