// SPDX-License-Identifier: Apache-2.0

// Peers that lie, guess and flood.
#include <gtest/gtest.h>

#include "tests/unit/roce/cm/world.hpp"

namespace softhca::management::cm {
namespace {

TEST(Hostile, WhatIsNoMessageIsDropped) {
  World w;
  const wire::Mad good = wire::encode_cm(w.peer_req(), 1);
  const auto feed = [&](std::span<const std::byte> mad) {
    w.manager.receive(mad, w.path(), Qpn(1), w.now);
  };
  for (const std::size_t size : {0u, 1u, 23u, 24u, 255u}) feed(std::span(good).first(size));
  std::vector<std::byte> longer(good.begin(), good.end());
  longer.resize(257);
  feed(longer);
  EXPECT_EQ(w.manager.counters().malformed, 6u);
  const auto with = [&](std::size_t at, unsigned value) {
    wire::Mad mad = good;
    mad[at] = std::byte(value);
    feed(mad);
  };
  with(0, 2);  // base version
  with(1, 4);  // class
  with(2, 1);  // class version
  with(3, 1);  // method
  with(3, 0x81);
  with(17, 0x0f);  // attribute
  with(17, 0x1a);  // APR
  with(17, 0x01);
  EXPECT_EQ(w.manager.counters().malformed, 14u);
  EXPECT_EQ(w.manager.size(), 0u);
  EXPECT_TRUE(w.mads.empty());
  EXPECT_TRUE(w.requests.empty());
}

TEST(Hostile, AProgramsQueuePairDoesNotSpeakForItsMachine) {
  World w;
  w.manager.receive(wire::encode_cm(w.peer_req(), 1), w.path(), Qpn(2), w.now);
  EXPECT_EQ(w.manager.counters().wrong_source, 1u);
  EXPECT_EQ(w.manager.size(), 0u);
}

/// Feeds one message of each kind that claims to be of connection `id`.
void feed_all(World& w, std::uint32_t local, std::uint32_t remote, const Path& path) {
  const auto feed = [&](const auto& message) {
    w.manager.receive(wire::encode_cm(message, 1), path, Qpn(1), w.now);
  };
  for (const auto about : {wire::CmMessage::kReq, wire::CmMessage::kRep, wire::CmMessage::kOther}) {
    feed(wire::CmMra{
        .local_comm_id = local, .remote_comm_id = remote, .message = about, .service_timeout = 31});
    feed(wire::CmRej{.local_comm_id = local,
                     .remote_comm_id = remote,
                     .message = about,
                     .reason = wire::CmRejectReason::kConsumer});
    feed(wire::CmRej{.local_comm_id = local,
                     .remote_comm_id = remote,
                     .message = about,
                     .info_length = 8,
                     .reason = wire::CmRejectReason::kTimeout});
  }
  feed(wire::CmRep{.local_comm_id = local, .remote_comm_id = remote, .local_qpn = Qpn(9)});
  feed(wire::CmRtu{local, remote, {}});
  feed(wire::CmDreq{local, remote, kOurQpn, {}});
  feed(wire::CmDrep{local, remote, {}});
  feed(wire::CmLap{.local_comm_id = local, .remote_comm_id = remote});
  feed(wire::CmApr{.local_comm_id = local, .remote_comm_id = remote});
  feed(wire::CmSidrRep{.request_id = remote});
}

/// The right ids from the wrong address, to the wrong address, wrong ids from the right one.
void feed_foreign(World& w, CommId id, State state) {
  feed_all(w, kPeerId, id.value, {.local = kHere, .remote = Gid::from_ipv4(0x0a090003)});
  feed_all(w, kPeerId, id.value, {.local = Gid::from_ipv4(0x0a090004), .remote = kThere});
  feed_all(w, kPeerId, id.value + 1, w.path());
  // These do not know the peer's id yet.
  if (state == State::kReqSent || state == State::kMraReqReceived || state == State::kSidrReqSent)
    return;
  feed_all(w, kPeerId + 1, id.value, w.path());
}

TEST(Hostile, ForeignMessagesChangeNothing) {
  for (unsigned s = 0; s < static_cast<unsigned>(State::kCount); ++s) {
    const State state{static_cast<std::uint8_t>(s)};
    SCOPED_TRACE(name_of(state));
    World w;
    const CommId id = w.enter(state);
    const Time deadline = w.manager.next_deadline();
    feed_foreign(w, id, state);
    EXPECT_EQ(w.manager.state(id), state);
    EXPECT_EQ(w.take_events(), "");
    EXPECT_EQ(w.manager.next_deadline(), deadline);
    EXPECT_EQ(w.manager.size(), 1u);
  }
}

TEST(Hostile, ADreqForAnotherQueuePairIsNone) {
  World w;
  const CommId id = w.enter(State::kEstablished);
  w.receive(wire::CmDreq{kPeerId, id.value, Qpn(0x999), {}});
  EXPECT_EQ(w.manager.state(id), State::kEstablished);
  EXPECT_TRUE(w.mads.empty());
}

TEST(Hostile, RequestsThatCannotBeServed) {
  World w;
  const auto refused = [&](auto&& change) {
    auto req = w.peer_req();
    change(req);
    w.receive(req);
    return w.take_sent();
  };
  EXPECT_EQ(refused([](auto& m) { m.transport = wire::CmTransport::kReliableDatagram; }),
            "REJ 9 about REQ");
  EXPECT_EQ(refused([](auto& m) { m.transport = wire::CmTransport::kExtended; }),
            "REJ 9 about REQ");
  EXPECT_EQ(refused([](auto& m) { m.path_mtu = 0; }), "REJ 26 about REQ");
  EXPECT_EQ(refused([](auto& m) { m.path_mtu = 6; }), "REJ 26 about REQ");
  EXPECT_EQ(refused([](auto& m) { m.primary.local_gid = kHere; }), "REJ 12 about REQ");
  EXPECT_EQ(refused([](auto& m) { m.local_comm_id = 0; }), "");
  EXPECT_TRUE(w.requests.empty());
  EXPECT_EQ(w.manager.size(), 0u);
}

TEST(Hostile, AFloodOfRequestsIsBounded) {
  World w({.connections = 100, .half_open = 10});
  for (std::uint32_t i = 1; i <= 1000; ++i) {
    auto req = w.peer_req();
    req.local_comm_id = i;
    req.local_qpn = Qpn(i);
    w.receive(req);
    w.receive(wire::CmSidrReq{.request_id = i, .service_id = kService});
  }
  // Half of them, and the other half is for others.
  EXPECT_EQ(w.manager.half_open(), 5u);
  EXPECT_EQ(w.manager.size(), 5u);
  EXPECT_EQ(w.manager.counters().requests_over_limit, 1995u);
  EXPECT_TRUE(w.mads.empty());
  // This side's own connects find their place.
  EXPECT_NE(w.connect(), CommId(0));
}

TEST(Hostile, AFloodOfOneHostLeavesPlacesToOthers) {
  World w({.half_open = 64});
  const auto ask = [&](std::uint32_t host, std::uint32_t times) {
    const Path path{.local = kHere, .remote = Gid::from_ipv4(0x0a090100 + host)};
    auto req = w.peer_req();
    req.primary.local_gid = path.remote;
    const std::size_t before = w.requests.size();
    for (std::uint32_t i = 1; i <= times; ++i) {
      req.local_comm_id = i;
      req.local_qpn = Qpn(i);
      w.manager.receive(wire::encode_cm(req, i), path, Qpn(1), w.now);
    }
    return w.requests.size() - before;
  };
  for (const std::uint32_t host : {0u, 1u, 2u, 3u})
    w.establish({.local = kHere, .remote = Gid::from_ipv4(0x0a090100 + host)}, 0xf0000);
  w.requests.clear();
  EXPECT_EQ(ask(0, 1000), 32u);
  EXPECT_EQ(ask(1, 1000), 16u);
  EXPECT_EQ(ask(2, 4), 4u);
  EXPECT_EQ(ask(3, 4), 4u);
  // What it gives up it may have again.
  w.manager.destroy(w.requests.front(), w.now);
  EXPECT_EQ(ask(0, 1001), 0u);  // others have come meanwhile
  for (const CommId id : w.requests) w.manager.destroy(id, w.now);
  EXPECT_EQ(w.manager.half_open(), 0u);
}

TEST(Hostile, ThoseWithoutAUserGiveWay) {
  World w({.connections = 10});
  for (std::uint32_t i = 1; i <= 100; ++i) {
    auto req = w.peer_req();
    req.local_comm_id = i;
    req.local_qpn = Qpn(i);
    w.now += std::chrono::milliseconds(125);
    w.receive(req);
    EXPECT_EQ(w.manager.reject(w.requests.back(), {}, w.now), Result::kOk);
  }
  EXPECT_EQ(w.requests.size(), 100u);
  EXPECT_EQ(w.manager.size(), 10u);
  EXPECT_EQ(w.manager.counters().given_up, 90u);
  for (int i = 0; i < 10; ++i) EXPECT_NE(w.connect(), CommId(0));
  EXPECT_EQ(w.manager.connect({.path = w.path()}, w.now).result, Result::kNoPlace);
}

TEST(Hostile, AnswersWithoutAConnectionAreBounded) {
  World w({.stateless_replies = 5});
  w.establish(w.path(), 1000);
  w.answer = Answer::refuse(wire::CmRejectReason::kInvalidServiceId);
  for (std::uint32_t i = 1; i <= 100; ++i) {
    auto req = w.peer_req();
    req.local_comm_id = i;
    w.receive(req);
    w.receive(wire::CmDreq{i, i, Qpn(1), {}});
    w.receive(wire::CmRep{.local_comm_id = i, .remote_comm_id = i});
  }
  EXPECT_EQ(w.mads.size(), 5u);
  EXPECT_EQ(w.manager.counters().replies_over_limit, 295u);
  w.now += std::chrono::seconds(1);
  w.receive(wire::CmDreq{1, 1, Qpn(1), {}});
  EXPECT_EQ(w.mads.size(), 6u);
}

TEST(Hostile, NeverMoreThanOneAnswerToAMessage) {
  for (unsigned s = 0; s < static_cast<unsigned>(State::kCount); ++s) {
    World w;
    const CommId id = w.enter(State(s));
    const auto before = w.manager.counters();
    feed_all(w, kPeerId, id.value, w.path());
    w.receive(w.peer_req());
    EXPECT_LE(w.mads.size(), w.manager.counters().received - before.received) << name_of(State(s));
  }
}

/// A user that calls the connection manager from within its callbacks.
class Busy final : public CmEnvironment, public User {
 public:
  void send(const Path&, const wire::Mad&) override {}
  std::uint32_t random() override { return next++; }
  Answer on_request(const ConnectionRequest&) override {
    manager.connect({.path = {.local = kHere, .remote = kThere}}, {});
    return Answer::take(1);
  }
  Answer on_sidr_request(const SidrRequest&) override { return Answer::silence(); }
  void on_event(const Event& event) override {
    ++events;
    manager.destroy(event.id, {});
  }
  std::uint32_t next = 0x1001;
  unsigned events = 0;
  Manager manager{*this, *this, kOurGuid};
};

TEST(Hostile, AUserMayDestroyWhatItIsToldOf) {
  Busy busy;
  World w;
  const Path path = w.path();
  const auto feed = [&](const auto& m) {
    busy.manager.receive(wire::encode_cm(m, 1), path, Qpn(1), {});
  };
  feed(w.peer_req());
  const CommId passive(0x1001);
  busy.manager.accept(passive, {.local_qpn = kOurQpn}, {});
  feed(wire::CmRtu{kPeerId, passive.value, {}});
  EXPECT_EQ(busy.events, 1u);
  EXPECT_EQ(busy.manager.state(passive), State::kDreqSent);
  busy.manager.for_each([&](const ConnectionView& view) {
    if (view.active) feed(w.peer_rep(view.id));
  });
  Time now{};
  while (busy.manager.next_deadline() != kNever) {
    now = busy.manager.next_deadline();
    busy.manager.expire(now);
  }
  EXPECT_EQ(busy.manager.size(), 0u);
}

TEST(Hostile, AConnectionIsSmall) { EXPECT_LE(sizeof(Connection), 256u); }

TEST(Hostile, AReplyThatNamesNoIdOfItsSenderIsNone) {
  World w;
  const CommId id = w.connect();
  w.take_sent();
  auto rep = w.peer_rep(id);
  rep.local_comm_id = 0;
  w.receive(rep);
  EXPECT_EQ(w.take_events(), "");
  EXPECT_EQ(w.take_sent(), "");
  EXPECT_EQ(w.manager.state(id), State::kReqSent);
  EXPECT_EQ(w.manager.counters().unexpected, 1u);
  w.receive(w.peer_rep(id));
  EXPECT_EQ(w.manager.state(id), State::kRepReceived);
}

}  // namespace
}  // namespace softhca::management::cm
