// SPDX-License-Identifier: Apache-2.0

// Addresses as commands hold them, and BIND_IP, RESOLVE_IP, RESOLVE_ROUTE, QUERY_ROUTE.
#include <arpa/inet.h>

#include <cerrno>

#include "tests/unit/roce/rdma_cm/world.hpp"

namespace softhca::management::rdma_cm {
namespace {

TEST(SocketAddress, GoesInAndOut) {
  for (const char* const text : {"0.0.0.0", "10.1.2.3", "::", "fd00::1", "::ffff:10.0.0.1"}) {
    SocketAddress from = address(text, 7174);
    if (from.family == AF_INET6) {
      from.scope = 3;
      from.flow_info = 0x11223344;
    }
    const auto back = from_sockaddr(to_sockaddr(from));
    ASSERT_TRUE(back) << text;
    EXPECT_EQ(*back, from) << text;
  }
  EXPECT_FALSE(from_sockaddr({}));
  for (int family = 0; family < 0x10000; ++family) {
    sockaddr_in6 any{};
    any.sin6_family = static_cast<sa_family_t>(family);
    EXPECT_EQ(from_sockaddr(any).has_value(), family == AF_INET || family == AF_INET6);
  }
}

TEST(SocketAddress, Kinds) {
  EXPECT_TRUE(address("127.255.0.1").is_loopback());
  EXPECT_TRUE(address("::1").is_loopback());
  EXPECT_FALSE(address("::2").is_loopback());
  EXPECT_FALSE(address("128.0.0.1").is_loopback());
  EXPECT_TRUE(address("0.0.0.0").is_any());
  EXPECT_TRUE(address("::").is_any());
  EXPECT_FALSE(address("0.0.0.1").is_any());
}

class Addresses : public testing::Test {
 protected:
  World world;
  Host host{world, {"10.0.0.1", "10.0.0.2", "fe80::1", "fd00::1"}};
  Host other{world, {"10.0.0.9", "fd00::9"}};
  Program program{host};

