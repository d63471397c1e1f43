// Shares that follow the traffic: E4.
#include "tests/unit/management/gsa/desk.hpp"

namespace softhca::management::gsa {
namespace {

/// A burst of established hosts, all of which the client holds for a moment.
void burst(Desk& desk, std::uint64_t key, std::uint32_t n) {
  for (std::uint32_t i = 0; i < n; ++i) desk.send(key, 1 + i % 4);
  desk.give_back(key);
}

struct Share : testing::Test {
  Share() : desk(unlimited(160)) {
    desk.join(1);
    desk.join(2);
    for (std::uint64_t key : {1, 2})
      for (std::uint32_t from : {1u, 2u, 3u, 4u}) desk.establish(key, from);
    desk.pass_window();
  }
  Desk desk;
};

TEST_F(Share, IsRaisedForOneThatRegularlyNeedsMoreAndTheClientIsTold) {
  for (int window = 0; window < 3; ++window) {
    EXPECT_EQ(desk.share(1), 16u);
    burst(desk, 1, 40);
    desk.pass_window();
  }
  EXPECT_EQ(desk.share(1), 40u) << "what it needed";
  EXPECT_EQ(desk.counters(1).asked.value(), 16u);
  EXPECT_EQ(desk.counters(1).raised.value(), 1u);
  EXPECT_EQ(desk.share(2), 16u);
  EXPECT_EQ(desk.posted(), 56u) << "posted for it";
  const std::optional<ShareChange> change = desk.pool.take_share_change();
  ASSERT_TRUE(change);
  EXPECT_EQ(change->key, ClientKey(1));
  EXPECT_EQ(change->old_share, 16u);
  EXPECT_EQ(change->new_share, 40u);
  EXPECT_FALSE(desk.pool.take_share_change());
}

TEST_F(Share, IsNotRaisedForABurstNowAndThen) {
  for (int window = 0; window < 32; ++window) {
    if (window % 4 == 0) burst(desk, 1, 40);
    desk.pass_window();
  }
  EXPECT_EQ(desk.share(1), 16u);
}

TEST_F(Share, IsRaisedToWhatTheOperatorAllowsAtMost) {
  for (int window = 0; window < 20; ++window) {
    burst(desk, 1, 1000);
    desk.pass_window();
  }
  EXPECT_EQ(desk.share(1), 64u) << "four times what it asked for";
}

TEST_F(Share, IsLoweredWhenItIsNoLongerNeededButNotBelowWhatWasAskedFor) {
  for (int window = 0; window < 3; ++window) {
    burst(desk, 1, 40);
    desk.pass_window();
  }
  ASSERT_EQ(desk.share(1), 40u);
  for (int window = 0; window < 7; ++window) {
    burst(desk, 1, 18);
    desk.pass_window();
  }
  EXPECT_EQ(desk.share(1), 40u);
  burst(desk, 1, 18);
  desk.pass_window();
  EXPECT_EQ(desk.share(1), 20u);
  for (int window = 0; window < 40; ++window) desk.pass_window();
  EXPECT_EQ(desk.share(1), 16u);
  EXPECT_EQ(desk.counters(1).lowered.value(), 2u);
  const std::optional<ShareChange> change = desk.pool.take_share_change();
  EXPECT_FALSE(change) << "it was never told of what is gone again";
}

TEST_F(Share, IsTakenBackWhenAnotherAsksForTheRoom) {
  for (int window = 0; window < 6; ++window) {
    burst(desk, 1, 60);
    desk.pass_window();
  }
  ASSERT_EQ(desk.share(1), 60u);
  desk.pool.take_share_change();
  desk.join(3, 128);
  EXPECT_EQ(desk.share(1), 16u);
  EXPECT_EQ(desk.share(3), 128u);
  EXPECT_EQ(desk.pool.take_share_change()->new_share, 16u);
}

TEST_F(Share, IsNotRaisedByAStormOfOneHostThatIsHeldToItsPart) {
  Parameters parameters = unlimited(32);
  ASSERT_TRUE(desk.pool.set_parameters(parameters, desk.now));
  for (int window = 0; window < 20; ++window) {
    desk.serve(1, 2);
    desk.flood(1, 1, 1000);
    desk.give_back(1);
    desk.pass_window();
  }
  EXPECT_EQ(desk.share(1), 16u);
}

TEST_F(Share, FollowsDiscardsToo) {
  Parameters parameters = unlimited(33);
  ASSERT_TRUE(desk.pool.set_parameters(parameters, desk.now));
  for (int window = 0; window < 3; ++window) {
    burst(desk, 1, 40);
    desk.pass_window();
  }
  EXPECT_EQ(desk.share(1), 17u) << "all there is";
}

TEST_F(Share, IsNeverRaisedWhenTheOperatorSaysSo) {
  Parameters parameters = unlimited(160);
  parameters.adjustment.raise_after = 0;
  ASSERT_TRUE(desk.pool.set_parameters(parameters, desk.now));
  for (int window = 0; window < 20; ++window) {
    burst(desk, 1, 40);
    desk.pass_window();
  }
  EXPECT_EQ(desk.share(1), 16u);
}

TEST_F(Share, OfAClientThatLeftIsNotTold) {
  for (int window = 0; window < 3; ++window) {
    burst(desk, 1, 40);
    desk.pass_window();
  }
  desk.pool.deregister_client(*desk.find(1));
  EXPECT_FALSE(desk.pool.take_share_change());
}

TEST_F(Share, TheWindowPassesOnceHoweverOftenItIsAsked) {
  const Time due = desk.pool.watch_at();
  desk.pool.watch_traffic(due - Duration(1));
  EXPECT_EQ(desk.pool.watch_at(), due);
  desk.pool.watch_traffic(due + seconds(5));
  EXPECT_EQ(desk.pool.watch_at(), due + seconds(6));
}

// One that keeps buffers as long as it likes.

struct Keeper : testing::Test {
  Keeper() : desk(unlimited(160)) {
    desk.join(1);
    keeper = *desk.pool.register_client(ClientKey(2), "keeper", 8, GivesBack::kMaybe);
    for (std::uint32_t from : {1u, 2u, 3u, 4u}) desk.establish(2, from);
    desk.pass_window();
  }
  Desk desk;
  ClientId keeper;
};

TEST_F(Keeper, BorrowsNone) {
  for (std::uint32_t i = 0; i < 100; ++i) desk.send(2, 1 + i % 4);
  EXPECT_EQ(desk.counters(2).held.value(), 8u);
  EXPECT_EQ(desk.send(2, 1), Discard::kOverQuota);
}

TEST_F(Keeper, GetsNoMoreWhileItGivesNoneBack) {
  for (int window = 0; window < 20; ++window) {
    for (std::uint32_t i = 0; i < 100; ++i) desk.send(2, 1 + i % 4);
    desk.pass_window();
  }
  EXPECT_EQ(desk.share(2), 8u);
}

TEST_F(Keeper, GetsMoreWhenItDoes) {
  for (int window = 0; window < 3; ++window) {
    burst(desk, 2, 40);
    desk.pass_window();
  }
  EXPECT_EQ(desk.share(2), 12u);
}

TEST_F(Keeper, LosesWhatItWasGivenWhenItGivesNoneBackAnyMore) {
  for (int window = 0; window < 3; ++window) {
    burst(desk, 2, 40);
    desk.pass_window();
  }
  ASSERT_EQ(desk.share(2), 12u);
  for (std::uint32_t i = 0; i < 100; ++i) desk.send(2, 1 + i % 4);
  desk.pass_window();
  EXPECT_EQ(desk.share(2), 8u);
}

}  // namespace
}  // namespace softhca::management::gsa
