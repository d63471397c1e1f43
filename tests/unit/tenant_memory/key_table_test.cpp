// SPDX-License-Identifier: Apache-2.0

#include "daemon/tenant_memory/key_table.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <random>
#include <set>

namespace softhca::memory {
namespace {

std::unique_ptr<Region> empty_region() { return std::move(*Region::make(RegionSpec())); }

std::uint32_t add(KeyTable& table) {
  auto region = table.insert(empty_region());
  if (!region) throw std::runtime_error(region.error().message);
  return (*region)->key();
}

TEST(KeyTable, FindsWhatWasInserted) {
  KeyTable table(100);
  auto region = table.insert(empty_region());
  ASSERT_TRUE(region);
  EXPECT_NE((*region)->key(), 0u);
  EXPECT_EQ(table.lookup((*region)->key()), *region);
  EXPECT_EQ(table.size(), 1u);
}

TEST(KeyTable, EndOfAKey_IsKnownUntilItsSlotIsUsedAgain) {
  KeyTable table(1);
  EXPECT_FALSE(table.ended(0));
  RegionSpec spec;
  spec.tenant = TenantId(7);
  const std::uint32_t key = (*table.insert(std::move(*Region::make(std::move(spec)))))->key();
  EXPECT_FALSE(table.ended(key));
  ASSERT_NE(table.remove(key, Time(std::chrono::milliseconds(5))), nullptr);
  const auto ended = table.ended(key);
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->tenant, TenantId(7));
  EXPECT_EQ(ended->at, Time(std::chrono::milliseconds(5)));
  EXPECT_FALSE(table.ended(key ^ 1u << 20));
  add(table);
  EXPECT_FALSE(table.ended(key));
}

TEST(KeyTable, AnEmptyTableKnowsNoKey) {
  const KeyTable table(16);
  for (std::uint32_t key = 0; key < 100000; ++key) ASSERT_EQ(table.lookup(key), nullptr);
  EXPECT_EQ(table.lookup(0xffffffff), nullptr);
}

TEST(KeyTable, HoldsItsCapacityAndNoMore) {
  for (const std::uint32_t capacity : {1u, 2u, 5u, 64u}) {
    KeyTable table(capacity);
    std::set<std::uint32_t> keys;
    for (std::uint32_t i = 0; i < capacity; ++i) keys.insert(add(table));
    EXPECT_EQ(keys.size(), capacity);
    EXPECT_EQ(table.size(), capacity);
    const auto refused = table.insert(empty_region());
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ENOMEM);
    for (const std::uint32_t key : keys) EXPECT_EQ(table.lookup(key)->key(), key);
    ASSERT_TRUE(table.erase(*keys.begin()));
    EXPECT_TRUE(table.insert(empty_region()));
  }
}

TEST(KeyTable, GivenKeys_OfAnEarlierTable_AreAssignedAgain) {
  constexpr std::uint32_t kCapacity = 12;
  KeyTable before(kCapacity), after(kCapacity);
  std::set<std::uint32_t> keys;
  for (std::uint32_t i = 0; i < kCapacity / 2; ++i) {
    const std::uint32_t key = add(before);
    const auto region = after.insert(empty_region(), key);
    ASSERT_TRUE(region);
    EXPECT_EQ((*region)->key(), key);
    EXPECT_EQ(after.lookup(key), *region);
    const auto again = after.insert(empty_region(), key);
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().code, EEXIST);
    keys.insert(key);
  }
  EXPECT_EQ(after.size(), kCapacity / 2);
  ASSERT_TRUE(after.erase(*keys.begin()));
  keys.erase(keys.begin());
  while (after.size() < kCapacity) EXPECT_TRUE(keys.insert(add(after)).second);
  EXPECT_FALSE(after.insert(empty_region()));
  for (const std::uint32_t key : keys) EXPECT_EQ(after.lookup(key)->key(), key);
}

TEST(KeyTable, GivenKeys_OfNoTableOfThisSize_AreRefused) {
  KeyTable table(12);
  for (const std::uint32_t key : {0u, 12u, 15u, kWindowKeyBit | 1}) {
    const auto region = table.insert(empty_region(), key);
    ASSERT_FALSE(region) << key;
    EXPECT_EQ(region.error().code, EINVAL);
  }
}

