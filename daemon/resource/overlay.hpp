// What lies over the configuration file: changes that the operator has saved, and how tenants have
// divided what they have. Pure: the outcome is the configuration to put into force.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/resource/resource_manager.hpp"

namespace softhca::resource {

/// A request that was saved. Its changes are made together or not at all.
struct SavedRequest {
  std::uint64_t number = 0;
  std::vector<AllocationChange> changes;
};

/// By tenant: what it has changed of its own, in order.
using OwnChanges =
    std::map<std::string, std::shared_ptr<const std::vector<AllocationChange>>, std::less<>>;

/// Replaces those of the changes that say the same of the same with `later`.
void supersede(std::vector<AllocationChange>& changes, const AllocationChange& later);
/// Takes out what `later` says anew, and requests of which nothing is left.
void supersede(std::vector<SavedRequest>& saved, const std::vector<AllocationChange>& later);

struct Overlaid {
  Config given;     ///< the file and what was saved
  Config in_force;  ///< that, with the changes of tenants' own
  /// Numbers of the saved requests that do not fit, and why.
  std::map<std::uint64_t, AllocationRefusal> left_out;
  /// Tenants whose own changes do not fit any more, and why.
  std::map<std::string, AllocationRefusal> undivided;
};

/// Saved requests are made one after the other. One that does not fit is tried again after the
/// others, as they may give back what it takes; or else all are tried at once. What still does not
/// fit is left out. Then each tenant's own changes are made, all of them or none.
Overlaid lay_over(const Config& file, const std::vector<SavedRequest>& saved, const OwnChanges& own,
                  const Held& held = {});

}  // namespace softhca::resource
