#include "daemon/control/adapter/levels.hpp"

#include <algorithm>
#include <cerrno>
#include <string>

#include "daemon/control/sockets/process_name.hpp"
#include "daemon/resource/owners.hpp"

namespace softhca::control {
namespace {

using resource::LevelConfig;

/// Names that this system does not know match nobody.
bool has_rule_for(const LevelConfig& level, const LevelQuery& query) {
  const auto is_user = [&](const std::string& name) {
    const auto id = resource::user_id(name);
    return id && *id == query.uid;
  };
  const auto is_group = [&](const std::string& name) {
    const auto id = resource::group_id(name);
    return id && std::find(query.groups.begin(), query.groups.end(), *id) != query.groups.end();
  };
  return std::any_of(level.users.begin(), level.users.end(), is_user) ||
         std::any_of(level.groups.begin(), level.groups.end(), is_group);
}

bool is_reserved(const LevelConfig& level) {
  return level.socket || !level.users.empty() || !level.groups.empty();
}

engine::Level* find_level(const engine::Tenant& tenant, std::string_view name) {
  for (const auto& level : tenant.levels)
    if (level->name == name && !level->control.leaving) return level.get();
  return nullptr;
}

std::string names_of(const engine::Tenant& tenant) {
  std::string names;
  for (const auto& level : tenant.levels)
    if (!level->control.leaving) names += (names.empty() ? "" : ", ") + level->name;
  return names.empty() ? "none" : names;
}

}  // namespace

std::unique_ptr<engine::Level> make_level(const LevelConfig& config) {
  auto level = std::make_unique<engine::Level>();
  level->name = config.name;
  level->control.vcbs.may_share = config.shared;
  level->marking = marking_of(config);
  return level;
}

const LevelConfig* settings_of(const resource::TenantConfig& config, const engine::Level& level) {
  return resource::find_level(config, level.name);
}

bool may_share(const resource::TenantConfig& config, const engine::Level* level) {
  const LevelConfig* entry = level == nullptr ? nullptr : settings_of(config, *level);
  return config.shared && (entry == nullptr || entry->shared);
}

std::span<const resource::TvlConfig> tvls_of(const resource::TenantConfig& config,
                                             const engine::Level* level) {
  std::span<const resource::TvlConfig> tvls(config.tvls);
  for (const LevelConfig& entry : config.levels) {
    if (level != nullptr && level->name == entry.name) return tvls.first(entry.tvls);
    tvls = tvls.subspan(entry.tvls);
  }
  return tvls;
}

Expected<engine::Level*> choose_level(const resource::TenantConfig& config,
                                      const engine::Tenant& tenant, const LevelQuery& query) {
  engine::Level* const asked = find_level(tenant, query.name);
  if (!query.name.empty() && asked == nullptr)
    return Error{"it asks for level \"" + printable(std::string(query.name)) +
                     "\", the tenant has: " + names_of(tenant) +
                     "; correct --level or SOFTHCA_LEVEL",
                 EINVAL};
  if (query.by_socket != nullptr && !query.by_socket->control.leaving) return query.by_socket;
  for (const LevelConfig& entry : config.levels)
    if (has_rule_for(entry, query))
      if (engine::Level* level = find_level(tenant, entry.name)) return level;
  if (asked != nullptr) {
    const auto entry = std::find_if(config.levels.begin(), config.levels.end(),
                                    [&](const LevelConfig& l) { return l.name == asked->name; });
    if (entry != config.levels.end() && is_reserved(*entry))
      return Error{"it asks for level \"" + asked->name +
                       "\", which is kept for its socket, users and groups",
                   EACCES};
    return asked;
  }
  for (const auto& level : tenant.levels)
    if (level->is_default && !level->control.leaving) return level.get();
  return nullptr;
}

}  // namespace softhca::control
