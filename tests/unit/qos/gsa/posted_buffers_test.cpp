// SPDX-License-Identifier: Apache-2.0

// How many buffers are posted, alone: E1 to E3 by numbers.
#include "daemon/qos/gsa/posted_buffers.hpp"

#include <gtest/gtest.h>

namespace softhca::management::gsa {
namespace {

struct PostedCount : testing::Test {
  PostedCount() {
    parameters.buffers = 100;
    expect(40);
  }
  /// Clients ask for so many, and that is their share.
  void expect(std::uint32_t buffers) {
    posted.set_asked(buffers);
    posted.set_shares(buffers);
    posted.post_for_shares();
  }
  void take(unsigned n) {
    for (; n != 0; --n) {
      ASSERT_TRUE(posted.post_for_datagram());
      posted.take();
    }
  }

  Parameters parameters;
  PoolCounters counters;
  PostedBuffers posted{parameters, counters};
};

TEST_F(PostedCount, SharesArePosted) {
  EXPECT_EQ(posted.posted(), 40u);
  EXPECT_EQ(counters.posted.value(), 40u);
  EXPECT_EQ(counters.added.value(), 0u);
}

TEST_F(PostedCount, BelowTheLowThresholdMoreArePostedUpToTheMiddle) {
  EXPECT_EQ(posted.low_threshold(), 10u) << "a quarter of what was asked for";
  EXPECT_EQ(posted.high_threshold(), 40u);
  take(30);
  EXPECT_EQ(posted.posted(), 10u);
  take(1);
  EXPECT_EQ(posted.posted(), 25u);
  EXPECT_EQ(counters.posted_more.value(), 16u);
}

TEST_F(PostedCount, AboveTheHighThresholdWhatWasAddedIsRemovedAndNoMore) {
  take(31);
  for (int n = 0; n < 31; ++n) posted.give_back();
  EXPECT_EQ(posted.posted(), 40u);
  EXPECT_EQ(counters.removed.value(), 16u);
  EXPECT_EQ(counters.in_use.value(), 0u);
}

TEST_F(PostedCount, ASmallerShareRemovesItsBuffers) {
  posted.set_asked(25);
  posted.set_shares(25);
  posted.remove(15);
  EXPECT_EQ(posted.posted(), 25u);
}

TEST_F(PostedCount, ThereAreNeverMoreThanTheOperatorSays) {
  take(100);
  EXPECT_EQ(posted.posted(), 0u);
  EXPECT_FALSE(posted.post_for_datagram());
  parameters.buffers = 50;
  posted.give_back();
  EXPECT_EQ(posted.posted(), 0u) << "returned buffers are not posted again";
}

}  // namespace
}  // namespace softhca::management::gsa
