// SPDX-License-Identifier: Apache-2.0

#include "daemon/tenant_memory/window_table.hpp"

#include <gtest/gtest.h>

#include <set>

namespace softhca::memory {
namespace {

constexpr PdId kPd{7};
constexpr Qpn kQpn{100};
constexpr std::uint32_t kAll = kLocalWrite | kRemoteWrite | kRemoteRead | kBindWindow;

class WindowTest : public ::testing::Test {
 protected:
  /// [0x1000, 0x1100), in domain kPd unless told otherwise.
  std::unique_ptr<Region> region(std::uint32_t access = kAll, PdId pd = kPd) {
    RegionSpec spec;
    spec.pd = pd;
    spec.access = access;
    spec.addr = spec.iova = 0x1000;
    spec.length = sizeof bytes_;
    spec.extents = {{0x1000, sizeof bytes_, bytes_}};
    return std::move(*Region::make(std::move(spec)));
  }
  std::uint32_t add_region(std::uint32_t access = kAll, PdId pd = kPd) {
    return (*keys_.insert(region(access, pd)))->key();
  }
  Window& window(bool of_queue_pair = true) { return **windows_.insert(kPd, of_queue_pair); }
  Verdict bind_to(Window& w, std::uint32_t key, std::uint64_t addr, std::uint64_t length,
                  std::uint32_t access = kRemoteWrite) {
    return bind(w, keys_, key, addr, length, access, w.key ^ 1, kQpn);
  }
  Region* reach(const Window& w, std::uint64_t addr, std::uint64_t bytes,
                std::uint32_t needed = kRemoteWrite, PdId pd = kPd, Qpn qpn = kQpn) {
    return resolve(w, keys_, addr, bytes, needed, pd, qpn, offset_);
  }

