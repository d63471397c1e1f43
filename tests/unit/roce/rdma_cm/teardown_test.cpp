// SPDX-License-Identifier: Apache-2.0

// Connections that are refused, or end: REJECT, DISCONNECT, DESTROY_ID, timeouts.
#include <cerrno>

#include "tests/unit/roce/rdma_cm/connections.hpp"

namespace softhca::management::rdma_cm {
namespace {

TEST_F(Connections, RejectWithPrivateData) {
  server.listening(to);
  const auto id = client.resolved(to);
  const auto passive = requested(id);
  EXPECT_EQ(server.reject(passive, std::string(149, 'n')), EINVAL);
  EXPECT_EQ(server.reject(passive, std::string(148, 'n')), 0);
  EXPECT_EQ(server.reject(passive), EINVAL) << "over";
  EXPECT_EQ(server.accept(passive), EINVAL);
  world.run();
  const auto event = client.expect(EventType::kRejected, 28);
  EXPECT_EQ(event.param.conn.private_data_len, 148);
  EXPECT_EQ(data_of(event), std::string(148, 'n'));
  EXPECT_EQ(near.rejects_received[wire::CmRejectReason::kConsumer], 1);
  EXPECT_EQ(far.rejects_sent[wire::CmRejectReason::kConsumer], 1);
  EXPECT_EQ(client.connect(id), EINVAL) << "an identifier connects once";
  EXPECT_EQ(client.disconnect(id), 0);
  EXPECT_EQ(server.destroy(passive), 0);
  EXPECT_EQ(client.destroy(id), 3);
  EXPECT_TRUE(nothing_left());
}

TEST_F(Connections, RejectReasons) {
  server.listening(to);
  auto id = client.resolved(to);
  auto passive = requested(id);
  for (int reason = 1; reason < 256; ++reason) {
    if (reason == 28 || reason == 35) continue;
    EXPECT_EQ(server.reject(passive, {}, static_cast<std::uint8_t>(reason)), EINVAL);
  }
  EXPECT_EQ(server.reject(passive, {}, 35), 0);
  world.run();
  client.expect(EventType::kRejected, 35);
}

TEST_F(Connections, TheActiveEndMayRejectTheReply) {
  server.listening(to);
  const auto id = client.resolved(to);
  const auto passive = requested(id);
  ASSERT_EQ(server.accept(passive), 0);
  world.run();
  client.expect(EventType::kConnectResponse);
  EXPECT_EQ(client.reject(id, "no"), 0);
  world.run();
  EXPECT_EQ(data_of(server.expect(EventType::kRejected, 28)), "no");
  EXPECT_TRUE(nothing_left());
}

TEST_F(Connections, NobodyListens) {
  const auto id = client.resolved(to);
  ASSERT_EQ(client.connect(id), 0);
  world.run();
  client.expect(EventType::kRejected, 8);
  EXPECT_EQ(far.rejects_sent[wire::CmRejectReason::kInvalidServiceId], 1);
  EXPECT_TRUE(nothing_left());
}

TEST_F(Connections, AListenerOnAnotherAddress) {
  far.own.push_back({.gid = gid("10.0.0.3"), .index = 2});
  server.listening(address("10.0.0.3", 7174));
  const auto id = client.resolved(to);
  ASSERT_EQ(client.connect(id), 0);
  world.run();
  client.expect(EventType::kRejected, 28);
}

TEST_F(Connections, AHeaderThatIsNotTrueIsRefused) {
  server.listening(to);
  // Version, IP version, source and destination.
  for (const std::size_t at : {0, 1, 4 + 15, 20 + 15}) {
    const auto id = client.resolved(to);
    ASSERT_EQ(client.connect(id), 0);
    auto req = wire::decode_cm<wire::CmReq>(world.queue[0].mad);
    req.private_data[at] ^= std::byte{0x30};
    const auto header = wire::decode_mad_header(world.queue[0].mad);
    world.queue[0].mad = wire::encode_cm(req, header->transaction_id);
    world.run();
    client.expect(EventType::kRejected, 28);
  }
  server.expect_none();
}

TEST_F(Connections, TimesOut) {
  server.listening(to);
  const auto id = client.resolved(to);
  world.loses = [](const World::Packet&) { return true; };
  ASSERT_EQ(client.connect(id), 0);
  world.advance(70s);
  client.expect_none();
  world.advance(60s);
  client.expect(EventType::kUnreachable, -ETIMEDOUT);
  EXPECT_EQ(near.unreachable[Role::kActive], 1);
  EXPECT_EQ(near.service->next_deadline(), kNever);
  EXPECT_TRUE(nothing_left());
}

TEST_F(Connections, SurvivesLoss) {
  server.listening(to);
  std::mt19937 random(1);
  world.loses = [&](const World::Packet&) { return random() % 3 == 0; };
  for (int i = 0; i < 50; ++i) {
    const auto id = client.resolved(to);
    ASSERT_EQ(client.connect(id), 0);
    world.advance(3min);
    const auto passive = server.expect(EventType::kConnectRequest).id;
    ASSERT_EQ(server.accept(passive), 0);
    world.advance(1min);
    client.expect(EventType::kConnectResponse);
    ASSERT_EQ(client.confirm(id), 0);
    world.advance(1min);
    server.expect(EventType::kEstablished);
    ASSERT_EQ(server.disconnect(passive), 0);
    for (int second = 0; second < 300; ++second) {
      world.advance(1s);
      while (const auto event = client.get_event())
        if (event->event == static_cast<std::uint32_t>(EventType::kDisconnected))
          client.disconnect(id);
    }
    server.expect(EventType::kDisconnected, 0);
    server.destroy(passive);
    client.destroy(id);
  }
  world.loses = [](const World::Packet&) { return false; };
  EXPECT_TRUE(nothing_left());
}

TEST_F(Connections, NothingIsReportedBeforeItIsAccepted) {
  server.listening(to);
  const auto id = client.resolved(to);
  const auto passive = requested(id);
  EXPECT_EQ(client.destroy(id), 2);
  EXPECT_EQ(near.rejects_sent[wire::CmRejectReason::kTimeout], 1);
  world.run();
  server.expect_none();
  EXPECT_EQ(server.accept(passive), EINVAL);
  EXPECT_EQ(server.destroy(passive), 0);
  EXPECT_TRUE(nothing_left());
}

TEST_F(Connections, ARequestTooLongIsRefusedAndItsPeerTold) {
  server.listening(to);
  const auto id = client.resolved(to);
  EXPECT_EQ(client.connect(id, std::string(57, 'x')), EINVAL);
  EXPECT_EQ(client.connect(id, std::string(255, 'x')), EINVAL);
  const auto passive = requested(id, std::string(56, 'x'));
  EXPECT_EQ(server.accept(passive, std::string(197, 'x')), EINVAL);
  world.run();
  client.expect(EventType::kRejected, 28);
}

/// What the other end hears when one end goes, by how far the connection was.
TEST_F(Connections, DestroyInEveryState) {
  server.listening(to);
  enum Step { kRequested, kReported, kAccepted, kReplied, kEstablished, kDisconnected, kSteps };
  for (const bool active_goes : {false, true}) {
    for (int stop = kRequested; stop < kSteps; ++stop) {
      SCOPED_TRACE(testing::Message() << "active " << active_goes << " step " << stop);
      Program peer(near), one(far);
      const SocketAddress at = address("10.0.0.2", 8000);
      const auto listener = one.listening(at);
      const auto id = peer.resolved(at);
      std::uint32_t passive = 0;
      ASSERT_EQ(peer.connect(id), 0);
      world.run();
      if (stop >= kReported) passive = one.expect(EventType::kConnectRequest).id;
      if (stop >= kAccepted) {
        ASSERT_EQ(one.accept(passive), 0);
      }
      if (stop >= kReplied) {
        world.run();
        peer.expect(EventType::kConnectResponse);
      }
      if (stop >= kEstablished) {
        ASSERT_EQ(peer.confirm(id), 0);
        world.run();
        one.expect(EventType::kEstablished);
      }
      if (stop >= kDisconnected) {
        ASSERT_EQ(peer.disconnect(id), 0);
        world.run();
        one.expect(EventType::kDisconnected);
      }
      const int reported =
          active_goes ? peer.destroy(id) : one.destroy(stop == kRequested ? listener : passive);
      EXPECT_GE(reported, 0);
      world.advance(1s);
      Program& left = active_goes ? one : peer;
      auto event = left.get_event();
      if (stop == kAccepted && !active_goes) {
        ASSERT_TRUE(event);
        EXPECT_EQ(event->event, static_cast<std::uint32_t>(EventType::kConnectResponse))
            << "it was under way";
        event = left.get_event();
      }
      switch (stop) {
        case kRequested:
          // The event stays; what it names is over.
          ASSERT_TRUE(event);
          EXPECT_EQ(event->event,
                    static_cast<std::uint32_t>(active_goes ? EventType::kConnectRequest
                                                           : EventType::kRejected));
          break;
        case kReported:
          EXPECT_EQ(event.has_value(), !active_goes) << "an accepted one would be told";
          break;
        case kAccepted:
        case kReplied:
          ASSERT_TRUE(event);
          EXPECT_EQ(event->event, static_cast<std::uint32_t>(EventType::kRejected));
          break;
        case kEstablished:
          ASSERT_TRUE(event);
          EXPECT_EQ(event->event, static_cast<std::uint32_t>(EventType::kDisconnected));
          break;
        case kDisconnected:
          EXPECT_EQ(event.has_value(), !active_goes);
          break;
      }
      peer.close();
      one.close();
      world.advance(10min);
      EXPECT_EQ(near.service->manager().size(), 0u);
      EXPECT_EQ(far.service->manager().size(), 0u);
      EXPECT_EQ(near.service->identifiers(), 0u);
      EXPECT_EQ(far.service->identifiers(), 1u) << "the listener of all";
    }
  }
}

TEST_F(Connections, BothEndsDisconnectAtOnce) {
  server.listening(to);
  const auto ends = establish(world, client, server, to);
  EXPECT_EQ(client.disconnect(ends.active), 0);
  EXPECT_EQ(server.disconnect(ends.passive), 0);
  world.advance(5min);
  client.expect(EventType::kDisconnected);
  server.expect(EventType::kDisconnected);
  client.expect(EventType::kTimewaitExit);
  server.expect(EventType::kTimewaitExit);
  EXPECT_TRUE(nothing_left());
}

TEST_F(Connections, DisconnectWithoutAnAnswer) {
  server.listening(to);
  const auto ends = establish(world, client, server, to);
  world.loses = [](const World::Packet&) { return true; };
  EXPECT_EQ(client.disconnect(ends.active), 0);
  world.advance(5min);
  client.expect(EventType::kDisconnected, -ETIMEDOUT);
  client.expect(EventType::kTimewaitExit);
}

TEST_F(Connections, TheAdapterGoes) {
  const auto listener = server.listening(to);
  const auto ends = establish(world, client, server, to);
  const auto waiting = client.resolved(to);
  ASSERT_EQ(client.connect(waiting), 0);
  world.run();
  far.service->device_removed();
  far.service->device_removed();
  world.advance({});
  EXPECT_EQ(client.expect(EventType::kDisconnected).id, ends.active);
  EXPECT_EQ(client.expect(EventType::kRejected, 28).id, waiting);
  const auto request = server.expect(EventType::kConnectRequest).id;
  EXPECT_EQ(server.expect(EventType::kDeviceRemoval).id, listener);
  EXPECT_EQ(server.expect(EventType::kDeviceRemoval).id, ends.passive);
  server.expect_none();
  EXPECT_EQ(server.disconnect(ends.passive), ENXIO);
  std::uint32_t id = 0;
  EXPECT_EQ(server.create_id(RDMA_PS_TCP, id), ENODEV);
  EXPECT_GE(server.destroy(ends.passive), 0);
  EXPECT_GE(server.destroy(listener), 0);
  EXPECT_GE(server.destroy(request), 0);
}

TEST_F(Connections, OperatorsSeeThem) {
  server.listening(to, PortSpace::kTcp, 5);
  const auto ends = establish(world, client, server, to);
  const auto id = client.resolved(to);
  ASSERT_EQ(client.connect(id), 0);
  world.run();
  std::vector<ConnectionInfo> seen;
  far.service->for_each_connection([&](const ConnectionInfo& info) { seen.push_back(info); });
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0].role, Role::kPassive);
  EXPECT_EQ(seen[0].manager_state, cm::State::kEstablished);
  EXPECT_EQ(seen[0].service_id, 0x1061c06u);
  EXPECT_EQ(seen[0].qpn, Qpn(0x200 + ends.passive));
  EXPECT_EQ(seen[0].process, 9);
  EXPECT_EQ(seen[0].remote.address, gid("10.0.0.1"));
  EXPECT_EQ(seen[1].process, 0) << "no process has taken it";
  std::vector<ListenerInfo> listeners;
  far.service->for_each_listener([&](const ListenerInfo& info) { listeners.push_back(info); });
  ASSERT_EQ(listeners.size(), 1u);
  EXPECT_EQ(listeners[0].backlog, 5u);
  EXPECT_EQ(listeners[0].waiting, 1u);
  EXPECT_EQ(listeners[0].process, 9);
  EXPECT_EQ(far.service->listeners(), 1u);
}

}  // namespace
}  // namespace softhca::management::rdma_cm
