// SPDX-License-Identifier: Apache-2.0

// One check covers the program's limit, the operator's watermark and the peak. Also tests the list
// of the queue pairs that draw most.
#include "daemon/qos/receive/low_watermark.hpp"

#include <gtest/gtest.h>

#include <random>

#include "daemon/qos/receive/top_drawers.hpp"

namespace softhca::receive {
namespace {

TEST(LowWatermark, WatermarkIsToldOncePerFall) {
  LowWatermark level(16);
  level.set_watermark(4, false);
  EXPECT_FALSE(level.look(5).watermark);
  EXPECT_TRUE(level.look(4).watermark);
  EXPECT_FALSE(level.look(0).watermark);
  EXPECT_FALSE(level.look(4).watermark);
  EXPECT_FALSE(level.look(5).watermark);
  EXPECT_TRUE(level.look(3).watermark);
}

TEST(LowWatermark, AWatermarkThatWaitsForARiseIsNotToldAtFirst) {
  LowWatermark level(16);
  level.set_watermark(4, true);
  EXPECT_FALSE(level.look(2).watermark);
  EXPECT_FALSE(level.look(5).watermark);
  EXPECT_TRUE(level.look(4).watermark);
}

TEST(LowWatermark, TheProgramsLimitIsToldOnceForEachTimeItIsArmed) {
  LowWatermark level(16);
  level.arm(4);
  EXPECT_FALSE(level.look(4).limit);
  EXPECT_EQ(level.armed(), 4u);
  EXPECT_TRUE(level.look(3).limit);
  EXPECT_EQ(level.armed(), 0u);
  EXPECT_FALSE(level.look(2).limit);
  level.arm(1);
  EXPECT_TRUE(level.look(0).limit);
}

TEST(LowWatermark, ThePeakIsWhatWasDrawnAndNotPostedAgain) {
  LowWatermark level(1024);
  level.look(700);
  level.look(600);
  level.look(650);
  EXPECT_EQ(level.most(), 700u);
  EXPECT_EQ(level.least(), 600u);
  EXPECT_EQ(level.peak(), 100u);
}

/// However the queue moves, looking only when asked to finds what looking at each draw would, and
/// the peak to a 64th of the entries; and a queue that is kept full is hardly looked at.
TEST(LowWatermark, NothingIsMissedByLookingSeldom) {
  for (std::uint32_t seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    constexpr std::uint32_t kEntries = 256;
    LowWatermark seldom(kEntries), always(kEntries);
    std::uint32_t available = 200, known = 200;
    const std::uint32_t watermark = random() % 100;
    seldom.set_watermark(watermark, seed % 2 == 0);
    always.set_watermark(watermark, seed % 2 == 0);
    unsigned told = 0, told_always = 0;
    for (int i = 0; i < 3000; ++i) {
      if (i % 500 == 0) {
        const std::uint32_t limit = random() % 200;
        seldom.arm(limit);
        always.arm(limit);
      }
      const std::uint32_t posted = random() % 3;
      available = std::min(available + posted, kEntries);
      if (known == 0) known = available;
      if (known == 0) continue;
      --available;
      --known;
      told_always += always.look(available).limit ? 1 : 0;
      if (!seldom.must_look(known)) continue;
      known = available;
      told += seldom.look(available).limit ? 1 : 0;
    }
    EXPECT_EQ(told, told_always) << seed;
    EXPECT_LE(seldom.least(), always.least() + kEntries / 64 + 1) << seed;
  }
  LowWatermark level(4096);
  level.set_watermark(512, true);
  unsigned looks = 0;
  std::uint32_t known = 4096;
  for (int i = 0; i < 100000; ++i) {  // each posted again at once
    if (known == 0) known = 4096;
    --known;
    if (!level.must_look(known)) continue;
    known = 4095;
    level.look(known);
    ++looks;
  }
  EXPECT_LT(looks, 100000 / 32);
}

TEST(TopDrawers, NameTheMajority) {
  TopDrawers drawers(1024);
  for (std::uint32_t i = 0; i < 600; ++i) {
    drawers.add(Qpn(7));
    if (i % 2 == 0) drawers.add(Qpn(100 + i));
  }
  ASSERT_NE(drawers.majority(), nullptr);
  EXPECT_EQ(drawers.majority()->qpn, Qpn(7));
  EXPECT_EQ(drawers.majority()->certain(), 600u);
  EXPECT_EQ(drawers.draws(), 900u);
}

TEST(TopDrawers, AmongEqualsThereIsNoMajority) {
  TopDrawers drawers(1024);
  for (std::uint32_t i = 0; i < 3000; ++i) drawers.add(Qpn(1 + i % 50));
  EXPECT_EQ(drawers.majority(), nullptr);
}

TEST(TopDrawers, WhatIsLongAgoCountsForLittle) {
  TopDrawers drawers(16);
  for (int i = 0; i < 1000; ++i) drawers.add(Qpn(7));
  for (int i = 0; i < 200; ++i) drawers.add(Qpn(8));
  ASSERT_NE(drawers.majority(), nullptr);
  EXPECT_EQ(drawers.majority()->qpn, Qpn(8));
  EXPECT_EQ(drawers.ranked().front().qpn, Qpn(8));
}

}  // namespace
}  // namespace softhca::receive
