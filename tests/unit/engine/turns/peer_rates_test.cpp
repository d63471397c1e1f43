// SPDX-License-Identifier: Apache-2.0

// Rates of peers, of tenants, levels and queue pairs, without an engine.
#include "daemon/engine/turns/peer_rates.hpp"

#include "daemon/roce/transport/codes.hpp"
#include "tests/unit/engine/fixture/parts.hpp"

namespace softhca::engine {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

class PeerRatesTest : public Parts {
 protected:
  PeerRatesTest() {
    for (TestQp* each : {&other, &sender}) {
      each->qp.tenant = &tenant;
      each->qp.session = &session;
      EXPECT_TRUE(queue_pairs.add(each->qp));
    }
  }
  ~PeerRatesTest() override {
    session.level = nullptr;
    for (TestQp* each : {&qp, &other, &sender}) peer_rates.leave(each->qp);
    for (PeerGate* gate : {&inbound, &served}) peer_rates.forget(*gate);
  }

  /// Returns the slots that may go on now.
  std::vector<std::uint32_t> released() {
    std::vector<std::uint32_t> out;
    peer_rates.release([&](std::uint32_t slot) { out.push_back(slot); });
    return out;
  }
  /// Advances the clock to the next release, and releases, as an engine does.
  std::vector<std::uint32_t> pass() {
    clock.now = std::max(clock.now, peer_rates.next_release());
    return released();
  }
  /// Bytes that a peer brings in packets of `packet`, as fast as it may, in the time.
  std::uint64_t bring(TestQp& to, std::uint32_t packet, Duration time) {
    std::uint64_t bytes = 0;
    for (const Time end = clock.now + time; clock.now < end;) {
      const Duration wait = peer_rates.request_wait(to.qp);
      if (wait == Duration::zero()) {
        peer_rates.took(to.qp, packet, true);
        bytes += packet;
        continue;
      }
      clock.now += transport::rnr_delay(transport::rnr_timer(wait));
      released();
    }
    return bytes;
  }