  std::byte bytes_[0x100] = {};
  KeyTable keys_{8};
  WindowTable windows_{4};
  std::uint64_t offset_ = 0;
};

TEST_F(WindowTest, GivenKeys_OfAnEarlierTable_AreAssignedAgain) {
  WindowTable after(4);
  std::set<std::uint32_t> keys;
  for (int i = 0; i < 2; ++i) {
    const std::uint32_t key = window().key;
    const auto given = after.insert(kPd, true, key);
    ASSERT_TRUE(given);
    EXPECT_EQ(after.lookup(key), *given);
    EXPECT_EQ((*given)->bound, 0);
    const auto again = after.insert(kPd, true, key);
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().code, EEXIST);
    keys.insert(key);
  }
  ASSERT_TRUE(after.erase(*keys.begin()));
  keys.erase(keys.begin());
  while (after.size() < 4) {
    const auto chosen = after.insert(kPd, true);
    ASSERT_TRUE(chosen);
    EXPECT_TRUE(keys.insert((*chosen)->key).second);
  }
  EXPECT_FALSE(after.insert(kPd, true));
  const auto of_a_region = after.insert(kPd, true, 5);
  ASSERT_FALSE(of_a_region);
  EXPECT_EQ(of_a_region.error().code, EINVAL);
}

TEST_F(WindowTest, KeysAreTheirOwnInTheLowBits) {
  std::set<std::uint32_t> keys;
  for (int i = 0; i < 4; ++i) keys.insert(window().key);
  EXPECT_EQ(keys.size(), 4u);
  EXPECT_FALSE(windows_.insert(kPd, true));
  for (const std::uint32_t key : keys) {
    EXPECT_TRUE(is_window_key(key));
    EXPECT_EQ(windows_.lookup(key)->key, key);
    EXPECT_EQ(windows_.lookup(key ^ 0x55), nullptr);
    EXPECT_EQ(windows_.find(key ^ 0x55)->key, key);
    // The slot of another window. The random bits of its key may be the same.
    EXPECT_NE(windows_.find(key ^ 0x100), windows_.lookup(key));
    EXPECT_EQ(windows_.find(key ^ 0x1000000), nullptr);
  }
  for (int i = 0; i < 8; ++i) EXPECT_FALSE(is_window_key(add_region()));
  const std::uint32_t gone = *keys.begin();
  EXPECT_TRUE(windows_.erase(gone ^ 0x0f));
  EXPECT_FALSE(windows_.erase(gone));
  EXPECT_EQ(windows_.find(gone), nullptr);
  EXPECT_EQ(windows_.size(), 3u);
  keys.erase(gone);
  for (const std::uint32_t key : keys) EXPECT_TRUE(windows_.erase(key));
  EXPECT_EQ(windows_.size(), 0u);
  for (std::uint32_t key = 0; key < 0x10000; ++key)
    ASSERT_EQ(windows_.lookup(kWindowKeyBit | key * 0x101), nullptr);
}

/// Otherwise a bind that was posted before its window was deallocated would bind the next window.
TEST_F(WindowTest, KeysDoNotComeBackAtOnce) {
  WindowTable one(1);
  std::uint32_t before = (*one.insert(kPd, true))->key;
  for (int i = 0; i < 2000; ++i) {
    ASSERT_TRUE(one.erase(before));
    const std::uint32_t key = (*one.insert(kPd, true))->key;
    ASSERT_EQ(one.find(before), nullptr);
    before = key;
  }
}

TEST_F(WindowTest, OpensItsPartAndNoMore) {
  const std::uint32_t key = add_region();
  Window& w = window();
  const std::uint32_t before = w.key;
  EXPECT_EQ(reach(w, 0x1010, 1), nullptr) << "not bound";
  ASSERT_EQ(bind_to(w, key, 0x1010, 0x20), Verdict::kOk);
  EXPECT_NE(w.key, before);
  EXPECT_EQ(windows_.lookup(before), nullptr);
  ASSERT_EQ(reach(w, 0x1018, 0x18), keys_.lookup(key));
  EXPECT_EQ(offset_, 0x18u);
  EXPECT_EQ(reach(w, 0x100f, 1), nullptr);
  EXPECT_EQ(reach(w, 0x1018, 0x19), nullptr);
  EXPECT_EQ(reach(w, 0x1030, 1), nullptr);
  EXPECT_EQ(reach(w, ~std::uint64_t{0}, 2), nullptr);
  EXPECT_EQ(reach(w, 0x1010, ~std::uint64_t{0}), nullptr);
  EXPECT_EQ(reach(w, 0x1010, 1, kRemoteRead), nullptr) << "the window's flags count";
  EXPECT_EQ(reach(w, 0x1010, 1, kRemoteWrite, PdId(8)), nullptr);
  EXPECT_EQ(reach(w, 0x1010, 1, kRemoteWrite, kPd, Qpn(101)), nullptr) << "type 2";
}

TEST_F(WindowTest, ZeroBasedCountsFromTheWindow) {
  const std::uint32_t key = add_region();
  Window& w = window(false);
  ASSERT_EQ(bind_to(w, key, 0x1040, 0x10, kRemoteRead | kZeroBased), Verdict::kOk);
  ASSERT_NE(reach(w, 0, 0x10, kRemoteRead, kPd, Qpn(101)), nullptr) << "type 1: any queue pair";
  EXPECT_EQ(offset_, 0x40u);
  EXPECT_EQ(reach(w, 0x1040, 1, kRemoteRead), nullptr);
  EXPECT_EQ(reach(w, 1, 0x10, kRemoteRead), nullptr);
}

TEST_F(WindowTest, WhatCannotBeBound) {
  const std::uint32_t key = add_region();
  Window& w = window();
  const std::uint32_t before = w.key;
  const struct {
    std::uint32_t region;
    std::uint64_t addr, length;
    std::uint32_t access;
  } refused[] = {{key ^ 0x10000000, 0x1000, 1, 0},                    // an unknown key
                 {before, 0x1000, 1, 0},                              // a window
                 {key, 0xfff, 2, 0},                                  // before it
                 {key, 0x10ff, 2, 0},                                 // beyond it
                 {key, 0x1000, ~std::uint64_t{0}, 0},                 // round it
                 {add_region(kAll, PdId(8)), 0x1000, 1, 0},           // of another domain
                 {add_region(kLocalWrite), 0x1000, 1, 0},             // not open to windows
                 {add_region(kBindWindow), 0x1000, 1, kRemoteWrite},  // not to be written
                 {add_region(kBindWindow), 0x1000, 1, kRemoteAtomic}};
  for (const auto& r : refused) {
    EXPECT_EQ(bind_to(w, r.region, r.addr, r.length, r.access), Verdict::kWindowBind);
    EXPECT_EQ(w.key, before);
    EXPECT_EQ(w.bound, 0);
  }
  ASSERT_EQ(bind_to(w, key, 0x1000, 0x100), Verdict::kOk);
  EXPECT_EQ(bind_to(w, key, 0x1000, 0x100), Verdict::kWindowBind) << "bound: invalidate it first";
  Window& other = window(false);
  EXPECT_EQ(bind_to(other, key, 0x1000, 0x100), Verdict::kOk);
  EXPECT_EQ(bind_to(other, key, 0x1000, 0x80), Verdict::kOk) << "type 1 may be bound again";
  EXPECT_EQ(bind_to(other, 0, 0, 0), Verdict::kOk);
  EXPECT_EQ(reach(other, 0x1000, 1), nullptr) << "length 0 unbinds";
}

TEST_F(WindowTest, EndsWithItsRegion) {
  const std::uint32_t key = add_region();
  Window& w = window();
  ASSERT_EQ(bind_to(w, key, 0x1000, 0x100), Verdict::kOk);
  ASSERT_NE(keys_.replace(key, region()), nullptr);
  EXPECT_EQ(reach(w, 0x1000, 1), nullptr) << "another region, of the same key";
  Window& second = window();
  ASSERT_EQ(bind_to(second, key, 0x1000, 0x100), Verdict::kOk);
  EXPECT_NE(reach(second, 0x1000, 1), nullptr);
  EXPECT_TRUE(keys_.erase(key));
  EXPECT_EQ(reach(second, 0x1000, 1), nullptr);
  EXPECT_EQ(keys_.replace(key, region()), nullptr);
}

}  // namespace
}  // namespace softhca::memory
