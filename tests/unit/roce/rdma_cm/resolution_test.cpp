// SPDX-License-Identifier: Apache-2.0

// Addresses, ports and routes of identifiers, without a service.
#include <cerrno>

#include "daemon/roce/rdma_cm/addresses/address_resolution.hpp"
#include "daemon/roce/rdma_cm/addresses/resolved_route.hpp"
#include "daemon/roce/rdma_cm/addresses/route_resolution.hpp"
#include "tests/unit/roce/rdma_cm/parts.hpp"

namespace softhca::management::rdma_cm {
namespace {

struct Resolution : Parts {
  int resolve(const Identifier& of, const SocketAddress& to, std::uint32_t timeout_ms = 1000) {
    const rdma_ucm_resolve_ip body{.src_addr = {},
                                   .dst_addr = to_sockaddr(to),
                                   .id = of.number.value,
                                   .timeout_ms = timeout_ms};
    return resolution.resolve_ip(command(channel, body));
  }
  Channel& channel = open();
  Identifier& id = make(channel);
  AddressResolution resolution{environment, addresses, ports, binding, identifiers, events};
  RouteResolution routes{environment, identifiers, events};
};

TEST_F(Resolution, BindsToOwnAddressesAndPortsOnly) {
  EXPECT_EQ(binding.bind(command(channel), id, at(kPeer, 0)), EADDRNOTAVAIL);
  EXPECT_EQ(binding.bind(command(channel), id, at(kOwn, 80)), EACCES);
  EXPECT_FALSE(id.local.is_set());
  EXPECT_EQ(binding.bind(command(channel), id, at(kOwn, 7000)), 0);
  EXPECT_EQ(id.source, kOwn);
  EXPECT_EQ(binding.bind(command(channel), id, at(kOwn, 7001)), EINVAL) << "bound already";
  Identifier& other = make(channel);
  EXPECT_EQ(binding.bind(command(channel), other, at(kOwn, 7000)), EADDRINUSE);
  Identifier& datagrams = make(channel, PortSpace::kUdp);
  EXPECT_EQ(binding.bind(command(channel), datagrams, at(kOwn, 7000)), 0) << "another space";
  ports.release(id);
  EXPECT_EQ(binding.bind(command(channel), other, at(kOwn, 7000)), 0);
}

TEST_F(Resolution, ALoopbackAddressStandsForTheFirstOwnOne) {
  EXPECT_EQ(binding.bind(command(channel), id, at(Gid::from_ipv4(0x7f000001), 0)), 0);
  EXPECT_EQ(id.source, kOwn);
  EXPECT_TRUE(id.loopback_only);
}

TEST_F(Resolution, ANeighbourIsAskedForAndAnswers) {
  EXPECT_EQ(resolve(id, at(kPeer, 7)), 0);
  ASSERT_EQ(environment.asked.size(), 1u);
  EXPECT_EQ(environment.asked[0].second, kPeer);
  EXPECT_EQ(id.state, IdentifierState::kResolvingAddress);
  resolution.resolved(environment.last_cookie, true);
  EXPECT_EQ(id.source, kOwn);
  EXPECT_EQ(events_of(channel), Events{EventType::kAddrResolved});
  resolution.resolved(environment.last_cookie, false);
  EXPECT_EQ(events_of(channel), Events{}) << "answered already";
  EXPECT_EQ(resolution.next_deadline(), kNever);
}

TEST_F(Resolution, ANeighbourThatDoesNotAnswerIsAnError) {
  EXPECT_EQ(resolve(id, at(kPeer, 7), 500), 0);
  EXPECT_EQ(resolution.next_deadline(), now + std::chrono::milliseconds(500));
  resolution.expire(now + std::chrono::milliseconds(499));
  EXPECT_EQ(events_of(channel), Events{});
  resolution.expire(now + std::chrono::milliseconds(500));
  EXPECT_EQ(events_of(channel), Events{EventType::kAddrError});
  EXPECT_EQ(id.state, IdentifierState::kBound) << "it may try again";
}

TEST_F(Resolution, AnOwnAddressIsReachedFromItself) {
  EXPECT_EQ(resolve(id, at(kOwnToo, 7)), 0);
  EXPECT_TRUE(environment.asked.empty());
  EXPECT_EQ(id.source, kOwnToo);
}

TEST_F(Resolution, AnAddressThatIsGoneIsToldOnce) {
  Identifier& bound = make_bound(channel);
  environment.own = {{kOwnToo, 2}};
  resolution.addresses_changed();
  resolution.addresses_changed();
  EXPECT_EQ(events_of(channel), Events{EventType::kAddrChange});
  EXPECT_TRUE(bound.address_gone);
}

TEST_F(Resolution, ARouteIsThatOfTheAdapterAndTheOptions) {
  Identifier& bound = make_bound(channel);
  bound.options.traffic_class = 0x20;
  bound.options.ack_timeout = 15;
  const ResolvedRoute route = route_to(bound, environment.adapter({}));
  EXPECT_EQ(route.mtu, 4);
  EXPECT_EQ(route.traffic_class, 0x20);
  EXPECT_EQ(route.packet_life_time, 14) << "half of the acknowledge timeout";
  bound.remote = at(kPeer, 9);
  EXPECT_EQ(path_of(bound, environment.adapter({})).traffic_class, 0x20);
  bound.route = ResolvedRoute{.traffic_class = 1};
  EXPECT_EQ(path_of(bound, environment.adapter({})).traffic_class, 1) << "that of the route";
}

TEST_F(Resolution, ARouteFollowsAnAddress) {
  const rdma_ucm_resolve_route body{.id = id.number.value, .timeout_ms = 1};
  EXPECT_EQ(routes.resolve_route(command(channel, body)), EINVAL);
  EXPECT_EQ(resolve(id, at(kOwnToo, 7)), 0);
  EXPECT_EQ(routes.resolve_route(command(channel, body)), 0);
  EXPECT_EQ(events_of(channel), (Events{EventType::kAddrResolved, EventType::kRouteResolved}));
}

TEST_F(Resolution, APathRecordOfOtherAddressesIsRefused) {
  EXPECT_EQ(resolve(id, at(kOwnToo, 7)), 0);
  const std::vector<std::byte> half(sizeof(ib_path_rec_data) / 2);
  EXPECT_EQ(routes.set_path(command(channel), id, half), EINVAL);
  ib_path_rec_data record{};
  record.flags = IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL;
  EXPECT_EQ(routes.set_path(command(channel), id, std::as_bytes(std::span(&record, 1))), EINVAL);
  EXPECT_FALSE(id.route);
}

}  // namespace
}  // namespace softhca::management::rdma_cm
