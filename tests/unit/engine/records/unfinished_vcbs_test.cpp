// SPDX-License-Identifier: Apache-2.0

// Which half-written VCBs are looked at, and when.
#include "daemon/engine/records/unfinished_vcbs.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace softhca::engine {
namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;

class UnfinishedVcbsTest : public testing::Test {
 protected:
  /// A scan, in which none that is looked at is whole.
  std::uint64_t scan() {
    vcbs.begin(pending, now);
    const std::uint64_t looked_at = pending & ~vcbs.not_now();
    for (std::uint32_t i = 0; i < 64; ++i)
      if ((looked_at >> i & 1) != 0) vcbs.not_whole(i);
    EXPECT_EQ(pending & ~vcbs.not_now(), 0u) << "once in a scan";
    vcbs.end(now);
    return looked_at;
  }
  /// Scans every 100 ns; the times of those that looked at one.
  std::vector<Duration> looks(std::uint32_t vcb, Duration time) {
    std::vector<Duration> out;
    for (const Time end = now + time; now < end; now += nanoseconds(100))
      if ((scan() >> vcb & 1) != 0) out.push_back(now - begin);
    return out;
  }

  UnfinishedVcbs vcbs;
  const Time begin{Duration(1'000'000'000)};
  Time now = begin;
  std::uint64_t pending = 0b1;
};

TEST_F(UnfinishedVcbsTest, InEachScanWhileTheyMayBeBeingWritten) {
  EXPECT_EQ(looks(0, microseconds(1)).size(), 10u);
  EXPECT_EQ(vcbs.resting(), 0u);
}

TEST_F(UnfinishedVcbsTest, ThenEverLater) {
  looks(0, microseconds(3));
  EXPECT_EQ(vcbs.resting(), 0b1u);
  const std::vector<Duration> late = looks(0, std::chrono::milliseconds(10));
  ASSERT_GT(late.size(), 10u);
  EXPECT_LT(late.size(), 24u);
  for (std::size_t i = 2; i < late.size(); ++i) {
    EXPECT_GE(late[i] - late[i - 1], late[i - 1] - late[i - 2]);
    // A process that finishes a VCB waits no longer than it took to write it, plus one scan.
    EXPECT_LE(late[i] - late[i - 1],
              std::min<Duration>(late[i - 1] + microseconds(1),
                                 UnfinishedVcbs::kLastRest + nanoseconds(100)));
  }
}

TEST_F(UnfinishedVcbsTest, OneThatRestsLetsTheOthersBe) {
  looks(0, std::chrono::milliseconds(10));
  pending |= 0b10;
  EXPECT_EQ(looks(1, microseconds(1)).size(), 10u);
  looks(1, microseconds(3));
  EXPECT_EQ(vcbs.resting(), 0b11u);
}

TEST_F(UnfinishedVcbsTest, MoreAndMoreOfThemAllHaveTheirTime) {
  for (std::uint32_t i = 1; i < 64; ++i) {
    pending |= std::uint64_t{1} << i;
    EXPECT_EQ(looks(i, nanoseconds(300)).size(), 3u) << i;
  }
}

TEST_F(UnfinishedVcbsTest, WhatIsFinishedOrTakenBackIsForgotten) {
  pending = 0b111;
  scan();
  vcbs.whole(0);
  pending = 0b110;
  looks(1, microseconds(4));
  EXPECT_EQ(vcbs.resting(), 0b110u);
  vcbs.look_again();
  vcbs.begin(pending, now);
  vcbs.whole(1);
  EXPECT_TRUE(vcbs.any());
  pending = 0;
  vcbs.begin(pending, now);
  EXPECT_FALSE(vcbs.any());
  EXPECT_EQ(vcbs.not_now(), 0u);
}

TEST_F(UnfinishedVcbsTest, AllThatRestAreLookedAtWhenTheProcessSaysSo) {
  looks(0, std::chrono::milliseconds(10));
  vcbs.look_again();
  EXPECT_EQ(scan(), 0b1u);
  EXPECT_EQ(vcbs.resting(), 0b1u) << "at once again";
}

}  // namespace
}  // namespace softhca::engine
