// SPDX-License-Identifier: Apache-2.0

// Programs with queue pairs of all services, on adapters that are replaced (restart_lane.hpp).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tests/sim/restart_lane.hpp"

namespace softhca::sim {

class Programs {
 public:
  static constexpr std::uint32_t kReceiveBytes = 8192;

  Programs(const RestartOptions& options, std::uint64_t seed);

  /// Adds one lane of each service. `operations`: of each.
  void add_all(std::uint32_t operations);
  /// Adds a few lanes of random services with little work.
  void add_some();

  /// The programs do something, or nothing.
  void act();
  /// Checks what has completed.
  void check();
  /// Runs a step of everything. Throws Failure.
  void step();
  bool is_done() const;
  /// Checks that all is as it must be, and that nothing comes later. Throws Failure.
  void finish();

  /// Watches the memory that outlives the adapter of a host: all but plain data.
  void watch(StoreTrap& trap, unsigned host);

  Random& random() { return random_; }
  RestartWorld& world() { return world_; }

 private:
  void add(const LaneOptions& options);
  Lane& lane_of(std::uint32_t qpn, bool near);
  void expect_receives(const ReceiveSlots& slots, engine::TestSrq& srq);

  Random random_;
  RestartWorld world_;
  engine::TestCq *send_, *receive_, *xrc_receive_;
  engine::TestSrq *srq_, *xrc_srq_;
  std::unique_ptr<ReceiveSlots> shared_, xrc_shared_;
  std::vector<std::unique_ptr<ReceiveSlots>> own_;
  std::vector<std::unique_ptr<Lane>> lanes_;
};

}  // namespace softhca::sim
