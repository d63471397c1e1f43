// SPDX-License-Identifier: Apache-2.0

// How many connections guarantees carry, and that what ends gives back.
#include "daemon/roce/rdma_cm/connections/connection_admission.hpp"

#include <array>
#include <cerrno>
#include <map>
#include <random>

#include "tests/unit/roce/rdma_cm/connections.hpp"

namespace softhca::management::rdma_cm {
namespace {

constexpr auto kAll = ConnectionAdmission::kAll;

/// How many more connections of a level there may be.
std::uint32_t room(ConnectionAdmission& admission, const std::string& level) {
  std::uint32_t count = 0;
  while (count < 1000 && admission.take(level)) ++count;
  for (std::uint32_t i = 0; i < count; ++i) admission.give_back(level);
  return count;
}

TEST(ConnectionAdmission, EverythingUntilItIsTold) {
  ConnectionAdmission admission;
  EXPECT_EQ(room(admission, ""), 1000u);
  EXPECT_EQ(room(admission, "high"), 1000u);
  EXPECT_EQ(admission.admitted(), 0u);
}

TEST(ConnectionAdmission, LevelsHaveTheirOwnAndShareTheRest) {
  ConnectionAdmission admission;
  admission.set({{"high", 3, false}, {"low", 2, true}, {"", 4}}, kAll);
  EXPECT_EQ(room(admission, "high"), 3u);
  EXPECT_EQ(room(admission, "low"), 6u);
  EXPECT_EQ(room(admission, ""), 4u);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(admission.take("low"));
  EXPECT_EQ(room(admission, "high"), 3u) << "its own part stays free whatever others do";
  EXPECT_EQ(room(admission, ""), 1u);
  EXPECT_TRUE(admission.take(""));
  EXPECT_FALSE(admission.take("low"));
}

TEST(ConnectionAdmission, AllTogether) {
  ConnectionAdmission admission;
  admission.set({{"high", kAll}, {"", kAll}}, 3);
  EXPECT_TRUE(admission.take("high"));
  EXPECT_EQ(room(admission, ""), 2u);
}

TEST(ConnectionAdmission, WhatIsThereStaysWhenTheGuaranteeShrinks) {
  ConnectionAdmission admission;
  admission.set({{"high", 5, true}, {"", 1}}, kAll);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(admission.take("high"));
  admission.set({{"high", 2, true}, {"", 3}}, kAll);
  EXPECT_EQ(admission.admitted(), 4u);
  EXPECT_EQ(room(admission, ""), 1u) << "two of high are carried by what no level has";
  admission.set({{"high", 2, false}, {"", 0}}, kAll);
  EXPECT_FALSE(admission.take("high"));
  for (int i = 0; i < 3; ++i) admission.give_back("high");
  EXPECT_EQ(room(admission, "high"), 1u);
}

TEST(ConnectionAdmission, ALevelThatIsNoMoreIsForgottenWithItsLastConnection) {
  ConnectionAdmission admission;
  admission.set({{"high", 1}, {"", 0}}, kAll);
  EXPECT_TRUE(admission.take("high"));
  admission.set({{"", 2}}, kAll);
  EXPECT_EQ(admission.view().size(), 2u);
  EXPECT_EQ(room(admission, ""), 1u);
  admission.give_back("high");
  EXPECT_EQ(admission.view().size(), 1u);
  EXPECT_EQ(room(admission, ""), 2u);
}

TEST(ConnectionAdmission, RefusalsAreCountedByLevel) {
  ConnectionAdmission admission;
  admission.set({{"high", 0, false}, {"", 0}}, kAll);
  EXPECT_FALSE(admission.take("high"));
  EXPECT_FALSE(admission.take("high"));
  const auto view = admission.view();
  ASSERT_EQ(view.size(), 2u);
  EXPECT_EQ(view[0].refused, 0u);
  EXPECT_EQ(view[1].level, "high");
  EXPECT_EQ(view[1].refused, 2u);
}

constexpr Time now{std::chrono::seconds(1000)};

TEST(ConnectionAdmission, APeerAloneHasAllAtOnceUntilAnotherAsks) {
  using Verdict = ConnectionAdmission::Verdict;
  const Gid one = gid("10.0.0.1"), two = gid("10.0.0.2");
  ConnectionAdmission admission;
  admission.set({{"", 8}}, kAll);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(admission.take_half_open("", one, now), Verdict::kTaken);
  EXPECT_EQ(admission.take_half_open("", one, now), Verdict::kNotCarried);
  EXPECT_EQ(admission.take_half_open("", two, now), Verdict::kLater) << "most are half-open";
  for (int i = 0; i < 2; ++i) {
    admission.close_half("", one);
    admission.give_back("");
  }
  EXPECT_EQ(admission.take_half_open("", one, now), Verdict::kLater) << "the other comes again";
  EXPECT_EQ(admission.take_half_open("", two, now), Verdict::kTaken);
  EXPECT_EQ(admission.take_half_open("", one, now + 2min), Verdict::kTaken) << "alone again";

  for (int i = 0; i < 7; ++i) admission.close_half("", one);
  EXPECT_EQ(admission.take_half_open("", two, now + 2min), Verdict::kNotCarried)
      << "what is established lasts";
}

TEST(ConnectionAdmission, APeerHasAsManyHalfOpenAsItLeavesToOthers) {
  using Verdict = ConnectionAdmission::Verdict;
  const Gid one = gid("10.0.0.1"), two = gid("10.0.0.2");
  ConnectionAdmission admission;
  const auto most_of = [&](const Gid& peer, const std::string& level) {
    std::uint32_t count = 0;
    while (admission.take_half_open(level, peer, now) == Verdict::kTaken) ++count;
    return count;
  };
  admission.set({{"high", 1, false}, {"", 8}}, kAll);
  EXPECT_EQ(admission.take_half_open("", two, now), Verdict::kTaken);
  admission.close_half("", two);
  admission.give_back("");
  EXPECT_EQ(most_of(one, ""), 4u);
  EXPECT_EQ(admission.take_half_open("", one, now), Verdict::kLater);
  EXPECT_EQ(most_of(two, ""), 2u);
  EXPECT_EQ(most_of(one, "high"), 1u) << "each level by itself; any peer may have a single one";
  admission.close_half("high", one);
  EXPECT_EQ(admission.take_half_open("high", one, now), Verdict::kNotCarried);
  EXPECT_EQ(admission.view()[1].refused, 1u) << "of high";
  EXPECT_EQ(admission.view()[0].refused, 0u);

  for (int i = 0; i < 4; ++i) admission.close_half("", one);
  EXPECT_EQ(admission.admitted(), 7u) << "these are established";
  EXPECT_EQ(most_of(one, ""), 1u) << "of the two that are left";
  admission.close_half("", one);
  for (int i = 0; i < 5; ++i) admission.give_back("");
  EXPECT_EQ(most_of(one, ""), 3u);
}

/// Whatever is taken and given back: no level is refused what is its own.
TEST(ConnectionAdmission, RandomSteps) {
  std::mt19937 random(7);
  for (int run = 0; run < 200; ++run) {
    ConnectionAdmission admission;
    std::map<std::string, std::uint32_t> own, has;
    std::vector<ConnectionAdmission::Part> parts;
    for (const char* level : {"", "x", "y"}) {
      own[level] = static_cast<std::uint32_t>(random() % 5);
      parts.push_back({level, own[level], random() % 2 == 0});
    }
    admission.set(parts, kAll);
    for (int step = 0; step < 200; ++step) {
      const std::string level = std::array{"", "x", "y"}[random() % 3];
      if (random() % 2 == 0 && has[level] > 0) {
        admission.give_back(level);
        --has[level];
      } else {
        const bool taken = admission.take(level);
        if (!level.empty() && has[level] < own[level]) {
          ASSERT_TRUE(taken);
        }
        has[level] += taken;
      }
      const std::uint32_t sum = has[""] + has["x"] + has["y"];
      ASSERT_EQ(admission.admitted(), sum);
      ASSERT_LE(sum, own[""] + own["x"] + own["y"]);
    }
  }
}

// --- in the service

class Admitted : public Connections {
 protected:
  Program high{far, {.process = 10, .level = "high"}};
  const SocketAddress to_high = address("10.0.0.2", 8000);

