// SPDX-License-Identifier: Apache-2.0

// Puts the allocations of a configuration into force, of PCBs, TVLs and rates (of VCBs:
// vcb_change.hpp): at the start, and between two poll steps of the running engine. Allocations that
// shrink go before those that grow, so the order of tenants does not matter. Resources in use
// beyond a reduced guarantee stay in use until the tenant releases them (draining).
//
// A change is atomic. A snapshot keeps the state of everything that can refuse a part of the
// change, and is restored after a refusal. Steps that move queue pairs, or that cannot be undone,
// come after all steps that may fail.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "daemon/base/expected.hpp"
#include "daemon/configuration/config.hpp"
#include "daemon/engine/records/tenant.hpp"

namespace softhca::engine {

class Engine;

/// A change of the allocations of all tenants. The names of levels identify them.
struct TenantAllocationChange {
  struct Row {
    Tenant* tenant = nullptr;
    const configuration::TenantConfig* to = nullptr;
  };
  struct NewLevel {
    Tenant* tenant = nullptr;
    std::unique_ptr<Level> level;  ///< has its name; change() sets its number and group
    Level* made = nullptr;         ///< the same level, when its tenant owns it
  };
  struct OldLevel {
    Tenant* tenant = nullptr;
    Level* level = nullptr;
    bool in_use = false;  ///< it has sessions: it keeps its resources until release_level()
  };
  std::vector<Row> there;             ///< tenants that stay, or come back
  std::vector<Row> added;             ///< new tenants; they have id, name and addresses
  std::vector<Tenant*> gone;          ///< removed tenants without sessions
  std::vector<NewLevel> new_levels;   ///< levels of tenants in `there` or `added`
  std::vector<OldLevel> gone_levels;  ///< levels of tenants in `there`
  std::vector<Tenant*> whole;         ///< tenants that have sessions without a level
  std::optional<std::uint32_t> dedicated_pcbs;

  // Outcome.
  std::vector<Tenant*> released;
  std::vector<std::unique_ptr<Level>> released_levels;
};

/// The rows of tenants in the engine's tables. Requests call its functions, on the engine's thread.
/// The const functions are exempt.
class TenantAllocations {
 public:
  explicit TenantAllocations(Engine& engine) : engine_(engine) {}

  /// Makes the whole change, adds the new tenants to the engine and removes the released ones from
  /// it. After an error nothing has changed. After success, new levels belong to their tenants, and
  /// released ones no longer do.
  Outcome change(TenantAllocationChange& change);

  /// Takes back all resources of a tenant without sessions. Returns false if some are still in use.
  bool release(Tenant& tenant);
  /// Takes back all resources of a level without sessions, and removes the level from its tenant.
  /// Returns null if some are still in use.
  std::unique_ptr<Level> remove_level(Tenant& tenant, Level& level);
  /// Takes back the tenant's own dedicated TVL and its part of the dedicated PCBs. REQUIRES: the
  /// tenant has levels, and no sessions outside of them.
  void release_whole(Tenant& tenant);
  /// Takes back TVLs that were removed from tenants and are no longer in use.
  void collect_closed();

  /// Returns the number of TVLs that were removed and still carry commands.
  std::uint64_t closing() const { return closing_.size(); }
  /// True if release_whole() would take something back.
  bool has_whole(const Tenant& tenant) const {
    const auto found = parts_.find(tenant.qos_class);
    return found != parts_.end() && !found->second.dedicated.empty();
  }
  /// Returns the TVLs of a class for commands.
  const std::vector<TvlId>& tvls(QosClassId qos_class) const;

 private:
  /// TVLs of a class.
  struct Part {
    std::vector<TvlId> commands;  ///< in their order
    std::vector<TvlId> dedicated;
  };
  using Parts = std::map<QosClassId, Part>;
  struct Snapshot;

  Snapshot snapshot() const;
  void restore(const Snapshot& snapshot, TenantAllocationChange& change);
  Outcome make(TenantAllocationChange& change);
  void settle(TenantAllocationChange& change);
  void set_rates(Tenant& tenant, const configuration::TenantConfig& to);
  void set_minimums(const Tenant& tenant, const configuration::TenantConfig& to);

  Outcome shrink(Tenant& tenant, const configuration::TenantConfig& to);
  Outcome shrink_part(Tenant& tenant, const configuration::TenantConfig& to, const Level* level);
  Outcome add_levels(TenantAllocationChange& change);
  Outcome grow(Tenant& tenant, const configuration::TenantConfig& to);
  Outcome grow_level(Level& level, const configuration::LevelConfig& to);
  Outcome grow_part(Tenant& tenant, const configuration::TenantConfig& to, const Level* level);
  Outcome set_dedicated(const Tenant& tenant, const configuration::TenantConfig& to,
                        const Level* level);
  bool release_part(QosClassId qos_class);
  bool release_level(const Level& level);
  bool is_idle(QosClassId group) const;

  Engine& engine_;
  Parts parts_;
  std::vector<TvlId> closing_;
  // Closed and released by the change that is being made.
  std::vector<TvlId> closed_;
  std::vector<std::pair<Tenant*, Level*>> released_levels_;
};

}  // namespace softhca::engine