  rdma_ucm_query_route_resp route(std::uint32_t id) {
    rdma_ucm_query_route_resp answer{};
    EXPECT_EQ(program.query_route(id, answer), 0);
    return answer;
  }
  SocketAddress local(std::uint32_t id) {
    return from_sockaddr(route(id).src_addr).value_or(SocketAddress{});
  }
  SocketAddress remote(std::uint32_t id) {
    return from_sockaddr(route(id).dst_addr).value_or(SocketAddress{});
  }
};

TEST_F(Addresses, BindToAnAddressFindsTheAdapter) {
  const auto id = program.create();
  EXPECT_EQ(route(id).node_guid, 0u);
  EXPECT_EQ(program.bind(id, address("10.0.0.2", 7174)), 0);
  EXPECT_EQ(local(id), address("10.0.0.2", 7174));
  const auto answer = route(id);
  EXPECT_EQ(be64toh(answer.node_guid), host.guid);
  EXPECT_EQ(answer.port_num, 1);
  EXPECT_EQ(answer.num_paths, 0u);
  EXPECT_EQ(answer.ib_route[0].pkey, 0xffff);
  EXPECT_EQ(std::memcmp(answer.ib_route[0].sgid, gid("10.0.0.2").bytes.data(), 16), 0);
}

TEST_F(Addresses, BindToAWildcardDoesNot) {
  const auto id = program.create();
  EXPECT_EQ(program.bind(id, address("0.0.0.0", 7174)), 0);
  EXPECT_EQ(route(id).node_guid, 0u);
  EXPECT_EQ(local(id), address("0.0.0.0", 7174));
}

TEST_F(Addresses, BindRefuses) {
  const auto bind = [&](const SocketAddress& at) {
    const auto id = program.create();
    const int error = program.bind(id, at);
    if (error != 0) {
      EXPECT_EQ(program.bind(id, address("10.0.0.1")), 0) << "it may try again";
    }
    return error;
  };
  EXPECT_EQ(bind(address("10.0.0.9", 7174)), EADDRNOTAVAIL);
  EXPECT_EQ(bind(address("fd00::2", 7174)), EADDRNOTAVAIL);
  EXPECT_EQ(bind(address("224.0.0.1", 7174)), EADDRNOTAVAIL);
  EXPECT_EQ(bind(address("10.0.0.1", 1023)), EACCES);
  EXPECT_EQ(bind(address("10.0.0.1", 1024)), 0);
  EXPECT_EQ(bind(address("10.0.0.1", 1024)), EADDRINUSE);
  EXPECT_EQ(bind({}), EINVAL);
  const auto twice = program.create();
  EXPECT_EQ(program.bind(twice, address("10.0.0.1")), 0);
  EXPECT_EQ(program.bind(twice, address("10.0.0.1")), EINVAL);
}

TEST_F(Addresses, LowPortsAreForThoseWhoMay) {
  Program root(host, {.process = 2, .may_bind_low_ports = true});
  EXPECT_EQ(root.bind(root.create(), address("10.0.0.1", 111)), 0);
}

TEST_F(Addresses, PortSpacesAndTenantsAreApart) {
  for (const PortSpace space : {PortSpace::kTcp, PortSpace::kUdp, PortSpace::kIpoib})
    EXPECT_EQ(program.bind(program.create(space), address("10.0.0.1", 7174)), 0);
  Host twin(world, {"10.0.0.1"});
  Program elsewhere(twin);
  EXPECT_EQ(elsewhere.bind(elsewhere.create(), address("10.0.0.1", 7174)), 0);
}

TEST_F(Addresses, PortZeroIsAnyOfTheLocalRange) {
  const auto id = program.create();
  EXPECT_EQ(program.bind(id, address("10.0.0.1")), 0);
  EXPECT_GE(local(id).port, 32768);
  EXPECT_LE(local(id).port, 60999);
  const auto again = program.create();
  EXPECT_EQ(program.bind(again, address("10.0.0.1")), 0);
  EXPECT_NE(local(again).port, local(id).port);
}

TEST_F(Addresses, LoopbackIsTheTenantsOwn) {
  const auto ipv4 = program.create();
  EXPECT_EQ(program.bind(ipv4, address("127.0.0.1", 7174)), 0);
  EXPECT_EQ(local(ipv4), address("10.0.0.1", 7174));
  const auto ipv6 = program.create();
  EXPECT_EQ(program.bind(ipv6, address("::1", 7174)), 0);
  EXPECT_EQ(local(ipv6), address("fd00::1", 7174)) << "rather than the link local one";
  Program only_ipv4(other);
  other.own.resize(1);
  EXPECT_EQ(only_ipv4.bind(only_ipv4.create(), address("::1", 7174)), EADDRNOTAVAIL);
}

TEST_F(Addresses, TenantOfTheLoopbackNetwork_OthersThere_AreNotItself) {
  Host near(world, {"127.7.7.1"});
  Host far(world, {"127.7.7.2"});
  Program client(near);
  const auto peer = client.create();
  EXPECT_EQ(client.resolve_address(peer, address("127.7.7.2", 7174)), 0);
  client.expect(EventType::kAddrResolved);
  rdma_ucm_query_route_resp route{};
  EXPECT_EQ(client.query_route(peer, route), 0);
  EXPECT_EQ(from_sockaddr(route.src_addr)->address, gid("127.7.7.1"));
  EXPECT_EQ(from_sockaddr(route.dst_addr), address("127.7.7.2", 7174));
  const auto itself = client.create();
  EXPECT_EQ(client.resolve_address(itself, address("127.0.0.1", 7174)), 0);
  client.expect(EventType::kAddrResolved);
  EXPECT_EQ(client.query_route(itself, route), 0);
  EXPECT_EQ(from_sockaddr(route.dst_addr), address("127.7.7.1", 7174));
  EXPECT_EQ(client.bind(client.create(), address("127.7.7.2", 7175)), EADDRNOTAVAIL);
}

TEST_F(Addresses, DestroyFreesThePort) {
  const auto id = program.create();
  EXPECT_EQ(program.bind(id, address("10.0.0.1", 7174)), 0);
  EXPECT_EQ(program.destroy(id), 0);
  EXPECT_EQ(program.bind(program.create(), address("10.0.0.1", 7174)), 0);
}

TEST_F(Addresses, ResolveFindsTheSource) {
  const auto id = program.create();
  EXPECT_EQ(program.resolve_address(id, address("10.0.0.9", 7174)), 0);
  const auto event = program.expect(EventType::kAddrResolved);
  EXPECT_EQ(event.id, id);
  EXPECT_EQ(event.uid, Program::kCreatedUid);
  EXPECT_EQ(local(id).address, gid("10.0.0.1"));
  EXPECT_GE(local(id).port, 32768);
  EXPECT_EQ(remote(id), address("10.0.0.9", 7174));
  EXPECT_EQ(host.asked.size(), 1u);
}

TEST_F(Addresses, ResolveTakesTheSourceItIsGiven) {
  const auto id = program.create();
  EXPECT_EQ(program.resolve_address(id, address("10.0.0.9", 7174), address("10.0.0.2", 5000)), 0);
  program.expect(EventType::kAddrResolved);
  EXPECT_EQ(local(id), address("10.0.0.2", 5000));
  const auto bound = program.create();
  EXPECT_EQ(program.bind(bound, address("10.0.0.2", 5001)), 0);
  EXPECT_EQ(program.resolve_address(bound, address("10.0.0.9", 7174), address("10.0.0.1", 5002)),
            0);
  program.expect(EventType::kAddrResolved);
  EXPECT_EQ(local(bound), address("10.0.0.2", 5001)) << "it was bound already";
}

TEST_F(Addresses, ResolveOfOwnAddressesAsksNobody) {
  host.neighbours_answer = false;
  for (const char* const to : {"10.0.0.2", "127.0.0.1", "0.0.0.0", "::1", "::", "fd00::1"}) {
    SCOPED_TRACE(to);
    const auto id = program.create();
    EXPECT_EQ(program.resolve_address(id, address(to, 7174)), 0);
    program.expect(EventType::kAddrResolved);
    EXPECT_EQ(local(id).address, remote(id).address);
    EXPECT_TRUE(host.has(remote(id).address));
  }
  const auto bound = program.create();
  EXPECT_EQ(program.bind(bound, address("10.0.0.2", 7174)), 0);
  EXPECT_EQ(program.resolve_address(bound, address("127.0.0.1", 7175)), 0);
  program.expect(EventType::kAddrResolved);
  EXPECT_EQ(remote(bound), address("10.0.0.2", 7175));
  EXPECT_TRUE(host.asked.empty());
}

TEST_F(Addresses, ResolveRefuses) {
  const auto id = program.create();
  EXPECT_EQ(program.resolve_address(id, {}), EINVAL);
  EXPECT_EQ(program.resolve_address(id, address("10.0.0.9"), address("10.0.0.9")), EADDRNOTAVAIL);
  EXPECT_EQ(program.resolve_address(id, address("10.0.0.9"), address("fd00::1")), EINVAL);
  const auto lonely = program.create();
  host.own.erase(host.own.begin() + 2, host.own.end());
  EXPECT_EQ(program.resolve_address(lonely, address("fd00::9")), ENETUNREACH);
  EXPECT_EQ(program.resolve_address(lonely, address("::1")), ENETUNREACH);
  EXPECT_FALSE(remote(lonely).port);
  program.expect_none();
}

TEST_F(Addresses, AnUnreachableNeighbourIsAnError) {
  const auto id = program.create();
  EXPECT_EQ(program.resolve_address(id, address("10.0.0.77", 7174)), 0);
  program.expect(EventType::kAddrError, -ETIMEDOUT);
  EXPECT_EQ(program.resolve_address(id, address("10.0.0.9", 7174)), 0) << "it may try again";
  program.expect(EventType::kAddrResolved);
}

TEST_F(Addresses, ResolvingTakesNoLongerThanAsked) {
  host.neighbours_answer = false;
  const auto id = program.create();
  EXPECT_EQ(program.resolve_address(id, address("10.0.0.9", 7174), {}, 2000), 0);
  EXPECT_EQ(program.resolve_address(id, address("10.0.0.9", 7174)), EINVAL) << "under way";
  EXPECT_EQ(host.service->next_deadline(), world.now + 2s);
  world.advance(1999ms);
  program.expect_none();
  world.advance(1ms);
  program.expect(EventType::kAddrError, -ETIMEDOUT);
  host.service->resolved(host.asked[0], true);
  program.expect_none();
  EXPECT_EQ(host.service->next_deadline(), kNever);
}

TEST_F(Addresses, AnAnswerForADestroyedIdentifierIsForNobody) {
  host.neighbours_answer = false;
  const auto id = program.create();
  EXPECT_EQ(program.resolve_address(id, address("10.0.0.9", 7174)), 0);
  EXPECT_EQ(program.destroy(id), 0);
  const auto next = program.create();
  EXPECT_EQ(next, id) << "the lowest number";
  EXPECT_EQ(program.resolve_address(next, address("10.0.0.9", 7174)), 0);
  host.service->resolved(host.asked[0], true);
  host.service->resolved(ResolveCookie(~0ull), true);
  program.expect_none();
  host.service->resolved(host.asked[1], true);
  program.expect(EventType::kAddrResolved);
}

TEST_F(Addresses, TheRouteIsOnePathRecord) {
  const auto id = program.create();
  EXPECT_EQ(program.resolve_route(id), EINVAL);
  EXPECT_EQ(program.set_option(id, RDMA_OPTION_ID_TOS, std::uint8_t{0x60}), 0);
  EXPECT_EQ(program.resolve_address(id, address("fd00::9", 7174)), 0);
  program.expect(EventType::kAddrResolved);
  EXPECT_EQ(route(id).num_paths, 0u);
  EXPECT_EQ(program.resolve_route(id), 0);
  EXPECT_EQ(program.resolve_route(id), EINVAL);
  program.expect(EventType::kRouteResolved);
  const auto answer = route(id);
  ASSERT_EQ(answer.num_paths, 1u);
  const ib_user_path_rec& path = answer.ib_route[0];
  EXPECT_EQ(std::memcmp(path.dgid, gid("fd00::9").bytes.data(), 16), 0);
  EXPECT_EQ(path.pkey, 0xffff);
  EXPECT_EQ(path.mtu, 4u);
  EXPECT_EQ(path.rate, 3);
  EXPECT_EQ(ntohl(path.flow_label), (local(id).port * 31u + 7174) & 0xfffff);
  EXPECT_EQ(path.hop_limit, 64);
  EXPECT_EQ(path.traffic_class, 0x60);
  EXPECT_EQ(path.packet_life_time, 18);
  EXPECT_EQ(path.mtu_selector, 2);
}

TEST_F(Addresses, AReloadTellsThoseWhoseAddressIsGone) {
  const auto kept = program.create(), gone = program.create(), wildcard = program.create();
  EXPECT_EQ(program.bind(kept, address("10.0.0.1")), 0);
  EXPECT_EQ(program.bind(gone, address("10.0.0.2")), 0);
  EXPECT_EQ(program.bind(wildcard, address("0.0.0.0")), 0);
  host.service->addresses_changed();
  program.expect_none();
  const TenantGid second = host.own[1];
  host.own.erase(host.own.begin() + 1);
  host.service->addresses_changed();
  host.service->addresses_changed();
  EXPECT_EQ(program.expect(EventType::kAddrChange).id, gone);
  program.expect_none();
  host.own.push_back(second);
  host.service->addresses_changed();
  program.expect_none();
}

}  // namespace
}  // namespace softhca::management::rdma_cm
