// SPDX-License-Identifier: Apache-2.0

#include "daemon/tenant_memory/region.hpp"

#include <gtest/gtest.h>

#include <array>

#include "tests/unit/tenant_memory/tenant_process.hpp"

namespace softhca::memory {
namespace {

constexpr std::uint64_t kAddr = 0x10000;
constexpr std::uint64_t kLargest = ~std::uint64_t{0};

RegionSpec spec_of(std::vector<Extent> extents) {
  RegionSpec spec;
  spec.pd = PdId(1);
  spec.addr = kAddr;
  spec.iova = kAddr;
  for (const Extent& e : extents) spec.length += e.length;
  spec.extents = std::move(extents);
  spec.process = offered(own_memory());
  return spec;
}

std::unique_ptr<Region> make(RegionSpec spec) {
  auto region = Region::make(std::move(spec));
  if (!region) throw std::runtime_error(region.error().message);
  return std::move(*region);
}

int error_of(RegionSpec spec) {
  auto region = Region::make(std::move(spec));
  return region ? 0 : region.error().code;
}

class RegionTest : public ::testing::Test {
 protected:
  /// Head and tail in the process, two mapped stretches between them.
  RegionSpec mixed() {
    return spec_of({{kAddr, 100, nullptr},
                    {kAddr + 100, 200, small_.data()},
                    {kAddr + 300, 500, large_.data()},
                    {kAddr + 800, 50, nullptr}});
  }
  std::array<std::byte, 200> small_;
  std::byte between_;  ///< keeps the two from being one stretch
  std::array<std::byte, 500> large_;
};

TEST_F(RegionTest, DirectIsNullUnlessAllBytesAreMappedInOneStretch) {
  const auto region = make(mixed());
  EXPECT_EQ(region->length(), 850u);
  EXPECT_EQ(region->direct(300, 500), large_.data());
  EXPECT_EQ(region->direct(799, 1), large_.data() + 499);
  EXPECT_EQ(region->direct(100, 200), small_.data());
  EXPECT_EQ(region->direct(299, 1), small_.data() + 199);
  EXPECT_EQ(region->direct(299, 2), nullptr);
  EXPECT_EQ(region->direct(99, 2), nullptr);
  EXPECT_EQ(region->direct(0, 1), nullptr);
  EXPECT_EQ(region->direct(799, 2), nullptr);
  EXPECT_EQ(region->direct(849, 1), nullptr);
}

TEST_F(RegionTest, DirectSurvivesAnyNumbers) {
  const auto region = make(mixed());
  for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{300}, std::uint64_t{850},
                                     std::uint64_t{851}, kLargest - 300, kLargest}) {
    EXPECT_EQ(region->direct(offset, kLargest), nullptr) << offset;
    EXPECT_EQ(region->direct(offset, kLargest - offset), nullptr) << offset;
  }
  EXPECT_EQ(region->direct(kLargest, 1), nullptr);
  EXPECT_EQ(region->direct(850, 1), nullptr);
}

TEST_F(RegionTest, RunsEndWithTheirExtent) {
  const auto region = make(mixed());
  const Region::Run head = region->run_at(10);
  EXPECT_EQ(head.mapped, nullptr);
  EXPECT_EQ(head.addr, kAddr + 10);
  EXPECT_EQ(head.length, 90u);
  const Region::Run middle = region->run_at(100);
  EXPECT_EQ(middle.mapped, small_.data());
  EXPECT_EQ(middle.length, 200u);
  EXPECT_EQ(region->run_at(849).length, 1u);
}

TEST_F(RegionTest, NeighboursReachedTheSameWayAreOneRun) {
  const auto region = make(spec_of({{kAddr, 10, nullptr},
                                    {kAddr + 10, 20, nullptr},
                                    {kAddr + 30, 100, large_.data()},
                                    {kAddr + 130, 100, large_.data() + 100},
                                    {kAddr + 230, 100, large_.data() + 201}}));
  EXPECT_EQ(region->run_at(0).length, 30u);
  EXPECT_EQ(region->direct(30, 200), large_.data());
  EXPECT_EQ(region->direct(30, 201), nullptr);
}

TEST_F(RegionTest, ExtentsMustAdjoinAndCover) {
  std::byte* at = large_.data();
  auto gap = spec_of({{kAddr, 10, at}, {kAddr + 11, 10, at}});
  EXPECT_EQ(error_of(std::move(gap)), EINVAL);
  auto overlap = spec_of({{kAddr, 10, at}, {kAddr + 9, 10, at}});
  EXPECT_EQ(error_of(std::move(overlap)), EINVAL);
  auto unsorted = spec_of({{kAddr + 10, 10, at}, {kAddr, 10, at}});
  EXPECT_EQ(error_of(std::move(unsorted)), EINVAL);
  auto empty = spec_of({{kAddr, 10, at}, {kAddr + 10, 0, at}});
  EXPECT_EQ(error_of(std::move(empty)), EINVAL);
  auto too_short = spec_of({{kAddr, 10, at}});
  too_short.length = 11;
  EXPECT_EQ(error_of(std::move(too_short)), EINVAL);
  auto too_long = spec_of({{kAddr, 10, at}});
  too_long.length = 9;
  EXPECT_EQ(error_of(std::move(too_long)), EINVAL);
  auto wild = spec_of({{kAddr, kLargest - 5, at}, {kAddr + kLargest - 5, 16, at}});
  EXPECT_EQ(error_of(std::move(wild)), EINVAL) << "lengths add up only modulo 2^64";
  auto elsewhere = spec_of({{kAddr, 10, at}});
  elsewhere.addr = 0;
  EXPECT_EQ(error_of(std::move(elsewhere)), EINVAL);
  EXPECT_EQ(error_of(spec_of({})), 0) << "a region of no bytes";
}

