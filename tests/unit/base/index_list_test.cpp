// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <vector>

#include "daemon/base/intrusive_queue.hpp"

namespace softhca {
namespace {

struct Item {
  IndexLink link;
};
using List = IndexList<Item, &Item::link>;

std::vector<std::uint32_t> contents(const List& list, const std::vector<Item>& items) {
  std::vector<std::uint32_t> all;
  for (std::uint32_t i = list.front(); i != kNoIndex; i = list.next(items.data(), i))
    all.push_back(i);
  return all;
}

TEST(IndexList, RemovesFromFrontMiddleAndBack) {
  std::vector<Item> items(5);
  List list;
  for (std::uint32_t i = 0; i < 5; ++i) list.push_back(items.data(), i);
  list.remove(items.data(), 2);
  list.remove(items.data(), 0);
  list.remove(items.data(), 4);
  EXPECT_EQ(contents(list, items), (std::vector<std::uint32_t>{1, 3}));
  EXPECT_FALSE(items[2].link.linked());
  list.push_front(items.data(), 4);
  EXPECT_EQ(contents(list, items), (std::vector<std::uint32_t>{4, 1, 3}));
  EXPECT_EQ(list.back(), 3u);
}

TEST(IndexList, Rotates) {
  std::vector<Item> items(5);
  List a;
  a.rotate(items.data());
  EXPECT_TRUE(a.empty());
  for (std::uint32_t i : {0, 1, 2}) a.push_back(items.data(), i);
  a.rotate(items.data());
  EXPECT_EQ(contents(a, items), (std::vector<std::uint32_t>{1, 2, 0}));
  a.remove(items.data(), 0);
  EXPECT_EQ(contents(a, items), (std::vector<std::uint32_t>{1, 2}));
}

}  // namespace
}  // namespace softhca
