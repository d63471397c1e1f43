// SPDX-License-Identifier: Apache-2.0

// Packets that are held back: until when, in which order, and how many.
#include "daemon/engine/diagnostics/held_packets.hpp"

#include <gtest/gtest.h>

#include <string>

namespace softhca::engine {
namespace {

constexpr std::size_t kRoom = 64;
constexpr Time kBegin{std::chrono::seconds(1)};

class HeldPacketsTest : public ::testing::Test {
 protected:
  bool hold(char name, Duration wait, std::uint32_t passing = 0, std::uint32_t flow = 1,
            std::uint32_t fault = 1) {
    const std::byte bytes[] = {static_cast<std::byte>(name)};
    const HeldPackets::Part parts[] = {bytes, {}, bytes};
    return held.hold(
        {.fault = fault, .port = PortId(3), .due = kBegin + wait, .passing = passing, .flow = flow},
        parts);
  }
  /// The names of those that are due.
  std::string take(Duration when) {
    std::string names;
    held.take_due(kBegin + when, [&](PortId port, std::span<std::byte> bytes) {
      EXPECT_EQ(port, PortId(3));
      EXPECT_EQ(bytes.size(), 2u);
      EXPECT_EQ(bytes[0], bytes[1]);
      names += static_cast<char>(bytes[0]);
    });
    return names;
  }

  HeldPackets held{kRoom};
};

TEST_F(HeldPacketsTest, GoByTimeAndThenInOrder) {
  EXPECT_TRUE(hold('c', Duration(30)));
  EXPECT_TRUE(hold('a', Duration(10)));
  EXPECT_TRUE(hold('d', Duration(30)));
  EXPECT_TRUE(hold('b', Duration(20)));
  EXPECT_EQ(held.next_deadline(), kBegin + Duration(10));
  EXPECT_EQ(take(Duration(9)), "");
  EXPECT_EQ(take(Duration(20)), "ab");
  EXPECT_EQ(held.next_deadline(), kBegin + Duration(30));
  EXPECT_EQ(take(Duration(99)), "cd");
  EXPECT_TRUE(held.empty());
  EXPECT_EQ(held.next_deadline(), kNever);
}

TEST_F(HeldPacketsTest, WaitForOthersOfTheirFlowOrForTime) {
  EXPECT_TRUE(hold('a', Duration(100), 2));
  EXPECT_TRUE(hold('b', Duration(100), 1, 7));
  EXPECT_TRUE(hold('c', Duration(50), 5));
  held.passed(1, kBegin);
  EXPECT_EQ(take({}), "");
  held.passed(1, kBegin);
  EXPECT_EQ(take({}), "a");
  EXPECT_EQ(held.next_deadline(), kBegin + Duration(50));
  EXPECT_EQ(take(Duration(50)), "c");
  held.passed(7, kBegin);
  EXPECT_EQ(take({}), "b");
  EXPECT_TRUE(held.empty());
}

TEST_F(HeldPacketsTest, AFaultThatEndsLetsItsOwnGo) {
  EXPECT_TRUE(hold('a', Duration(100), 2, 1, 5));
  EXPECT_TRUE(hold('b', Duration(200), 0, 1, 6));
  EXPECT_TRUE(hold('c', Duration(300), 0, 1, 5));
  held.release(5, kBegin);
  EXPECT_EQ(take({}), "ac");
  EXPECT_EQ(held.size(), 1u);
  EXPECT_EQ(take(Duration(200)), "b");
}

TEST_F(HeldPacketsTest, OnlySoManyAndNoneThatIsTooLong) {
  for (std::size_t i = 0; i < HeldPackets::kMostReordered; ++i)
    ASSERT_TRUE(hold('r', Duration(5), 1));
  EXPECT_FALSE(hold('r', Duration(5), 1));
  for (std::size_t i = HeldPackets::kMostReordered; i < HeldPackets::kMost; ++i)
    ASSERT_TRUE(hold('t', Duration(5)));
  EXPECT_FALSE(hold('t', Duration(5)));
  EXPECT_EQ(take(Duration(5)).size(), HeldPackets::kMost);
  const std::vector<std::byte> bytes(kRoom + 1);
  const HeldPackets::Part whole = bytes, most = whole.first(kRoom);
  EXPECT_FALSE(held.hold({.due = kBegin}, {&whole, 1}));
  EXPECT_TRUE(held.hold({.due = kBegin}, {&most, 1}));
}

}  // namespace
}  // namespace softhca::engine
