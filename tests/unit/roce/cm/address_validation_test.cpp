// SPDX-License-Identifier: Apache-2.0

// Requests from made-up addresses, beside peers that are where their address says.
#include "daemon/roce/cm/address_validation.hpp"

#include <gtest/gtest.h>

#include "tests/unit/roce/cm/world.hpp"

namespace softhca::management::cm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Path path_from(std::uint32_t host) {
  return {.local = kHere, .remote = Gid::from_ipv4(0xac100000 + host)};
}

struct Validation : testing::Test {
  void SetUp() override { world.answer = Answer::take(77); }

  /// A REQ of a host. True: it was offered.
  bool request(const Path& path, std::uint32_t id) {
    auto req = world.peer_req();
    req.primary.local_gid = path.remote;
    req.local_comm_id = id;
    req.local_qpn = Qpn(id & 0xffffff);
    const std::size_t before = world.requests.size();
    world.manager.receive(wire::encode_cm(req, id), path, Qpn(1), world.now);
    return world.requests.size() > before;
  }
  /// One REQ from each of `hosts` made-up addresses. Returns how many were offered.
  std::size_t flood(std::uint32_t hosts) {
    std::size_t offered = 0;
    for (std::uint32_t i = 0; i < hosts; ++i, ++made_up)
      offered += request(path_from(made_up), made_up + 1);
    return offered;
  }
  std::uint32_t accept(CommId id) {
    EXPECT_EQ(world.manager.accept(id, {.local_qpn = kOurQpn}, world.now), Result::kOk);
    return id.value;
  }
  /// The DREQ that was sent last.
  wire::CmDreq question() { return wire::decode_cm<wire::CmDreq>(world.mads.back()); }
  void answer(const Path& path, const wire::CmDreq& dreq) {
    const wire::CmDrep drep{dreq.remote_comm_id, dreq.local_comm_id, {}};
    world.manager.receive(wire::encode_cm(drep, 1), path, Qpn(1), world.now);
  }
  void go_to(Time time) {
    while (world.manager.next_deadline() <= time) world.wait();
    world.now = time;
  }

  World world;
  std::uint32_t made_up = 0;
};

TEST_F(Validation, FewRequestsOfUnknownPeers_OfferedWithoutAQuestion) {
  EXPECT_EQ(flood(32), 32u);
  EXPECT_EQ(world.take_sent(), "");
}

TEST_F(Validation, ManyRequestsOfUnknownPeers_TheRestIsAskedFirst) {
  EXPECT_EQ(flood(40), 32u);
  EXPECT_EQ(world.take_sent(), "DREQ, DREQ, DREQ, DREQ, DREQ, DREQ, DREQ, DREQ");
  EXPECT_EQ(world.manager.half_open(), 32u);
  EXPECT_EQ(world.manager.size(), 32u) << "a question takes no place";
}

TEST_F(Validation, APeerAnswers_ItsRequestsAreOffered) {
  flood(32);
  const Path honest = path_from(0x1000);
  EXPECT_FALSE(request(honest, 1));
  const wire::CmDreq asked = question();
  EXPECT_FALSE(request(honest, 2));
  EXPECT_FALSE(request(honest, 2)) << "a duplicate";
  const std::size_t before = world.requests.size();
  answer(honest, asked);
  EXPECT_EQ(world.requests.size(), before + 2);
  EXPECT_EQ(world.last_path.standing, Standing::kAnswered);
  EXPECT_TRUE(request(honest, 3)) << "it is not asked again";
}

TEST_F(Validation, AServiceIdRequestOfAnUnknownPeer_AskedFirstAndOffered) {
  flood(32);
  const Path honest = path_from(0x1000);
  const wire::CmSidrReq req{.request_id = 5, .service_id = kService};
  world.manager.receive(wire::encode_cm(req, 5), honest, Qpn(1), world.now);
  EXPECT_TRUE(world.sidr_requests.empty());
  answer(honest, question());
  EXPECT_EQ(world.sidr_requests.size(), 1u);
}

TEST_F(Validation, AWrongAnswer_LetsNothingIn) {
  flood(32);
  const Path asked = path_from(0x1000);
  EXPECT_FALSE(request(asked, 1));
  wire::CmDreq guess = question();
  ++guess.local_comm_id;
  answer(asked, guess);
  --guess.local_comm_id;
  answer(path_from(0x1001), guess);
  answer({.local = Gid::from_ipv4(0x0a090009), .remote = asked.remote}, guess);
  EXPECT_EQ(world.requests.size(), 32u);
  EXPECT_FALSE(request(asked, 2));
}

