// Resource manager (mechanisms A6, A8): requests to change allocations while the daemon runs. A
// request is a list of changes, all or none of which are made; it is checked as a whole against
// the configuration in force, so that the order of its changes makes no difference: what one gives
// back another may take. Pure: the outcome is the configuration to put into force.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/expected.hpp"
#include "daemon/resource/allocation.hpp"
#include "daemon/resource/config.hpp"

namespace softhca::resource {

struct AllocationChange {
  std::string tenant;
  Allocation allocation = Allocation::kVcbs;
  std::uint64_t amount = 0;  ///< the new total, not what is added
  /// Counted from 0, within the level if there is one; none: every TVL.
  std::optional<std::uint32_t> tvl = {};
  std::string level = {};  ///< empty: of the tenant as a whole
};

/// Why a request is refused.
struct AllocationRefusal {
  enum class Cause : std::uint8_t {
    kNoSuchThing,  ///< tenant, level or TVL
    kNotAllowed,   ///< a tenant asks for what is not its own to change
    kBadAmount,    ///< beyond what the key may hold, or a tenant that could never send
    kNotFree,      ///< more than is unallocated
  };
  Cause cause = Cause::kNoSuchThing;
  std::string who;          ///< "tenant ocean", "tenant ocean: TVL 3"
  std::string resource;     ///< "pcbs"
  std::uint64_t asked = 0;  ///< kNotFree: more than what it has
  std::uint64_t free = 0;   ///< kNotFree: unallocated, with what the request itself gives back
  std::string message;      ///< of all this
};

/// What levels that were removed, and whose programs still run, hold of a tenant's allocation.
struct HeldPart {
  std::string tenant;
  std::uint64_t vcbs = 0;
  std::uint64_t pcbs = 0;
  std::uint64_t levels = 0;  ///< their number
};

/// What tenants and levels that were removed, and whose programs still run, hold of tables and
/// pools; and what programs hold that ran before their tenant had levels.
struct Held {
  std::uint64_t tenants = 0;
  std::uint64_t vcbs = 0;
  std::uint64_t pcbs = 0;
  std::uint64_t tvls = 0;
  std::uint64_t execution_credits = 0;
  std::uint64_t completion_credits = 0;
  std::uint64_t levels = 0;
  std::uint64_t min_bytes_per_second = 0;
  std::uint64_t dedicated_pcbs = 0;  ///< at the least: one for each level, or for the tenant
  std::vector<HeldPart> parts;
};

class AllocationResult {
 public:
  AllocationResult(Config config) : config_(std::move(config)) {}                // NOLINT: implicit
  AllocationResult(AllocationRefusal refusal) : refusal_(std::move(refusal)) {}  // NOLINT: implicit
  explicit operator bool() const { return config_.has_value(); }
  const Config& operator*() const { return *config_; }
  const AllocationRefusal& refusal() const { return refusal_; }

 private:
  std::optional<Config> config_;
  AllocationRefusal refusal_;
};

/// `in_force` with the changes made. TVLs that are added are like the tenant's last, without
/// guaranteed credits. When the total of a tenant shrinks below what its levels divide, they give
/// as A8 says.
AllocationResult with_changes(const Config& in_force, std::span<const AllocationChange> changes,
                              const Held& held = {});

/// As with_changes(), of `base` in place of what is in force, which shows whose allocations grow.
AllocationResult with_changes(const Config& base, const Config& in_force,
                              std::span<const AllocationChange> changes, const Held& held);

/// Is there room for all of `wanted` besides what is held? `in_force` shows whose allocations grow.
/// Nothing: there is room.
std::optional<AllocationRefusal> check_room(const Config& in_force, const Config& wanted,
                                            const Held& held);

/// A tenant that could never send, and other mistakes that the configuration file is checked for as
/// well.
std::optional<AllocationRefusal> find_mistake(const TenantConfig& tenant);

/// What a tenant has of tables and pools.
Held held_by(const TenantConfig& tenant);
Held& operator+=(Held& sum, const Held& more);

}  // namespace softhca::resource
