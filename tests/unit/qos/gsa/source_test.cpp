// SPDX-License-Identifier: Apache-2.0

// Fairness between the hosts that send to one client: E5.
#include <algorithm>
#include <vector>

#include "tests/unit/qos/gsa/pool_fixture.hpp"

namespace softhca::management::gsa {
namespace {

constexpr std::uint64_t kHashKey = 7;

TEST(Source, TheOnlyOneMayHaveAlmostAllOfTheShare) {
  PoolFixture fixture(unlimited(16));
  fixture.join(kHashKey);
  EXPECT_EQ(fixture.flood(kHashKey, 1, 100), 14u);
  EXPECT_EQ(fixture.discarded(kHashKey, Discard::kSourceOverQuota), 86u);
  EXPECT_EQ(fixture.send(kHashKey, 2), Discard::kNewSourcesOver)
      << "new ones have their part by now";
}

TEST(Source, AStormCostsTheHostItComesFrom) {
  PoolFixture fixture(unlimited(16));
  fixture.join(kHashKey);
  for (std::uint32_t from : {1u, 2u}) fixture.establish(kHashKey, from);
  fixture.serve(kHashKey, 1);
  EXPECT_EQ(fixture.flood(kHashKey, 2, 1000), 8u);
  EXPECT_EQ(fixture.discarded(kHashKey, Discard::kSourceOverQuota), 992u);
  EXPECT_EQ(fixture.flood(kHashKey, 1, 8), 8u);
}

TEST(Source, AStormLeavesOthersTheirPartThoughItBorrowsToo) {
  PoolFixture fixture(unlimited(160));
  fixture.join(kHashKey);
  for (std::uint32_t from : {1u, 2u, 3u}) fixture.establish(kHashKey, from);
  const std::uint32_t taken = fixture.flood(kHashKey, 3, 1000);
  EXPECT_GT(taken, 16u) << "there was room for more";
  EXPECT_LT(taken, 96u);
  EXPECT_EQ(fixture.flood(kHashKey, 1, 4), 4u);
  EXPECT_EQ(fixture.flood(kHashKey, 2, 4), 4u);
  EXPECT_EQ(fixture.discarded(kHashKey, Discard::kOverQuota), 0u);
}

TEST(Source, VouchedFor_MadeUpOnesFloodForHours_ItIsStillServed) {
  Parameters parameters = unlimited(64);
  parameters.sources.new_rate = {.per_second = 100, .burst = 10};
  PoolFixture fixture(parameters);
  fixture.join(kHashKey);
  fixture.pool.vouch_for(ClientKey(kHashKey), host(1), fixture.now);
  // Each of these sends long enough to become established, and they are as many as there is room
  // for.
  for (int round = 0; round < 100; ++round, fixture.now += seconds(60))
    for (std::uint32_t from = 1000; from < 1200; ++from) {
      fixture.serve(kHashKey, from);
      fixture.now += milliseconds(20);
      fixture.serve(kHashKey, from);
    }
  while (fixture.serve(kHashKey, 5000) == Discard::kNone) fixture.serve(kHashKey, 5001);
  EXPECT_EQ(fixture.serve(kHashKey, 1), Discard::kNone);
}

TEST(Source, MoreVouchedForThanTheirPlaces_TheLeastRecentIsForgotten) {
  Parameters parameters = unlimited(64);
  parameters.sources.new_rate = {.per_second = 1, .burst = 1};
  PoolFixture fixture(parameters);  // 64 places, 16 for these
  fixture.join(kHashKey);
  for (std::uint32_t from = 1; from <= 17; ++from)
    fixture.pool.vouch_for(ClientKey(kHashKey), host(from), fixture.now);
  fixture.serve(kHashKey, 100);  // what new ones may send
  EXPECT_EQ(fixture.serve(kHashKey, 1), Discard::kNewSourcesOver);
  EXPECT_EQ(fixture.serve(kHashKey, 2), Discard::kNone);
  EXPECT_EQ(fixture.serve(kHashKey, 17), Discard::kNone);
}

TEST(Source, HasARateWithABurst) {
  Parameters parameters = unlimited(64);
  parameters.sources.rate = {.per_second = 100, .burst = 10};
  PoolFixture fixture(parameters);
  fixture.join(kHashKey);
  std::uint32_t given = 0;
  const Time start = fixture.now;
  for (std::uint32_t i = 0; i < 4000; ++i, fixture.now += milliseconds(1)) {
    given += fixture.serve(kHashKey, 1) == Discard::kNone ? 1 : 0;
    if (i % 50 == 0) {
      EXPECT_EQ(fixture.serve(kHashKey, 2), Discard::kNone) << i;
    }
  }
  EXPECT_EQ(fixture.now - start, seconds(4));
  EXPECT_NEAR(given, 410, 2);
  EXPECT_EQ(fixture.discarded(kHashKey, Discard::kSourceOverRate), 4000 - given);
}

bool is_found_busy(PoolFixture& fixture, std::uint32_t from) {
  const Admission admission = fixture.pool.admit(ClientKey(kHashKey), host(from), fixture.now);
  fixture.pool.release(admission.buffer);
  return admission.from_busy_source;
}

TEST(Source, IsBusyWhenItHasUsedHalfItsBurst) {
  Parameters parameters = unlimited(64);
  parameters.sources.rate = {.per_second = 100, .burst = 10};
  PoolFixture fixture(parameters);
  fixture.join(kHashKey);
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(is_found_busy(fixture, 1)) << i;
  EXPECT_TRUE(is_found_busy(fixture, 1));
  EXPECT_FALSE(is_found_busy(fixture, 2));
  fixture.now += milliseconds(100);
  EXPECT_FALSE(is_found_busy(fixture, 1));
}

TEST(Source, NewOnesAreBusyTogether) {
  Parameters parameters = unlimited(64);
  parameters.sources.new_rate = {.per_second = 100, .burst = 10};
  PoolFixture fixture(parameters);
  fixture.join(kHashKey);
  fixture.establish(kHashKey, 1);
  for (std::uint32_t from = 100; from < 105; ++from)
    EXPECT_FALSE(is_found_busy(fixture, from)) << from;
  EXPECT_TRUE(is_found_busy(fixture, 105));
  EXPECT_FALSE(is_found_busy(fixture, 1));
}

TEST(Source, AChangedRateCountsForThoseAlreadyKnown) {
  Parameters parameters = unlimited(64);
  PoolFixture fixture(parameters);
  fixture.join(kHashKey);
  fixture.establish(kHashKey, 1);
  parameters.sources.rate = {.per_second = 1, .burst = 1};
  ASSERT_TRUE(fixture.pool.set_parameters(parameters, fixture.now));
  EXPECT_EQ(fixture.serve(kHashKey, 1), Discard::kNone);
  EXPECT_EQ(fixture.serve(kHashKey, 1), Discard::kSourceOverRate);
}

TEST(Source, IsEstablishedWhenItStillSendsAfterItsProbation) {
  PoolFixture fixture(unlimited(64));
  fixture.join(kHashKey);
  fixture.serve(kHashKey, 1);
  fixture.now += milliseconds(999);
  fixture.serve(kHashKey, 1);
  EXPECT_FALSE(fixture.pool.busiest_sources(1).front().established);
  fixture.now += milliseconds(1);
  fixture.serve(kHashKey, 1);
  EXPECT_TRUE(fixture.pool.busiest_sources(1).front().established);
}

/// 100,000 made-up addresses, each of which sends `each` times, a client that is slow to give back.
void spoof(PoolFixture& fixture, std::uint32_t each, std::uint32_t& established_given) {
  for (std::uint32_t i = 0; i < 100'000; ++i) {
    fixture.now += Duration(10'000);
    fixture.flood(kHashKey, 1'000'000 + i, each);
    if (i % 100 == 0) established_given += fixture.flood(kHashKey, 1 + i / 100 % 4, 1);
    if (i % 50 == 49) fixture.give_back(kHashKey);
  }
}

TEST(Source, AHundredThousandMadeUpOnesCostEstablishedOnesNothing) {
  for (std::uint32_t each : {1u, 2u}) {
    PoolFixture fixture(unlimited(16));
    fixture.join(kHashKey);
    for (std::uint32_t from : {1u, 2u, 3u, 4u}) fixture.establish(kHashKey, from);
    std::uint32_t given = 0;
    spoof(fixture, each, given);
    EXPECT_EQ(given, 1000u) << "of a thousand that they sent";
    EXPECT_GT(fixture.discarded(kHashKey, Discard::kNewSourcesOver), 50'000u);
    const std::vector<SourceView> sources = fixture.pool.busiest_sources(100);
    EXPECT_EQ(std::ranges::count_if(sources, &SourceView::established), 4);
  }
}

TEST(Source, MadeUpOnesTogetherHaveOneRate) {
  Parameters parameters = unlimited(64);
  parameters.sources.new_rate = {.per_second = 100, .burst = 10};
  PoolFixture fixture(parameters);
  fixture.join(kHashKey);
  fixture.establish(kHashKey, 1);
  std::uint32_t given = 0;
  for (std::uint32_t i = 0; i < 100'000; ++i) {
    fixture.now += Duration(10'000);
    given += fixture.serve(kHashKey, 1'000'000 + i) == Discard::kNone ? 1 : 0;
    if (i % 1000 == 0) {
      EXPECT_EQ(fixture.serve(kHashKey, 1), Discard::kNone) << i;
    }
  }
  EXPECT_NEAR(given, 110, 2);
}

/// 30 made-up addresses that last until their probation is over, then the next 30.
TEST(Source, EstablishedOnesKeepTheirPlacesFromMadeUpOnesThatLast) {
  PoolFixture fixture(unlimited(16));
  fixture.join(kHashKey);
  for (std::uint32_t from : {1u, 2u}) fixture.establish(kHashKey, from);
  for (std::uint32_t batch = 1; batch <= 15; ++batch) {
    for (std::uint32_t i = 0; i < 30; ++i) fixture.serve(kHashKey, 1000 * batch + i);
    fixture.now += seconds(1);
    for (std::uint32_t i = 0; i < 30; ++i) fixture.serve(kHashKey, 1000 * batch + i);
    fixture.now += milliseconds(900);
  }
  const std::vector<SourceView> all = fixture.pool.busiest_sources(100);
  EXPECT_EQ(std::ranges::count_if(all, &SourceView::established), 32) << "half of the places";
  for (std::uint32_t from : {1u, 2u})
    EXPECT_TRUE(std::ranges::any_of(all, [&](const SourceView& s) {
      return s.source == host(from) && s.established;
    })) << "silent for less than half a minute";
}

TEST(Source, APlaceIsFreeForAnotherWhenAnEstablishedOneIsSilentForLong) {
  PoolFixture fixture(unlimited(16), {.buffers = 16, .clients = 1, .sources = 4});
  fixture.join(kHashKey);
  for (std::uint32_t from : {1u, 2u}) fixture.establish(kHashKey, from);
  const auto is_established = [&](std::uint32_t from) {
    const std::vector<SourceView> all = fixture.pool.busiest_sources(4);
    return std::ranges::any_of(
        all, [&](const SourceView& s) { return s.source == host(from) && s.established; });
  };
  fixture.establish(kHashKey, 3);
  EXPECT_FALSE(is_established(3));
  fixture.now += seconds(28);
  fixture.serve(kHashKey, 3);
  EXPECT_TRUE(is_established(3)) << "30 seconds after 1 was heard";
  EXPECT_FALSE(is_established(1));
  EXPECT_TRUE(is_established(2));
}

TEST(Source, OneThatHoldsBuffersKeepsItsPlace) {
  Parameters parameters = unlimited(64);
  parameters.sources.new_part = 1;
  PoolFixture fixture(parameters, {.buffers = 64, .clients = 2, .sources = 4});
  fixture.join(kHashKey, 32);
  for (std::uint32_t from = 1; from <= 4; ++from)
    EXPECT_EQ(fixture.send(kHashKey, from), Discard::kNone);
  EXPECT_EQ(fixture.send(kHashKey, 5), Discard::kNewSourcesOver) << "nowhere to remember it";
  fixture.give_back(kHashKey, 1);
  EXPECT_EQ(fixture.send(kHashKey, 5), Discard::kNone);
}

TEST(Source, TheSameHostIsAnotherSourceForAnotherClient) {
  PoolFixture fixture(unlimited(32));
  fixture.join(1);
  fixture.join(2);
  EXPECT_EQ(fixture.flood(1, 1, 100), 14u);
  EXPECT_EQ(fixture.flood(2, 1, 14), 14u);
}

}  // namespace
}  // namespace softhca::management::gsa
