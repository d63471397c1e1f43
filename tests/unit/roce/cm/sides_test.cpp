// SPDX-License-Identifier: Apache-2.0

// The active and the passive side, release and service ID resolution, each without the manager.
#include "daemon/roce/cm/active_side.hpp"
#include "daemon/roce/cm/passive_side.hpp"
#include "daemon/roce/cm/release.hpp"
#include "daemon/roce/cm/service_id_resolution.hpp"
#include "tests/unit/roce/cm/parts.hpp"

namespace softhca::management::cm {
namespace {

struct Active : Parts {
  CommId connect() {
    const Started started = side.connect({.path = world.path(), .service_id = kService}, now);
    EXPECT_EQ(started.result, Result::kOk);
    world.take_sent();
    return started.id;
  }
  ActiveSide side{core, factory, machine};
};

TEST_F(Active, ConnectsInThreeMessages) {
  ASSERT_EQ(side.connect({.path = world.path()}, now).result, Result::kOk);
  EXPECT_EQ(world.take_sent(), "REQ");
  const CommId id = connect();
  side.receive_rep(world.peer_rep(id), 7, world.path(), now);
  EXPECT_EQ(state(id), State::kRepReceived);
  EXPECT_EQ(side.confirm(id, {}, now), Result::kOk);
  EXPECT_EQ(world.take_sent(), "RTU");
  EXPECT_EQ(state(id), State::kEstablished);
  side.receive_rep(world.peer_rep(id), 7, world.path(), now);
  EXPECT_EQ(world.take_sent(), "RTU") << "it was lost";
  EXPECT_EQ(counters.duplicates, 1u);
}

TEST_F(Active, PrivateDataThatIsTooLongSendsNothing) {
  const std::vector<std::byte> bytes(225);
  EXPECT_EQ(side.connect({.private_data = std::span(bytes).first(93)}, now).result,
            Result::kTooLong);
  EXPECT_EQ(side.confirm(CommId(1), bytes, now), Result::kTooLong);
  EXPECT_TRUE(world.mads.empty());
}

TEST_F(Active, AReplyForNoConnectionIsRejected) {
  side.receive_rep(world.peer_rep(CommId(99)), 7, world.path(), now);
  EXPECT_EQ(world.take_sent(), "REJ 6 about REP");
  EXPECT_EQ(counters.unknown, 1u);
}

struct Passive : Parts {
  void receive(const wire::CmReq& req) { side.receive_req(req, 7, world.path(), now); }
  PassiveSide side{core, factory, machine};
};

TEST_F(Passive, TakesARequestAndAccepts) {
  receive(world.peer_req());
  ASSERT_EQ(world.requests.size(), 1u);
  const CommId id = world.requests.back();
  EXPECT_EQ(state(id), State::kReqReceived);
  EXPECT_EQ(side.accept(id, {.local_qpn = kOurQpn}, now), Result::kOk);
  EXPECT_EQ(world.take_sent(), "REP");
  EXPECT_EQ(connections.find(id)->queue_pair.local_qpn, kOurQpn);
}

TEST_F(Passive, ARefusedRequestLeavesNothing) {
  world.answer = Answer::refuse(wire::CmRejectReason::kConsumer);
  receive(world.peer_req());
  EXPECT_EQ(world.take_sent(), "REJ 28 about REQ");
  EXPECT_EQ(connections.size(), 0u);
  EXPECT_EQ(counters.requests_refused, 1u);
  world.answer = Answer::silence();
  receive(world.peer_req());
  EXPECT_EQ(world.take_sent(), "");
  EXPECT_EQ(connections.size(), 0u);
}

TEST_F(Passive, ADefectiveRequestIsRefusedWhoeverListens) {
  auto req = world.peer_req();
  req.path_mtu = 6;
  receive(req);
  EXPECT_EQ(world.requests.size(), 0u);
  EXPECT_EQ(connections.size(), 0u);
  EXPECT_EQ(world.mads.size(), 1u);
}

struct Releasing : Parts {
  Releasing() : c(*factory.make(world.path(), State::kEstablished)), id(c.id) {
    c.remote_comm_id = kPeerId;
    c.queue_pair.local_qpn = kOurQpn;
  }
  void receive(const wire::CmDreq& dreq) { release.receive_dreq(dreq, 9, world.path(), now); }
  Connection& c;
  const CommId id;
  Release release{connections, machine, sender, counters};
};

TEST_F(Releasing, AsksOrAnswers) {
  receive({kPeerId, id.value, kOurQpn, {}});
  EXPECT_EQ(world.take_events(), "disconnect requested");
  EXPECT_EQ(release.disconnect(id, {}, now), Result::kOk);
  EXPECT_EQ(world.take_sent(), "DREP");
  EXPECT_EQ(c.transaction_id, 9u) << "that of the DREQ";
  EXPECT_EQ(state(id), State::kTimeWait);
}

TEST_F(Releasing, ADisconnectOfThisSideIsANewTransaction) {
  const std::uint64_t before = c.transaction_id;
  EXPECT_EQ(release.disconnect(id, {}, now), Result::kOk);
  EXPECT_EQ(world.take_sent(), "DREQ");
  EXPECT_NE(c.transaction_id, before);
  EXPECT_EQ(release.disconnect(id, {}, now), Result::kWrongState);
}

TEST_F(Releasing, ADreqForAnotherQueuePairChangesNothing) {
  receive({kPeerId, id.value, Qpn(kOurQpn.value + 1), {}});
  EXPECT_EQ(counters.unexpected, 1u);
  EXPECT_EQ(state(id), State::kEstablished);
  receive({kPeerId, id.value + 1, kOurQpn, {}});
  EXPECT_EQ(world.take_sent(), "DREP") << "of no connection";
}

struct Resolving : Parts {
  ServiceIdResolution resolution{core, factory, machine};
};

TEST_F(Resolving, AsksUntilItIsAnswered) {
  const Started started = resolution.request({.cookie = 5, .path = world.path()}, now);
  ASSERT_EQ(started.result, Result::kOk);
  EXPECT_EQ(world.take_sent(), "SIDR_REQ");
  resolution.receive_rep({.request_id = started.id.value}, world.path(), now);
  EXPECT_EQ(world.take_events(), "sidr replied 0");
  EXPECT_EQ(connections.size(), 0u);
  resolution.receive_rep({.request_id = started.id.value}, world.path(), now);
  EXPECT_EQ(counters.unknown, 1u);
}

TEST_F(Resolving, AnswersADuplicateAsBefore) {
  const wire::CmSidrReq req{.request_id = kPeerId, .service_id = kService};
  resolution.receive_req(req, 7, world.path(), now);
  const CommId id = world.sidr_requests.back();
  EXPECT_EQ(resolution.reply(id, {.qpn = kOurQpn}, now), Result::kOk);
  const std::string first = world.take_sent();
  resolution.receive_req(req, 8, world.path(), now);
  EXPECT_EQ(world.take_sent(), first);
  EXPECT_EQ(world.sidr_requests.size(), 1u);
  EXPECT_EQ(counters.duplicates, 1u);
}

}  // namespace
}  // namespace softhca::management::cm
