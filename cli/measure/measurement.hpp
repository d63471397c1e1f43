// SPDX-License-Identifier: Apache-2.0

// The steps of softhcactl measure.
#pragma once

#include <functional>
#include <string>

#include "cli/measure/bench_runs.hpp"
#include "cli/measure/figures.hpp"
#include "cli/measure/proposal.hpp"

namespace softhca::cli {

/// Tenants that write at the same time in one of the measurements.
inline constexpr unsigned kTenantsTogether = 4;

class Measurement {
 public:
  /// `seconds`: how long all of it takes, about. `report` is called with the name of each step.
  Measurement(double seconds, std::function<void(const std::string& step)> report);

  /// Measures this host. Throws CommandError.
  Figures figures();

  /// Memory of the daemon with a proposal in force.
  struct AtProposal {
    double daemon;  ///< bytes, with all tenants, without programs
    double tenant;  ///< bytes of each further tenant
  };
  /// Starts daemons with the proposal. Throws CommandError, also if the daemon refuses it.
  AtProposal at(const Proposal& proposal);

 private:
  std::vector<Json> run(const char* step, const BenchRuns::Daemons& daemons,
                        const std::vector<std::string>& arguments);
  std::vector<Json> run_rates(const char* step, const BenchRuns::Daemons& daemons,
                              const std::string& sizes, const std::string& queue_pairs);
  Json daemon_with(const std::string& configuration);

  BenchRuns runs_;
  const double seconds_;  ///< of each rate and turn
  const std::function<void(const std::string& step)> report_;
};

}  // namespace softhca::cli
