// The levels of a tenant: made from the configuration, taken apart, and which of them a process
// belongs to.
#pragma once

#include <sys/types.h>

#include <string_view>
#include <vector>

#include "daemon/base/expected.hpp"
#include "daemon/engine/engine.hpp"
#include "daemon/resource/config.hpp"

namespace softhca::control {

/// Gives the tenant its levels, each with a collect group. Start-up, or as a task of the engine.
/// Errors name the level; those before it stay, see remove_levels(). REQUIRES: the tenant has its
/// group and no levels.
Outcome add_levels(const resource::TenantConfig& config, engine::Tenant& tenant,
                   engine::Engine& engine);

/// Takes all levels from the tenant, as a task of the engine. False: one still holds PCBs; try
/// again when it has drained. REQUIRES: the tenant has no sessions, its TVLs are removed.
bool remove_levels(engine::Tenant& tenant, engine::Engine& engine);

/// The level that has TVL `index` of the tenant; kNoLevel: it is undivided.
LevelId level_of_tvl(const resource::TenantConfig& config, const engine::Tenant& tenant,
                     std::size_t index);

/// Who a process is, and how it came.
struct LevelQuery {
  engine::Level* by_socket = nullptr;  ///< it came by the socket of this level
  uid_t uid = 0;
  std::vector<gid_t> groups;  ///< its own and the supplementary ones
  std::string_view name;      ///< what it asks for; empty: nothing
};

/// By socket, else by the rules for users and groups, else what it asks for, else the default
/// level. Null: the tenant has no levels. Errors, fit for the log: EINVAL, it asks for a level that
/// does not exist; EACCES, it asks for one that is kept for those of its socket, users or groups.
Expected<engine::Level*> choose_level(const resource::TenantConfig& config,
                                      const engine::Tenant& tenant, const LevelQuery& query);

}  // namespace softhca::control