TEST_F(Validation, AQuestionIsLost_AskedAgainWithTheNextRequest) {
  flood(32);
  const Path honest = path_from(0x1000);
  request(honest, 1);
  world.mads.clear();
  request(honest, 1);
  EXPECT_EQ(world.take_sent(), "");
  world.now += milliseconds(100);
  flood(1);  // what is offered unasked by now
  world.mads.clear();
  request(honest, 1);
  EXPECT_EQ(world.take_sent(), "DREQ");
}

/// A minute of 2,000 requests a second, each from an address of its own, to a program that accepts
/// all it is offered.
TEST_F(Validation, FloodFromMadeUpAddresses_KnownAndNewPeersConnectAtOnce) {
  const Path known = path_from(0x1000000);
  world.establish(known, 1);
  std::size_t offered = 0;
  for (std::uint32_t ms = 0; ms < 60'000; ms += 10) {
    const std::size_t before = world.requests.size();
    offered += flood(20);
    const std::vector<CommId> accepted(world.requests.begin() + static_cast<std::ptrdiff_t>(before),
                                       world.requests.end());
    for (const CommId id : accepted)
      if (world.manager.state(id)) accept(id);
    if (ms % 1000 == 500) {
      world.establish(known, 2 + ms);
      const Path fresh = path_from(0x2000000 + ms);
      world.mads.clear();
      if (!request(fresh, 7)) {
        const std::size_t asked = world.requests.size();
        answer(fresh, question());
        ASSERT_EQ(world.requests.size(), asked + 1);
      }
    }
    ASSERT_LE(world.manager.half_open(), 32u + 60u);
    world.mads.clear();
    world.paths.clear();
    world.events.clear();
    go_to(world.now + milliseconds(10));
  }
  EXPECT_LE(offered, 32u + 60 * 8 + 60) << "a program sees few of the made-up ones";
}

TEST_F(Validation, NoPlaceForAnotherUnknownPeer_TheOldestGivesWay) {
  flood(32);
  const CommId first = world.requests.front(), second = world.requests[1];
  accept(second);
  world.take_sent();
  world.now += milliseconds(250);
  EXPECT_EQ(flood(2), 2u);
  EXPECT_FALSE(world.manager.state(first)) << "it may ask again";
  EXPECT_FALSE(world.manager.state(second));
  EXPECT_EQ(world.take_events(), "unreachable in req-received, unreachable in rep-sent");
  EXPECT_EQ(world.take_sent(), "REJ 4 about other");
  EXPECT_EQ(world.manager.half_open(), 32u);
}

TEST_F(Validation, MoreQuestionsThanAreKept_TheOldestAreDroppedAndCounted) {
  flood(32);
  const Path first = path_from(0x1000);
  request(first, 1);
  const wire::CmDreq asked = question();
  flood(AddressValidation::kKept);
  EXPECT_EQ(world.manager.counters().requests_over_limit, 1u);
  answer(first, asked);
  EXPECT_EQ(world.requests.size(), 32u);
}

/// A REQ may ask for 16 tries of 70 s, and MRAs for 70 s more each.
TEST_F(Validation, APeerThatDelaysItsRtu_HoldsItsPlaceForABoundedTime) {
  auto req = world.peer_req();
  req.local_response_timeout = 31;
  world.receive(req);
  const std::uint32_t id = accept(world.requests.back());
  const Time start = world.now;
  const wire::CmMra mra{.local_comm_id = kPeerId,
                        .remote_comm_id = id,
                        .message = wire::CmMessage::kRep,
                        .service_timeout = 31};
  while (world.manager.half_open() != 0) {
    world.receive(mra);
    world.wait();
  }
  EXPECT_EQ(world.now - start, CmLimits{}.longest_half_open);
  EXPECT_EQ(world.events.back(), "unreachable in mra-rep-received");
}

TEST(RecentPeers, OneMoreThanItHolds_TheLeastRecentIsForgotten) {
  RecentPeers peers(2);
  const Gid a = Gid::from_ipv4(1), b = Gid::from_ipv4(2), c = Gid::from_ipv4(3);
  peers.note(a) = Time(seconds(3));
  peers.note(b);
  EXPECT_EQ(peers.note(a), Time(seconds(3)));
  peers.note(c);
  EXPECT_TRUE(peers.contains(a));
  EXPECT_FALSE(peers.contains(b));
  EXPECT_TRUE(peers.contains(c));
}

}  // namespace
}  // namespace softhca::management::cm
