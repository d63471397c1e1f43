// A configuration that is to come into force on a running adapter: what follows from it, and the
// steps that put it into force, all of them or none.
//
// The files: change.cpp (draft, outcome), change_steps.cpp (the steps).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "daemon/control/adapter/adapter.hpp"
#include "daemon/control/adapter/allotments.hpp"
#include "daemon/control/adapter/setup.hpp"
#include "daemon/control/reload/former_addresses.hpp"
#include "daemon/control/reload/steps.hpp"
#include "daemon/control/server/server.hpp"

namespace softhca::control {

/// Starts a metrics endpoint at another address. What it returns is called to replace the endpoint
/// in use, or destroyed to give the new one up.
using ReplaceMetrics = std::function<void()>;
using MoveMetrics = std::function<Expected<ReplaceMetrics>(const resource::MetricsConfig& wanted)>;

class ReloadChange {
 public:
  /// What a change is made of and acts on; all of it outlives the change.
  struct Site {
    Adapter& adapter;
    Server& server;
    Allotments& allotments;
    KernelGuards& guards;
    FormerAddresses& former;
    const MoveMetrics& move_metrics;
  };

  /// Nothing changes yet. `wanted` outlives the change. Errors: no row for a tenant.
  static Expected<std::unique_ptr<ReloadChange>> draft(const Site& site,
                                                       const resource::Config& wanted);
  ReloadChange(const ReloadChange&) = delete;
  ReloadChange& operator=(const ReloadChange&) = delete;

  /// What can fail, in order: first what is outside of the engine (metrics endpoint, ports,
  /// sockets, device trees), then the allocations, finally the engine. Each step is to be applied
  /// at most once; they must not outlive the change.
  std::vector<Step> steps();

  // The outcome, once all steps are made. The caller does the part that cannot fail.

  const AllotmentChange& allotments() const { return allotments_; }
  /// Tenants that were not in force before: added, or leaving until now.
  const std::vector<engine::Tenant*>& opened() const { return opened_; }
  /// Device trees and metrics endpoints change over.
  void finish();

 private:
  ReloadChange(const Site& site, const resource::Config& wanted) : site_(site), wanted_(wanted) {}

  // change.cpp
  Outcome draft_tenant(const resource::TenantConfig& entry);
  Expected<engine::Tenant*> add_tenant(const resource::TenantConfig& entry);
  void draft_levels(engine::Tenant& tenant, const resource::TenantConfig& entry);
  engine::Level& level_of(const engine::Tenant& tenant, const resource::LevelConfig& entry) const;

  // change_steps.cpp
  void add_metrics_step(std::vector<Step>& steps);
  void add_port_steps(std::vector<Step>& steps);
  void add_peer_step(std::vector<Step>& steps);
  void add_tenant_steps(const AllotmentChange::Row& row, std::vector<Step>& steps);
  void add_address_step(const AllotmentChange::Row& row, std::vector<Step>& steps);
  void add_request_socket_step(const AllotmentChange::Row& row, std::vector<Step>& steps);
  void add_level_step(const AllotmentChange::Row& row, const resource::LevelConfig& entry,
                      std::vector<Step>& steps);
  Step open_tenant_step(const AllotmentChange::Row& row);
  void add_allocation_steps(std::vector<Step>& steps);
  bool is_added(const engine::Tenant& tenant) const;
  Outcome check_datagrams() const;
  Outcome change_engine();
  void change_members();
  void adjust_engine(engine::Engine& engine);
  void change_ports(engine::Engine& engine);

  Site site_;
  const resource::Config& wanted_;
  std::vector<std::unique_ptr<engine::Tenant>> added_;  ///< until the adapter has them
  std::vector<engine::Tenant*> opened_;
  AllotmentChange allotments_;
  engine::Provisioners provisioners_;
  // Made by steps.
  ReplaceMetrics replace_metrics_;
  KernelGuards guards_;  ///< of addresses that come, until they are in force
  std::vector<std::pair<engine::Tenant*, AddressUpdate>> updates_;
  std::unique_ptr<engine::PeerTable> peers_;  ///< to come into force, then the former ones
};

/// What is configured for a level in force; null: nothing is.
const resource::LevelConfig* level_in_force(const resource::Config& config,
                                            const engine::Tenant& tenant, const std::string& level);

}  // namespace softhca::control
