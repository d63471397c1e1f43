// SPDX-License-Identifier: Apache-2.0

// The life of identifiers, their options, and what operators see of them, without a service.
#include <array>
#include <cerrno>
#include <cstring>

#include "daemon/roce/rdma_cm/addresses/address_resolution.hpp"
#include "daemon/roce/rdma_cm/addresses/route_resolution.hpp"
#include "daemon/roce/rdma_cm/connections/identifier_listeners.hpp"
#include "daemon/roce/rdma_cm/identifier_lifecycle.hpp"
#include "daemon/roce/rdma_cm/identifier_options.hpp"
#include "daemon/roce/rdma_cm/multicast_joins.hpp"
#include "daemon/roce/rdma_cm/views.hpp"
#include "tests/unit/roce/rdma_cm/peer.hpp"

namespace softhca::management::rdma_cm {
namespace {

struct Lifecycle : WithPeer {
  int create(std::uint16_t space = RDMA_PS_TCP) {
    rdma_ucm_create_id body{};
    body.uid = 5;
    body.ps = space;
    return lifecycle.create_id(command(channel, body));
  }
  int destroy(Channel& by, const Identifier& of) {
    rdma_ucm_destroy_id body{};
    body.id = of.number.value;
    return lifecycle.destroy_id(command(by, body));
  }
  int listen(const Identifier& of) {
    return listeners.listen(command(channel, rdma_ucm_listen{.id = of.number.value, .backlog = 4}));
  }
  /// Makes a peer's connection request. Its event waits until the listener's program fetches it.
  Identifier& make_request(Identifier& listener) {
    Identifier& request = identifiers.make();
    request.space = listener.space;
    events.push(channel, listener, {.owner = listener.number, .request = request.number});
    return request;
  }
  template <class T>
  T replied() const {
    T to{};
    EXPECT_EQ(reply.bytes, sizeof to);
    std::memcpy(&to, reply.body.data(), sizeof to);
    return to;
  }

  AddressResolution resolution{environment, addresses, ports, binding, identifiers, events};
  IdentifierListeners listeners{environment, limits, binding, ports, identifiers};
  MulticastJoins multicast{core};
  IdentifierLifecycle lifecycle{core,
                                {.ports = ports,
                                 .resolution = resolution,
                                 .listeners = listeners,
                                 .multicast = multicast,
                                 .admission = admission,
                                 .connections = commands}};
};

TEST_F(Lifecycle, AnIdentifierIsOfItsChannelAndPortSpace) {
  ASSERT_EQ(create(RDMA_PS_UDP), 0);
  const std::uint32_t number = replied<rdma_ucm_create_id_resp>().id;
  Identifier* const made = identifiers.find(number);
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(made->channel, channel.id);
  EXPECT_EQ(made->uid, 5u);
  EXPECT_EQ(made->space, PortSpace::kUdp);
  EXPECT_TRUE(channel.identifiers.contains(made->number));
  EXPECT_EQ(create(RDMA_PS_IB), EINVAL);
}

TEST_F(Lifecycle, ThereAreSoManyIdentifiers) {
  limits.identifiers = 2;
  EXPECT_EQ(create(), 0);
  EXPECT_EQ(create(), EMFILE);
  EXPECT_EQ(environment.refused[Refusal::kIdentifiers], 1);
}

TEST_F(Lifecycle, DestroyGivesBackAllThatAnIdentifierHas) {
  Identifier& listener = make_bound(channel);
  const std::uint16_t port = listener.local.port;
  ASSERT_EQ(listen(listener), 0);
  const IdentifierNumber number = listener.number;
  listener.events_reported = 3;
  EXPECT_EQ(destroy(open(), listener), EINVAL) << "another channel's";
  EXPECT_EQ(destroy(channel, listener), 0);
  EXPECT_EQ(replied<rdma_ucm_destroy_id_resp>().events_reported, 3u);
  EXPECT_EQ(identifiers.find(number.value), nullptr);
  EXPECT_FALSE(channel.identifiers.contains(number));
  EXPECT_EQ(listeners.size(), 0u);
  EXPECT_EQ(binding.bind(command(channel), make(channel), at(kOwn, port)), 0) << "its port is free";
}

TEST_F(Lifecycle, DestroyLeavesGroups) {
  Identifier& member = make_bound(channel, PortSpace::kUdp);
  const rdma_ucm_join_ip_mcast body{
      .uid = 5, .addr = to_sockaddr(at(Gid::from_ipv4(0xe0000105), 0)), .id = member.number.value};
  ASSERT_EQ(multicast.join(command(channel, body)), 0);
  EXPECT_EQ(destroy(channel, member), 0);
  EXPECT_EQ(multicast.memberships(), 0u);
  EXPECT_EQ(events_of(channel), Events{});
}

TEST_F(Lifecycle, DestroyTellsThePeer) {
  be_established();
  EXPECT_EQ(destroy(channel, id), 0);
  exchange();
  EXPECT_EQ(peer_user.events.back(), cm::Event::Kind::kDisconnectRequested);
}

TEST_F(Lifecycle, RequestsThatNoProgramHasHeardOfGoWithTheirListener) {
  Identifier& listener = make_bound(channel);
  ASSERT_EQ(listen(listener), 0);
  const IdentifierNumber request = make_request(listener).number;
  EXPECT_EQ(destroy(channel, listener), 0);
  EXPECT_EQ(identifiers.find(request.value), nullptr);
  EXPECT_EQ(events_of(channel), Events{});
}

TEST_F(Lifecycle, AllOfAChannelAreDestroyedAndNoOthers) {
  make_bound(channel);
  make(channel);
  Identifier& other = make(open());
  while (!lifecycle.destroy_some(channel, now)) {
  }
  EXPECT_TRUE(channel.identifiers.empty());
  EXPECT_EQ(identifiers.size(), 1u);
  EXPECT_EQ(identifiers.find(other.number.value), &other);
}

TEST_F(Lifecycle, ARemovedDeviceIsToldOnceAndLeavesOnlyDestroy) {
  be_established();
  Identifier& bound = make_bound(channel);
  const std::uint16_t port = bound.local.port;
  for (int i = 0; i < 2; ++i) {
    lifecycle.device_removed();
    while (lifecycle.is_removing()) lifecycle.remove_some(now);
  }
  EXPECT_TRUE(lifecycle.is_removed());
  EXPECT_EQ(events_of(channel), (Events{EventType::kDeviceRemoval, EventType::kDeviceRemoval}));
  exchange();
  EXPECT_EQ(peer_user.events.back(), cm::Event::Kind::kDisconnectRequested);
  EXPECT_EQ(create(), ENODEV);
  EXPECT_EQ(binding.bind(command(channel), make(channel), at(kOwn, port)), 0) << "its port is free";
  EXPECT_EQ(connect(), ENXIO);
  EXPECT_EQ(destroy(channel, bound), 0);
}

struct SetOption : WithPeer {
  template <class Value>
  int set(std::uint32_t level, std::uint32_t name, Value value,
          std::uint32_t bytes = sizeof(Value)) {
    rdma_ucm_set_option head{};
    head.id = of->number.value;
    head.level = level;
    head.optname = name;
    head.optlen = bytes;
    std::array<std::byte, sizeof head + sizeof value> body;
    std::memcpy(body.data(), &head, sizeof head);
    std::memcpy(body.data() + sizeof head, &value, sizeof value);
    return options.set_option(command(*by, body));
  }
  int set_flag(std::uint32_t name, std::int32_t value) { return set(RDMA_OPTION_ID, name, value); }
  int set_byte(std::uint32_t name, std::uint8_t value) { return set(RDMA_OPTION_ID, name, value); }

