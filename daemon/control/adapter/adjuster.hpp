// Automatic adjustment of guarantees (mechanism A10): once a second the engine lends what tenants
// leave idle and brings back what they have recalled. Lives on the control thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "daemon/control/adapter/adapter.hpp"

namespace softhca::control {

/// What is lent now of the guarantees of a tenant, its levels and its TVLs.
struct Lent {
  std::uint64_t pcbs = 0;
  std::uint64_t execution_credits = 0;
  std::uint64_t completion_credits = 0;

  bool operator==(const Lent&) const = default;
  bool any() const { return *this != Lent{}; }
};
Lent lent_by(const engine::Engine& engine, const engine::Tenant& tenant);

class Adjuster {
 public:
  explicit Adjuster(Adapter& adapter) : adapter_(adapter) {}

  /// About once a second. Does nothing while adjustment is off and nothing is lent.
  void tick();

 private:
  bool is_needed() const;
  void tell();

  Adapter& adapter_;
  std::map<std::string, Lent> told_;  ///< by tenant: as last reported
};

}  // namespace softhca::control
