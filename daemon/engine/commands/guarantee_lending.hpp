// SPDX-License-Identifier: Apache-2.0

// Lends guarantees while they are idle (mechanism A10). The holder gets them back when it asks for
// them, where PCBs and credits are taken (quota_search_and_lending.hpp). This part does what takes
// time.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/engine/addresses/local_addresses.hpp"
#include "daemon/engine/commands/command_intake.hpp"

namespace softhca::engine {

class GuaranteeLending {
 public:
  GuaranteeLending(const StepClock& clock, const LocalAddresses& addresses, CommandIntake& intake,
                   collect::PcbPool& pcbs, schedule::TvlTable& tvls,
                   schedule::KickArbitrator& arbitrator, std::uint16_t tenants)
      : clock_(clock),
        addresses_(addresses),
        intake_(intake),
        pcbs_(pcbs),
        tvls_(tvls),
        arbitrator_(arbitrator),
        lends_(tenants) {}

  /// Lends what is idle, and brings back what was recalled. To be called about once a second while
  /// any tenant lends or has lent.
  void adjust(const AdjustmentPolicy& policy);

 private:
  const StepClock& clock_;
  const LocalAddresses& addresses_;
  CommandIntake& intake_;
  collect::PcbPool& pcbs_;
  schedule::TvlTable& tvls_;
  schedule::KickArbitrator& arbitrator_;
  std::vector<bool> lends_;  ///< tenants, by id
};

}  // namespace softhca::engine
