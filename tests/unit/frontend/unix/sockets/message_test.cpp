// SPDX-License-Identifier: Apache-2.0

// Request bodies, replies and the tables of handles.
#include "daemon/device/peer/request_body.hpp"

#include <gtest/gtest.h>

#include "daemon/base/handle_table.hpp"

namespace softhca::control {
namespace {

std::vector<std::byte> zeros(std::size_t n) { return std::vector<std::byte>(n); }

TEST(RequestBody, IsExactlyAsLongAsItsType) {
  abi::CreateCqRequest out;
  for (std::size_t n = 0; n <= 2 * sizeof out; ++n) {
    const auto bytes = zeros(n);
    EXPECT_EQ(RequestBody(bytes).read(out), n == sizeof out) << n;
    EXPECT_EQ(RequestBody(bytes).read(out, true), n >= sizeof out) << n;
  }
}

TEST(RequestBody, TailIsCountedExactly) {
  using Head = abi::RegisterMrRequest;
  std::vector<abi::MrExtent> tail;
  for (std::size_t n = 0; n <= sizeof(Head) + 4 * sizeof(abi::MrExtent); ++n) {
    const auto bytes = zeros(n);
    const bool fits = RequestBody(bytes).read_tail<Head>(tail, 3);
    EXPECT_EQ(fits, n == sizeof(Head) + 3 * sizeof(abi::MrExtent)) << n;
  }
  // A count of which the product with the size of an element would wrap.
  const auto bytes = zeros(sizeof(Head));
  EXPECT_FALSE(RequestBody(bytes).read_tail<Head>(tail, 0xffffffff));
  EXPECT_TRUE(RequestBody(bytes).read_tail<Head>(tail, 0));
  EXPECT_TRUE(tail.empty());
}

TEST(RequestBody, EmptyMayBeSaidByAHandleOfZero) {
  EXPECT_TRUE(RequestBody({}).empty());
  abi::HandleBody handle{};
  EXPECT_TRUE(RequestBody(std::as_bytes(std::span(&handle, 1))).empty());
  handle.handle = 1;
  EXPECT_FALSE(RequestBody(std::as_bytes(std::span(&handle, 1))).empty());
  EXPECT_FALSE(RequestBody(zeros(4)).empty());
}

TEST(HandleTable, GivesEachObjectAHandle) {
  HandleTable<int> table;
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(table.add(std::make_unique<int>(i)), static_cast<std::uint32_t>(i));
  EXPECT_EQ(table.size(), 3u);
  EXPECT_EQ(table.find(3), nullptr);
  EXPECT_EQ(table.find(0xffffffff), nullptr);
  EXPECT_EQ(table.remove(7), nullptr);
  EXPECT_EQ(*table.remove(1), 1);
  EXPECT_EQ(table.remove(1), nullptr);
  EXPECT_EQ(table.find(1), nullptr);
  EXPECT_EQ(table.add(std::make_unique<int>(9)), 1u);
  int sum = 0;
  table.for_each([&](std::uint32_t handle, const int& value) {
    sum += value + static_cast<int>(handle) * 100;
  });
  EXPECT_EQ(sum, 0 + 9 + 2 + 300);
}

}  // namespace
}  // namespace softhca::control
