// SPDX-License-Identifier: Apache-2.0

// What a window of traffic does to a share, alone.
#include "daemon/qos/gsa/share_adjuster.hpp"

#include <gtest/gtest.h>

namespace softhca::management::gsa {
namespace {

using std::chrono::milliseconds;

struct Adjuster : testing::Test {
  Adjuster() { shares.set_asked(clients.add({.key = ClientKey(1)})->index, 16); }

  /// Windows in which the client held so many at most.
  void windows(unsigned n, std::uint32_t peak, bool refused = false) {
    for (; n != 0; --n) {
      client().peak = peak;
      client().refused = refused;
      adjuster.expire(adjuster.next());
    }
  }
  Client& client() { return clients[0]; }

  Parameters parameters;
  PoolCounters counters;
  ClientTable clients{1};
  PostedBuffers posted{parameters, counters};
  Shares shares{parameters, clients, posted, counters};
  ShareAdjuster adjuster{parameters.adjustment, clients, shares, Time{}};
};

TEST_F(Adjuster, RaisesToWhatWasNeededInSomeOfTheLastWindows) {
  windows(2, 20);
  EXPECT_EQ(client().share, 16u);
  windows(1, 20);
  EXPECT_EQ(client().share, 20u);
}

TEST_F(Adjuster, RaisesByHalfWhereDatagramsWereDiscarded) {
  windows(3, 16, true);
  EXPECT_EQ(client().share, 24u);
}

TEST_F(Adjuster, RaisesNoFurtherThanTheOperatorAllows) {
  windows(30, 60, true);
  EXPECT_EQ(client().share, 64u);
}

TEST_F(Adjuster, LowersAfterCalmWindowsAndNeverBelowWhatWasAskedFor) {
  windows(3, 60);
  ASSERT_EQ(client().share, 60u);
  windows(7, 10);
  EXPECT_EQ(client().share, 60u);
  windows(1, 10);
  EXPECT_EQ(client().share, 30u);
  windows(8, 10);
  EXPECT_EQ(client().share, 16u);
  windows(20, 0);
  EXPECT_EQ(client().share, 16u);
}

TEST_F(Adjuster, OneThatKeepsWhatItGotLosesWhatWasAdded) {
  windows(3, 60);
  client().gives_back = GivesBack::kMaybe;
  client().own = 1;
  windows(1, 60);
  EXPECT_EQ(client().share, 16u);
}

TEST_F(Adjuster, AShorterWindowCountsAtOnceAndALongerOneWithTheNext) {
  const Time before = adjuster.next();
  parameters.adjustment.window = std::chrono::seconds(50);
  adjuster.parameters_changed(Time{});
  EXPECT_EQ(adjuster.next(), before);
  parameters.adjustment.window = milliseconds(10);
  adjuster.parameters_changed(Time{});
  EXPECT_EQ(adjuster.next(), Time{} + milliseconds(10));
  EXPECT_EQ(adjuster.window(), 0u);
  adjuster.expire(adjuster.next() - Duration(1));
  EXPECT_EQ(adjuster.window(), 0u);
  adjuster.expire(adjuster.next());
  EXPECT_EQ(adjuster.window(), 1u);
}

}  // namespace
}  // namespace softhca::management::gsa
