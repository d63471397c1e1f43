// Configuration reload and live changes of allocations (mechanisms A6, A8): the new configuration
// is checked as a whole, compared with the one in force, and put into force as one change while
// traffic runs, or not at all. Lives on the control thread.
//
// A tenant or level that is removed takes no new sessions; those it has go on with what it has
// until their programs end or the drain timeout is over; then all of it is given back.
//
// Files: reload.cpp (reloads, checks), reload_requests.cpp (requests to the resource manager),
// reload_own.cpp (what tenants divide themselves), reload_tenants.cpp (tenants on demand),
// reload_commit.cpp (what cannot fail, after the steps of a ReloadChange, which can),
// reload_leave.cpp (each second: what goes away slowly; departures.hpp has tenants and levels),
// reload_methods.cpp and tenant_methods.cpp (the admin socket), own_methods.cpp (the tenants'
// control sockets).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "daemon/control/adapter/adapter.hpp"
#include "daemon/control/adapter/allotments.hpp"
#include "daemon/control/adapter/setup.hpp"
#include "daemon/control/reload/change.hpp"
#include "daemon/control/reload/departures.hpp"
#include "daemon/control/reload/former_addresses.hpp"
#include "daemon/control/reload/layers.hpp"
#include "daemon/control/reload/revisions.hpp"
#include "daemon/control/server/server.hpp"
#include "daemon/resource/expected_shares.hpp"
#include "daemon/resource/reload_plan.hpp"
#include "daemon/resource/resource_manager.hpp"

namespace softhca::control {

/// Why a reload or a request was not made. Nothing has changed.
struct ReloadRefusal {
  enum class Cause : std::uint8_t {
    kBadFile,  ///< it cannot be read or has mistakes: one line each
    kNotLive,  ///< it changes what cannot change while the daemon runs: one line each
    kNotFree,  ///< there is no room; `allocation` says for what
    kSetup,    ///< sockets, ports or the metrics endpoint could not be made
  };
  Cause cause = Cause::kSetup;
  std::vector<std::string> lines;  ///< fit for the operator
  resource::AllocationRefusal allocation;
};

/// Of a request that the resource manager does not accept.
inline ReloadRefusal refusal_of(resource::AllocationRefusal refusal) {
  return {ReloadRefusal::Cause::kNotFree, {refusal.message}, refusal};
}

/// What was done, or why nothing was.
struct ReloadResult {
  resource::ReloadPlan plan;
  std::optional<ReloadRefusal> refusal;
  std::vector<std::string> kept;  ///< sections whose old values stay, and why

  explicit operator bool() const { return !refusal; }
};

/// What a request would do.
struct PlannedRequest {
  ReloadResult result;
  std::vector<resource::ExpectedShare> before, after;  ///< of the same tenants; empty: refused
};

class Reloader {
 public:
  /// `file`: the configuration; empty: the built-in one. `layers`: what lies over it; none:
  /// nothing, and nothing can be saved. REQUIRES: the adapter has its tenants and allocations; the
  /// worker is not started yet.
  Reloader(Adapter& adapter, Server& server, KernelGuards guards, std::string file,
           MoveMetrics move_metrics, std::optional<Layers> layers = std::nullopt);

  /// What reload() would do now.
  ReloadResult plan() const;
  /// Reads the file again and puts it into force, logs what changes or why nothing does, and tells
  /// the service manager.
  ReloadResult reload(const Actor& by = {});
  /// Puts a configuration into force, and nothing over it.
  ReloadResult put_into_force(const resource::Config& wanted);
  /// A request to the resource manager (A6). In force until the next reload, or, if it is saved,
  /// after reloads and restarts as well.
  ReloadResult change(std::span<const resource::AllocationChange> changes, const Actor& by = {},
                      bool save = false);
  /// Forgets saved requests, by their numbers; none: all. What is in force stays until the next
  /// reload.
  ReloadResult drop_saved(std::span<const std::uint64_t> numbers);
  const Layers& layers() const { return layers_; }

  /// Makes a tenant of a template of the configuration. In force until it is removed or the daemon
  /// ends; `save`: after restarts, too.
  ReloadResult create_tenant(const resource::TenantRequest& request, const Actor& by, bool save);
  /// Removes a tenant that was made on demand, also of what is saved. It drains as by a reload;
  /// `end`: its connections are closed now, also those of one that drains already.
  ReloadResult remove_tenant(const std::string& name, bool end, const Actor& by);
  /// Connections of a tenant that was removed and has not gone yet; none: there is no such tenant.
  std::optional<std::uint64_t> draining(const std::string& tenant) const {
    return departures_.draining(tenant);
  }
  /// By which programs reach a tenant. REQUIRES: it is in force.
  std::string socket_of(const std::string& tenant) const;

