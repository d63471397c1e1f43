// SPDX-License-Identifier: Apache-2.0

// Which connections begin: rate and admission, without a service.
#include "daemon/roce/rdma_cm/connections/admission_control.hpp"

#include <cerrno>

#include "tests/unit/roce/rdma_cm/parts.hpp"

namespace softhca::management::rdma_cm {
namespace {

TEST(ConnectRate, ASecondsConnectsMayComeAtOnceAndThenOneByOne) {
  ConnectRate rate;
  const Time now{std::chrono::seconds(5)};
  for (int n = 0; n < 4; ++n) EXPECT_TRUE(rate.take(4, now));
  EXPECT_FALSE(rate.take(4, now));
  EXPECT_TRUE(rate.take(4, now + std::chrono::milliseconds(250)));
  EXPECT_FALSE(rate.take(4, now + std::chrono::milliseconds(250)));
  for (int n = 0; n < 100; ++n) EXPECT_TRUE(rate.take(0, now)) << "no limit";
}

struct Control : Parts {
  Control() { control.admission().set({{.level = "", .carries = 2}}, 2); }
  AdmissionControl control{environment, limits};
  Channel& channel = open();
  Identifier& id = make(channel);
};

TEST_F(Control, WhatIsCarriedIsNotedAndGivenBackOnce) {
  EXPECT_EQ(control.admit(command(channel), id), 0);
  EXPECT_TRUE(id.connection.admitted);
  EXPECT_EQ(control.admission().admitted(), 1u);
  id.connection.id = cm::CommId(5);
  control.connection_over(id);
  control.give_back(id);
  EXPECT_EQ(control.admission().admitted(), 0u);
  EXPECT_FALSE(id.connection.id);
}

TEST_F(Control, WhatIsNotCarriedIsRefused) {
  control.admission().set({{.level = "", .carries = 0}}, 0);
  EXPECT_EQ(control.admit(command(channel), id), ENOBUFS);
  EXPECT_EQ(environment.refused[Refusal::kAdmission], 1);
  cm::Answer answer;
  EXPECT_FALSE(control.admit_request("", {.remote = kPeer}, now, answer));
  EXPECT_EQ(answer.kind, cm::Answer::Kind::kRefuse);
  EXPECT_EQ(answer.reason, wire::CmRejectReason::kNoResources);
}

TEST_F(Control, WhatTheRateRefusesIsNotAdmitted) {
  limits.connects_per_second = 1;
  EXPECT_TRUE(control.rate_allows(now));
  EXPECT_EQ(control.admit(command(channel), id), EAGAIN);
  cm::Answer answer = cm::Answer::silence();
  EXPECT_FALSE(control.admit_request("", {.remote = kPeer}, now, answer));
  EXPECT_EQ(answer.kind, cm::Answer::Kind::kSilence);
  EXPECT_EQ(control.admission().admitted(), 0u);
  EXPECT_EQ(environment.refused[Refusal::kConnectRate], 2);
}

TEST_F(Control, ARequestIsHalfOpenUntilItsPeerAnswers) {
  cm::Answer answer;
  ASSERT_TRUE(control.admit_request("", {.remote = kPeer}, now, answer));
  id.remote = at(kPeer, 1);
  AdmissionControl::admitted(id, "", {.remote = kPeer});
  control.close_half(id);
  EXPECT_FALSE(id.connection.half_open);
  control.close_half(id);
  EXPECT_EQ(control.admission().admitted(), 1u) << "it still counts";
  control.give_back(id);
  EXPECT_EQ(control.admission().admitted(), 0u);
}

TEST(ConnectRate, LeavingHalf_RefusedWhereOthersAreNot) {
  ConnectRate rate;
  const Time now{std::chrono::seconds(5)};
  EXPECT_TRUE(rate.take(4, now, true));
  EXPECT_TRUE(rate.take(4, now, true));
  EXPECT_FALSE(rate.take(4, now, true));
  EXPECT_TRUE(rate.take(4, now));
}

/// Made-up addresses are as many peers as their sender likes.
TEST_F(Control, UnknownPeers_CountAsOne_AKnownPeerFindsRoom) {
  control.admission().set({{.level = "", .carries = 8}}, 8);
  cm::Answer answer;
  unsigned taken = 0;
  for (std::uint32_t host = 0; host < 100; ++host)
    taken += control.admit_request(
        "", {.remote = Gid::from_ipv4(0xac100000 + host), .standing = cm::Standing::kUnknown}, now,
        answer);
  EXPECT_EQ(taken, 4u);
  EXPECT_TRUE(control.admit_request("", {.remote = kPeer}, now, answer));
}

}  // namespace
}  // namespace softhca::management::rdma_cm
