// SPDX-License-Identifier: Apache-2.0

#include "daemon/tenant_memory/scatter_list.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "tests/unit/tenant_memory/tenant_process.hpp"

namespace softhca::memory {
namespace {

using Bytes = std::vector<std::byte>;

struct Sge {  // as the ABI has it
  std::uint64_t addr;
  std::uint32_t length;
  std::uint32_t lkey;
};

/// A tenant process and 64 KiB of memory shared with it (in this test: a buffer of our own).
class ScatterListTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kBytes = 64 << 10;
  static constexpr PdId kPd{1};

  Verdict run(Region& region, std::uint64_t offset, AtomicOp op, std::uint64_t compare_add,
              std::uint64_t swap) {
    return atomic(region, offset, op, compare_add, swap, {step, state});
  }

  ScatterListTest() : tenant_(kBytes), process_(tenant_.memory()), mapped_(kBytes / 8) {
    for (std::size_t i = 0; i < kBytes; ++i) shared()[i] = std::byte(TenantProcess::pattern(i));
  }

  std::byte* shared() { return reinterpret_cast<std::byte*>(mapped_.data()); }

  /// A region over the tenant's whole memory; extents of `lengths` are in turn in the process and
  /// shared (or the other way round). Both hold the same pattern.
  Region* region(std::vector<std::uint64_t> lengths, bool first_is_shared = false) {
    RegionSpec spec;
    spec.pd = kPd;
    spec.access = kLocalWrite;
    spec.addr = spec.iova = tenant_.addr();
    spec.process = process_;
    bool is_shared = first_is_shared;
    for (const std::uint64_t length : lengths) {
      spec.extents.push_back(
          {spec.addr + spec.length, length, is_shared ? shared() + spec.length : nullptr});
      spec.length += length;
      is_shared = !is_shared;
    }
    return *keys_.insert(std::move(*Region::make(std::move(spec))));
  }
  Region* process_region() { return region({kBytes}); }
  Region* shared_region() { return region({kBytes}, true); }

  static Bytes pattern(std::size_t from, std::size_t bytes) {
    Bytes expected(bytes);
    for (std::size_t i = 0; i < bytes; ++i)
      expected[i] = std::byte(TenantProcess::pattern(from + i));
    return expected;
  }
  static Bytes random_bytes(std::size_t count, unsigned seed) {
    std::mt19937 random(seed);
    Bytes bytes(count);
    for (std::byte& b : bytes) b = std::byte(random());
    return bytes;
  }
  static Bytes contents(Region& region, std::size_t offset, std::size_t bytes) {
    Bytes out(bytes);
    EXPECT_EQ(read(region, offset, out), Verdict::kOk);
    return out;
  }

