// SPDX-License-Identifier: Apache-2.0

// A configuration that will come into force on a running adapter: its consequences, and the steps
// that put it into force, all of them or none.
//
// The files: change.cpp (draft, outcome), change_steps.cpp (the steps).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "daemon/device/adapter/adapter.hpp"
#include "daemon/device/adapter/setup.hpp"
#include "daemon/device/adapter/vcb_change.hpp"
#include "daemon/engine/packets/peer_table.hpp"
#include "daemon/frontend/unix/device_tree/device_tree.hpp"
#include "daemon/operate/reload/former_addresses.hpp"
#include "daemon/operate/reload/steps.hpp"

namespace softhca::control {

class Server;

/// Starts a metrics endpoint at another address. Call the returned function to replace the endpoint
/// in use. Destroy it to drop the new endpoint.
using ReplaceMetrics = std::function<void()>;
using MoveMetrics =
    std::function<Expected<ReplaceMetrics>(const configuration::MetricsConfig& wanted)>;

class ReloadChange {
 public:
  /// The objects that a change reads and changes. All of them outlive the change.
  struct Site {
    Adapter& adapter;
    Server& server;
    KernelGuards& guards;
    FormerAddresses& former;
    const MoveMetrics& move_metrics;
  };

  /// Drafts a change; nothing changes yet. `wanted` outlives the change. Error: all rows of tenants
  /// are taken.
  static Expected<std::unique_ptr<ReloadChange>> draft(const Site& site,
                                                       const configuration::Config& wanted);
  ReloadChange(const ReloadChange&) = delete;
  ReloadChange& operator=(const ReloadChange&) = delete;

  /// Returns the steps that can fail, in their order: first those outside of the engine (metrics
  /// endpoint, ports, sockets, device trees), then the allocations, finally the engine. Apply each
  /// step at most once. The steps must not outlive the change.
  std::vector<Step> steps();

  // The outcome, after all steps. The caller does the part that cannot fail.

  const TenantAllocationChange& allocations() const { return allocations_; }
  /// Returns the tenants that were not in force before: new ones, and those that were leaving.
  const std::vector<engine::Tenant*>& opened() const { return opened_; }
  /// Switches the device trees and the metrics endpoint over.
  void finish();

 private:
  ReloadChange(const Site& site, const configuration::Config& wanted)
      : site_(site), wanted_(wanted) {}

  // change.cpp
  Outcome draft_tenant(const configuration::TenantConfig& entry);
  Expected<engine::Tenant*> add_tenant(const configuration::TenantConfig& entry);
  void draft_levels(engine::Tenant& tenant, const configuration::TenantConfig& entry);
  engine::Level& level_of(const engine::Tenant& tenant,
                          const configuration::LevelConfig& entry) const;

  // change_steps.cpp
  void add_metrics_step(std::vector<Step>& steps);
  void add_port_steps(std::vector<Step>& steps);
  bool is_guarded(const configuration::PortConfig& before, const Gid& address) const;
  void add_peer_step(std::vector<Step>& steps);
  void add_tenant_steps(const TenantAllocationChange::Row& row, std::vector<Step>& steps);
  void add_address_step(const TenantAllocationChange::Row& row, std::vector<Step>& steps);
  void add_request_socket_step(const TenantAllocationChange::Row& row, std::vector<Step>& steps);
  void add_level_step(const TenantAllocationChange::Row& row,
                      const configuration::LevelConfig& entry, std::vector<Step>& steps);
  Step open_tenant_step(const TenantAllocationChange::Row& row);
  void add_allocation_steps(std::vector<Step>& steps);
  bool is_added(const engine::Tenant& tenant) const;
  Outcome check_datagrams() const;
  Outcome change_engine();
  std::vector<engine::PortChange> port_changes() const;
  void change_members();

  Site site_;
  const configuration::Config& wanted_;
  /// New tenants, until the adapter owns them.
  std::vector<std::unique_ptr<engine::Tenant>> added_;
  std::vector<engine::Tenant*> opened_;
  TenantAllocationChange allocations_;
  engine::Provisioners provisioners_;
  // Results of the steps.
  ReplaceMetrics replace_metrics_;
  KernelGuards guards_;  ///< of new addresses, until they are in force
  std::vector<std::pair<engine::Tenant*, AddressUpdate>> updates_;
  std::optional<std::unique_ptr<engine::PeerTable>> peers_;  ///< nothing: they stay
};

/// Returns the settings of a level in force. Null: it has none.
const configuration::LevelConfig* level_in_force(const configuration::Config& config,
                                                 const engine::Tenant& tenant,
                                                 const std::string& level);

}  // namespace softhca::control
