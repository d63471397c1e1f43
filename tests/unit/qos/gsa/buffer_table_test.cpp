// SPDX-License-Identifier: Apache-2.0

// Which buffers of a receive pool are in use.
#include "daemon/qos/gsa/buffer_table.hpp"

#include <gtest/gtest.h>

namespace softhca::management::gsa {
namespace {

constexpr ClientId kClient{.index = 3, .generation = 1};

TEST(BufferTable, ABufferHasOneHolderUntilItIsGivenBack) {
  BufferTable table(2);
  const std::uint32_t buffer = table.take({.client = kClient, .source = 5, .borrowed = true});
  ASSERT_TRUE(table.find(buffer));
  EXPECT_EQ(table.find(buffer)->client, kClient);
  const auto holder = table.give_back(buffer);
  ASSERT_TRUE(holder);
  EXPECT_EQ(holder->source, 5u);
  EXPECT_TRUE(holder->borrowed);
  EXPECT_FALSE(table.find(buffer));
  EXPECT_FALSE(table.give_back(buffer)) << "only once";
}

TEST(BufferTable, GivesOutEachBufferOnceAndTheLatestFirst) {
  BufferTable table(2);
  const std::uint32_t first = table.take({.client = kClient});
  const std::uint32_t second = table.take({.client = kClient});
  EXPECT_NE(first, second);
  EXPECT_TRUE(table.all_in_use());
  table.give_back(second);
  EXPECT_EQ(table.take({.client = kClient}), second) << "it is warm";
}

TEST(BufferTable, ANumberOutOfRangeIsNoBufferInUse) {
  BufferTable table(2);
  EXPECT_FALSE(table.give_back(2));
  EXPECT_FALSE(table.give_back(kNoIndex));
  EXPECT_FALSE(table.find(kNoIndex));
}

}  // namespace
}  // namespace softhca::management::gsa
