// SPDX-License-Identifier: Apache-2.0

// Configuration reload and live changes of allocations (mechanisms A6, A8). The new configuration
// is checked as a whole and compared with the one in force. It comes into force as one change while
// traffic runs, or not at all. Runs on the control thread.
//
// A removed tenant or level takes no new sessions. Its sessions keep their resources until their
// programs end or the drain timeout is over. Then the resources return to the pools.
//
// Files: reload.cpp has reloads and checks. reload_requests.cpp has requests to the resource
// manager. reload_sub_allocation.cpp has tenants' sub-allocations. reload_tenants.cpp has tenants
// on demand. reload_commit.cpp has the part that cannot fail, after the steps of a ReloadChange,
// which can. reload_keep.cpp has the state for the next adapter. reload_leave.cpp has the slow
// part, run each second; departures.hpp has the part of it for tenants and levels.
// reload_methods.cpp and tenant_methods.cpp have methods of the admin socket,
// sub_allocation_methods.cpp those of the tenants' control sockets.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "daemon/configuration/config_loader.hpp"
#include "daemon/configuration/resource_manager/expected_shares.hpp"
#include "daemon/configuration/resource_manager/reload_plan.hpp"
#include "daemon/configuration/resource_manager/resource_manager.hpp"
#include "daemon/device/adapter/adapter.hpp"
#include "daemon/device/adapter/setup.hpp"
#include "daemon/operate/reload/change.hpp"
#include "daemon/operate/reload/departures.hpp"
#include "daemon/operate/reload/former_addresses.hpp"
#include "daemon/operate/reload/layers.hpp"
#include "daemon/operate/reload/reload_state.hpp"
#include "daemon/operate/reload/revisions.hpp"

namespace softhca::control {

class AdminMethods;
class Server;

/// The reason for which a reload or a request was refused. Nothing has changed.
struct ReloadRefusal {
  enum class Cause : std::uint8_t {
    kBadFile,  ///< the file cannot be read or has mistakes: one line each
    kNotLive,  ///< it changes settings that cannot change while the daemon runs: one line each
    kNotFree,  ///< not enough is free; `allocation` says of which resource
    kSetup,    ///< sockets, ports or the metrics endpoint could not be made
  };
  Cause cause = Cause::kSetup;
  std::vector<std::string> lines;  ///< for the operator
  configuration::AllocationRefusal allocation;
};

/// Returns the refusal of a request that the resource manager does not accept.
inline ReloadRefusal refusal_of(configuration::AllocationRefusal refusal) {
  return {ReloadRefusal::Cause::kNotFree, {refusal.message}, refusal};
}

/// The changes that were made, or the reason for which none was.
struct ReloadResult {
  configuration::ReloadPlan plan;
  std::optional<ReloadRefusal> refusal;
  std::vector<std::string> kept;  ///< sections that keep their old values, and why

  explicit operator bool() const { return !refusal; }
};

/// The expected result of a request.
struct PlannedRequest {
  ReloadResult result;
  std::vector<configuration::ExpectedShare> before, after;  ///< of the same tenants; empty: refused
};

class Reloader {
 public:
  /// `loader`: loads the file. `layers`: the layers over it. Without them, nothing lies over the
  /// file, and nothing can be saved. `earlier`: the state of an earlier adapter. With it, the
  /// configuration in force is with_leavers(), and the layers are those of the state; call resume()
  /// then. REQUIRES: the adapter has its tenants and allocations, and the worker has not started.
  Reloader(Adapter& adapter, Server& server, KernelGuards guards,
           configuration::ConfigLoader loader, MoveMetrics move_metrics,
           std::optional<Layers> layers = std::nullopt,
           std::optional<ReloadState> earlier = std::nullopt);
  /// Has those leave again that were leaving, and keeps the state from now on. Call it when the
  /// connections of the earlier adapter are restored.
  void resume();

  /// Returns what reload() would do now.
  ReloadResult plan() const;
  /// Reads the file again and puts it into force. Logs the changes, or the reason for a refusal,
  /// and notifies the service manager.
  ReloadResult reload(const Actor& by = {});
  /// Puts a configuration into force, without layers over it.
  ReloadResult put_into_force(const configuration::Config& wanted);
  /// Makes a request to the resource manager (A6). The change is in force until the next reload. If
  /// it is saved, it stays in force after reloads and restarts.
  ReloadResult change(std::span<const configuration::AllocationChange> changes,
                      const Actor& by = {}, bool save = false);
  /// Drops saved requests by their numbers; without numbers, all. Changes in force stay until the
  /// next reload.
  ReloadResult drop_saved(std::span<const std::uint64_t> numbers);
  const Layers& layers() const { return layers_; }

