// SPDX-License-Identifier: Apache-2.0

// Resource manager (mechanisms A6, A8): requests to change allocations while the daemon runs. A
// request is a list of changes, all or none of which are made. It is checked as a whole against the
// configuration in effect, so the order of its changes makes no difference: one change may use what
// another gives back. The functions are pure: the result is the configuration to put into effect.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/expected.hpp"
#include "daemon/configuration/config.hpp"
#include "daemon/configuration/live_settings.hpp"

namespace softhca::configuration {

struct AllocationChange {
  std::string tenant;
  LiveSetting setting = LiveSetting::kVcbs;
  std::uint64_t amount = 0;  ///< the new total, not the increase
  /// Counted from 0, within the level if there is one; none: every TVL.
  std::optional<std::uint32_t> tvl = {};
  std::string level = {};  ///< empty: the tenant as a whole
};

/// Why a request is refused.
struct AllocationRefusal {
  enum class Cause : std::uint8_t {
    kNoSuchThing,  ///< no such tenant, level or TVL
    kNotAllowed,   ///< the tenant may not change this
    kBadAmount,    ///< outside the key's range, or the tenant could never send
    kNotFree,      ///< more than is free
  };
  Cause cause = Cause::kNoSuchThing;
  std::string who;          ///< "tenant ocean", "tenant ocean: TVL 3"
  std::string resource;     ///< "pcbs"
  std::uint64_t asked = 0;  ///< kNotFree: the increase
  std::uint64_t free = 0;   ///< kNotFree: free, including what the request gives back
  std::string message;      ///< message for the operator
};

/// The part of a tenant's allocation that removed levels still hold because their programs run.
struct HeldPart {
  std::string tenant;
  std::uint64_t vcbs = 0;
  std::uint64_t pcbs = 0;
  std::uint64_t levels = 0;  ///< their number
};

/// The entries of tables and amounts of pools that removed tenants and levels still hold because
/// their programs run. It includes what programs hold that started before their tenant had levels.
struct Held {
  std::uint64_t tenants = 0;
  std::uint64_t vcbs = 0;
  std::uint64_t pcbs = 0;
  std::uint64_t tvls = 0;
  std::uint64_t execution_credits = 0;
  std::uint64_t completion_credits = 0;
  std::uint64_t levels = 0;
  std::uint64_t min_bytes_per_second = 0;
  std::uint64_t dedicated_pcbs = 0;  ///< at least one for each level, or for the tenant
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

/// Returns `in_force` with the changes. A change of a share or a class also changes what follows
/// from it (tenant_amounts.hpp), except amounts that are given (given_amounts.hpp). Amounts of the
/// changes are given from then on. Added TVLs are copies of the tenant's last one, without
/// guaranteed credits that do not follow. If the total of a tenant shrinks below the sum of its
/// levels, they give back as A8 says.
AllocationResult with_changes(const Config& in_force, std::span<const AllocationChange> changes,
                              const Held& held = {});

/// Does the same with `base` instead of `in_force`. `in_force` tells which allocations grow.
AllocationResult with_changes(const Config& base, const Config& in_force,
                              std::span<const AllocationChange> changes, const Held& held);

/// Checks that there is room for all of `wanted` in addition to what is held. `in_force` tells
/// which allocations grow. Nothing: there is room.
std::optional<AllocationRefusal> check_room(const Config& in_force, const Config& wanted,
                                            const Held& held);

/// Returns the error if the tenant could never send, or has another error that the configuration
/// file is checked for as well.
std::optional<AllocationRefusal> find_mistake(const TenantConfig& tenant);

/// Returns the entries of tables and amounts of pools that a tenant has.
Held held_by(const TenantConfig& tenant);
Held& operator+=(Held& sum, const Held& more);

}  // namespace softhca::configuration
