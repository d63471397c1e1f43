// SPDX-License-Identifier: Apache-2.0

// LISTEN and its backlog, the limits of a tenant, and SET_OPTION.
#include <cerrno>
#include <set>

#include "daemon/base/endian.hpp"
#include "tests/unit/roce/rdma_cm/world.hpp"

namespace softhca::management::rdma_cm {
namespace {

constexpr RdmaCmLimits kFew{.identifiers = 8, .listeners = 2, .backlog = 4};

class Few : public testing::Test {
 protected:
  World world;
  Host near{world, {"10.0.0.1"}};
  Host far{world, {"10.0.0.2"}, kFew};
  Program client{near};
  Program server{far};
  const SocketAddress to = address("10.0.0.2", 7174);

  std::uint32_t connecting() {
    const auto id = client.resolved(to);
    EXPECT_EQ(client.connect(id), 0);
    return id;
  }
};

TEST_F(Few, ListenBindsWhatIsNotBound) {
  const auto id = server.create();
  EXPECT_EQ(server.listen(id), 0);
  rdma_ucm_query_route_resp route{};
  ASSERT_EQ(server.query_route(id, route), 0);
  const auto local = from_sockaddr(route.src_addr);
  EXPECT_EQ(local->family, AF_INET);
  EXPECT_TRUE(local->is_any());
  EXPECT_GE(local->port, 32768);
  EXPECT_EQ(route.node_guid, 0u);
  EXPECT_EQ(server.listen(id), EINVAL) << "once";
  EXPECT_EQ(server.connect(id), EINVAL);
  EXPECT_EQ(server.disconnect(id), EINVAL);
  EXPECT_EQ(server.resolve_address(id, to), EINVAL);
}

TEST_F(Few, ABacklogThatIsFullMakesPeersTryAgain) {
  const auto listener = server.listening(to, PortSpace::kTcp, 2);
  for (int i = 0; i < 3; ++i) connecting();
  world.run();
  EXPECT_EQ(far.refused[Refusal::kBacklog], 1);
  client.expect_none();
  EXPECT_EQ(server.expect(EventType::kConnectRequest).uid, Program::kCreatedUid);
  world.advance(10s);
  server.expect(EventType::kConnectRequest);
  server.expect(EventType::kConnectRequest);
  client.expect_none();
  EXPECT_EQ(server.destroy(listener), 3);
}

TEST_F(Few, TheBacklogIsBounded) {
  for (const std::uint32_t backlog : {0u, 5u, 0xffffffffu}) {
    const auto listener = server.listening(to, PortSpace::kTcp, backlog);
    std::set<std::uint32_t> seen;
    far.service->for_each_listener([&](const ListenerInfo& info) { seen.insert(info.backlog); });
    EXPECT_EQ(seen, std::set<std::uint32_t>{4});
    server.destroy(listener);
  }
}

TEST_F(Few, Identifiers) {
  std::uint32_t id = 0;
  for (int i = 0; i < 8; ++i) EXPECT_EQ(server.create_id(RDMA_PS_TCP, id), 0);
  EXPECT_EQ(server.create_id(RDMA_PS_TCP, id), EMFILE);
  EXPECT_EQ(far.refused[Refusal::kIdentifiers], 1);
  EXPECT_EQ(server.destroy(3), 0);
  EXPECT_EQ(server.create_id(RDMA_PS_TCP, id), 0);
  EXPECT_EQ(id, 3u);
}

TEST_F(Few, RequestsAreIdentifiersToo) {
  server.listening(to);
  for (int i = 0; i < 5; ++i) server.create();
  for (int i = 0; i < 4; ++i) connecting();
  world.run();
  EXPECT_EQ(far.refused[Refusal::kIdentifiers], 2);
  client.expect_none();
}

TEST_F(Few, Memberships) {
  const auto id = server.create(PortSpace::kUdp);
  EXPECT_EQ(server.bind(id, address("10.0.0.2")), 0);
  std::uint32_t membership = 0;
  for (int i = 0; i < 8; ++i) EXPECT_EQ(server.join(id, address("239.0.0.1"), membership), 0);
  EXPECT_EQ(server.join(id, address("239.0.0.1"), membership), EMFILE);
}

TEST_F(Few, IdentifierListeners) {
  server.listening(to);
  const auto second = server.listening(address("10.0.0.2", 7175), PortSpace::kUdp);
  const auto third = server.create();
  EXPECT_EQ(server.listen(third), ENOSPC);
  EXPECT_EQ(far.refused[Refusal::kListeners], 1);
  server.destroy(second);
  EXPECT_EQ(server.listen(third), 0);
}

TEST_F(Few, ConnectsASecond) {
  RdmaCmLimits limits;
  limits.connects_per_second = 5;
  near.service->set_limits(limits, {});
  std::vector<std::uint32_t> ids;
  for (int i = 0; i < 12; ++i) ids.push_back(client.resolved(to));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(client.connect(ids[i]), 0);
  EXPECT_EQ(client.connect(ids[5]), EAGAIN);
  EXPECT_EQ(near.refused[Refusal::kConnectRate], 1);
  world.now += 200ms;
  EXPECT_EQ(client.connect(ids[5]), 0) << "one more after a fifth of a second";
  EXPECT_EQ(client.connect(ids[6]), EAGAIN);
  world.now += 10s;
  for (int i = 6; i < 11; ++i) EXPECT_EQ(client.connect(ids[i]), 0);
  EXPECT_EQ(client.connect(ids[11]), EAGAIN) << "no more than a second's at once";
}

TEST_F(Few, PeersConnectsASecond) {
  RdmaCmLimits limits = kFew;
  limits.connects_per_second = 1;
  far.service->set_limits(limits, {});
  server.listening(to);
  connecting();
  connecting();
  world.run();
  EXPECT_EQ(far.refused[Refusal::kConnectRate], 1);
  server.expect(EventType::kConnectRequest);
  server.expect_none();
  world.advance(10s);
  server.expect(EventType::kConnectRequest);
}

TEST_F(Few, AdmissionOfOwnConnects) {
  near.service->admission().set({}, 0);
  const auto id = client.resolved(to);
  EXPECT_EQ(client.connect(id), ENOBUFS);
  EXPECT_EQ(near.refused[Refusal::kAdmission], 1);
  near.service->admission().set({{.level = ""}}, 1);
  EXPECT_EQ(client.connect(id), 0) << "it may try again";
}

TEST_F(Few, AdmissionOfPeersConnects) {
  server.listening(to);
  far.service->admission().set({}, 0);
  connecting();
  world.run();
  client.expect(EventType::kRejected, 3);
  EXPECT_EQ(far.refused[Refusal::kAdmission], 1);
  EXPECT_EQ(far.rejects_sent[wire::CmRejectReason::kNoResources], 1);
  server.expect_none();
}

TEST_F(Few, WhatAdmissionRefusesIsNoConnectOfASecond) {
  RdmaCmLimits limits = kFew;
  limits.connects_per_second = 2;
  near.service->set_limits(limits, {});
  near.service->admission().set({}, 0);
  const auto id = client.resolved(to), second = client.resolved(to), third = client.resolved(to);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(client.connect(id), ENOBUFS);
  near.service->admission().set({{.level = ""}}, 3);
  EXPECT_EQ(client.connect(id), 0);
  EXPECT_EQ(client.connect(second), 0);
  EXPECT_EQ(client.connect(third), EAGAIN);
  EXPECT_EQ(near.service->admission().admitted(), 2u) << "nor does the rate take of admission";
}

TEST_F(Few, WhatAdmissionRefusesIsNoRequestOfASecond) {
  RdmaCmLimits limits = kFew;
  limits.connects_per_second = 1;
  far.service->set_limits(limits, {});
  server.listening(to);
  far.service->admission().set({}, 0);
  for (int i = 0; i < 5; ++i) connecting();
  world.run();
  for (int i = 0; i < 5; ++i) client.expect(EventType::kRejected, 3);
  EXPECT_EQ(far.refused[Refusal::kAdmission], 5);
  EXPECT_EQ(far.refused[Refusal::kConnectRate], 0);
  far.service->admission().set({{.level = ""}}, 3);
  connecting();
  connecting();
  world.run();
  EXPECT_EQ(far.refused[Refusal::kConnectRate], 1);
  EXPECT_EQ(far.service->admission().admitted(), 1u) << "nor does the rate take of admission";
  server.expect(EventType::kConnectRequest);
}

TEST_F(Few, EventsOfAProgramThatDoesNotTakeThem) {
  const auto id = client.create();
  int error = 0, events = 0;
  while (error == 0 && events < 1000) {
    error = client.resolve_address(id, address("10.9.9.9"));
    if (error == 0) ++events;
  }
  EXPECT_EQ(error, ENOMEM);
  EXPECT_LE(events, 64);
  EXPECT_EQ(near.refused[Refusal::kEvents], 1);
  client.expect(EventType::kAddrError, -ETIMEDOUT);
  EXPECT_EQ(client.resolve_address(id, address("10.9.9.9")), 0);
}

// --- SET_OPTION

class IdentifierOptions : public Few {
 protected:
  std::uint32_t id = client.create();
};

TEST_F(IdentifierOptions, SizesAndNames) {
  EXPECT_EQ(client.set_option(id, RDMA_OPTION_ID_TOS, 1), EINVAL);
  EXPECT_EQ(client.set_option(id, RDMA_OPTION_ID_REUSEADDR, std::uint8_t{1}), EINVAL);
  EXPECT_EQ(client.set_option(id, RDMA_OPTION_ID_AFONLY, std::uint8_t{1}), EINVAL);
  EXPECT_EQ(client.set_option(id, RDMA_OPTION_ID_ACK_TIMEOUT, 1), EINVAL);
  EXPECT_EQ(client.set_option(id, RDMA_OPTION_ID_ACK_TIMEOUT, std::uint8_t{32}), EINVAL);
  EXPECT_EQ(client.set_option(id, RDMA_OPTION_ID_ACK_TIMEOUT, std::uint8_t{31}), 0);
  EXPECT_EQ(client.set_option(id, 4, 1), ENOSYS);
  EXPECT_EQ(client.set_option(id, RDMA_OPTION_IB, 2, {}), ENOSYS);
  EXPECT_EQ(client.set_option(id, 2, 0, {}), ENOSYS);
  const auto datagram = client.create(PortSpace::kUdp);
  EXPECT_EQ(client.set_option(datagram, RDMA_OPTION_ID_ACK_TIMEOUT, std::uint8_t{14}), EINVAL);
}

TEST_F(IdentifierOptions, AValueThatIsNotThere) {
  rdma_ucm_set_option body{};
  body.id = id;
  body.optname = RDMA_OPTION_ID_REUSEADDR;
  for (const std::uint32_t length : {4u, 0xffffffffu, 0x80000000u}) {
    body.optlen = length;
    EXPECT_EQ(client.command(RDMA_USER_CM_CMD_SET_OPTION, body), EINVAL);
  }
}

TEST_F(IdentifierOptions, ReuseOfAnAddress) {
  const SocketAddress at = address("10.0.0.1", 7174);
  const auto other = client.create();
  ASSERT_EQ(client.bind(id, at), 0);
  EXPECT_EQ(client.set_option(id, RDMA_OPTION_ID_REUSEADDR, 0), EINVAL) << "not back once bound";
  ASSERT_EQ(client.set_option(other, RDMA_OPTION_ID_REUSEADDR, 1), 0);
  EXPECT_EQ(client.bind(other, at), EADDRINUSE);
  ASSERT_EQ(client.set_option(id, RDMA_OPTION_ID_REUSEADDR, 1), 0) << "but may when bound";
  EXPECT_EQ(client.bind(other, at), 0);
  EXPECT_EQ(client.listen(id), EADDRINUSE);
  EXPECT_EQ(client.destroy(other), 0);
  EXPECT_EQ(client.listen(id), 0);
  EXPECT_EQ(client.set_option(id, RDMA_OPTION_ID_REUSEADDR, 1), EINVAL);
}

TEST_F(IdentifierOptions, FamiliesApart) {
  near.own.push_back({.gid = gid("fd00::1"), .index = 1});
  ASSERT_EQ(client.bind(id, address("0.0.0.0", 7174)), 0);
  const auto both = client.create(), only = client.create();
  EXPECT_EQ(client.bind(both, address("::", 7174)), EADDRNOTAVAIL);
  ASSERT_EQ(client.set_option(only, RDMA_OPTION_ID_AFONLY, 1), 0);
  EXPECT_EQ(client.bind(only, address("::", 7174)), 0);
  EXPECT_EQ(client.listen(id), 0);
  EXPECT_EQ(client.listen(only), 0);
  EXPECT_EQ(client.set_option(only, RDMA_OPTION_ID_AFONLY, 0), EINVAL) << "listens";
}

/// A path record as rdma_set_option() packs it.
ib_path_rec_data path(const Gid& source, const Gid& destination, std::uint32_t flags = 1 | 2 | 40) {
  std::array<std::byte, 64> packed{};
  std::memcpy(&packed[8], destination.bytes.data(), 16);
  std::memcpy(&packed[24], source.bytes.data(), 16);
  store_be<std::uint32_t>(&packed[44], 0x54321 << 8 | 7);
  packed[48] = std::byte{0x20};
  packed[54] = std::byte{0x80 | 2};
  packed[55] = std::byte{0x80 | 5};
  packed[56] = std::byte{0x80 | 13};
  ib_path_rec_data data{.flags = flags};
  std::memcpy(data.path_rec, packed.data(), sizeof packed);
  return data;
}

TEST_F(IdentifierOptions, AGivenPathIsARouteResolved) {
  const Gid own = gid("10.0.0.1"), peer = gid("10.0.0.2");
  const auto set = [&](std::initializer_list<ib_path_rec_data> paths) {
    return client.set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH,
                             std::as_bytes(std::span(paths.begin(), paths.size())));
  };
  EXPECT_EQ(set({path(own, peer)}), EINVAL) << "no address yet";
  ASSERT_EQ(client.resolve_address(id, to), 0);
  client.expect(EventType::kAddrResolved);
  EXPECT_EQ(set({}), EINVAL);
  EXPECT_EQ(set({path(own, peer, 1)}), EINVAL) << "not for both directions";
  EXPECT_EQ(set({path(peer, peer)}), EINVAL) << "from another host's address";
  EXPECT_EQ(set({path(own, gid("10.0.0.3"))}), EINVAL);
  EXPECT_EQ(
      client.set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, std::as_bytes(std::span("short"))),
      EINVAL);
  EXPECT_EQ(set({path(own, peer, 4), path(own, peer)}), 0);
  EXPECT_EQ(client.expect(EventType::kRouteResolved).id, id);
  EXPECT_EQ(set({path(own, peer)}), EINVAL) << "once";
  rdma_ucm_query_route_resp route{};
  ASSERT_EQ(client.query_route(id, route), 0);
  EXPECT_EQ(route.ib_route[0].mtu, 2u);
  EXPECT_EQ(route.ib_route[0].rate, 5);
  EXPECT_EQ(route.ib_route[0].packet_life_time, 13);
  EXPECT_EQ(ntohl(route.ib_route[0].flow_label), 0x54321u);
  EXPECT_EQ(route.ib_route[0].traffic_class, 0x20);
  EXPECT_EQ(route.ib_route[0].hop_limit, 7);
  EXPECT_EQ(client.connect(id), 0);
}

}  // namespace
}  // namespace softhca::management::rdma_cm
