// SPDX-License-Identifier: Apache-2.0

// The parts below a connection manager, for tests of one of them without the manager.
#pragma once

#include <gtest/gtest.h>

#include "daemon/roce/cm/connection_factory.hpp"
#include "daemon/roce/cm/connection_table.hpp"
#include "daemon/roce/cm/mad_sender.hpp"
#include "daemon/roce/cm/state_machine.hpp"
#include "tests/unit/roce/cm/world.hpp"

namespace softhca::management::cm {

struct Parts : testing::Test {
  State state(CommId id) { return connections.find(id)->state; }

  Surroundings world;
  LocalEnd local{.ca_guid = kOurGuid};
  Counters counters;
  ConnectionTable connections;
  MadSender sender{world, local, counters};
  AddressValidation validation{world, world, sender, counters};
  ManagerCore core{world, local, connections, sender, counters};
  StateMachine machine{core, validation};
  ConnectionFactory factory{core, world, validation, machine};
  Time now{std::chrono::seconds(5)};
};

}  // namespace softhca::management::cm