TEST(KeyTable, ATableOfNoneRefuses) {
  KeyTable table(0);
  EXPECT_FALSE(table.insert(empty_region()));
  EXPECT_EQ(table.lookup(0), nullptr);
}

TEST(KeyTable, AKeyOfADeregisteredRegionIsRefused) {
  KeyTable table(8);
  const std::uint32_t key = add(table);
  EXPECT_TRUE(table.erase(key));
  EXPECT_EQ(table.lookup(key), nullptr);
  EXPECT_FALSE(table.erase(key));
  EXPECT_EQ(table.size(), 0u);
}

TEST(KeyTable, AKeyIsNotGivenAgainAtOnce) {
  KeyTable table(1);
  std::uint32_t last = 0;
  for (int i = 0; i < 10000; ++i) {
    const std::uint32_t key = add(table);
    ASSERT_NE(key, last);
    ASSERT_EQ(table.lookup(last), nullptr);
    ASSERT_TRUE(table.erase(key));
    last = key;
  }
}

TEST(KeyTable, KnowingOneKeyDoesNotHelpToGuessAnother) {
  KeyTable table(KeyTable::kMaxCapacity);
  const std::uint32_t known = add(table);
  for (int i = 0; i < 100; ++i) add(table);
  int found = 0;
  for (std::uint32_t step = 1; step <= 20000; ++step) {
    found += table.lookup(known + step) != nullptr;
    found += table.lookup(known - step) != nullptr;
    found += table.lookup(known + (step << 16)) != nullptr;
    found += table.lookup(step) != nullptr;
  }
  // 80,000 guesses against 100 keys among 2^32 find 0.002 of them on average.
  EXPECT_LE(found, 2);
}

/// But the one that says whether a key is a region's or a window's.
TEST(KeyTable, KeysDifferInAllTheirBits) {
  KeyTable table(64);
  std::uint32_t ones = 0;
  std::uint32_t zeros = 0;
  for (int i = 0; i < 64; ++i) {
    const std::uint32_t key = add(table);
    ones |= key;
    zeros |= ~key;
  }
  EXPECT_EQ(ones, ~kWindowKeyBit);
  EXPECT_EQ(zeros, 0xffffffffu);
}

TEST(KeyTable, RegionsAreDestroyedWithTheirKey) {
  KeyTable table(4);
  RegionSpec spec;
  auto buffer = std::make_shared<SharedBuffer>(std::move(*SealedMemory::create("test", 4096)));
  spec.buffers.push_back(buffer);
  auto region = table.insert(std::move(*Region::make(std::move(spec))));
  ASSERT_TRUE(region);
  EXPECT_EQ(buffer.use_count(), 2);
  table.erase((*region)->key());
  EXPECT_EQ(buffer.use_count(), 1);
}

TEST(KeyTable, ARegionMayBeTakenOutWhole) {
  KeyTable table(4);
  const std::uint32_t key = add(table);
  const Region* region = table.lookup(key);
  const auto taken = table.remove(key);
  EXPECT_EQ(taken.get(), region);
  EXPECT_EQ(table.lookup(key), nullptr);
  EXPECT_EQ(table.remove(key), nullptr);
  EXPECT_EQ(table.size(), 0u);
}

TEST(KeyTable, RandomUseAgreesWithASet) {
  KeyTable table(100);
  std::mt19937 random(3);
  std::vector<std::uint32_t> live;
  for (int step = 0; step < 20000; ++step) {
    if (live.size() < 100 && random() % 2 == 0) {
      live.push_back(add(table));
    } else if (!live.empty()) {
      std::swap(live[random() % live.size()], live.back());
      ASSERT_TRUE(table.erase(live.back()));
      ASSERT_EQ(table.lookup(live.back()), nullptr);
      live.pop_back();
    }
    ASSERT_EQ(table.size(), live.size());
  }
  for (const std::uint32_t key : live) ASSERT_NE(table.lookup(key), nullptr);
}

}  // namespace
}  // namespace softhca::memory
