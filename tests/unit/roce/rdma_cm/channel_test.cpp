// SPDX-License-Identifier: Apache-2.0

// Event channels: signals, GET_EVENT, MIGRATE_ID, and what goes with a channel.
#include <cerrno>

#include "tests/unit/roce/rdma_cm/world.hpp"

namespace softhca::management::rdma_cm {
namespace {

class Channels : public testing::Test {
 protected:
  World world;
  Host near{world, {"10.0.0.1"}};
  Host far{world, {"10.0.0.2"}};
  Program client{near};
  Program server{far};
  const SocketAddress to = address("10.0.0.2", 7174);
};

TEST_F(Channels, NumbersAreNotToBeGuessed) {
  Program another(near);
  EXPECT_NE(client.channel, another.channel);
  EXPECT_GT(std::max(client.channel.value, another.channel.value), 0x10000u);
  EXPECT_EQ(near.service->channels(), 2u);
  EXPECT_TRUE(near.service->close_channel(ChannelId(), world.now));
  EXPECT_TRUE(near.service->close_channel(ChannelId(12345), world.now));
  EXPECT_EQ(near.service->channels(), 2u);
  ChannelReply reply;
  EXPECT_EQ(near.service->command(ChannelId(), {}, reply, world.now), EBADF);
}

TEST_F(Channels, TheSignalStandsWhileEventsAreQueued) {
  const auto first = client.create(), second = client.create();
  EXPECT_EQ(near.signals[client.channel], 0);
  client.resolve_address(first, to);
  EXPECT_EQ(near.signals[client.channel], 1);
  client.resolve_address(second, to);
  EXPECT_EQ(near.signals[client.channel], 1) << "once";
  client.expect(EventType::kAddrResolved);
  EXPECT_FALSE(client.reply.drained);
  client.expect(EventType::kAddrResolved);
  EXPECT_TRUE(client.reply.drained);
  EXPECT_EQ(near.signals[client.channel], 0);
  client.expect_none();
  EXPECT_FALSE(client.reply.drained);
}

TEST_F(Channels, DestroyTakesUnreportedEventsAlong) {
  const auto first = client.create(), second = client.create();
  client.resolve_address(first, to);
  client.resolve_address(second, to);
  client.expect(EventType::kAddrResolved);
  EXPECT_EQ(client.resolve_route(first), 0);
  EXPECT_EQ(client.destroy(first), 1) << "one was reported";
  EXPECT_FALSE(client.reply.drained);
  EXPECT_EQ(client.destroy(second), 0);
  EXPECT_TRUE(client.reply.drained);
  EXPECT_EQ(near.signals[client.channel], 0);
}

TEST_F(Channels, IdentifiersOfOthersAreOutOfReach) {
  Program thief(near, {.process = 2, .user = 1000});
  const auto id = client.resolved(to);
  rdma_ucm_query_route_resp route{};
  ib_uverbs_qp_attr attributes{};
  std::uint32_t membership = 0;
  EXPECT_EQ(thief.bind(id, address("10.0.0.1")), EINVAL);
  EXPECT_EQ(thief.resolve_address(id, to), EINVAL);
  EXPECT_EQ(thief.resolve_route(id), EINVAL);
  EXPECT_EQ(thief.query_route(id, route), EINVAL);
  EXPECT_EQ(thief.connect(id), EINVAL);
  EXPECT_EQ(thief.listen(id), EINVAL);
  EXPECT_EQ(thief.accept(id), EINVAL);
  EXPECT_EQ(thief.reject(id), EINVAL);
  EXPECT_EQ(thief.disconnect(id), EINVAL);
  EXPECT_EQ(thief.init_qp_attr(id, 1, attributes), EINVAL);
  EXPECT_EQ(thief.set_option(id, RDMA_OPTION_ID_TOS, std::uint8_t{1}), EINVAL);
  EXPECT_EQ(thief.notify(id, 4), EINVAL);
  EXPECT_EQ(thief.join(id, address("224.0.0.9"), membership), EINVAL);
  EXPECT_EQ(thief.destroy(id), -EINVAL);
  EXPECT_EQ(thief.migrate(client, id), -EINVAL) << "a channel of another process";
  EXPECT_EQ(client.connect(id), 0) << "it is as it was";
}

TEST_F(Channels, NumbersOfNothing) {
  for (const std::uint32_t id : {0u, 1u, 65535u, 65536u, 0x7fffffffu, 0x80000000u, 0xffffffffu}) {
    rdma_ucm_query_route_resp route{};
    EXPECT_EQ(client.query_route(id, route), ENOENT);
    EXPECT_EQ(client.destroy(id), -ENOENT);
    EXPECT_EQ(client.leave(id), -ENOENT);
    EXPECT_EQ(client.migrate(client, id), -ENOENT);
  }
}

TEST_F(Channels, ARequestIsNobodysBeforeItIsReported) {
  server.listening(to);
  client.connect(client.resolved(to));
  world.run();
  EXPECT_EQ(server.accept(1), ENOENT);
  EXPECT_EQ(server.destroy(1), -ENOENT);
  EXPECT_EQ(server.expect(EventType::kConnectRequest).id, 1u);
  EXPECT_EQ(server.accept(1), 0);
}

TEST_F(Channels, MigrateMovesEventsInOrder) {
  Program other(near);
  const auto moving = client.create(), staying = client.create(), theirs = other.create();
  client.resolve_address(moving, to);
  client.expect(EventType::kAddrResolved);
  other.resolve_address(theirs, to);
  client.resolve_route(moving);
  client.resolve_address(staying, to);
  client.connect(moving);
  world.run();
  EXPECT_EQ(other.migrate(client, moving), 1) << "one was reported on the old channel";
  EXPECT_FALSE(other.reply.drained) << "the old channel still has one";
  EXPECT_EQ(other.expect(EventType::kAddrResolved).id, theirs);
  EXPECT_EQ(other.expect(EventType::kRouteResolved).id, moving);
  EXPECT_EQ(other.expect(EventType::kRejected, 8).id, moving);
  other.expect_none();
  EXPECT_EQ(client.expect(EventType::kAddrResolved).id, staying);
  client.expect_none();
  EXPECT_EQ(client.destroy(moving), -EINVAL);
  EXPECT_EQ(other.destroy(moving), 3);
}

TEST_F(Channels, MigrateOfTheLastEventsClearsTheOldSignalAndSetsTheNew) {
  Program other(near);
  const auto id = client.create();
  client.resolve_address(id, to);
  EXPECT_EQ(other.migrate(client, id), 0);
  EXPECT_TRUE(other.reply.drained) << "about the old channel";
  EXPECT_EQ(near.signals[client.channel], 0);
  EXPECT_EQ(near.signals[other.channel], 1);
  client.expect_none();
  other.expect(EventType::kAddrResolved);
}

TEST_F(Channels, MigrateWithoutEventsChangesNoSignal) {
  Program other(near);
  const auto id = client.create();
  EXPECT_EQ(other.migrate(client, id), 0);
  EXPECT_FALSE(other.reply.drained);
  EXPECT_EQ(near.signals[other.channel], 0);
  other.resolve_address(id, to);
  other.expect(EventType::kAddrResolved);
  EXPECT_EQ(other.migrate(other, id), 1) << "to where it is";
  client.close();
  EXPECT_EQ(other.resolve_route(id), 0) << "the old channel may go";
}

TEST_F(Channels, MigrateRefuses) {
  Program other(near), of_another_user(near, {.process = 1, .user = 7});
  const auto id = client.create();
  EXPECT_EQ(of_another_user.migrate(client, id), -EINVAL);
  EXPECT_EQ(other.migrate(of_another_user, id), -EINVAL);
  const auto theirs = other.create();
  EXPECT_EQ(other.migrate(client, theirs), -EINVAL) << "not on that channel";
  rdma_ucm_migrate_id body{};
  EXPECT_EQ(other.command(RDMA_USER_CM_CMD_MIGRATE_ID, body), ENOENT) << "no old channel";
}

TEST_F(Channels, MigrateOfAListenerTakesItsRequestsAlong) {
  const auto listener = server.listening(to);
  for (int i = 0; i < 3; ++i) client.connect(client.resolved(to));
  world.run();
  const auto before = server.expect(EventType::kConnectRequest).id;
  Program other(far);
  EXPECT_EQ(other.migrate(server, listener), 1);
  server.expect_none();
  const auto after = other.expect(EventType::kConnectRequest).id;
  EXPECT_EQ(server.accept(before), 0) << "belongs where it was reported";
  EXPECT_EQ(other.accept(before), EINVAL);
  EXPECT_EQ(other.accept(after), 0);
  client.connect(client.resolved(to));
  world.run();
  other.expect(EventType::kConnectRequest);
  EXPECT_EQ(other.destroy(listener), 3);
  EXPECT_EQ(near.rejects_received[wire::CmRejectReason::kConsumer], 0);
  world.run();
  EXPECT_EQ(near.rejects_received[wire::CmRejectReason::kConsumer], 1) << "the one not reported";
}

TEST_F(Channels, WithAChannelGoesAllThatIsItsOwn) {
  server.listening(to);
  Program second(far);
  second.listening(address("10.0.0.2", 8000));
  establish(world, client, server, to);
  client.connect(client.resolved(to));
  client.connect(client.resolved(address("10.0.0.2", 8000)));
  world.run();
  EXPECT_EQ(far.service->identifiers(), 5u);
  server.close();
  EXPECT_EQ(far.service->identifiers(), 2u) << "those of the other channel";
  world.run();
  client.expect(EventType::kRejected, 28);
  client.expect(EventType::kDisconnected);
  client.expect_none();
  const auto id = client.resolved(to);
  client.connect(id);
  world.run();
  client.expect(EventType::kRejected, 8);
}

}  // namespace
}  // namespace softhca::management::rdma_cm
