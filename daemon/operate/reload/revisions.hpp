// SPDX-License-Identifier: Apache-2.0

// Revisions: every change of the configuration in force, with its time, its author and the
// differences. A revision has the resulting allocations, so that they can be put into force again.
//
// The number of revisions is bounded: the latest of the operator and the daemon, and the latest of
// each tenant. So a tenant with many changes displaces only its own. The control thread owns the
// revisions.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "daemon/configuration/resource_manager/overlay.hpp"
#include "daemon/configuration/resource_manager/reload_plan.hpp"
#include "daemon/frontend/unix/sockets/unix_socket.hpp"
#include "daemon/operate/reload/layers.hpp"

namespace softhca::control {

/// The author of a change.
struct Actor {
  PeerIdentity peer;    ///< process 0: none; the author is a signal or the daemon itself
  std::string program;  ///< name of the peer's program
  std::string tenant;   ///< the tenant that made the request; empty: the operator
};

/// Returns a process as author, with its current name.
Actor actor_of(const PeerIdentity& peer);

/// Tenants as they were. Revisions share those that are equal.
using KeptTenants = std::vector<std::shared_ptr<const configuration::TenantConfig>>;

struct Revision {
  std::uint64_t number = 0;  ///< counts from 1
  std::chrono::system_clock::time_point time{};
  std::string cause;  ///< "start", "restart", "reload", "set", "tenant create", "rollback", ...
  Actor actor;
  std::vector<configuration::Difference> differences;  ///< the first kMostDifferences
  std::size_t more = 0;                                ///< number of those beyond
  KeptTenants in_force;
  configuration::SubAllocations own;
  /// Tenants on demand in force.
  std::shared_ptr<const std::vector<configuration::TenantOnDemand>> on_demand;
  KeptTenants given;  ///< without tenants' own changes

  static constexpr std::size_t kMostDifferences = 1000;
};

class Revisions {
 public:
  static constexpr std::size_t kKept = 64;         ///< revisions of the operator and the daemon
  static constexpr std::size_t kKeptOfTenant = 8;  ///< revisions of each tenant

  /// Adds a revision. `in_force`, `given`: the configuration in force, with and without tenants'
  /// own changes. `layers`: the layers over the file.
  void add(std::string cause, Actor actor, const configuration::ReloadPlan& plan,
           const configuration::Config& in_force, const configuration::Config& given,
           const Layers& layers);

  /// Returns the revisions in the order of their numbers.
  const std::deque<Revision>& all() const { return revisions_; }
  /// Returns a revision. Null: unknown number, or no longer kept.
  const Revision* find(std::uint64_t number) const;

 private:
  KeptTenants keep(const std::vector<configuration::TenantConfig>& tenants) const;
  void drop_beyond(const std::string& tenant, std::size_t most);

  std::deque<Revision> revisions_;
  std::uint64_t last_ = 0;
};

/// Returns the tenants in the form of a configuration.
std::vector<configuration::TenantConfig> tenants_of(const KeptTenants& kept);

}  // namespace softhca::control
