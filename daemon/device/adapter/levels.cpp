// SPDX-License-Identifier: Apache-2.0

#include "daemon/device/adapter/levels.hpp"

#include <algorithm>
#include <cerrno>
#include <string>

#include "daemon/configuration/resource_manager/owners.hpp"
#include "daemon/control_thread/process_name.hpp"
#include "daemon/engine/requests/level_settings.hpp"

namespace softhca::control {
namespace {

using configuration::LevelConfig;

bool has_rule_for(const engine::LevelControl& level, const LevelQuery& query) {
  return std::ranges::find(level.users, query.uid) != level.users.end() ||
         std::ranges::find_first_of(level.groups, query.groups) != level.groups.end();
}

/// Returns the numbers of users or groups. Skips names that this system does not know: no process
/// can have them.
template <class Id>
std::vector<Id> ids_of(const std::vector<std::string>& names,
                       Expected<Id> (&look_up)(const std::string&)) {
  std::vector<Id> ids;
  for (const std::string& name : names)
    if (const auto id = look_up(name)) ids.push_back(*id);
  return ids;
}

engine::Level* find_level(const engine::Tenant& tenant, std::string_view name) {
  for (const auto& level : tenant.levels)
    if (level->name == name && !level->control.leaving) return level.get();
  return nullptr;
}

/// Returns the level with the longest cgroup rule that matches. Null: no rule of an existing level
/// matches.
engine::Level* find_by_cgroup(const configuration::TenantConfig& config,
                              const engine::Tenant& tenant, const std::string& path) {
  if (path.empty()) return nullptr;
  engine::Level* found = nullptr;
  std::size_t longest = 0;
  const auto look = [&](const LevelConfig& entry, const std::vector<std::string>& rules) {
    for (const std::string& rule : rules) {
      if (rule.size() <= longest || !is_in_cgroup(path, rule)) continue;
      engine::Level* const level = find_level(tenant, entry.name);
      if (level == nullptr) continue;
      found = level;
      longest = rule.size();
    }
  };
  for (const LevelConfig& entry : config.levels) look(entry, entry.cgroups);
  if (found != nullptr) return found;
  for (const LevelConfig& entry : config.levels) look(entry, entry.own_rules.cgroups);
  return found;
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
  engine::set_rules(*level, &config);
  set_members(*level, &config);
  return level;
}

void set_members(engine::Level& level, const LevelConfig* config) {
  level.control.users.clear();
  level.control.groups.clear();
  if (config == nullptr) return;
  level.control.users = ids_of(config->users, configuration::user_id);
  level.control.groups = ids_of(config->groups, configuration::group_id);
}

bool is_in_cgroup(std::string_view path, std::string_view cgroup) {
  if (cgroup == "/") return true;
  return path.starts_with(cgroup) && (path.size() == cgroup.size() || path[cgroup.size()] == '/');
}

bool asks_for_cgroup(const configuration::TenantConfig& config) {
  return std::ranges::any_of(config.levels, [](const LevelConfig& level) {
    return !level.cgroups.empty() || !level.own_rules.cgroups.empty();
  });
}

Expected<engine::Level*> choose_level(const configuration::TenantConfig& config,
                                      const engine::Tenant& tenant, const LevelQuery& query) {
  engine::Level* const asked = find_level(tenant, query.name);
  if (!query.name.empty() && asked == nullptr)
    return Error{"it asks for level \"" + printable(std::string(query.name)) +
                     "\", but the tenant has " + names_of(tenant) +
                     "; correct --level or SOFTHCA_LEVEL",
                 EINVAL};
  if (query.by_socket != nullptr && !query.by_socket->control.leaving) return query.by_socket;
  for (const LevelConfig& entry : config.levels)
    if (engine::Level* level = find_level(tenant, entry.name))
      if (has_rule_for(level->control, query)) return level;
  if (engine::Level* level = find_by_cgroup(config, tenant, query.cgroup)) return level;
  if (asked != nullptr) {
    const auto entry = std::find_if(config.levels.begin(), config.levels.end(),
                                    [&](const LevelConfig& l) { return l.name == asked->name; });
    if (entry != config.levels.end() && is_reserved(*entry))
      return Error{"it asks for level \"" + asked->name +
                       "\", which takes only programs of its own socket, users, groups or cgroups; "
                       "leave out --level and SOFTHCA_LEVEL",
                   EACCES};
    return asked;
  }
  for (const auto& level : tenant.levels)
    if (level->is_default && !level->control.leaving) return level.get();
  return nullptr;
}

}  // namespace softhca::control