  Channel* by = &channel;
  const Identifier* of = &id;
  RouteResolution routes{environment, identifiers, events};
  IdentifierOptions options{identifiers, ports, routes};
};

TEST_F(SetOption, OfOneByte) {
  EXPECT_EQ(set_byte(RDMA_OPTION_ID_TOS, 0x20), 0);
  EXPECT_EQ(id.options.traffic_class, 0x20);
  EXPECT_EQ(set_byte(RDMA_OPTION_ID_ACK_TIMEOUT, 31), 0);
  EXPECT_EQ(id.options.ack_timeout, 31);
  EXPECT_EQ(set_byte(RDMA_OPTION_ID_ACK_TIMEOUT, 32), EINVAL);
  EXPECT_EQ(set_flag(RDMA_OPTION_ID_TOS, 1), EINVAL) << "four bytes are not one";
  id.space = PortSpace::kUdp;
  EXPECT_EQ(set_byte(RDMA_OPTION_ID_ACK_TIMEOUT, 14), EINVAL) << "datagrams have none";
}

TEST_F(SetOption, ReuseOfAnAddress) {
  EXPECT_EQ(set_flag(RDMA_OPTION_ID_REUSEADDR, 0), EINVAL) << "taken back before binding only";
  EXPECT_EQ(set_flag(RDMA_OPTION_ID_REUSEADDR, 1), 0);
  EXPECT_TRUE(id.options.reuse_address);
  id.state = IdentifierState::kListen;
  EXPECT_EQ(set_flag(RDMA_OPTION_ID_REUSEADDR, 1), EINVAL);
  id.state = IdentifierState::kIdle;
  EXPECT_EQ(set_flag(RDMA_OPTION_ID_REUSEADDR, 0), 0);
  EXPECT_FALSE(id.options.reuse_address);
}

TEST_F(SetOption, APortInUseIsSharedOnceItsHolderAllowsIt) {
  Identifier& holder = make_bound(channel);
  Identifier& other = make(channel);
  other.options.reuse_address = true;
  const SocketAddress same = holder.local;
  EXPECT_EQ(binding.bind(command(channel), other, same), EADDRINUSE);
  of = &holder;
  EXPECT_EQ(set_flag(RDMA_OPTION_ID_REUSEADDR, 1), 0);
  EXPECT_EQ(binding.bind(command(channel), other, same), 0);
}

TEST_F(SetOption, KeepingToAFamily) {
  EXPECT_EQ(set_flag(RDMA_OPTION_ID_AFONLY, 1), EINVAL) << "its route is resolved";
  id.state = IdentifierState::kBound;
  EXPECT_EQ(set_flag(RDMA_OPTION_ID_AFONLY, 1), 0);
  EXPECT_EQ(id.options.af_only, true);
  EXPECT_EQ(set_byte(RDMA_OPTION_ID_AFONLY, 1), EINVAL) << "one byte is not four";
}

TEST_F(SetOption, OthersAreNotThere) {
  EXPECT_EQ(set_flag(9, 1), ENOSYS);
  EXPECT_EQ(set(RDMA_OPTION_IB, 9, 1), ENOSYS);
  EXPECT_EQ(set(7, RDMA_OPTION_ID_TOS, std::uint8_t{1}), ENOSYS);
  EXPECT_EQ(set(RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, 1), EINVAL) << "not a path record";
}

TEST_F(SetOption, AValueEndsWithinTheCommand) {
  EXPECT_EQ(set(RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, std::uint8_t{1}, 2), EINVAL);
  EXPECT_EQ(set(RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, std::uint8_t{1}, 0xffffffff), EINVAL);
  by = &open();
  EXPECT_EQ(set_byte(RDMA_OPTION_ID_TOS, 1), EINVAL) << "another channel's";
  EXPECT_EQ(id.options.traffic_class, 0);
}

struct Views : WithPeer {};

TEST_F(Views, AnIdentifierWithoutAConnectionIsNone) {
  EXPECT_FALSE(connection_of(id, channels, manager));
}

TEST_F(Views, AnActiveConnectionIsForThePeersService) {
  ASSERT_EQ(connect(), 0);
  const auto info = connection_of(id, channels, manager);
  ASSERT_TRUE(info);
  EXPECT_EQ(info->state, IdentifierState::kConnect);
  EXPECT_EQ(info->manager_state, cm::State::kReqSent);
  EXPECT_EQ(info->role, Role::kActive);
  EXPECT_EQ(info->local, id.local);
  EXPECT_EQ(info->remote, id.remote);
  EXPECT_EQ(info->service_id, id.service_id(9));
  EXPECT_EQ(info->qpn, Qpn(0x55));
  EXPECT_EQ(info->process, 1);
}

TEST_F(Views, APassiveOneIsForOurService) {
  be_asked();
  id.channel = {};
  const auto info = connection_of(id, channels, manager);
  ASSERT_TRUE(info);
  EXPECT_EQ(info->role, Role::kPassive);
  EXPECT_EQ(info->service_id, id.service_id(7000));
  EXPECT_EQ(info->process, 0) << "no process has taken it";
}

TEST_F(Views, AConnectionThatIsOverIsStillShown) {
  ASSERT_EQ(connect(), 0);
  commands.end(id, now);
  const auto info = connection_of(id, channels, manager);
  ASSERT_TRUE(info);
  EXPECT_FALSE(info->manager_state);
}

TEST_F(Views, AListenerIsShownWithItsBacklog) {
  EXPECT_FALSE(listener_of(id, channels));
  id.state = IdentifierState::kListen;
  id.listener = {.backlog = 8, .waiting = 3};
  const auto info = listener_of(id, channels);
  ASSERT_TRUE(info);
  EXPECT_EQ(info->local, id.local);
  EXPECT_EQ(info->backlog, 8u);
  EXPECT_EQ(info->waiting, 3u);
  EXPECT_EQ(info->process, 1);
}

TEST_F(Lifecycle, AChannelWithManyIdentifiers_IsClosedInParts) {
  for (int i = 0; i < 100; ++i) make(channel);
  const std::size_t before = identifiers.size();
  std::size_t parts = 0;
  for (bool over = false; !over; ++parts) {
    const std::size_t left = identifiers.size();
    over = lifecycle.destroy_some(channel, now);
    EXPECT_LE(left - identifiers.size(), 32u);
  }
  EXPECT_EQ(before - identifiers.size(), 101u) << "with that of the fixture";
  EXPECT_GE(parts, 4u);
}

TEST_F(Lifecycle, ARemovedDeviceWithManyIdentifiers_TellsThemInParts) {
  for (int i = 0; i < 100; ++i) make_bound(channel);
  lifecycle.device_removed();
  lifecycle.remove_some(now);
  EXPECT_TRUE(lifecycle.is_removing());
  EXPECT_LE(events_of(channel).size(), 32u);
  while (lifecycle.is_removing()) lifecycle.remove_some(now);
  EXPECT_EQ(create(), ENODEV);
}

}  // namespace
}  // namespace softhca::management::rdma_cm
