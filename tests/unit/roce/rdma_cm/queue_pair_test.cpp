// SPDX-License-Identifier: Apache-2.0

// INIT_QP_ATTR.
#include <cerrno>

#include "tests/unit/roce/rdma_cm/connections.hpp"

namespace softhca::management::rdma_cm {
namespace {

TEST_F(Connections, QueuePairAttributes) {
  ib_uverbs_qp_attr attributes{};
  const auto early = client.create();
  EXPECT_EQ(client.init_qp_attr(early, 1, attributes), EINVAL) << "not bound";
  server.listening(to);
  const auto id = client.resolved(to);
  ASSERT_EQ(client.init_qp_attr(id, 1, attributes), 0);
  EXPECT_EQ(attributes.qp_attr_mask, 0x39u);
  EXPECT_EQ(attributes.qp_state, 1u);
  EXPECT_EQ(attributes.qp_access_flags, 0u);
  EXPECT_EQ(attributes.port_num, 1);
  EXPECT_EQ(client.init_qp_attr(id, 7, attributes), EINVAL);

  const auto ends = establish(world, client, server, to);
  ib_uverbs_qp_attr here{}, there{};
  for (const std::uint32_t state : {0, 4, 5, 6})
    EXPECT_EQ(client.init_qp_attr(ends.active, state, here), EINVAL);
  ASSERT_EQ(client.init_qp_attr(ends.active, 1, here), 0);
  EXPECT_EQ(here.qp_attr_mask, 0x39u);
  EXPECT_EQ(here.qp_access_flags, 0xeu);

  ASSERT_EQ(client.init_qp_attr(ends.active, 2, here), 0);
  ASSERT_EQ(server.init_qp_attr(ends.passive, 2, there), 0);
  EXPECT_EQ(here.qp_attr_mask, 0x129181u);
  EXPECT_EQ(here.dest_qp_num, 0x200 + ends.passive);
  EXPECT_EQ(there.dest_qp_num, 0x100 + ends.active);
  EXPECT_EQ(here.path_mtu, 4u);
  EXPECT_EQ(here.max_dest_rd_atomic, 3);
  EXPECT_EQ(there.max_dest_rd_atomic, 5);
  EXPECT_EQ(here.min_rnr_timer, 0);
  EXPECT_EQ(here.ah_attr.is_global, 1);
  EXPECT_EQ(here.ah_attr.port_num, 1);
  EXPECT_EQ(std::memcmp(here.ah_attr.grh.dgid, gid("10.0.0.2").bytes.data(), 16), 0);
  EXPECT_EQ(std::memcmp(there.ah_attr.grh.dgid, gid("10.0.0.1").bytes.data(), 16), 0);
  EXPECT_NE(here.ah_attr.grh.flow_label, 0u);
  EXPECT_EQ(here.ah_attr.grh.flow_label, there.ah_attr.grh.flow_label);
  EXPECT_EQ(here.ah_attr.grh.hop_limit, 64);
  const auto here_expects = here.rq_psn, there_expects = there.rq_psn;

  ASSERT_EQ(client.init_qp_attr(ends.active, 3, here), 0);
  ASSERT_EQ(server.init_qp_attr(ends.passive, 3, there), 0);
  EXPECT_EQ(here.qp_attr_mask, 0x12e01u);
  EXPECT_EQ(here.sq_psn, there_expects);
  EXPECT_EQ(there.sq_psn, here_expects);
  EXPECT_EQ(here.timeout, 19);
  EXPECT_EQ(here.retry_cnt, 7);
  EXPECT_EQ(here.rnr_retry, 6);
  EXPECT_EQ(here.max_rd_atomic, 5);
  EXPECT_EQ(there.max_rd_atomic, 3);
}

TEST_F(Connections, EachEndExpectsThePsnThatItTold) {
  server.listening(to);
  const auto id = client.resolved(to);
  ASSERT_EQ(client.connect(id), 0);
  const Psn told = wire::decode_cm<wire::CmReq>(world.queue[0].mad).starting_psn;
  world.run();
  const auto passive = server.expect(EventType::kConnectRequest).id;
  ib_uverbs_qp_attr attributes{};
  ASSERT_EQ(server.init_qp_attr(passive, 3, attributes), 0) << "RTS before REP is sent";
  EXPECT_EQ(attributes.sq_psn, told.value());
  ASSERT_EQ(server.accept(passive), 0);
  const Psn told_back = wire::decode_cm<wire::CmRep>(world.queue[0].mad).starting_psn;
  world.run();
  client.expect(EventType::kConnectResponse);
  ASSERT_EQ(client.init_qp_attr(id, 2, attributes), 0);
  EXPECT_EQ(attributes.rq_psn, told.value());
  ASSERT_EQ(client.init_qp_attr(id, 3, attributes), 0);
  EXPECT_EQ(attributes.sq_psn, told_back.value());
}

TEST_F(Connections, OptionsReachTheQueuePairs) {
  server.listening(to);
  const auto id = client.create();
  ASSERT_EQ(client.set_option(id, RDMA_OPTION_ID_TOS, std::uint8_t{0x68}), 0);
  ASSERT_EQ(client.set_option(id, RDMA_OPTION_ID_ACK_TIMEOUT, std::uint8_t{14}), 0);
  ASSERT_EQ(client.resolve_address(id, to), 0);
  client.expect(EventType::kAddrResolved);
  ASSERT_EQ(client.resolve_route(id), 0);
  client.expect(EventType::kRouteResolved);
  const auto passive = requested(id);
  ib_uverbs_qp_attr attributes{};
  ASSERT_EQ(server.init_qp_attr(passive, 2, attributes), 0);
  EXPECT_EQ(attributes.ah_attr.grh.traffic_class, 0x68);
  ASSERT_EQ(server.init_qp_attr(passive, 3, attributes), 0);
  EXPECT_EQ(attributes.timeout, 14);
  ASSERT_EQ(server.accept(passive), 0);
  world.run();
  client.expect(EventType::kConnectResponse);
  ASSERT_EQ(client.init_qp_attr(id, 3, attributes), 0);
  EXPECT_EQ(attributes.timeout, 14);
}

}  // namespace
}  // namespace softhca::management::rdma_cm
