// SPDX-License-Identifier: Apache-2.0

// Handles that an earlier table gave.
#include "daemon/base/handle_table.hpp"

#include <gtest/gtest.h>

#include <set>

namespace softhca {
namespace {

TEST(HandleTable, GivenHandle_IsKept_AndNewOnesAreOthers) {
  HandleTable<int> table;
  ASSERT_NE(table.add(std::make_unique<int>(5), 5), nullptr);
  ASSERT_NE(table.add(std::make_unique<int>(2), 2), nullptr);
  EXPECT_EQ(table.size(), 2u);
  EXPECT_EQ(*table.find(5), 5);
  EXPECT_EQ(*table.find(2), 2);
  EXPECT_EQ(table.find(3), nullptr);
  std::set<std::uint32_t> handles{2, 5};
  for (int i = 0; i < 6; ++i)
    EXPECT_TRUE(handles.insert(table.add(std::make_unique<int>(i))).second) << "given twice";
  EXPECT_LT(*handles.rbegin(), 8u) << "the gaps are filled";
}

TEST(HandleTable, GivenHandleThatIsInUseOrTooLarge_IsRefused) {
  HandleTable<int> table;
  const std::uint32_t handle = table.add(std::make_unique<int>(1));
  EXPECT_EQ(table.add(std::make_unique<int>(2), handle), nullptr);
  EXPECT_EQ(table.add(std::make_unique<int>(2), HandleTable<int>::kMaxHandles), nullptr);
  EXPECT_EQ(table.size(), 1u);
  EXPECT_EQ(*table.find(handle), 1);
}

}  // namespace
}  // namespace softhca
