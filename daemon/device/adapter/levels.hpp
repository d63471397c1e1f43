// SPDX-License-Identifier: Apache-2.0

// The levels of a tenant: their configuration, and the level that a process belongs to.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string_view>
#include <vector>

#include "daemon/base/expected.hpp"
#include "daemon/configuration/config.hpp"
#include "daemon/engine/records/tenant.hpp"

namespace softhca::control {

/// Makes a level without number and group. engine::TenantAllocations::change() sets both.
std::unique_ptr<engine::Level> make_level(const configuration::LevelConfig& config);

/// Sets the users and groups that belong to a level. Null: none. Resolves their names now and not
/// when a process connects, so that a slow user database delays no process.
void set_members(engine::Level& level, const configuration::LevelConfig* config);

/// A process that needs a level: its identity, and how it connected.
struct LevelQuery {
  engine::Level* by_socket = nullptr;  ///< it connected to the socket of this level
  uid_t uid = 0;
  std::vector<gid_t> groups;  ///< its own and its supplementary groups
  std::string cgroup = {};    ///< its path; empty: not requested, or unknown
  std::string_view name;      ///< the level that it requests; empty: none
};

/// True if `path` is that cgroup, or one below it.
bool is_in_cgroup(std::string_view path, std::string_view cgroup);
/// True if the tenant has a rule for cgroups.
bool asks_for_cgroup(const configuration::TenantConfig& config);

/// Returns the level of a process. The first of these that applies decides: its socket; the rules
/// for users and groups; the operator's rules for cgroups; the tenant's own rules for cgroups; the
/// level that the process requests; the default level. Among cgroup rules, the longest matching
/// path decides. Null: the tenant is not divided into levels.
/// Errors, fit for the log: EINVAL, the process requests a level that does not exist. EACCES, it
/// requests a level that is reserved for a socket, users, groups or cgroups.
Expected<engine::Level*> choose_level(const configuration::TenantConfig& config,
                                      const engine::Tenant& tenant, const LevelQuery& query);

}  // namespace softhca::control
