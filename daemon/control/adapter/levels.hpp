// The levels of a tenant: what is configured for them, and which of them a process belongs to.
#pragma once

#include <sys/types.h>

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "daemon/base/expected.hpp"
#include "daemon/engine/engine.hpp"
#include "daemon/resource/config.hpp"

namespace softhca::control {

/// A level without number and group; Allotments::change() gives it both.
std::unique_ptr<engine::Level> make_level(const resource::LevelConfig& config);

/// Whose queue pairs come to a level; null: nobody's.
void set_rules(engine::Level& level, const resource::LevelConfig* config);

/// The users and groups whose processes belong to a level; null: none. Their names are looked up
/// here and not when a process comes: a user database that is slow keeps no process waiting.
void set_members(engine::Level& level, const resource::LevelConfig* config);

/// What is configured for a level; null: it is not in this configuration.
const resource::LevelConfig* settings_of(const resource::TenantConfig& config,
                                         const engine::Level& level);

/// May a TVL of that level, or (null) one that no level has, draw from what is shared?
bool may_share(const resource::TenantConfig& config, const engine::Level* level);

/// The TVLs of a level of the tenant, or (null) those that no level has.
std::span<const resource::TvlConfig> tvls_of(const resource::TenantConfig& config,
                                             const engine::Level* level);

/// A process that needs a level: who it is, and how it came.
struct LevelQuery {
  engine::Level* by_socket = nullptr;  ///< it came by the socket of this level
  uid_t uid = 0;
  std::vector<gid_t> groups;  ///< its own and the supplementary ones
  std::string cgroup = {};    ///< its path; empty: not asked for, or not known
  std::string_view name;      ///< what it asks for; empty: nothing
};

/// Does the tenant have a rule for cgroups?
bool asks_for_cgroup(const resource::TenantConfig& config);

/// The level of a process: by its socket, else by the rules for users and groups, else by those for
/// cgroups, the operator's before the tenant's own and of these the longest path that fits, else
/// what it asks for, else the default level. Null: the tenant is not divided. Errors, fit for the
/// log: EINVAL, it asks for a level that does not exist; EACCES, it asks for one that is kept for
/// those of its socket, users, groups or cgroups.
Expected<engine::Level*> choose_level(const resource::TenantConfig& config,
                                      const engine::Tenant& tenant, const LevelQuery& query);

}  // namespace softhca::control
