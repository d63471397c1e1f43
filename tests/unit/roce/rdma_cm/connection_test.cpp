// SPDX-License-Identifier: Apache-2.0

// Connections between two hosts: CONNECT, ACCEPT, DISCONNECT, NOTIFY.
#include <arpa/inet.h>

#include <cerrno>

#include "tests/unit/roce/rdma_cm/connections.hpp"

namespace softhca::management::rdma_cm {
namespace {

TEST_F(Connections, EstablishAndDisconnect) {
  const auto listener = server.listening(to);
  const auto id = client.resolved(to);
  rdma_ucm_conn_param parameters{.qp_num = 0xff000123,
                                 .srq = 1,
                                 .responder_resources = 3,
                                 .initiator_depth = 5,
                                 .flow_control = 1,
                                 .retry_count = 9,
                                 .rnr_retry_count = 6};
  ASSERT_EQ(client.connect(id, "hello", parameters), 0);
  world.run();

  auto event = server.expect(EventType::kConnectRequest);
  const auto passive = event.id;
  EXPECT_NE(passive, listener);
  EXPECT_EQ(event.uid, Program::kCreatedUid) << "of the listener";
  EXPECT_EQ(event.param.conn.private_data_len, 56);
  EXPECT_EQ(data_of(event), "hello");
  EXPECT_EQ(event.param.conn.qp_num, 0x123u);
  EXPECT_EQ(event.param.conn.srq, 1);
  EXPECT_EQ(event.param.conn.responder_resources, 5) << "what the peer starts, this end answers";
  EXPECT_EQ(event.param.conn.initiator_depth, 3);
  EXPECT_EQ(event.param.conn.flow_control, 1);
  EXPECT_EQ(event.param.conn.retry_count, 7) << "3 bits";
  EXPECT_EQ(event.param.conn.rnr_retry_count, 6);

  rdma_ucm_query_route_resp here{}, there{};
  ASSERT_EQ(client.query_route(id, here), 0);
  ASSERT_EQ(server.query_route(passive, there), 0);
  EXPECT_EQ(std::memcmp(&here.src_addr, &there.dst_addr, sizeof here.src_addr), 0);
  EXPECT_EQ(std::memcmp(&here.dst_addr, &there.src_addr, sizeof here.src_addr), 0);
  EXPECT_EQ(be64toh(there.node_guid), far.guid);
  EXPECT_EQ(there.num_paths, 1u);

  parameters = {
      .qp_num = 0x456, .responder_resources = 2, .initiator_depth = 1, .rnr_retry_count = 5};
  ASSERT_EQ(server.accept(passive, std::string(196, 'x'), parameters), 0);
  world.run();
  event = client.expect(EventType::kConnectResponse);
  EXPECT_EQ(event.param.conn.private_data_len, 196);
  EXPECT_EQ(data_of(event).substr(0, 196), std::string(196, 'x'));
  EXPECT_EQ(event.param.conn.qp_num, 0x456u);
  EXPECT_EQ(event.param.conn.responder_resources, 1);
  EXPECT_EQ(event.param.conn.initiator_depth, 2);
  server.expect_none();
  ASSERT_EQ(client.confirm(id), 0);
  EXPECT_EQ(near.established[Role::kActive], 1);
  world.run();
  event = server.expect(EventType::kEstablished);
  EXPECT_EQ(event.uid, Program::kAcceptedUid);
  EXPECT_EQ(event.id, passive);
  EXPECT_EQ(far.established[Role::kPassive], 1);

  ASSERT_EQ(client.disconnect(id), 0);
  world.run();
  server.expect(EventType::kDisconnected);
  client.expect_none();
  ASSERT_EQ(server.disconnect(passive), 0);
  world.run();
  client.expect(EventType::kDisconnected);
  EXPECT_EQ(client.disconnect(id), 0) << "a second disconnect succeeds";
  world.advance(1min);
  client.expect(EventType::kTimewaitExit);
  server.expect(EventType::kTimewaitExit);
  EXPECT_EQ(client.destroy(id), 5);
  EXPECT_EQ(server.destroy(passive), 3);
  EXPECT_EQ(server.destroy(listener), 1) << "the request counts as the listener's";
  EXPECT_TRUE(nothing_left());
}

TEST_F(Connections, ThePrivateDataHeaderTellsTheAddresses) {
  const auto id = client.resolved(to);
  rdma_ucm_query_route_resp route{};
  ASSERT_EQ(client.query_route(id, route), 0);
  ASSERT_EQ(client.connect(id, std::string(56, 'd')), 0);
  ASSERT_EQ(world.queue.size(), 1u);
  const auto req = wire::decode_cm<wire::CmReq>(world.queue[0].mad);
  EXPECT_EQ(req.service_id, 0x0000000001061c06u);
  const auto header =
      wire::decode_cm_ip_header(std::span(req.private_data).first<wire::CmIpHeader::kBytes>());
  EXPECT_EQ(header.version, 0);
  EXPECT_EQ(header.ip_version, 4);
  EXPECT_EQ(header.source_port, from_sockaddr(route.src_addr)->port);
  EXPECT_EQ(header.source,
            (std::array<std::uint8_t, 16>{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 1}));
  EXPECT_EQ(header.destination,
            (std::array<std::uint8_t, 16>{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2}));
  EXPECT_EQ(req.private_data[36], std::byte('d'));
  EXPECT_EQ(req.private_data[91], std::byte('d'));
  EXPECT_EQ(req.remote_response_timeout, 20);
  EXPECT_EQ(req.local_response_timeout, 20);
  EXPECT_EQ(req.max_cm_retries, 15);
  EXPECT_EQ(req.primary.local_ack_timeout, 19);
}

TEST_F(Connections, Ipv6) {
  server.listening(address("::", 7174));
  const auto ends = establish(world, client, server, address("fd00::2", 7174));
  rdma_ucm_query_route_resp route{};
  ASSERT_EQ(server.query_route(ends.passive, route), 0);
  EXPECT_EQ(from_sockaddr(route.dst_addr)->family, AF_INET6);
  EXPECT_EQ(from_sockaddr(route.dst_addr)->address, gid("fd00::1"));
}

TEST_F(Connections, AnIpv6WildcardServesIpv4UnlessTold) {
  const auto both = server.create();
  ASSERT_EQ(server.bind(both, address("::", 7174)), 0);
  ASSERT_EQ(server.listen(both), 0);
  const auto ends = establish(world, client, server, to);
  rdma_ucm_query_route_resp route{};
  ASSERT_EQ(server.query_route(ends.passive, route), 0);
  EXPECT_EQ(from_sockaddr(route.dst_addr)->family, AF_INET);
  server.destroy(both);

  const auto only = server.create();
  ASSERT_EQ(server.set_option(only, RDMA_OPTION_ID_AFONLY, 1), 0);
  ASSERT_EQ(server.bind(only, address("::", 7174)), 0);
  ASSERT_EQ(server.listen(only), 0);
  const auto id = client.resolved(to);
  ASSERT_EQ(client.connect(id), 0);
  world.run();
  client.expect(EventType::kRejected, 28);
}

TEST_F(Connections, WithinOneHost) {
  Program peer(near);
  peer.listening(address("0.0.0.0", 7174));
  establish(world, client, peer, address("127.0.0.1", 7174));
  EXPECT_EQ(near.established[Role::kActive], 1);
  EXPECT_EQ(near.established[Role::kPassive], 1);
}

TEST_F(Connections, AListenerOnLoopbackServesTheTenantAlone) {
  server.listening(address("127.0.0.1", 7174));
  const auto id = client.resolved(to);
  ASSERT_EQ(client.connect(id), 0);
  world.run();
  client.expect(EventType::kRejected, 28);
  Program local(far);
  const auto inside = local.resolved(address("127.0.0.1", 7174));
  ASSERT_EQ(local.connect(inside), 0);
  world.run();
  server.expect(EventType::kConnectRequest);
}

TEST_F(Connections, EstablishedEarly) {
  server.listening(to);
  const auto id = client.resolved(to);
  const auto passive = requested(id);
  EXPECT_EQ(server.notify(passive, 4), EINVAL) << "not accepted yet";
  ASSERT_EQ(server.accept(passive), 0);
  world.run();
  EXPECT_EQ(server.notify(passive, 5), EINVAL);
  EXPECT_EQ(server.notify(passive, 4), 0);
  server.expect(EventType::kEstablished);
  EXPECT_EQ(server.notify(passive, 4), EISCONN);
  client.expect(EventType::kConnectResponse);
  ASSERT_EQ(client.confirm(id), 0);
  world.run();
  server.expect_none();
}

}  // namespace
}  // namespace softhca::management::rdma_cm
