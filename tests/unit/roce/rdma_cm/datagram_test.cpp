// SPDX-License-Identifier: Apache-2.0

// Port spaces UDP and IPOIB: service id resolution, and multicast groups.
#include <cerrno>

#include "tests/unit/roce/rdma_cm/world.hpp"

namespace softhca::management::rdma_cm {
namespace {

class Datagrams : public testing::TestWithParam<PortSpace> {
 protected:
  World world;
  Host near{world, {"10.0.0.7", "10.0.0.1", "fd00::1"}};
  Host far{world, {"10.0.0.2", "fd00::2"}};
  Program client{near};
  Program server{far};
  const SocketAddress to = address("10.0.0.2", 7174);
};

TEST_P(Datagrams, ResolvesAServiceId) {
  server.listening(to, GetParam());
  const auto id = client.resolved(to, GetParam());
  EXPECT_EQ(client.connect(id, std::string(181, 'q')), EINVAL);
  ASSERT_EQ(client.connect(id, std::string(180, 'q')), 0);
  world.run();
  auto event = server.expect(EventType::kConnectRequest);
  const auto passive = event.id;
  EXPECT_EQ(event.param.ud.private_data_len, 180);
  EXPECT_EQ(data_of(event, true), std::string(180, 'q'));
  rdma_ucm_query_route_resp route{};
  ASSERT_EQ(server.query_route(passive, route), 0);
  EXPECT_EQ(from_sockaddr(route.dst_addr)->address, gid("10.0.0.7"));

  rdma_ucm_conn_param parameters{};
  parameters.qp_num = 0x4321;
  EXPECT_EQ(client.accept(id), EINVAL) << "the active end has nothing to accept";
  ASSERT_EQ(server.accept(passive, std::string(136, 'a'), parameters), 0);
  EXPECT_EQ(server.accept(passive), EINVAL) << "once";
  world.run();
  event = client.expect(EventType::kEstablished);
  EXPECT_EQ(event.param.ud.qp_num, 0x4321u);
  EXPECT_EQ(event.param.ud.qkey, 0x01234567u);
  EXPECT_EQ(event.param.ud.private_data_len, 136);
  EXPECT_EQ(data_of(event, true), std::string(136, 'a'));
  EXPECT_EQ(event.param.ud.ah_attr.is_global, 1);
  EXPECT_EQ(event.param.ud.ah_attr.port_num, 1);
  EXPECT_EQ(std::memcmp(event.param.ud.ah_attr.grh.dgid, gid("10.0.0.2").bytes.data(), 16), 0);
  EXPECT_EQ(client.disconnect(id), 0) << "harmless";
  EXPECT_EQ(server.disconnect(passive), 0);
  world.advance(5min);
  client.expect_none();
  server.expect_none();
  client.close();
  server.close();
  world.advance(10min);
  EXPECT_EQ(near.service->manager().size(), 0u);
  EXPECT_EQ(far.service->manager().size(), 0u);
}

TEST_P(Datagrams, Rejected) {
  server.listening(to, GetParam());
  const auto id = client.resolved(to, GetParam());
  ASSERT_EQ(client.connect(id), 0);
  EXPECT_EQ(client.reject(id), EINVAL);
  world.run();
  const auto passive = server.expect(EventType::kConnectRequest).id;
  EXPECT_EQ(server.reject(passive, std::string(137, 'n')), EINVAL);
  ASSERT_EQ(server.reject(passive, "no"), 0);
  world.run();
  const auto event =
      client.expect(EventType::kUnreachable, static_cast<int>(wire::CmSidrStatus::kReject));
  EXPECT_EQ(data_of(event, true), "no");
}

TEST_P(Datagrams, NobodyListens) {
  const auto id = client.resolved(to, GetParam());
  ASSERT_EQ(client.connect(id), 0);
  world.run();
  client.expect(EventType::kUnreachable, static_cast<int>(wire::CmSidrStatus::kUnsupported));
}

TEST_P(Datagrams, APortSpaceServesItsOwnOnly) {
  server.listening(to, PortSpace::kTcp);
  const auto id = client.resolved(to, GetParam());
  ASSERT_EQ(client.connect(id), 0);
  world.run();
  client.expect(EventType::kUnreachable, static_cast<int>(wire::CmSidrStatus::kUnsupported));
  server.expect_none();
}

TEST_P(Datagrams, TheWrongKindOfRequestIsRefused) {
  server.listening(to, GetParam());
  const auto id = client.resolved(to, PortSpace::kTcp);
  ASSERT_EQ(client.connect(id), 0);
  auto req = wire::decode_cm<wire::CmReq>(world.queue[0].mad);
  req.service_id = std::uint64_t{static_cast<std::uint16_t>(GetParam())} << 16 | 7174;
  const auto header = wire::decode_mad_header(world.queue[0].mad);
  world.queue[0].mad = wire::encode_cm(req, header->transaction_id);
  world.run();
  client.expect(EventType::kRejected, 28);
}

TEST_P(Datagrams, NoAnswer) {
  const auto id = client.resolved(to, GetParam());
  world.loses = [](const World::Packet&) { return true; };
  ASSERT_EQ(client.connect(id), 0);
  world.advance(5min);
  client.expect(EventType::kUnreachable, -ETIMEDOUT);
}

TEST_P(Datagrams, QueuePairAttributesAreOfInit) {
  const auto id = client.create(GetParam());
  ib_uverbs_qp_attr attributes{};
  EXPECT_EQ(client.init_qp_attr(id, 1, attributes), EINVAL);
  ASSERT_EQ(client.bind(id, address("10.0.0.1")), 0);
  for (const std::uint32_t state : {0, 1, 2, 3, 6}) {
    ASSERT_EQ(client.init_qp_attr(id, state, attributes), 0);
    EXPECT_EQ(attributes.qp_attr_mask, 0x71u);
    EXPECT_EQ(attributes.qkey, 0x01234567u);
    EXPECT_EQ(attributes.qp_state, state);
  }
}

TEST_P(Datagrams, MulticastJoinAndLeave) {
  const auto id = client.create(GetParam());
  const SocketAddress group = address("239.1.2.3");
  std::uint32_t first = 0, second = 0;
  EXPECT_EQ(client.join(id, group, first), EINVAL) << "not bound";
  ASSERT_EQ(client.resolve_address(id, address("239.1.2.3", 5000), address("10.0.0.1")), 0);
  client.expect(EventType::kAddrResolved);
  EXPECT_TRUE(near.asked.empty()) << "a group has no neighbour";
  ASSERT_EQ(client.join(id, group, first, 71), 0);
  ASSERT_EQ(client.join(id, address("239.1.2.4"), second, 72), 0);
  EXPECT_NE(first, second);
  const auto event = client.expect(EventType::kMulticastJoin);
  EXPECT_EQ(event.uid, 71u);
  EXPECT_EQ(event.id, first);
  EXPECT_EQ(event.param.ud.qp_num, 0xffffffu);
  EXPECT_EQ(event.param.ud.qkey, 0x01234567u);
  EXPECT_EQ(event.param.ud.private_data_len, 0);
  EXPECT_EQ(std::memcmp(event.param.ud.ah_attr.grh.dgid, group.address.bytes.data(), 16), 0);
  EXPECT_EQ(event.param.ud.ah_attr.grh.sgid_index, 1);
  EXPECT_EQ(event.param.ud.ah_attr.is_global, 1);
  EXPECT_EQ(event.param.ud.ah_attr.dlid, 0);
  EXPECT_EQ(client.leave(second), 0) << "its event was not reported";
  client.expect_none();
  EXPECT_EQ(client.leave(first), 1);
  EXPECT_EQ(client.leave(first), -ENOENT);
  EXPECT_EQ(client.destroy(id), 2) << "memberships count for their identifier, too";
}

TEST_P(Datagrams, MulticastOverIpv6) {
  const auto id = client.create(GetParam());
  std::uint32_t membership = 0;
  ASSERT_EQ(client.bind(id, address("fd00::1")), 0);
  ASSERT_EQ(client.join(id, address("ff0e::1"), membership), 0);
  EXPECT_EQ(client.expect(EventType::kMulticastJoin).param.ud.ah_attr.grh.sgid_index, 2);
}

TEST_P(Datagrams, JoinRefuses) {
  const auto id = client.create(GetParam());
  ASSERT_EQ(client.bind(id, address("10.0.0.1")), 0);
  std::uint32_t membership = 0;
  EXPECT_EQ(client.join(id, address("10.0.0.2"), membership), EINVAL) << "no group";
  EXPECT_EQ(client.join(id, address("0.0.0.0"), membership), EINVAL);
  EXPECT_EQ(client.join(id, {}, membership), EINVAL);
  EXPECT_EQ(client.join(id, address("ff0e::1"), membership), EINVAL) << "of another family";
  EXPECT_EQ(client.listen(id), 0);
  EXPECT_EQ(client.join(id, address("239.1.2.3"), membership), EINVAL) << "a listener";
  const auto reliable = client.create();
  ASSERT_EQ(client.bind(reliable, address("10.0.0.1")), 0);
  EXPECT_EQ(client.join(reliable, address("239.1.2.3"), membership), EINVAL);
  EXPECT_EQ(near.service->memberships(), 0u);
}

TEST_P(Datagrams, MembershipsGoWithTheirIdentifier) {
  const auto id = client.create(GetParam());
  ASSERT_EQ(client.bind(id, address("10.0.0.1")), 0);
  std::uint32_t membership = 0;
  for (int i = 0; i < 5; ++i) ASSERT_EQ(client.join(id, address("239.1.2.3"), membership), 0);
  Program thief(near, {.process = 2});
  EXPECT_EQ(thief.leave(membership), -EINVAL);
  Program other(near);
  EXPECT_EQ(other.migrate(client, id), 0);
  EXPECT_EQ(client.leave(membership), -EINVAL);
  EXPECT_EQ(other.leave(membership), 0);
  other.expect(EventType::kMulticastJoin);
  EXPECT_EQ(other.destroy(id), 1);
  EXPECT_EQ(near.service->memberships(), 0u);
  other.expect_none();
}

INSTANTIATE_TEST_SUITE_P(Spaces, Datagrams, testing::Values(PortSpace::kUdp, PortSpace::kIpoib),
                         [](const auto& space) {
                           return space.param == PortSpace::kUdp ? "Udp" : "Ipoib";
                         });

}  // namespace
}  // namespace softhca::management::rdma_cm