TEST_F(RegionTest, AddressesMustFit64Bits) {
  auto high = spec_of({{kLargest - 4, 10, large_.data()}});
  high.addr = kLargest - 4;
  EXPECT_EQ(error_of(std::move(high)), EINVAL);
  auto iova = spec_of({{kAddr, 10, large_.data()}});
  iova.iova = kLargest - 4;
  EXPECT_EQ(error_of(std::move(iova)), EINVAL);
}

TEST_F(RegionTest, UnmappedExtentsNeedAProcess) {
  auto spec = spec_of({{kAddr, 10, nullptr}});
  spec.process = nullptr;
  EXPECT_EQ(error_of(std::move(spec)), EINVAL);
  auto mapped = spec_of({{kAddr, 10, large_.data()}});
  mapped.process = nullptr;
  EXPECT_EQ(error_of(std::move(mapped)), 0);
}

TEST_F(RegionTest, RemoteWritingNeedsLocalWriting) {
  for (const std::uint32_t access : {0u + kRemoteWrite, 0u + kRemoteAtomic}) {
    auto spec = mixed();
    spec.access = access;
    EXPECT_EQ(error_of(spec), EINVAL);
    spec.access |= kLocalWrite;
    EXPECT_EQ(error_of(spec), 0);
  }
  auto readable = mixed();
  readable.access = kRemoteRead;
  EXPECT_EQ(error_of(std::move(readable)), 0);
}

TEST_F(RegionTest, CheckFlagsAndDomain) {
  auto spec = mixed();
  spec.access = kLocalWrite | kRemoteRead;
  const auto region = make(spec);
  const auto verdict = [&](std::uint32_t needed, PdId pd) {
    return check(*region, kAddr, 1, needed, pd);
  };
  EXPECT_EQ(verdict(kLocalRead, PdId(1)), Verdict::kOk);
  EXPECT_EQ(verdict(kLocalWrite, PdId(1)), Verdict::kOk);
  EXPECT_EQ(verdict(kRemoteRead, PdId(1)), Verdict::kOk);
  EXPECT_EQ(verdict(kRemoteWrite, PdId(1)), Verdict::kLocalProtection);
  EXPECT_EQ(verdict(kRemoteAtomic, PdId(1)), Verdict::kLocalProtection);
  EXPECT_EQ(verdict(kLocalRead, PdId(2)), Verdict::kLocalProtection);
  EXPECT_EQ(as_remote(verdict(kLocalRead, PdId(2))), Verdict::kRemoteAccess);
  EXPECT_EQ(as_remote(Verdict::kOk), Verdict::kOk);
}

TEST_F(RegionTest, CheckBounds) {
  const auto region = make(mixed());
  const auto inside = [&](std::uint64_t addr, std::uint64_t bytes) {
    return check(*region, addr, bytes, kLocalRead, PdId(1)) == Verdict::kOk;
  };
  EXPECT_TRUE(inside(kAddr, 850));
  EXPECT_TRUE(inside(kAddr + 849, 1));
  EXPECT_FALSE(inside(kAddr, 851));
  EXPECT_FALSE(inside(kAddr + 850, 1));
  EXPECT_FALSE(inside(kAddr - 1, 1));
  EXPECT_FALSE(inside(kAddr - 1, 2));
  EXPECT_FALSE(inside(kAddr + 1, kLargest));
  EXPECT_FALSE(inside(kLargest, 2));
  EXPECT_FALSE(inside(0, kLargest));
  EXPECT_TRUE(inside(0, 0)) << "no bytes, no address";
}

TEST_F(RegionTest, ZeroBasedAndOffsetRegions) {
  auto spec = mixed();
  spec.iova = 0;
  const auto zero = make(spec);
  EXPECT_EQ(check(*zero, 0, 850, kLocalRead, PdId(1)), Verdict::kOk);
  EXPECT_EQ(check(*zero, kAddr, 1, kLocalRead, PdId(1)), Verdict::kLocalProtection);
  EXPECT_EQ(check(*zero, kLargest, 1, kLocalRead, PdId(1)), Verdict::kLocalProtection);
  EXPECT_EQ(zero->direct(zero->offset_of(300), 1), large_.data());

  spec.iova = kLargest - 850;
  const auto high = make(spec);
  EXPECT_EQ(check(*high, kLargest - 850, 850, kLocalRead, PdId(1)), Verdict::kOk);
  EXPECT_EQ(check(*high, kLargest - 850, 851, kLocalRead, PdId(1)), Verdict::kLocalProtection);
  EXPECT_EQ(check(*high, 0, 1, kLocalRead, PdId(1)), Verdict::kLocalProtection);
  EXPECT_EQ(high->direct(high->offset_of(kLargest - 850 + 300), 500), large_.data());
}

}  // namespace
}  // namespace softhca::memory
