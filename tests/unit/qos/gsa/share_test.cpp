// SPDX-License-Identifier: Apache-2.0

// Shares that follow the traffic: E4.
#include "tests/unit/qos/gsa/pool_fixture.hpp"

namespace softhca::management::gsa {
namespace {

/// A burst of established hosts, all of which the client holds for a moment.
void burst(PoolFixture& fixture, std::uint64_t key, std::uint32_t n) {
  for (std::uint32_t i = 0; i < n; ++i) fixture.send(key, 1 + i % 4);
  fixture.give_back(key);
}

struct Share : testing::Test {
  Share() : fixture(unlimited(160)) {
    fixture.join(1);
    fixture.join(2);
    for (std::uint64_t key : {1, 2})
      for (std::uint32_t from : {1u, 2u, 3u, 4u}) fixture.establish(key, from);
    fixture.pass_window();
  }
  PoolFixture fixture;
};

TEST_F(Share, IsRaisedForOneThatRegularlyNeedsMoreAndTheClientIsTold) {
  for (int window = 0; window < 3; ++window) {
    EXPECT_EQ(fixture.share(1), 16u);
    burst(fixture, 1, 40);
    fixture.pass_window();
  }
  EXPECT_EQ(fixture.share(1), 40u) << "what it needed";
  EXPECT_EQ(fixture.counters(1).asked.value(), 16u);
  EXPECT_EQ(fixture.counters(1).raised.value(), 1u);
  EXPECT_EQ(fixture.share(2), 16u);
  EXPECT_EQ(fixture.posted(), 56u) << "posted for it";
  const std::optional<ShareChange> change = fixture.pool.take_share_change();
  ASSERT_TRUE(change);
  EXPECT_EQ(change->key, ClientKey(1));
  EXPECT_EQ(change->old_share, 16u);
  EXPECT_EQ(change->new_share, 40u);
  EXPECT_FALSE(fixture.pool.take_share_change());
}

TEST_F(Share, IsNotRaisedForABurstNowAndThen) {
  for (int window = 0; window < 32; ++window) {
    if (window % 4 == 0) burst(fixture, 1, 40);
    fixture.pass_window();
  }
  EXPECT_EQ(fixture.share(1), 16u);
}

TEST_F(Share, IsRaisedToWhatTheOperatorAllowsAtMost) {
  for (int window = 0; window < 20; ++window) {
    burst(fixture, 1, 1000);
    fixture.pass_window();
  }
  EXPECT_EQ(fixture.share(1), 64u) << "four times what it asked for";
}

TEST_F(Share, IsLoweredWhenItIsNoLongerNeededButNotBelowWhatWasAskedFor) {
  for (int window = 0; window < 3; ++window) {
    burst(fixture, 1, 40);
    fixture.pass_window();
  }
  ASSERT_EQ(fixture.share(1), 40u);
  for (int window = 0; window < 7; ++window) {
    burst(fixture, 1, 18);
    fixture.pass_window();
  }
  EXPECT_EQ(fixture.share(1), 40u);
  burst(fixture, 1, 18);
  fixture.pass_window();
  EXPECT_EQ(fixture.share(1), 20u);
  for (int window = 0; window < 40; ++window) fixture.pass_window();
  EXPECT_EQ(fixture.share(1), 16u);
  EXPECT_EQ(fixture.counters(1).lowered.value(), 2u);
  const std::optional<ShareChange> change = fixture.pool.take_share_change();
  EXPECT_FALSE(change) << "it was never told of what is gone again";
}

TEST_F(Share, IsTakenBackWhenAnotherAsksForTheRoom) {
  for (int window = 0; window < 6; ++window) {
    burst(fixture, 1, 60);
    fixture.pass_window();
  }
  ASSERT_EQ(fixture.share(1), 60u);
  fixture.pool.take_share_change();
  fixture.join(3, 128);
  EXPECT_EQ(fixture.share(1), 16u);
  EXPECT_EQ(fixture.share(3), 128u);
  EXPECT_EQ(fixture.pool.take_share_change()->new_share, 16u);
}

TEST_F(Share, IsNotRaisedByAStormOfOneHostThatIsHeldToItsPart) {
  Parameters parameters = unlimited(32);
  ASSERT_TRUE(fixture.pool.set_parameters(parameters, fixture.now));
  for (int window = 0; window < 20; ++window) {
    fixture.serve(1, 2);
    fixture.flood(1, 1, 1000);
    fixture.give_back(1);
    fixture.pass_window();
  }
  EXPECT_EQ(fixture.share(1), 16u);
}

TEST_F(Share, FollowsDiscardsToo) {
  Parameters parameters = unlimited(33);
  ASSERT_TRUE(fixture.pool.set_parameters(parameters, fixture.now));
  for (int window = 0; window < 3; ++window) {
    burst(fixture, 1, 40);
    fixture.pass_window();
  }
  EXPECT_EQ(fixture.share(1), 17u) << "all there is";
}

TEST_F(Share, IsNeverRaisedWhenTheOperatorSaysSo) {
  Parameters parameters = unlimited(160);
  parameters.adjustment.raise_after = 0;
  ASSERT_TRUE(fixture.pool.set_parameters(parameters, fixture.now));
  for (int window = 0; window < 20; ++window) {
    burst(fixture, 1, 40);
    fixture.pass_window();
  }
  EXPECT_EQ(fixture.share(1), 16u);
}

TEST_F(Share, OfAClientThatLeftIsNotTold) {
  for (int window = 0; window < 3; ++window) {
    burst(fixture, 1, 40);
    fixture.pass_window();
  }
  fixture.pool.deregister_client(*fixture.find(1));
  EXPECT_FALSE(fixture.pool.take_share_change());
}

TEST_F(Share, TheWindowPassesOnceHoweverOftenItIsAsked) {
  const Time due = fixture.pool.watch_at();
  fixture.pool.watch_traffic(due - Duration(1));
  EXPECT_EQ(fixture.pool.watch_at(), due);
  fixture.pool.watch_traffic(due + seconds(5));
  EXPECT_EQ(fixture.pool.watch_at(), due + seconds(6));
}

// One that keeps buffers as long as it likes.

struct Keeper : testing::Test {
  Keeper() : fixture(unlimited(160)) {
    fixture.join(1);
    keeper = *fixture.pool.register_client(ClientKey(2), "keeper", 8, GivesBack::kMaybe);
    for (std::uint32_t from : {1u, 2u, 3u, 4u}) fixture.establish(2, from);
    fixture.pass_window();
  }
  PoolFixture fixture;
  ClientId keeper;
};

TEST_F(Keeper, BorrowsNone) {
  for (std::uint32_t i = 0; i < 100; ++i) fixture.send(2, 1 + i % 4);
  EXPECT_EQ(fixture.counters(2).held.value(), 8u);
  EXPECT_EQ(fixture.send(2, 1), Discard::kOverQuota);
}

TEST_F(Keeper, GetsNoMoreWhileItGivesNoneBack) {
  for (int window = 0; window < 20; ++window) {
    for (std::uint32_t i = 0; i < 100; ++i) fixture.send(2, 1 + i % 4);
    fixture.pass_window();
  }
  EXPECT_EQ(fixture.share(2), 8u);
}

TEST_F(Keeper, GetsMoreWhenItDoes) {
  for (int window = 0; window < 3; ++window) {
    burst(fixture, 2, 40);
    fixture.pass_window();
  }
  EXPECT_EQ(fixture.share(2), 12u);
}

TEST_F(Keeper, LosesWhatItWasGivenWhenItGivesNoneBackAnyMore) {
  for (int window = 0; window < 3; ++window) {
    burst(fixture, 2, 40);
    fixture.pass_window();
  }
  ASSERT_EQ(fixture.share(2), 12u);
  for (std::uint32_t i = 0; i < 100; ++i) fixture.send(2, 1 + i % 4);
  fixture.pass_window();
  EXPECT_EQ(fixture.share(2), 8u);
}

}  // namespace
}  // namespace softhca::management::gsa
