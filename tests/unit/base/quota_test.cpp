#include "daemon/base/quota.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace softhca {
namespace {

TEST(Quota, DrawsItsOwnFirstThenShared) {
  QuotaPool pool(5);
  Quota a;
  Quota b;
  ASSERT_TRUE(pool.set_guarantee(a, 2));
  ASSERT_TRUE(pool.set_guarantee(b, 2));
  EXPECT_EQ(pool.unallocated(), 1u);
  EXPECT_TRUE(pool.take(a));
  EXPECT_TRUE(pool.take(a));
  EXPECT_EQ(pool.shared_in_use(), 0u);
  EXPECT_TRUE(pool.take(a));
  EXPECT_EQ(pool.shared_in_use(), 1u);
  EXPECT_FALSE(pool.take(a));
  EXPECT_EQ(a.in_use.value(), 3u);
  EXPECT_EQ(a.high_water.value(), 3u);
  EXPECT_TRUE(pool.take(b));
  EXPECT_TRUE(pool.take(b));
  EXPECT_FALSE(pool.take(b));
  pool.put(a);
  EXPECT_EQ(pool.shared_free(), 1u);
  EXPECT_TRUE(pool.take(b));
}

TEST(Quota, ACappedHolderStaysOutOfTheSharedRest) {
  QuotaPool pool(10);
  Quota capped;
  capped.may_share = false;
  ASSERT_TRUE(pool.set_guarantee(capped, 1));
  EXPECT_TRUE(pool.take(capped));
  EXPECT_FALSE(pool.available(capped));
  EXPECT_FALSE(pool.take(capped));
  EXPECT_EQ(pool.shared_free(), 9u);
}

TEST(Quota, RefusesAGuaranteeItCouldNotHonour) {
  QuotaPool pool(4);
  Quota a;
  Quota b;
  EXPECT_FALSE(pool.set_guarantee(a, 5));
  EXPECT_EQ(a.guaranteed.value(), 0u);
  EXPECT_TRUE(pool.take(a));
  EXPECT_FALSE(pool.set_guarantee(b, 4));
  EXPECT_TRUE(pool.set_guarantee(b, 3));
  EXPECT_EQ(pool.unallocated(), 1u);
  EXPECT_EQ(pool.shared_free(), 0u);
}

TEST(Quota, ASmallerGuaranteeTurnsWhatIsInUseIntoShared) {
  QuotaPool pool(4);
  Quota a;
  Quota b;
  ASSERT_TRUE(pool.set_guarantee(a, 4));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(pool.take(a));
  ASSERT_TRUE(pool.set_guarantee(a, 1));
  EXPECT_EQ(pool.unallocated(), 3u);
  EXPECT_EQ(pool.shared_in_use(), 2u);
  EXPECT_EQ(pool.shared_free(), 1u);
  EXPECT_TRUE(pool.take(b));
  EXPECT_FALSE(pool.take(b));
  pool.put(a);
  EXPECT_TRUE(pool.take(b));
}

// Invariants after every step: what is drawn never exceeds the total; a holder below its guarantee
// always gets one; the shared rest is what is drawn beyond guarantees.
TEST(Quota, AnySequenceKeepsGuaranteesAndTotals) {
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    const std::uint32_t total = random() % 40;
    QuotaPool pool(total);
    std::vector<Quota> holders(1 + random() % 6);
    for (Quota& q : holders) q.may_share = random() % 3 != 0;
    for (int step = 0; step < 2000; ++step) {
      Quota& q = holders[random() % holders.size()];
      if (random() % 10 == 0) {
        const std::uint32_t asked = random() % 12;
        const bool fits =
            asked <= q.guaranteed.value() || asked - q.guaranteed.value() <= pool.shared_free();
        ASSERT_EQ(pool.set_guarantee(q, asked), fits);
      } else if (random() % 2 != 0) {
        const bool expected =
            q.in_use.value() < q.guaranteed.value() || (q.may_share && pool.shared_free() > 0);
        ASSERT_EQ(pool.available(q), expected);
        ASSERT_EQ(pool.take(q), expected);
      } else if (q.in_use.value() > 0) {
        pool.put(q);
      }
      std::uint32_t guaranteed = 0;
      std::uint32_t in_use = 0;
      std::uint32_t beyond = 0;
      for (const Quota& h : holders) {
        guaranteed += h.guaranteed.value();
        in_use += h.in_use.value();
        if (h.in_use.value() > h.guaranteed.value())
          beyond += h.in_use.value() - h.guaranteed.value();
      }
      ASSERT_EQ(pool.unallocated(), total - guaranteed);
      ASSERT_EQ(pool.shared_in_use(), beyond);
      ASSERT_LE(beyond, pool.unallocated());
      ASSERT_LE(in_use, total);
    }
  }
}

}  // namespace
}  // namespace softhca