  /// Makes a tenant from a template of the configuration. The tenant is in force until it is
  /// removed or the daemon ends; with `save`, also after restarts.
  ReloadResult create_tenant(const configuration::TenantRequest& request, const Actor& by,
                             bool save);
  /// Removes a tenant that was made on demand, also from the saved tenants. It drains as after a
  /// reload. `end`: closes its connections now, also if the tenant drains already.
  ReloadResult remove_tenant(const std::string& name, bool end, const Actor& by);
  /// Returns the connections of a removed tenant that still drains. Nothing: none of this name
  /// does.
  std::optional<std::uint64_t> draining(const std::string& tenant) const {
    return departures_.draining(tenant);
  }
  /// Returns the number of tenants that still drain.
  std::size_t draining() const { return departures_.tenants().size(); }
  /// Returns the socket by which programs reach a tenant. REQUIRES: the tenant is in force.
  std::string socket_of(const std::string& tenant) const;

  /// Makes a request of a tenant for its own levels (A7), within the allocation from the operator.
  /// The change is in force as long as it fits. A restart ends it.
  ReloadResult change_own(const engine::Tenant& tenant,
                          std::span<const configuration::AllocationChange> changes,
                          const Actor& by = {});

  /// Makes, removes or changes levels for their tenant, within the allocation from the operator.
  /// The change is in force as that of change_own(). `cause`: for the revision.
  ReloadResult divide(const engine::Tenant& tenant, const configuration::DivisionEdit& edit,
                      const char* cause, const Actor& by = {});
  /// Renames a level that the tenant has made. Its programs stay in it.
  ReloadResult rename_own_level(const engine::Tenant& tenant, const std::string& from,
                                const std::string& to, const Actor& by = {});

  /// Return what change() and change_own() would do now, the latter for its tenant only. They check
  /// everything that can be checked without making the change.
  PlannedRequest plan_change(std::span<const configuration::AllocationChange> changes) const;
  PlannedRequest plan_own_change(const engine::Tenant& tenant,
                                 std::span<const configuration::AllocationChange> changes) const;

  /// Restores the tenants of revision `number`, with all their settings. The rest of the
  /// configuration stays. The change is in force until the next reload.
  ReloadResult rollback(std::uint64_t number, const Actor& by);
  const Revisions& revisions() const { return revisions_; }
  /// Returns the differences from the file to the configuration in force. Errors: as for a reload.
  ReloadResult differences() const;

  /// Removes tenants and levels that have drained, or have exceeded their time to drain. Call it
  /// about once a second.
  void tick();

 private:
  configuration::AllocationResult with_own_changes(
      const engine::Tenant& tenant, std::span<const configuration::AllocationChange> changes) const;
  std::optional<ReloadRefusal> find_own_level(
      std::span<const configuration::AllocationChange> changes) const;
  configuration::Overlaid laid_now() const;
  PlannedRequest plan_request(const configuration::AllocationResult& wanted) const;
  ReloadResult put(const configuration::Config& wanted);
  void look_up_members();
  ReloadResult put_over(const configuration::Config& file);
  ReloadResult put_changes(const configuration::AllocationResult& wanted, const Actor& by);
  configuration::Overlaid lay_over(const configuration::Config& file) const;
  void report(const configuration::Overlaid& laid);
  void report_undivided(const configuration::Overlaid& laid);
  ReloadResult take_away(const std::string& name);
  void record(const char* cause, const Actor& by, const ReloadResult& result);
  std::optional<ReloadRefusal> check(const configuration::Config& wanted,
                                     const configuration::ReloadPlan& plan) const;

  ReloadChange::Site site() { return {adapter_, server_, guards_, former_, move_metrics_}; }
  /// Makes the part of a change that cannot fail. Returns the sections that keep their old values
  /// nevertheless, and why.
  std::vector<std::string> commit(const configuration::Config& wanted, ReloadChange& made);
  void change_accounts(const configuration::Config& wanted);
  void forget_addresses();

  Adapter& adapter_;
  Server& server_;
  KernelGuards guards_;
  configuration::ConfigLoader loader_;
  MoveMetrics move_metrics_;
  FormerAddresses former_;
  Departures departures_;
  configuration::Config given_;  ///< in force, except for tenants' own changes
  Layers layers_;
  Revisions revisions_;
  std::optional<ReloadState> earlier_;  ///< until resume()
  KeptDescriptor kept_;                 ///< the state
};

/// Returns the reason for which a reload cannot put `laid` into force: it leaves out a tenant on
/// demand that is in force. `layers`: the layers in force.
std::optional<ReloadRefusal> check_on_demand(const Layers& layers,
                                             const configuration::Overlaid& laid);

/// Adds the methods `set`, `reload` and `reload.plan` of the admin socket.
void add_reload_methods(AdminMethods& methods, Reloader& reloader);
/// Adds `tenant.create` and `tenant.remove`.
void add_tenant_methods(AdminMethods& methods, Reloader& reloader);
/// Adds `revisions`, `diff`, `rollback` and `saved.drop`.
void add_revision_methods(AdminMethods& methods, Reloader& reloader);
/// Adds `set` and the methods for levels, for the control socket of a tenant.
void add_sub_allocation_methods(AdminMethods& methods, Reloader& reloader,
                                const engine::Tenant& tenant);

}  // namespace softhca::control
