// SPDX-License-Identifier: Apache-2.0

// The tenants of an engine, as the control thread keeps them: configurations come into force, and
// tenants, levels and addresses leave when no program has them any more.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "daemon/configuration/resource_manager/resource_manager.hpp"
#include "tests/fuzz/requests/configurations.hpp"
#include "tests/fuzz/requests/program.hpp"

namespace softhca::fuzz {

/// The programs that there are, the oldest first.
using Programs = std::list<std::unique_ptr<Program>>;

class Tenants {
 public:
  Tenants(Common& common, const Programs& programs);

  /// Tenants of which programs may begin a session.
  std::vector<engine::Tenant*> open() const;
  /// All tenants, also those that leave.
  const std::vector<std::unique_ptr<engine::Tenant>>& all() const { return all_; }
  Domains& domains_of(const engine::Tenant& tenant) { return domains_.at(&tenant); }
  /// Returns any of them. Null: there is none.
  const engine::Tenant* any() const;
  /// A path from an address of the tenant to any of the same family, as for connections and
  /// datagrams. Nothing: the families differ.
  std::optional<engine::AddressPath> any_path(const engine::Tenant& tenant) const;
  /// A level for a new program of the tenant. Null: the tenant is not divided.
  engine::Level* any_level(engine::Tenant& tenant);

  // --- operations of the input
  /// Begins with a configuration, as the daemon does.
  void start();
  /// Puts a changed configuration into force.
  void change();
  void rename_level();
  void adjust_lending();
  void remove_tenant();
  void remove_level();
  void release_whole();
  void collect_closed();
  void forget_addresses();

  /// Requires that nothing counts as a tenant's any more. REQUIRES: all programs have ended.
  void check_idle() const;
  /// Removes all tenants. REQUIRES: all programs have ended.
  void end();

 private:
  struct Former {
    engine::Tenant* tenant;
    engine::Tenant::Address address;
    std::uint32_t session;  ///< the first that does not have it
  };
  struct Draft;

  std::uint64_t count(const engine::Tenant& tenant) const;
  std::uint64_t count(const engine::Level& level) const;
  std::uint64_t count_undivided(const engine::Tenant& tenant) const;
  std::uint32_t oldest(const engine::Tenant& tenant) const;

  bool has_room(const configuration::Config& wanted) const;
  void add_held(const engine::Tenant& tenant, const configuration::TenantConfig* wanted,
                configuration::Held& held) const;
  bool put(const configuration::Config& wanted, unsigned steps);
  bool draft(const configuration::Config& wanted, Draft& draft) const;
  void draft_levels(engine::Tenant& tenant, const configuration::TenantConfig& entry,
                    Draft& draft) const;
  engine::PortChange port_change(const configuration::Config& wanted) const;
  std::vector<engine::Tenant::Address> addresses_of(
      const configuration::Config& config, const configuration::TenantConfig& tenant) const;
  std::vector<engine::Tenant::Address> former_of(const engine::Tenant& tenant) const;
  bool is_former(const Gid& gid) const;
  void change_former(const configuration::Config& wanted);
  void let_leave(const configuration::Config& wanted, const Draft& draft);
  void erase(const engine::Tenant& tenant);

  Common& common_;
  Input& input_;
  const Programs& programs_;
  configuration::Config in_force_ = empty_configuration();
  std::vector<std::unique_ptr<engine::Tenant>> all_;
  std::map<const engine::Tenant*, Domains> domains_;
  std::vector<Former> former_;
  std::uint32_t next_domain_ = 1;
};

}  // namespace softhca::fuzz