  TenantProcess tenant_;
  std::shared_ptr<ProcessMemory> process_;
  std::vector<std::uint64_t> mapped_;
  KeyTable keys_{64};
  AtomicStep step;
  AtomicState state = AtomicState::kNone;
};

TEST_F(ScatterListTest, ReadsAndWritesWhicheverWayBytesAreReached) {
  for (Region* r : {process_region(), shared_region(), region({100, 4000, 50, kBytes - 4150})}) {
    EXPECT_EQ(contents(*r, 90, 5000), pattern(90, 5000));
    const Bytes data = random_bytes(5000, 1);
    ASSERT_EQ(write(*r, 90, data), Verdict::kOk);
    EXPECT_EQ(contents(*r, 90, 5000), data);
    EXPECT_EQ(contents(*r, 80, 10), pattern(80, 10)) << "before";
    EXPECT_EQ(contents(*r, 5090, 10), pattern(5090, 10)) << "after";
    ASSERT_EQ(write(*r, 90, pattern(90, 5000)), Verdict::kOk);
  }
}

TEST_F(ScatterListTest, NothingBeyondTheRegion) {
  constexpr std::uint64_t kMax = ~std::uint64_t{0};
  Bytes bytes(10);
  for (Region* r : {process_region(), shared_region()}) {
    EXPECT_EQ(read(*r, kBytes - 10, bytes), Verdict::kOk);
    for (const std::uint64_t offset : {kBytes - 9, kBytes, kBytes + 1, kMax - 5, kMax}) {
      EXPECT_EQ(read(*r, offset, bytes), Verdict::kLocalProtection) << offset;
      EXPECT_EQ(write(*r, offset, bytes), Verdict::kLocalProtection) << offset;
    }
    EXPECT_EQ(copy(*r, 0, *r, 1, kMax), Verdict::kLocalProtection);
    const ScatterEntry wild{r, kBytes - 5, 10};
    EXPECT_EQ(gather({&wild, 1}, 0, bytes), Verdict::kLocalProtection) << "entry beyond region";
    const ScatterEntry wrapping{r, kMax - 2, 10};
    EXPECT_EQ(gather({&wrapping, 1}, 5, bytes), Verdict::kLocalProtection);
  }
}

TEST_F(ScatterListTest, NoBytesAreAlwaysFine) {
  Region* r = process_region();
  EXPECT_EQ(read(*r, 0, {}), Verdict::kOk);
  EXPECT_EQ(gather({}, 0, {}), Verdict::kOk);
  EXPECT_EQ(copy(*r, 5, *r, 5, 0), Verdict::kOk);
}

TEST_F(ScatterListTest, CopiesBetweenEveryTwoWaysOfReaching) {
  // Larger than the bounce buffer minus the offsets, in odd pieces.
  const std::size_t bytes = kBytes - 3000;
  for (const bool from_shared : {false, true})
    for (const bool to_shared : {false, true}) {
      Region* from = region({kBytes}, from_shared);
      TenantProcess other(kBytes);
      Bytes other_shared(kBytes);
      RegionSpec spec;
      spec.addr = spec.iova = other.addr();
      spec.length = kBytes;
      spec.process = other.memory();
      spec.extents = {
          {other.addr(), 1000, nullptr},
          {other.addr() + 1000, kBytes - 1000, to_shared ? other_shared.data() : nullptr}};
      Region* to = *keys_.insert(std::move(*Region::make(std::move(spec))));
      ASSERT_EQ(copy(*to, 777, *from, 2111, bytes), Verdict::kOk);
      EXPECT_EQ(contents(*to, 777, bytes), pattern(2111, bytes));
      EXPECT_EQ(contents(*to, 0, 777), pattern(0, 777));
    }
}

TEST_F(ScatterListTest, BounceIsLargerThanItsBuffer) {
  constexpr std::size_t kLarge = 300000;
  TenantProcess other(kLarge);
  RegionSpec spec;
  spec.addr = spec.iova = other.addr();
  spec.length = kLarge;
  spec.process = other.memory();
  spec.extents = {{other.addr(), kLarge, nullptr}};
  Region* r = *keys_.insert(std::move(*Region::make(std::move(spec))));
  ASSERT_EQ(copy(*r, 0, *r, 100001, 199999), Verdict::kOk);
  EXPECT_EQ(contents(*r, 0, 199999 - 100001), pattern(100001, 199999 - 100001))
      << "bytes from a source that was not overwritten";
}

TEST_F(ScatterListTest, OverlapInSharedMemoryIsAMemmove) {
  Region* r = shared_region();
  ASSERT_EQ(copy(*r, 100, *r, 0, 5000), Verdict::kOk);
  EXPECT_EQ(contents(*r, 100, 5000), pattern(0, 5000));
  ASSERT_EQ(copy(*r, 0, *r, 100, 5000), Verdict::kOk);
  EXPECT_EQ(contents(*r, 0, 5000), pattern(0, 5000));
}

TEST_F(ScatterListTest, ListsOfManyEntriesMoveAnyRange) {
  Region* mixed = region({100, 4000, 50, kBytes - 4150});
  Region* plain = process_region();
  std::vector<ScatterEntry> list;
  Bytes expected;
  std::mt19937 random(5);
  for (std::size_t i = 0; i < kMaxEntries; ++i) {
    const std::uint64_t offset = random() % 8000;
    const std::uint64_t length = i % 5 == 3 ? 0 : 1 + random() % 700;
    list.push_back({i % 2 == 0 ? mixed : plain, offset, length});
    const Bytes part = pattern(offset, length);
    expected.insert(expected.end(), part.begin(), part.end());
  }
  for (int i = 0; i < 300; ++i) {
    const std::size_t from = random() % (expected.size() + 1);
    const std::size_t bytes = random() % (expected.size() - from + 1);
    Bytes got(bytes);
    ASSERT_EQ(gather(list, from, got), Verdict::kOk);
    ASSERT_EQ(got, Bytes(expected.begin() + from, expected.begin() + from + bytes));
  }
  Bytes one_more(expected.size() + 1);
  EXPECT_EQ(gather(list, 0, one_more), Verdict::kLocalProtection);
  Bytes one(1);
  EXPECT_EQ(gather(list, expected.size(), one), Verdict::kLocalProtection);
}

TEST_F(ScatterListTest, ScatterIsGathersReverseAndTouchesNothingElse) {
  Region* r = region({100, 4000, 50, kBytes - 4150});
  const ScatterEntry list[] = {{r, 50, 100}, {r, 4050, 100}, {r, 10000, 1}, {r, 20000, 99}};
  const Bytes data = random_bytes(250, 9);
  ASSERT_EQ(scatter(list, 20, data), Verdict::kOk);
  Bytes back(250);
  ASSERT_EQ(gather(list, 20, back), Verdict::kOk);
  EXPECT_EQ(back, data);
  EXPECT_EQ(contents(*r, 0, 70), pattern(0, 70));
  EXPECT_EQ(contents(*r, 150, 3900), pattern(150, 3900));
  EXPECT_EQ(contents(*r, 4150, 5850), pattern(4150, 5850));
  EXPECT_EQ(contents(*r, 20069, 1000), pattern(20069, 1000));
}

TEST_F(ScatterListTest, CopyBetweenListsOfDifferentShapes) {
  Region* r = region({100, 4000, 50, kBytes - 4150});
  const ScatterEntry from[] = {{r, 0, 333}, {r, 3990, 200}, {r, 9000, 3000}};
  const ScatterEntry to[] = {{r, 20000, 1}, {r, 21000, 2000}, {r, 30000, 0}, {r, 31000, 1500}};
  Bytes before(3400);
  ASSERT_EQ(gather(from, 33, before), Verdict::kOk);
  ASSERT_EQ(copy(to, 10, from, 33, 3400), Verdict::kOk);
  Bytes after(3400);
  ASSERT_EQ(gather(to, 10, after), Verdict::kOk);
  EXPECT_EQ(after, before);
  EXPECT_EQ(copy(to, 10, from, 33, 3492), Verdict::kLocalProtection) << "destination too short";
}

TEST_F(ScatterListTest, WhichSideFailedIsTold) {
  Region* there = process_region();
  Region* shared = shared_region();
  Region* beyond = region({kBytes + 4096});  // its last page is not mapped
  const auto to_blame = [](Region* to, std::uint64_t to_offset, Region* from,
                           std::uint64_t from_offset) {
    const ScatterEntry dst{to, 0, to->length()};
    const ScatterEntry src{from, 0, from->length()};
    std::optional<bool> blame;
    bool told = false;
    if (copy({&dst, 1}, to_offset, {&src, 1}, from_offset, 100, &told) != Verdict::kOk)
      blame = told;
    return blame;
  };
  for (Region* good : {there, shared}) {
    EXPECT_EQ(to_blame(beyond, kBytes, good, 0), true);
    EXPECT_EQ(to_blame(good, 0, beyond, kBytes), false);
    EXPECT_EQ(to_blame(beyond, 0, good, 0), std::nullopt);
  }
  EXPECT_EQ(to_blame(beyond, kBytes, beyond, kBytes), false) << "reading comes first";
}

TEST_F(ScatterListTest, AProcessThatDiesMidwayIsAVerdict) {
  Region* r = process_region();
  Region* s = shared_region();
  tenant_.end();
  Bytes bytes(100);
  EXPECT_EQ(read(*r, 0, bytes), Verdict::kLocalProtection);
  EXPECT_EQ(write(*r, 0, bytes), Verdict::kLocalProtection);
  EXPECT_EQ(copy(*r, 0, *s, 0, 100), Verdict::kLocalProtection);
  EXPECT_EQ(copy(*s, 0, *r, 0, 100), Verdict::kLocalProtection);
  EXPECT_EQ(copy(*r, 0, *r, 500, 100), Verdict::kLocalProtection);
  EXPECT_EQ(copy(*s, 0, *s, 500, 100), Verdict::kOk) << "shared memory outlives it";
}

TEST_F(ScatterListTest, ResolvePicksTheRangeAsked) {
  Region* a = shared_region();
  Region* b = process_region();
  const Sge list[] = {{a->iova() + 10, 100, a->key()},
                      {0, 0, 0},
                      {b->iova() + 500, 200, b->key()},
                      {a->iova(), 50, a->key()}};
  const std::span<const Sge> sges(list);
  ScatterList out;
  ASSERT_EQ(resolve(keys_, sges, 0, 350, kLocalRead, kPd, out), Verdict::kOk);
  EXPECT_EQ(out.count, 3u);
  ASSERT_EQ(resolve(keys_, sges, 90, 30, kLocalRead, kPd, out), Verdict::kOk);
  ASSERT_EQ(out.count, 2u);
  EXPECT_EQ(out.entries[0].offset, 100u);
  EXPECT_EQ(out.entries[0].length, 10u);
  EXPECT_EQ(out.entries[1].region, b);
  EXPECT_EQ(out.entries[1].offset, 500u);
  EXPECT_EQ(out.entries[1].length, 20u);
  Bytes got(30);
  ASSERT_EQ(gather(out.view(), 0, got), Verdict::kOk);
  EXPECT_EQ(got[9], pattern(109, 1)[0]);
  EXPECT_EQ(got[10], pattern(500, 1)[0]);
  EXPECT_EQ(resolve(keys_, sges, 340, 11, kLocalRead, kPd, out), Verdict::kLocalLength);
  EXPECT_EQ(resolve(keys_, sges, ~std::uint64_t{0}, 1, kLocalRead, kPd, out),
            Verdict::kLocalLength);
  EXPECT_EQ(resolve(keys_, sges, 400, 0, kLocalRead, kPd, out), Verdict::kOk);
  EXPECT_EQ(out.count, 0u);
}

TEST_F(ScatterListTest, ResolveRefusesWhatTheKeyDoesNotCover) {
  Region* r = shared_region();
  ScatterList out;
  const auto verdict = [&](Sge sge, std::uint32_t needed = kLocalWrite, PdId pd = kPd) {
    return resolve(keys_, std::span<const Sge>(&sge, 1), 0, sge.length, needed, pd, out);
  };
  const Sge good{r->iova(), 100, r->key()};
  EXPECT_EQ(verdict(good), Verdict::kOk);
  EXPECT_EQ(verdict(good, kLocalWrite, PdId(2)), Verdict::kLocalProtection);
  EXPECT_EQ(verdict(good, kRemoteWrite), Verdict::kLocalProtection);
  EXPECT_EQ(verdict({r->iova(), 100, r->key() + 1}), Verdict::kLocalProtection);
  EXPECT_EQ(verdict({r->iova() - 1, 100, r->key()}), Verdict::kLocalProtection);
  EXPECT_EQ(verdict({r->iova() + kBytes - 99, 100, r->key()}), Verdict::kLocalProtection);
  EXPECT_EQ(verdict({r->iova(), 0xffffffff, r->key()}), Verdict::kLocalProtection);
  ASSERT_TRUE(keys_.erase(good.lkey));
  EXPECT_EQ(verdict(good), Verdict::kLocalProtection) << "deregistered in flight";
}

/// A receive may be longer than its region, where no message reaches that part (perftest's are).
TEST_F(ScatterListTest, ResolveLooksAtNoBytesBeyondTheMessage) {
  Region* r = shared_region();
  ScatterList out;
  const Sge longer{r->iova() + kBytes - 100, 200, r->key()};
  const auto verdict = [&](std::uint64_t offset, std::uint64_t length) {
    return resolve(keys_, std::span<const Sge>(&longer, 1), offset, length, kLocalWrite, kPd, out);
  };
  EXPECT_EQ(verdict(0, 100), Verdict::kOk);
  EXPECT_EQ(out.entries[0].offset, kBytes - 100);
  EXPECT_EQ(verdict(60, 40), Verdict::kOk);
  EXPECT_EQ(out.entries[0].offset, kBytes - 40);
  EXPECT_EQ(verdict(0, 101), Verdict::kLocalProtection);
  EXPECT_EQ(verdict(60, 41), Verdict::kLocalProtection);
  EXPECT_EQ(verdict(100, 1), Verdict::kLocalProtection);
  EXPECT_EQ(verdict(150, 51), Verdict::kLocalProtection);
}

TEST_F(ScatterListTest, NullRegionGivesZerosAndDropsWhatIsWritten) {
  Region* null = *keys_.insert(Region::make_null(TenantId(0), kPd));
  ASSERT_TRUE(null->is_null());
  Bytes bytes = random_bytes(5000, 1);
  ASSERT_EQ(write(*null, 77, bytes), Verdict::kOk);
  ASSERT_EQ(read(*null, 77, bytes), Verdict::kOk);
  EXPECT_EQ(bytes, Bytes(5000));
  EXPECT_EQ(null->direct(77, 5), nullptr);

  // Longer than what is cleared at once, and not aligned.
  constexpr std::size_t kFrom = 11;
  constexpr std::size_t kCleared = 40001;
  for (Region* r : {process_region(), shared_region(), region({100, 4000, 50, kBytes - 4150})}) {
    EXPECT_FALSE(r->is_null());
    EXPECT_EQ(copy(*null, 0, *r, 0, kBytes), Verdict::kOk);
    ASSERT_EQ(copy(*r, kFrom, *null, 1 << 20, kCleared), Verdict::kOk);
    EXPECT_EQ(contents(*r, kFrom, kCleared), Bytes(kCleared));
    EXPECT_NE(contents(*r, 0, kFrom), Bytes(kFrom));
    const std::size_t after = kFrom + kCleared;
    EXPECT_EQ(contents(*r, after, kBytes - after), pattern(after, kBytes - after));
  }
  EXPECT_EQ(copy(*null, 0, *null, 5, ~std::uint64_t{0} - 5), Verdict::kOk) << "nothing to do";

  const Sge list[] = {{~std::uint64_t{0}, 1, null->key()}};
  ScatterList out;
  EXPECT_EQ(resolve<Sge>(keys_, list, 0, 1, kLocalRead, kPd, out), Verdict::kLocalProtection)
      << "beyond the last address";
  EXPECT_EQ(check(*null, 0, 8, kLocalWrite, kPd), Verdict::kOk);
  for (const std::uint32_t remote : {kRemoteRead, kRemoteWrite, kRemoteAtomic, kBindWindow})
    EXPECT_EQ(check(*null, 0, 8, remote, kPd), Verdict::kLocalProtection);
  tenant_.end();
  EXPECT_EQ(copy(*process_region(), 0, *null, 0, 100), Verdict::kLocalProtection);
}

TEST_F(ScatterListTest, AtomicsWorkWhicheverWayTheBytesAreReached) {
  for (Region* r : {process_region(), shared_region()}) {
    std::uint64_t value = 100;
    ASSERT_EQ(write(*r, 64, std::as_bytes(std::span(&value, 1))), Verdict::kOk);
    const auto now = [&] {
      std::uint64_t v = 0;
      EXPECT_EQ(read(*r, 64, std::as_writable_bytes(std::span(&v, 1))), Verdict::kOk);
      return v;
    };
    ASSERT_EQ(run(*r, 64, AtomicOp::kFetchAdd, 5, 0), Verdict::kOk);
    EXPECT_EQ(step.before, 100u);
    EXPECT_EQ(now(), 105u);
    ASSERT_EQ(run(*r, 64, AtomicOp::kFetchAdd, ~std::uint64_t{0}, 0), Verdict::kOk);
    EXPECT_EQ(now(), 104u) << "wraps";
    ASSERT_EQ(run(*r, 64, AtomicOp::kCompareSwap, 1, 9), Verdict::kOk);
    EXPECT_EQ(step.before, 104u);
    EXPECT_EQ(now(), 104u) << "no match, no swap";
    ASSERT_EQ(run(*r, 64, AtomicOp::kCompareSwap, 104, 9), Verdict::kOk);
    EXPECT_EQ(step.before, 104u);
    EXPECT_EQ(now(), 9u);
  }
}

TEST_F(ScatterListTest, AtomicsRefuseWhatIsNotAnAlignedWordOfTheRegion) {
  for (Region* r : {process_region(), shared_region()}) {
    for (const std::uint64_t offset : {std::uint64_t{1}, std::uint64_t{4}, kBytes - 4,
                                       std::uint64_t{kBytes}, ~std::uint64_t{7}, ~std::uint64_t{0}})
      EXPECT_EQ(run(*r, offset, AtomicOp::kFetchAdd, 1, 0), Verdict::kLocalProtection) << offset;
    EXPECT_EQ(run(*r, kBytes - 8, AtomicOp::kFetchAdd, 0, 0), Verdict::kOk);
  }
  Region* split = region({4, kBytes - 4});
  EXPECT_EQ(run(*split, 0, AtomicOp::kFetchAdd, 1, 0), Verdict::kLocalProtection)
      << "a word reached in two ways";
  tenant_.end();
  EXPECT_EQ(run(*process_region(), 0, AtomicOp::kFetchAdd, 1, 0), Verdict::kLocalProtection);
}

TEST_F(ScatterListTest, AtomicsOnSharedMemoryAreAtomicTowardsTheTenant) {
  Region* r = shared_region();
  mapped_[8] = 0;
  constexpr std::uint64_t kRounds = 100000;
  std::thread tenant([&] {
    for (std::uint64_t i = 0; i < kRounds; ++i) std::atomic_ref(mapped_[8]).fetch_add(1);
  });
  for (std::uint64_t i = 0; i < kRounds; ++i)
    ASSERT_EQ(run(*r, 64, AtomicOp::kFetchAdd, 1, 0), Verdict::kOk);
  tenant.join();
  EXPECT_EQ(mapped_[8], 2 * kRounds);
}

}  // namespace
}  // namespace softhca::memory