  /// A connect of the client's; what it is told, if it is an error.
  int connecting(const SocketAddress& at) {
    const auto id = client.resolved(at);
    return client.connect(id);
  }
  ConnectionAdmission& admission(Host& host) { return host.service->admission(); }
};

TEST_F(Admitted, ARequestIsOfItsListenersLevel) {
  server.listening(to);
  high.listening(to_high);
  admission(far).set({{"high", 1, false}, {"", 0}}, kAll);
  EXPECT_EQ(connecting(to), 0);
  world.run();
  client.expect(EventType::kRejected, 3);
  server.expect_none();
  EXPECT_EQ(connecting(to_high), 0);
  world.run();
  high.expect(EventType::kConnectRequest);
  EXPECT_EQ(connecting(to_high), 0);
  world.run();
  client.expect(EventType::kRejected, 3);
  high.expect_none();
  EXPECT_EQ(far.refused[Refusal::kAdmission], 2);
  EXPECT_EQ(far.rejects_sent[wire::CmRejectReason::kNoResources], 2);
  EXPECT_EQ(near.rejects_received[wire::CmRejectReason::kNoResources], 2);
}

TEST_F(Admitted, AConnectIsOfItsProgramsLevel) {
  client.listening(address("10.0.0.1", 7174));
  admission(far).set({{"high", 1, false}, {"", 0}}, kAll);
  const auto id = server.resolved(address("10.0.0.1", 7174));
  EXPECT_EQ(server.connect(id), ENOBUFS);
  admission(far).set({{"high", 1, false}, {"", 1}}, kAll);
  EXPECT_EQ(server.connect(id), 0) << "it may try again";
  EXPECT_EQ(high.connect(high.resolved(address("10.0.0.1", 7174))), 0);
  EXPECT_EQ(high.connect(high.resolved(address("10.0.0.1", 7174))), ENOBUFS);
}

TEST_F(Admitted, DatagramsTakeNothing) {
  admission(far).set({{"", 0}}, 0);
  server.listening(to, PortSpace::kUdp);
  const auto id = client.resolved(to, PortSpace::kUdp);
  EXPECT_EQ(client.connect(id), 0);
  world.run();
  server.expect(EventType::kConnectRequest);
}

/// As soon as it is over for the program, in whichever way.
TEST_F(Admitted, EveryEndGivesBack) {
  server.listening(to);
  const auto both = [&] {
    return std::pair(admission(near).admitted(), admission(far).admitted());
  };
  const std::pair none(0u, 0u), one(1u, 1u);

  auto ends = establish(world, client, server, to);
  EXPECT_EQ(both(), one);
  client.disconnect(ends.active);
  world.run();
  EXPECT_EQ(admission(far).admitted(), 0u) << "told";
  server.disconnect(ends.passive);
  world.run();
  EXPECT_EQ(both(), none) << "before time wait is over";
  world.advance(5min);
  while (client.get_event()) {
  }
  while (server.get_event()) {
  }

  ends = establish(world, client, server, to);
  client.destroy(ends.active);
  world.run();
  EXPECT_EQ(both(), none);
  while (server.get_event()) {
  }

  auto id = client.resolved(to);
  auto passive = requested(id);
  EXPECT_EQ(both(), one);
  server.reject(passive);
  world.run();
  EXPECT_EQ(both(), none);
  client.expect(EventType::kRejected, 28);

  id = client.resolved(to);
  world.loses = [](const World::Packet&) { return true; };
  client.connect(id);
  EXPECT_EQ(admission(near).admitted(), 1u);
  world.advance(3min);
  client.expect(EventType::kUnreachable, -ETIMEDOUT);
  EXPECT_EQ(both(), none);
  world.loses = [](const World::Packet&) { return false; };

  id = client.resolved(to);
  requested(id);
  server.close();
  world.run();
  EXPECT_EQ(both(), none) << "the process died";
}

TEST_F(Admitted, APeerThatOnlySendsRequestsKeepsNobodyOut) {
  Host third{world, {"10.0.0.3"}};
  Program other{third};
  server.listening(to);
  admission(far).set({{"", 6}}, kAll);
  establish(world, other, server, to);
  std::vector<std::uint32_t> asked, taken;
  for (int i = 0; i < 20; ++i) {
    asked.push_back(client.resolved(to));
    EXPECT_EQ(client.connect(asked.back()), 0);
  }
  world.run();
  EXPECT_EQ(admission(far).admitted(), 4u);
  EXPECT_EQ(far.refused[Refusal::kPeers], 17);
  EXPECT_EQ(far.refused[Refusal::kAdmission], 0);
  for (int i = 0; i < 3; ++i) {
    taken.push_back(server.expect(EventType::kConnectRequest).id);
    EXPECT_EQ(server.accept(taken.back()), 0);  // the client does not confirm it
  }
  world.run();
  establish(world, other, server, to);
  establish(world, other, server, to);
  client.expect(EventType::kConnectResponse);

  EXPECT_EQ(client.confirm(asked[0]), 0);
  world.run();
  server.expect(EventType::kEstablished);
  EXPECT_EQ(server.destroy(taken[1]), 0);
  EXPECT_EQ(server.destroy(taken[2]), 0);
  EXPECT_EQ(admission(far).admitted(), 4u) << "four are established";
  world.advance(7s);
  EXPECT_EQ(admission(far).admitted(), 5u) << "one more of those that try again";
}

TEST_F(Admitted, AConnectForWhichThereIsNoPlaceTakesNothing) {
  near.service->set_limits({}, {.connections = 0});
  EXPECT_EQ(connecting(to), ENOMEM);
  EXPECT_EQ(admission(near).admitted(), 0u);
  EXPECT_EQ(near.refused[Refusal::kConnections], 1);
}

TEST_F(Admitted, RequestsBeyondTheLimitsOfTheManagerAreToldApart) {
  server.listening(to);
  far.service->set_limits({}, {.half_open = 1});
  EXPECT_EQ(connecting(to), 0);
  EXPECT_EQ(connecting(to), 0);
  world.run();
  EXPECT_EQ(far.refused[Refusal::kHalfOpen], 1);
  EXPECT_EQ(far.refused[Refusal::kConnections], 0);
  far.service->set_limits({}, {.connections = 1});
  EXPECT_EQ(connecting(to), 0);
  world.run();
  EXPECT_EQ(far.refused[Refusal::kConnections], 1);
  EXPECT_EQ(admission(far).admitted(), 1u);
}

TEST_F(Admitted, LimitsBelowWhatThereIsTakeNothingAway) {
  server.listening(to);
  const auto ends = establish(world, client, server, to);
  far.service->set_limits({.identifiers = 1, .listeners = 0}, {.connections = 0, .half_open = 0});
  admission(far).set({{"", 0}}, 0);
  std::uint32_t id = 0;
  EXPECT_EQ(server.create_id(RDMA_PS_TCP, id), EMFILE);
  EXPECT_EQ(far.service->listeners(), 1u);
  EXPECT_EQ(far.service->identifiers(), 2u);
  EXPECT_EQ(client.disconnect(ends.active), 0);
  world.run();
  server.expect(EventType::kDisconnected);
}

}  // namespace
}  // namespace softhca::management::rdma_cm
