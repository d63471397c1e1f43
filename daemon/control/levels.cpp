#include "daemon/control/levels.hpp"

#include <algorithm>
#include <cerrno>
#include <string>

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
    if (level->name == name && !level->leaving) return level.get();
  return nullptr;
}

std::string names_of(const engine::Tenant& tenant) {
  std::string names;
  for (const auto& level : tenant.levels) names += (names.empty() ? "" : ", ") + level->name;
  return names.empty() ? "none" : names;
}

}  // namespace

Outcome add_levels(const resource::TenantConfig& config, engine::Tenant& tenant,
                   engine::Engine& engine) {
  for (const LevelConfig& entry : config.levels) {
    const auto group = engine.pcbs().add_group({.tenant = tenant.id,
                                                .guaranteed = entry.pcbs,
                                                .may_share = entry.shared,
                                                .parent = tenant.group,
                                                .is_default = entry.is_default});
    if (!group)
      return Error{"level " + entry.name + ": " + group.error().message, group.error().code};
    auto level = std::make_unique<engine::Level>();
    level->id = LevelId(group->value);  // unique in the adapter, as a level's number is to be
    level->name = entry.name;
    level->group = *group;
    level->is_default = entry.is_default;
    level->vcbs.may_share = entry.shared;
    tenant.levels.push_back(std::move(level));
  }
  return {};
}

bool remove_levels(engine::Tenant& tenant, engine::Engine& engine) {
  std::erase_if(tenant.levels, [&](const auto& level) {
    return static_cast<bool>(engine.pcbs().remove_group(level->group));
  });
  return tenant.levels.empty();
}

LevelId level_of_tvl(const resource::TenantConfig& config, const engine::Tenant& tenant,
                     std::size_t index) {
  for (const LevelConfig& entry : config.levels) {
    if (index < entry.tvls) {
      const engine::Level* level = find_level(tenant, entry.name);
      return level != nullptr ? level->id : kNoLevel;
    }
    index -= entry.tvls;
  }
  return kNoLevel;
}

Expected<engine::Level*> choose_level(const resource::TenantConfig& config,
                                      const engine::Tenant& tenant, const LevelQuery& query) {
  engine::Level* const asked = find_level(tenant, query.name);
  if (!query.name.empty() && asked == nullptr)
    return Error{
        "asks for level \"" + std::string(query.name) + "\"; there are: " + names_of(tenant),
        EINVAL};
  if (query.by_socket != nullptr && !query.by_socket->leaving) return query.by_socket;
  for (const LevelConfig& entry : config.levels)
    if (has_rule_for(entry, query))
      if (engine::Level* level = find_level(tenant, entry.name)) return level;
  if (asked != nullptr) {
    const auto entry = std::find_if(config.levels.begin(), config.levels.end(),
                                    [&](const LevelConfig& l) { return l.name == asked->name; });
    if (entry != config.levels.end() && is_reserved(*entry))
      return Error{
          "asks for level \"" + asked->name + "\", which is kept for its socket, users and groups",
          EACCES};
    return asked;
  }
  for (const auto& level : tenant.levels)
    if (level->is_default && !level->leaving) return level.get();
  return tenant.levels.empty() ? nullptr : tenant.levels.front().get();
}

}  // namespace softhca::control
