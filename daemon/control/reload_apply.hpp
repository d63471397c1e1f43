// Putting the allocations of a configuration into force while the engine runs: between two of its
// poll steps, what shrinks before what grows, so that the order of tenants makes no difference.
// What is in use beyond a smaller guarantee stays until it is given back (draining).
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "daemon/control/adapter.hpp"
#include "daemon/resource/resource_manager.hpp"

namespace softhca::control {

/// Rows that the tenants have in the engine's tables. All but the constructor and the figures:
/// in a task of the engine's thread, or before it runs.
class Allotments {
 public:
  /// Of the tenants there are.
  explicit Allotments(Adapter& adapter);

  /// First of all: TVLs that go, guarantees that shrink.
  Outcome shrink(engine::Tenant& tenant, const resource::TenantConfig& to);
  /// Then all else. REQUIRES: shrink(), and resource::check_room() found room.
  Outcome grow(engine::Tenant& tenant, const resource::TenantConfig& to);
  /// Of a new tenant. REQUIRES: as grow().
  Outcome add(engine::Tenant& tenant, const resource::TenantConfig& entry);
  /// Takes all that a tenant without sessions has. False: some of it is still in use.
  bool release(engine::Tenant& tenant);
  /// Takes back TVLs that were removed from tenants and are not in use any more.
  void collect_closed();

  /// TVLs that were removed and still carry queue pairs.
  std::uint64_t closing() const { return closing_.size(); }

 private:
  Outcome grow_level(engine::Level& level, const resource::LevelConfig& to);
  schedule::TvlConfig lane(const engine::Tenant& tenant, const resource::TenantConfig& settings,
                           std::size_t index) const;
  void find_lanes(const engine::Tenant& tenant);

  Adapter& adapter_;
  std::map<const engine::Tenant*, std::vector<TvlId>> lanes_;  ///< of commands, in their order
  std::vector<TvlId> closing_;
};

}  // namespace softhca::control
