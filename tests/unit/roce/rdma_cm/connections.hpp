// SPDX-License-Identifier: Apache-2.0

// The two hosts of the tests of connections.
#pragma once

#include "tests/unit/roce/rdma_cm/world.hpp"

namespace softhca::management::rdma_cm {

class Connections : public testing::Test {
 protected:
  World world;
  Host near{world, {"10.0.0.1", "fd00::1"}};
  Host far{world, {"10.0.0.2", "fd00::2"}};
  Program client{near};
  Program server{far, {.process = 9}};
  const SocketAddress to = address("10.0.0.2", 7174);

  /// A request that the server has taken.
  std::uint32_t requested(std::uint32_t id, const std::string& data = {}) {
    EXPECT_EQ(client.connect(id, data), 0);
    world.run();
    return server.expect(EventType::kConnectRequest).id;
  }
  bool nothing_left() {
    world.advance(10min);
    client.close();
    server.close();
    world.advance(10min);
    return near.service->manager().size() == 0 && far.service->manager().size() == 0 &&
           near.service->identifiers() == 0 && far.service->identifiers() == 0;
  }
};

}  // namespace softhca::management::rdma_cm
