// Putting the allocations of a configuration into force: at the start, and while the engine runs,
// between two of its poll steps. What shrinks goes before what grows, so that the order of tenants
// makes no difference. What is in use beyond a smaller guarantee stays until it is given back
// (draining).
//
// A change is made as a whole or not at all: a snapshot of everything that can refuse a part of it
// is kept, and put back when something does; what moves queue pairs or cannot be taken back comes
// after all that may fail.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "daemon/base/expected.hpp"
#include "daemon/engine/engine.hpp"
#include "daemon/resource/config.hpp"

namespace softhca::control {

/// What is to change, for all tenants. Levels are known by their names.
struct AllotmentChange {
  struct Row {
    engine::Tenant* tenant = nullptr;
    const resource::TenantConfig* to = nullptr;
  };
  struct NewLevel {
    engine::Tenant* tenant = nullptr;
    std::unique_ptr<engine::Level> level;  ///< with its name; gets number and group
    engine::Level* made = nullptr;         ///< the same, its tenant's now
  };
  struct OldLevel {
    engine::Tenant* tenant = nullptr;
    engine::Level* level = nullptr;
    bool in_use = false;  ///< it has sessions: it keeps what it has until release_level()
  };
  std::vector<Row> there;              ///< those that stay, or come back
  std::vector<Row> added;              ///< they have id, name and addresses
  std::vector<engine::Tenant*> gone;   ///< without sessions
  std::vector<NewLevel> new_levels;    ///< of those that are there or added
  std::vector<OldLevel> gone_levels;   ///< of those that are there
  std::vector<engine::Tenant*> whole;  ///< have sessions that are of no level
  std::optional<std::uint32_t> dedicated_pcbs;

  // Outcome.
  std::vector<engine::Tenant*> released;
  std::vector<std::unique_ptr<engine::Level>> released_levels;
};

/// Rows that the tenants have in the engine's tables. Call all but the figures in a task of the
/// engine's thread, or before it runs.
class Allotments {
 public:
  explicit Allotments(engine::Engine& engine) : engine_(engine) {}
  /// Takes over a tenant that has its allocation already.
  void adopt(const engine::Tenant& tenant);

  /// Makes the whole change, gives the added tenants to the engine and takes the released ones from
  /// it; after an error nothing has changed. Afterwards new levels belong to their tenants, and
  /// released ones no longer do. REQUIRES: Adapter::tenants_changing is held, when there are other
  /// threads.
  Outcome change(AllotmentChange& change);

  /// Takes back everything that a tenant without sessions has. False: some of it is still in use.
  bool release(engine::Tenant& tenant);
  /// Takes back everything that a level without sessions has, and removes the level from its
  /// tenant. Null: some of it is still in use.
  std::unique_ptr<engine::Level> remove_level(engine::Tenant& tenant, engine::Level& level);
  /// Takes back the dedicated TVL, and its part of the dedicated PCBs, from a tenant with levels
  /// that has no sessions outside of them.
  void release_whole(engine::Tenant& tenant);
  /// Takes back TVLs that were removed from tenants and are not in use any more.
  void collect_closed();

  /// TVLs that were removed and still carry commands.
  std::uint64_t closing() const { return closing_.size(); }
  /// True: there is something for release_whole() to take.
  bool has_whole(const engine::Tenant& tenant) const {
    const auto found = parts_.find(tenant.qos_class);
    return found != parts_.end() && !found->second.dedicated.empty();
  }
  /// TVLs for commands that a class has.
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
  void restore(const Snapshot& snapshot, AllotmentChange& change);
  Outcome make(AllotmentChange& change);
  void settle(AllotmentChange& change);
  void set_rates(engine::Tenant& tenant, const resource::TenantConfig& to);
  void set_minimums(const engine::Tenant& tenant, const resource::TenantConfig& to);

  Outcome shrink(engine::Tenant& tenant, const resource::TenantConfig& to);
  Outcome shrink_part(engine::Tenant& tenant, const resource::TenantConfig& to,
                      const engine::Level* level);
  Outcome add_levels(AllotmentChange& change);
  Outcome grow(engine::Tenant& tenant, const resource::TenantConfig& to);
  Outcome grow_level(engine::Level& level, const resource::LevelConfig& to);
  Outcome grow_part(engine::Tenant& tenant, const resource::TenantConfig& to,
                    const engine::Level* level);
  Outcome set_dedicated(const engine::Tenant& tenant, const resource::TenantConfig& to,
                        const engine::Level* level);
  bool release_part(QosClassId qos_class);
  bool release_level(const engine::Level& level);
  bool is_idle(QosClassId group) const;

  engine::Engine& engine_;
  Parts parts_;
  std::vector<TvlId> closing_;
  // Closed by the change that is being made.
  std::vector<TvlId> closed_;
  std::vector<std::pair<engine::Tenant*, engine::Level*>> released_levels_;
};

}  // namespace softhca::control
