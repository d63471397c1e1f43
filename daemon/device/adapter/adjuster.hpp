// SPDX-License-Identifier: Apache-2.0

// Automatic adjustment of guarantees (mechanism A10). Once a second, the engine lends the idle
// guarantees of tenants, and brings back those that tenants have recalled. Runs on the control
// thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "daemon/device/adapter/adapter.hpp"

namespace softhca::control {

/// The amounts currently lent from the guarantees of a tenant, its levels and its TVLs.
struct Lent {
  std::uint64_t pcbs = 0;
  std::uint64_t execution_credits = 0;
  std::uint64_t completion_credits = 0;

  bool operator==(const Lent&) const = default;
  bool any() const { return *this != Lent{}; }
};
Lent lent_by(const engine::EngineView& engine, const engine::Tenant& tenant);

class Adjuster {
 public:
  explicit Adjuster(Adapter& adapter) : adapter_(adapter) {}

  /// Adjusts the guarantees; called about once a second. Does nothing while adjustment is off and
  /// nothing is lent.
  void tick();

 private:
  bool is_needed() const;
  void tell();

  Adapter& adapter_;
  std::map<std::string, Lent> told_;  ///< last reported, by tenant
};

}  // namespace softhca::control