  /// A request of a tenant for its own levels (A7), within what the operator has given it. In force
  /// as long as it fits; a restart ends it.
  ReloadResult change_own(const engine::Tenant& tenant,
                          std::span<const resource::AllocationChange> changes,
                          const Actor& by = {});

  /// A tenant makes levels, removes them and says what belongs to them, within what the operator
  /// has given it. In force as change_own(). `cause`: for the revision.
  ReloadResult divide(const engine::Tenant& tenant, const resource::DivisionEdit& edit,
                      const char* cause, const Actor& by = {});
  /// A tenant names a level anew that it has made. Its programs stay in it.
  ReloadResult rename_own_level(const engine::Tenant& tenant, const std::string& from,
                                const std::string& to, const Actor& by = {});

  /// What change() and change_own() would do now, the latter for its tenant alone. Whatever can be
  /// told without trying is checked.
  PlannedRequest plan_change(std::span<const resource::AllocationChange> changes) const;
  PlannedRequest plan_own_change(const engine::Tenant& tenant,
                                 std::span<const resource::AllocationChange> changes) const;

  /// Tenants as revision `number` left them, with all that is said of them; the rest of the
  /// configuration stays as it is. In force until the next reload.
  ReloadResult rollback(std::uint64_t number, const Actor& by);
  const Revisions& revisions() const { return revisions_; }
  /// What is in force and not in the file as it is now. Errors: as for a reload.
  ReloadResult differences() const;

  /// About once a second: takes away tenants and levels that have drained, or whose time to do so
  /// is over.
  void tick();

 private:
  resource::AllocationResult with_own_changes(
      const engine::Tenant& tenant, std::span<const resource::AllocationChange> changes) const;
  std::optional<ReloadRefusal> find_own_level(
      std::span<const resource::AllocationChange> changes) const;
  void set_given(const std::vector<resource::AllocationChange>& changes);
  PlannedRequest plan_request(const resource::AllocationResult& wanted) const;
  ReloadResult put(const resource::Config& wanted);
  void look_up_members();
  ReloadResult put_over(const resource::Config& file);
  ReloadResult put_changes(const resource::AllocationResult& wanted, const Actor& by);
  resource::Overlaid lay_over(const resource::Config& file) const;
  void report(const resource::Overlaid& laid);
  ReloadResult take_away(const std::string& name);
  void record(const char* cause, const Actor& by, const ReloadResult& result);
  std::optional<ReloadRefusal> check(const resource::Config& wanted,
                                     const resource::ReloadPlan& plan) const;

  ReloadChange::Site site() {
    return {adapter_, server_, allotments_, guards_, former_, move_metrics_};
  }
  /// Returns the sections that stay as they were after all, and why.
  std::vector<std::string> commit(const resource::Config& wanted, ReloadChange& made);
  void change_accounts(const resource::Config& wanted);
  void forget_addresses();

  Adapter& adapter_;
  Server& server_;
  KernelGuards guards_;
  std::string file_;
  MoveMetrics move_metrics_;
  Allotments allotments_;
  FormerAddresses former_;
  Departures departures_;
  resource::Config given_;  ///< in force, except for what tenants have changed of their own
  Layers layers_;
  Revisions revisions_;
};

/// Why `laid` cannot be put into force by a reload: it leaves out a tenant on demand whose programs
/// run. `layers`: what is in force.
std::optional<ReloadRefusal> check_on_demand(const Layers& layers, const resource::Overlaid& laid);

/// The methods of the admin socket: `set`, `reload` and `reload.plan`.
void add_reload_methods(AdminMethods& methods, Reloader& reloader);
/// `tenant.create` and `tenant.remove`.
void add_tenant_methods(AdminMethods& methods, Reloader& reloader);
/// `revisions`, `diff`, `rollback` and `saved.drop`.
void add_revision_methods(AdminMethods& methods, Reloader& reloader);
/// `set` and what is done with levels, for the socket of a tenant.
void add_own_methods(AdminMethods& methods, Reloader& reloader, const engine::Tenant& tenant);

}  // namespace softhca::control
