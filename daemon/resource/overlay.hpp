// What lies over the configuration file: changes that the operator has saved, and how tenants have
// divided what they have. Pure: the outcome is the configuration to put into force.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/resource/on_demand.hpp"
#include "daemon/resource/own_division.hpp"

namespace softhca::resource {

/// A request that was saved. Its changes are made together or not at all.
struct SavedRequest {
  std::uint64_t number = 0;
  std::vector<AllocationChange> changes;
};

/// By tenant: how it has divided what it has.
using OwnDivisions = std::map<std::string, std::shared_ptr<const OwnDivision>, std::less<>>;

/// Takes out what `later` says anew, and requests of which nothing is left.
void supersede(std::vector<SavedRequest>& saved, const std::vector<AllocationChange>& later);

struct Overlaid {
  Config given;     ///< the file, tenants made on demand and what was saved
  Config in_force;  ///< that, with the changes of tenants' own
  /// Numbers of the saved requests that do not fit, and why.
  std::map<std::uint64_t, AllocationRefusal> left_out;
  /// Tenants made on demand that cannot be, and why.
  std::map<std::string, AllocationRefusal> absent;
  /// Tenants whose own division does not fit any more, and why.
  std::map<std::string, AllocationRefusal> undivided;
  /// Those of them whose own levels and rules are in force all the same, without amounts.
  OwnDivisions without_amounts;
};

/// Tenants made on demand come first, then saved requests, each in their order. What does not fit
/// is tried again after the others, as they may give back what it takes; or else all requests are
/// tried at once. What still does not fit is left out, and so is a tenant without its template, or
/// whose name or address the file has. Then each tenant is divided as it has asked, or else
/// has its own levels without amounts, or else none of it.
Overlaid lay_over(const Config& file, const std::vector<TenantOnDemand>& tenants,
                  const std::vector<SavedRequest>& saved, const OwnDivisions& own,
                  const Held& held = {});

}  // namespace softhca::resource