  static constexpr RateLimits kMegabyte{.bytes_per_second = 1'000'000, .burst_bytes = 10'000};
  TestQp other{QpOptions{}}, sender{QpOptions{}};
  PeerRates peer_rates{clock, queue_pairs.slots()};
  PeerGate& inbound = tenant.peer_rates.inbound;
  PeerGate& served = tenant.peer_rates.served;
};

TEST_F(PeerRatesTest, WithoutLimitsNothingWaits) {
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(peer_rates.request_wait(qp.qp), Duration::zero());
    peer_rates.took(qp.qp, 1u << 30, true);
    EXPECT_FALSE(peer_rates.holds_response(qp.qp));
    peer_rates.served(qp.qp, 1u << 30, true);
  }
  EXPECT_FALSE(peer_rates.is_over(qp.qp));
  EXPECT_FALSE(peer_rates.holds_message(sender.qp, qp.qp, true));
  EXPECT_EQ(peer_rates.next_release(), kNever);
  EXPECT_EQ(inbound.bytes.value(), 0u);
}

TEST_F(PeerRatesTest, WhatComesTooFastWaitsUntilHalfABurstMayCome) {
  peer_rates.set(inbound, kMegabyte);
  peer_rates.took(qp.qp, 15'000, true);
  const Duration wait = peer_rates.request_wait(qp.qp);
  EXPECT_NEAR(static_cast<double>(wait.count()), 10e6, 1e4) << "debt and half a burst, of 1 MB/s";
  EXPECT_FALSE(peer_rates.holds_response(qp.qp)) << "reads have a rate of their own";
  EXPECT_EQ(inbound.held.value(), 1u);
  EXPECT_EQ(inbound.bytes.value(), 15'000u);
}

TEST_F(PeerRatesTest, OverTimeTheInboundRateIsExact) {
  peer_rates.set(inbound, kMegabyte);
  bring(qp, 1000, milliseconds(50));
  EXPECT_NEAR(static_cast<double>(bring(qp, 1000, std::chrono::seconds(10))), 10e6, 5e4);
}

TEST_F(PeerRatesTest, ManyPeersShareTheRateAndEachGetsOn) {
  peer_rates.set(inbound, kMegabyte);
  std::array<std::uint64_t, 3> came{};
  std::array<Time, 3> due{};
  TestQp* const targets[] = {&qp, &other, &sender};
  for (const Time end = clock.now + std::chrono::seconds(4); clock.now < end;
       clock.now += microseconds(10)) {
    released();
    for (std::size_t i = 0; i < 3; ++i) {
      while (clock.now >= due[i]) {
        const Duration wait = peer_rates.request_wait(targets[i]->qp);
        if (wait != Duration::zero()) {
          due[i] = clock.now + transport::rnr_delay(transport::rnr_timer(wait));
          break;
        }
        peer_rates.took(targets[i]->qp, 4096, true);
        came[i] += 4096;
      }
    }
  }
  EXPECT_NEAR(static_cast<double>(came[0] + came[1] + came[2]), 4e6, 6e4);
  for (const std::uint64_t each : came) EXPECT_GT(each, 200'000u) << "nobody starves";
}

TEST_F(PeerRatesTest, WhoComesBeforeItsTimeIsRefusedAgain) {
  peer_rates.set(inbound, kMegabyte);
  peer_rates.took(qp.qp, 100'000, true);
  const Duration first = peer_rates.request_wait(qp.qp);
  clock.now += first / 2;
  EXPECT_GT(peer_rates.request_wait(qp.qp), Duration::zero());
}

/// Others have used the rate up again: it comes in all the same, or its retries would run out.
TEST_F(PeerRatesTest, WhoHasWaitedAsToldComesIn) {
  peer_rates.set(inbound, kMegabyte);
  peer_rates.took(qp.qp, 20'000, true);
  clock.now += peer_rates.request_wait(qp.qp);
  released();
  peer_rates.took(other.qp, 20'000, true);
  EXPECT_EQ(peer_rates.request_wait(qp.qp), Duration::zero());
  peer_rates.took(qp.qp, 1000, true);
  EXPECT_GT(peer_rates.request_wait(qp.qp), Duration::zero()) << "with one packet";
}

TEST_F(PeerRatesTest, ADebtLongerThanAPeerCanBeToldToWaitHoldsForAll) {
  peer_rates.set(inbound, kMegabyte);
  peer_rates.took(qp.qp, 10'000'000, true);
  EXPECT_EQ(peer_rates.request_wait(qp.qp), transport::kLongestRnrDelay);
  clock.now += transport::kLongestRnrDelay;
  released();
  EXPECT_EQ(peer_rates.request_wait(qp.qp), transport::kLongestRnrDelay);
}

TEST_F(PeerRatesTest, ResponsesWaitForTheirTurnsInOrder) {
  peer_rates.set(served, {.bytes_per_second = 1'000'000, .burst_bytes = 1});
  EXPECT_FALSE(peer_rates.holds_response(qp.qp));
  peer_rates.served(qp.qp, 1000, true);
  EXPECT_TRUE(peer_rates.holds_response(qp.qp));
  EXPECT_TRUE(peer_rates.holds_response(other.qp));
  EXPECT_TRUE(peer_rates.holds_response(qp.qp)) << "asked again";
  EXPECT_TRUE(released().empty());
  EXPECT_EQ(pass(), std::vector{qp.qp.slot});
  EXPECT_FALSE(peer_rates.holds_response(qp.qp));
  peer_rates.served(qp.qp, 1000, false);
  EXPECT_TRUE(peer_rates.holds_response(qp.qp)) << "again behind the other";
  EXPECT_EQ(pass(), std::vector{other.qp.slot});
  EXPECT_EQ(served.bytes.value(), 2000u);
  EXPECT_EQ(peer_rates.request_wait(qp.qp), Duration::zero());
}

TEST_F(PeerRatesTest, WhoHasHadItsTurnGoesThroughAlthoughOthersCameBetween) {
  peer_rates.set(inbound, {.messages_per_second = 1000, .burst_messages = 1});
  peer_rates.begins(other.qp, qp.qp, false, 1);
  EXPECT_TRUE(peer_rates.holds_message(sender.qp, qp.qp, false));
  peer_rates.wait(sender.qp, qp.qp, false);
  EXPECT_TRUE(peer_rates.waits(sender.qp));
  EXPECT_EQ(pass(), std::vector{sender.qp.slot});
  EXPECT_FALSE(peer_rates.waits(sender.qp));
  peer_rates.begins(other.qp, qp.qp, false, 1);
  EXPECT_FALSE(peer_rates.holds_message(sender.qp, qp.qp, false));
  peer_rates.begins(sender.qp, qp.qp, false, 1);
  EXPECT_TRUE(peer_rates.holds_message(sender.qp, qp.qp, false)) << "once";
}

TEST_F(PeerRatesTest, ReadsAndSendsInsideTheDaemonHaveRatesOfTheirOwn) {
  peer_rates.set(inbound, {.messages_per_second = 1, .burst_messages = 1});
  peer_rates.begins(sender.qp, qp.qp, false, 1);
  EXPECT_TRUE(peer_rates.holds_message(sender.qp, qp.qp, false));
  EXPECT_FALSE(peer_rates.holds_message(sender.qp, qp.qp, true));
  EXPECT_TRUE(peer_rates.is_over(qp.qp));
}

TEST_F(PeerRatesTest, ALevelLimitsItsOwn) {
  Level level;
  session.level = &level;
  peer_rates.set(level.peer_rates.inbound, kMegabyte);
  peer_rates.took(qp.qp, 100'000, true);
  EXPECT_GT(peer_rates.request_wait(qp.qp), Duration::zero());
  session.level = nullptr;
  EXPECT_EQ(peer_rates.request_wait(qp.qp), Duration::zero()) << "of no level, or another";
  peer_rates.forget(level.peer_rates.inbound);
}

TEST_F(PeerRatesTest, AQueuePairLimitsNoOther) {
  qp.qp.sq.rates = std::make_unique<QpRates>();
  peer_rates.set(qp.qp.sq.rates->peers.served, kMegabyte);
  peer_rates.served(qp.qp, 100'000, true);
  peer_rates.served(other.qp, 100'000, true);
  EXPECT_TRUE(peer_rates.holds_response(qp.qp));
  EXPECT_FALSE(peer_rates.holds_response(other.qp));
  peer_rates.leave(qp.qp);
  peer_rates.forget(qp.qp.sq.rates->peers.served);
}

TEST_F(PeerRatesTest, WhoLeavesWhileItWaitsHoldsUpNobody) {
  peer_rates.set(served, {.messages_per_second = 1000, .burst_messages = 1});
  peer_rates.served(qp.qp, 1, true);
  EXPECT_TRUE(peer_rates.holds_response(qp.qp));
  EXPECT_TRUE(peer_rates.holds_response(other.qp));
  peer_rates.leave(qp.qp);
  EXPECT_EQ(pass(), std::vector{other.qp.slot});
}

TEST_F(PeerRatesTest, WithoutTheLimitAllGoOn) {
  peer_rates.set(served, {.messages_per_second = 1, .burst_messages = 1});
  peer_rates.served(qp.qp, 1, true);
  EXPECT_TRUE(peer_rates.holds_response(qp.qp));
  EXPECT_TRUE(peer_rates.holds_response(other.qp));
  peer_rates.set(served, {});
  EXPECT_EQ(released(), std::vector{qp.qp.slot});
  EXPECT_EQ(released(), std::vector{other.qp.slot});
  EXPECT_FALSE(peer_rates.holds_response(qp.qp));
}

/// When the limited tenant is removed, the queue pairs that send to it wake.
TEST_F(PeerRatesTest, WhoWaitsForAGateThatGoesIsWoken) {
  peer_rates.set(inbound, {.messages_per_second = 1, .burst_messages = 1});
  peer_rates.begins(sender.qp, qp.qp, false, 1);
  peer_rates.wait(sender.qp, qp.qp, false);
  peer_rates.forget(inbound);
  EXPECT_FALSE(peer_rates.waits(sender.qp));
  EXPECT_EQ(peer_rates.next_release(), Time{});
  EXPECT_EQ(released(), std::vector{sender.qp.slot});
  EXPECT_EQ(peer_rates.next_release(), kNever);
}

}  // namespace
}  // namespace softhca::engine
