// SPDX-License-Identifier: Apache-2.0

#include "cli/measure/measurement.hpp"

#include <utility>

namespace softhca::cli {
namespace {

// Other programs slow down some turns: the best of several counts.
constexpr unsigned kTurns = 3;
// Rates that are measured in a turn: six within a daemon, six between two, one of several tenants.
constexpr double kRates = 13;
// Part of the time that rates take. The rest is for starts, latency and memory.
constexpr double kPartOfRates = 0.8;
// Further tenants of the daemon that tells what a tenant costs.
constexpr unsigned kFurtherTenants = 16;

}  // namespace

Measurement::Measurement(double seconds, std::function<void(const std::string& step)> report)
    : seconds_(seconds * kPartOfRates / (kRates * kTurns)), report_(std::move(report)) {}

std::vector<Json> Measurement::run(const char* step, const BenchRuns::Daemons& daemons,
                                   const std::vector<std::string>& arguments) {
  report_(step);
  return runs_.run(daemons, arguments);
}

std::vector<Json> Measurement::run_rates(const char* step, const BenchRuns::Daemons& daemons,
                                         const std::string& sizes, const std::string& queue_pairs) {
  return run(step, daemons,
             {"--measure", "rate", "--op", "write", "--size", sizes, "--qps", queue_pairs,
              "--turns", std::to_string(kTurns), "--seconds", std::to_string(seconds_)});
}

/// Starts a daemon. Returns its memory.
Json Measurement::daemon_with(const std::string& configuration) {
  return run("the proposal",
             {.options = {}, .configuration = configuration, .server = "", .clients = {}},
             {"--measure", "daemon"})
      .at(0);
}

Figures Measurement::figures() {
  Figures figures;
  const BenchRuns::Daemons two{.options = {}, .configuration = "", .server = "A", .clients = {"B"}};
  figures.local = rates_of(run_rates("writes within a daemon", two, "64,4K,1M", "1,8"));
  const std::vector<Json> latency =
      run("latency", two, {"--measure", "latency", "--op", "write", "--size", "64"});
  figures.latency_p50_us = latency.at(0).at("p50_us");
  figures.latency_p99_us = latency.at(0).at("p99_us");

  BenchRuns::Daemons several = two;
  several.options = {"--tenants", std::to_string(kTenantsTogether + 1)};
  several.clients.clear();
  for (unsigned i = 0; i < kTenantsTogether; ++i)
    several.clients.emplace_back(1, static_cast<char>('B' + i));
  figures.together =
      together_of(run_rates("several tenants at once", several, "64", "8"), kTenantsTogether);

  BenchRuns::Daemons hosts = two;
  hosts.options = {"--hosts", "2"};
  figures.wire = rates_of(run_rates("writes between two daemons", hosts, "64,4K,1M", "1,8"));
  // One tenant has all of the adapter.
  figures.memory = memory_of(
      run("memory", {.options = {}, .configuration = tenants_text(1), .server = "", .clients = {}},
          {"--measure", "memory"})
          .at(0));
  return figures;
}

Measurement::AtProposal Measurement::at(const Proposal& proposal) {
  const std::string text = configuration_text(proposal);
  const Json all = daemon_with(text + tenants_text(proposal.tenants));
  const Json more = daemon_with(text + tenants_text(proposal.tenants + kFurtherTenants));
  const double grown = more.at("own_bytes").get<double>() - all.at("own_bytes").get<double>();
  return {all.at("resident_bytes"), grown / kFurtherTenants};
}

}  // namespace softhca::cli
