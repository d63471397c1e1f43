// SPDX-License-Identifier: Apache-2.0

#include "daemon/tenant_memory/receive_ring.hpp"

#include <gtest/gtest.h>

#include "tests/unit/tenant_memory/shared_area.hpp"

namespace softhca::shm {
namespace {

class ReceiveRingTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kEntries = 8;
  static constexpr std::uint32_t kSge = 2;
  static constexpr std::uint32_t kStride = abi::receive_stride(kSge);

  ReceiveRingTest()
      : area_(ReceiveRing::bytes_for(kEntries, kSge)), ring_(area_.base(), kEntries, kSge) {}

  std::atomic<std::uint32_t>& producer() { return area_.at<abi::ReceiveRingHeader>(0).producer; }
  void post(std::uint32_t index, std::uint32_t num_sge, std::uint32_t length = 100) {
    const std::size_t at = 64 + producer() % kEntries * kStride;
    area_.at<abi::ReceiveElement>(at) = {index, num_sge, 0};
    for (std::uint32_t i = 0; i < kSge; ++i)
      area_.at<abi::ScatterGather>(at + 16 + i * 16) = {0x1000 + i, length, 7 + i};
    ++producer();
  }

  SharedArea area_;
  ReceiveRing ring_;
  ReceiveWork work_;
};

TEST_F(ReceiveRingTest, TakesWhatWasPostedInOrder) {
  EXPECT_EQ(ring_.take(work_), Take::kEmpty);
  post(41, 1);
  post(42, 2);
  EXPECT_EQ(ring_.available(), 2u);
  ASSERT_EQ(ring_.take(work_), Take::kTaken);
  EXPECT_EQ(work_.index, 41u);
  EXPECT_EQ(work_.count, 1u);
  EXPECT_EQ(work_.bytes, 100u);
  ASSERT_EQ(ring_.take(work_), Take::kTaken);
  EXPECT_EQ(work_.index, 42u);
  EXPECT_EQ(work_.count, 2u);
  EXPECT_EQ(work_.bytes, 200u);
  EXPECT_EQ(work_.entries[1].addr, 0x1001u);
  EXPECT_EQ(work_.entries[1].lkey, 8u);
  EXPECT_EQ(ring_.take(work_), Take::kEmpty);
  EXPECT_EQ(ring_.available(), 0u);
}

TEST_F(ReceiveRingTest, LengthsAddUpBeyond32Bits) {
  post(0, 2, 0xffffffff);
  ASSERT_EQ(ring_.take(work_), Take::kTaken);
  EXPECT_EQ(work_.bytes, 2 * std::uint64_t{0xffffffff});
}

TEST_F(ReceiveRingTest, AWorkRequestWithoutEntriesIsOne) {
  post(5, 0);
  ASSERT_EQ(ring_.take(work_), Take::kTaken);
  EXPECT_EQ(work_.count, 0u);
  EXPECT_EQ(work_.bytes, 0u);
}

TEST_F(ReceiveRingTest, GoesRoundTheRing) {
  for (std::uint32_t i = 0; i < 5 * kEntries; ++i) {
    post(i, 1);
    ASSERT_EQ(ring_.take(work_), Take::kTaken);
    EXPECT_EQ(work_.index, i);
  }
}

TEST_F(ReceiveRingTest, AFullRingIsHonestOneMoreIsHostile) {
  producer() = kEntries;
  EXPECT_EQ(ring_.available(), kEntries);
  producer() = kEntries + 1;
  EXPECT_EQ(ring_.available(), std::nullopt);
  EXPECT_EQ(ring_.take(work_), Take::kHostile);
  producer() = 0xffffffff;
  EXPECT_EQ(ring_.available(), std::nullopt);
}

TEST_F(ReceiveRingTest, AHostileProducerIsFoundWithoutAvailableToo) {
  producer() = kEntries + 1;
  EXPECT_EQ(ring_.take(work_), Take::kHostile);
  EXPECT_EQ(ring_.taken(), 0u);
}

TEST_F(ReceiveRingTest, MoreEntriesThanASlotHoldsAreHostile) {
  for (const std::uint32_t count : {kSge + 1, 17u, 0xffffffffu}) {
    SharedArea fresh(64 + kEntries * kStride);
    ReceiveRing ring(fresh.base(), kEntries, kSge);
    fresh.at<abi::ReceiveElement>(64).num_sge = count;
    fresh.at<abi::ReceiveRingHeader>(0).producer = 1;
    EXPECT_EQ(ring.take(work_), Take::kHostile) << count;
    EXPECT_EQ(ring.taken(), 0u);
  }
}

TEST_F(ReceiveRingTest, CountersWrapAt32Bits) {
  constexpr std::uint32_t kNearTheEnd = 0xfffffffd;
  producer() = kNearTheEnd;
  ReceiveRing ring(area_.base(), kEntries, kSge, kNearTheEnd);
  EXPECT_EQ(ring.take(work_), Take::kEmpty);
  for (std::uint32_t i = 0; i < kEntries; ++i) post(i, 1);
  EXPECT_EQ(ring.available(), kEntries);
  for (std::uint32_t i = 0; i < kEntries; ++i) {
    ASSERT_EQ(ring.take(work_), Take::kTaken);
    EXPECT_EQ(work_.index, i);
  }
  EXPECT_EQ(ring.take(work_), Take::kEmpty);
  EXPECT_EQ(ring.taken(), 5u);
  producer() = kNearTheEnd;
  EXPECT_EQ(ring.take(work_), Take::kHostile) << "backwards across the wrap";
}

/// Whatever the sizes, and wherever in the rings the counters stand.
TEST_F(ReceiveRingTest, GoesOnInAnotherRingWithWhatNobodyHasTaken) {
  std::uint32_t next = 0;
  for (std::uint32_t i = 0; i < kEntries + 3; ++i) {
    post(next++, 1);
    ASSERT_EQ(ring_.take(work_), Take::kTaken);
  }
  for (int i = 0; i < 4; ++i) post(next++, 2);
  ASSERT_EQ(ring_.available(), 4u);
  for (const std::uint32_t entries : {4u, 16u}) {
    SharedArea area(ReceiveRing::bytes_for(entries, kSge));
    ReceiveRing moved = ring_;
    const ReceiveRing copy = moved.copy_to(area.base(), entries);
    ASSERT_EQ(moved.take(work_), Take::kTaken) << "the old ring is in use meanwhile";
    moved.replace(copy);
    EXPECT_EQ(moved.entries(), entries);
    EXPECT_EQ(moved.known(), 3u);
    EXPECT_EQ(moved.available(), 3u);
    EXPECT_EQ(area.at<abi::ReceiveRingHeader>(0).producer, next);
    for (std::uint32_t i = next - 3; i != next; ++i) {
      ASSERT_EQ(moved.take(work_), Take::kTaken);
      EXPECT_EQ(work_.index, i);
      EXPECT_EQ(work_.count, 2u);
      EXPECT_EQ(work_.entries[1].lkey, 8u);
    }
    EXPECT_EQ(moved.take(work_), Take::kEmpty);
  }
}

/// As no honest tenant does: it loses what it posted while the ring was moved, and no more.
TEST_F(ReceiveRingTest, WhatIsPostedAndTakenWhileTheRingMovesMakesItHostile) {
  SharedArea area(ReceiveRing::bytes_for(4, kSge));
  post(0, 1);
  ASSERT_EQ(ring_.available(), 1u);
  const ReceiveRing copy = ring_.copy_to(area.base(), 4);
  post(1, 1);
  for (int i = 0; i < 2; ++i) ASSERT_EQ(ring_.take(work_), Take::kTaken);
  ring_.replace(copy);
  EXPECT_EQ(ring_.available(), std::nullopt);
  EXPECT_EQ(ring_.take(work_), Take::kHostile);
}

}  // namespace
}  // namespace softhca::shm
