// SPDX-License-Identifier: Apache-2.0

// Queues of events, GET_EVENT and MIGRATE_ID, without a service.
#include <cerrno>

#include "daemon/roce/rdma_cm/event_commands.hpp"
#include "tests/unit/roce/rdma_cm/parts.hpp"

namespace softhca::management::rdma_cm {
namespace {

struct Queues : Parts {
  Channel& channel = open();
  Identifier& id = make(channel);
  MulticastJoins multicast{core};
  EventCommands commands{identifiers, events, multicast};
};

TEST_F(Queues, OnlyTheFirstEventSignalsTheChannel) {
  events.queue(id, EventType::kAddrResolved);
  events.queue(id, EventType::kRouteResolved);
  EXPECT_EQ(environment.signalled, std::vector{channel.id});
  EXPECT_EQ(events_of(channel), (Events{EventType::kAddrResolved, EventType::kRouteResolved}));
  EXPECT_EQ(id.events_reported, 2u);
  EXPECT_TRUE(id.queued.empty());
}

TEST_F(Queues, ARequestWithoutAUidIsToldNothing) {
  id.uid = 0;
  events.queue(id, EventType::kRejected);
  EXPECT_EQ(events_of(channel), Events{});
}

TEST_F(Queues, HasRoomForAllThatHappensButNotForWhatIsRepeated) {
  for (int n = 0; n < 63; ++n) events.queue(id, EventType::kAddrChange);
  EXPECT_EQ(events.check_room(command(channel), id), 0);
  events.queue(id, EventType::kAddrChange);
  EXPECT_EQ(events.check_room(command(channel), id), ENOMEM);
  EXPECT_EQ(environment.refused[Refusal::kEvents], 1);
  EXPECT_EQ(events.check_room(command(channel), make(channel)), 0) << "another one's";
}

TEST_F(Queues, ADroppedIdentifierLeavesTheOthersEventsAndNamesItsRequests) {
  Identifier& other = make(channel);
  Identifier& request = identifiers.make();
  events.push(channel, id, {.request = request.number, .response = {}});
  events.queue(other, EventType::kRouteResolved);
  EXPECT_EQ(events.drop(id), std::vector{request.number});
  EXPECT_EQ(events_of(channel), Events{EventType::kRouteResolved});
}

TEST_F(Queues, AReportedRequestBelongsToTheChannelThatAsked) {
  Identifier& request = identifiers.make();
  id.listener.waiting = 1;
  events.push(channel, id, {.request = request.number, .response = {}});
  EXPECT_EQ(commands.get_event(command(channel, 0)), 0);
  EXPECT_EQ(request.channel, channel.id);
  EXPECT_TRUE(channel.identifiers.contains(request.number));
  EXPECT_EQ(id.listener.waiting, 0u);
  EXPECT_EQ(commands.get_event(command(channel, 0)), EAGAIN);
}

TEST_F(Queues, AnIdentifierMovesWithItsEventsWithinAProcess) {
  Channel& to = open();
  events.queue(id, EventType::kAddrResolved);
  const rdma_ucm_migrate_id body{.id = id.number.value};
  ChannelCommand migrate = command(to, body);
  EXPECT_EQ(commands.migrate_id(migrate), ENOENT) << "from no channel";
  migrate.other = &channel;
  EXPECT_EQ(commands.migrate_id(migrate), 0);
  EXPECT_EQ(id.channel, to.id);
  EXPECT_EQ(events_of(channel), Events{});
  EXPECT_EQ(events_of(to), Events{EventType::kAddrResolved});
}

TEST_F(Queues, AnotherProcessCannotTakeAnIdentifier) {
  Channel& thief = open({.process = 2, .user = 1000});
  const rdma_ucm_migrate_id body{.id = id.number.value};
  ChannelCommand migrate = command(thief, body);
  migrate.other = &channel;
  EXPECT_EQ(commands.migrate_id(migrate), EINVAL);
  EXPECT_EQ(id.channel, channel.id);
}

TEST_F(Queues, AnIdentifierIsFoundByItsChannelOnly) {
  Identifier* found = nullptr;
  EXPECT_EQ(identifiers.find_of(command(channel), id.number.value, found), 0);
  EXPECT_EQ(found, &id);
  EXPECT_EQ(identifiers.find_of(command(open()), id.number.value, found), EINVAL);
  EXPECT_EQ(identifiers.find_of(command(channel), 999, found), ENOENT);
  EXPECT_EQ(identifiers.find_bound(command(channel), id.number.value, found), EINVAL);
  id.state = IdentifierState::kRemoved;
  EXPECT_EQ(identifiers.find_of(command(channel), id.number.value, found), ENXIO);
  const Identifier& request = identifiers.make();
  Channel unnumbered;
  EXPECT_EQ(identifiers.find_of(command(unnumbered), request.number.value, found), ENOENT);
}

}  // namespace
}  // namespace softhca::management::rdma_cm
