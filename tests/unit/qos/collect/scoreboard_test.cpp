// SPDX-License-Identifier: Apache-2.0

#include "daemon/qos/collect/scoreboard.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "tests/unit/qos/collect/pieces.hpp"

namespace softhca::collect {
namespace {

TEST(Scoreboard, BitsBeyondTheFortiethDoNotCount) {
  Scoreboard board;
  board.add(~Scoreboard::kAll);
  EXPECT_EQ(board.bits(), 0u);
  EXPECT_FALSE(board.complete());
  board.add(~std::uint64_t{0});
  EXPECT_EQ(board.bits(), 0xff'ffff'ffffu);
  EXPECT_TRUE(board.complete());
}

TEST(Scoreboard, MaskedSegmentsNeedNotArrive) {
  Scoreboard board(range(8, 32));
  EXPECT_FALSE(board.complete());
  board.add(range(0, 7));
  EXPECT_FALSE(board.complete());
  board.add(range(7, 1));
  EXPECT_TRUE(board.complete());
}

TEST(Scoreboard, RangeCoversWholeAndEmpty) {
  EXPECT_EQ(range(0, 40), Scoreboard::kAll);
  EXPECT_EQ(range(39, 1), 0x80'0000'0000u);
  EXPECT_EQ(range(5, 0), 0u);
}

// Whatever the length and the order, a command is complete with its last segment and not before.
TEST(Scoreboard, CompleteExactlyWithTheLastSegment) {
  std::mt19937 random(1);
  for (std::uint32_t payload = 0; payload <= abi::kCommandPayloadBytes; ++payload) {
    const unsigned used = 8 + (payload + 7) / 8;
    std::vector<unsigned> order(used);
    for (unsigned i = 0; i < used; ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    Scoreboard board;
    for (unsigned n = 0; n < used; ++n) {
      ASSERT_FALSE(board.complete()) << payload;
      board.add(range(order[n], 1));
      if (order[n] == 0) board.add(abi::unused_segments(payload));
    }
    ASSERT_TRUE(board.complete()) << payload;
  }
}

}  // namespace
}  // namespace softhca::collect
