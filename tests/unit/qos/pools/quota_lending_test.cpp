// SPDX-License-Identifier: Apache-2.0

// Guarantees that are lent while they are idle (mechanism A10): QuotaPool and AutomaticAdjustment
// in virtual time.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "daemon/qos/pools/automatic_adjustment.hpp"

namespace softhca {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr AdjustmentPolicy kPolicy{.idle = seconds(8), .keep = 0.1};

struct Holder {
  Quota quota;
  AutomaticAdjustment watch;
};

/// A pool, looked at once a second.
struct Adjusted {
  explicit Adjusted(std::uint32_t total) : pool(total) {}

  /// kAll: but nothing is kept.
  void run(Duration time, std::vector<Holder*> holders, Lending lending = Lending::kIdle) {
    AdjustmentPolicy policy = kPolicy;
    if (lending == Lending::kAll) policy.keep = 0;
    for (const Time end = now + time; now < end;) {
      now += seconds(1);
      for (Holder* holder : holders)
        holder->watch.look(pool, holder->quota, nullptr, lending, policy, now);
    }
  }
  void take(Quota& q, std::uint32_t n) {
    for (std::uint32_t i = 0; i < n; ++i) ASSERT_TRUE(pool.take(q));
  }
  void put(Quota& q, std::uint32_t n) {
    for (std::uint32_t i = 0; i < n; ++i) pool.put(q);
  }

  QuotaPool pool;
  Time now{};
};

TEST(Lending, WhatIsIdleForTheTimeIsLentButForSomeInHand) {
  Adjusted a(20);
  Holder lender;
  Quota borrower;
  ASSERT_TRUE(a.pool.set_guarantee(lender.quota, 20));
  a.take(lender.quota, 3);
  a.run(seconds(8), {&lender});
  EXPECT_EQ(a.pool.lent(), 0u);
  EXPECT_FALSE(a.pool.take(borrower));
  a.run(seconds(2), {&lender});
  EXPECT_EQ(lender.quota.lent.value(), 15u);  // 3 were in use, 2 are kept
  EXPECT_EQ(lender.quota.guaranteed.value(), 20u);
  EXPECT_EQ(a.pool.unallocated(), 0u);
  a.take(borrower, 15);
  EXPECT_FALSE(a.pool.take(borrower));
  a.take(lender.quota, 2);
}

TEST(Lending, ThePeakOfTheTimeCountsNotTheUseAtALook) {
  Adjusted a(20);
  Holder lender;
  ASSERT_TRUE(a.pool.set_guarantee(lender.quota, 20));
  for (int i = 0; i < 100; ++i) {
    a.take(lender.quota, 17);
    a.put(lender.quota, 17);
    a.run(seconds(5), {&lender});
  }
  EXPECT_EQ(lender.quota.lent.value(), 1u);
  EXPECT_EQ(lender.quota.recalls.value(), 0u);
}

TEST(Lending, WhatIsFreeComesBackAtOnce) {
  Adjusted a(20);
  Holder lender;
  ASSERT_TRUE(a.pool.set_guarantee(lender.quota, 20));
  a.run(seconds(20), {&lender});
  ASSERT_EQ(lender.quota.lent.value(), 18u);
  a.take(lender.quota, 20);
  EXPECT_EQ(lender.quota.lent.value(), 0u);
  EXPECT_EQ(lender.quota.recalls.value(), 1u);
  EXPECT_EQ(a.pool.recalled(), 0u);
  EXPECT_FALSE(a.pool.take(lender.quota));
}

TEST(Lending, WhatIsBorrowedComesBackBeforeAnybodyBorrowsAgain) {
  Adjusted a(10);
  Holder lender;
  Quota borrower;
  ASSERT_TRUE(a.pool.set_guarantee(lender.quota, 10));
  a.run(seconds(20), {&lender}, Lending::kAll);
  a.take(borrower, 10);
  EXPECT_FALSE(a.pool.take(lender.quota));
  for (std::uint32_t i = 1; i <= 10; ++i) {
    a.pool.put(borrower);
    EXPECT_FALSE(a.pool.take(borrower));
    EXPECT_TRUE(a.pool.take(lender.quota));
    EXPECT_EQ(lender.quota.in_use.value(), i);
  }
  EXPECT_EQ(lender.quota.recalls.value(), 1u);
}

// A recall must not put the guarantee in force at once. Otherwise the lender would take units that
// the borrower has not returned yet from a holder that never lent.
TEST(Lending, ARecallTakesNothingFromOtherGuarantees) {
  Adjusted a(10);
  Holder lender;
  Quota other;
  Quota borrower;
  ASSERT_TRUE(a.pool.set_guarantee(lender.quota, 5));
  ASSERT_TRUE(a.pool.set_guarantee(other, 5));
  a.run(seconds(1), {&lender}, Lending::kAll);
  a.take(borrower, 5);
  EXPECT_FALSE(a.pool.take(lender.quota));
  EXPECT_FALSE(a.pool.take(lender.quota));
  a.take(other, 5);
  EXPECT_EQ(a.pool.overdrawn(), 0u);
}

TEST(Lending, WhatNobodyCanUseIsLentAtOnceButForSome) {
  Adjusted a(20);
  Holder lender;
  ASSERT_TRUE(a.pool.set_guarantee(lender.quota, 20));
  EXPECT_TRUE(lender.watch.look(a.pool, lender.quota, nullptr, Lending::kAll, kPolicy, a.now));
  EXPECT_EQ(lender.quota.in_force(), 2u);
  EXPECT_FALSE(lender.watch.look(a.pool, lender.quota, nullptr, Lending::kAll, kPolicy, a.now));
}

TEST(Lending, ACappedHolderLendsAndHasItsCapAgain) {
  Adjusted a(10);
  Holder capped;
  capped.quota.may_share = false;
  ASSERT_TRUE(a.pool.set_guarantee(capped.quota, 4));
  a.run(seconds(1), {&capped}, Lending::kAll);
  EXPECT_EQ(a.pool.shared_free(), 10u);
  a.take(capped.quota, 4);
  EXPECT_FALSE(a.pool.take(capped.quota));
}

TEST(Lending, WithoutLendingAllIsRecalled) {
  Adjusted a(10);
  Holder lender;
  Quota borrower;
  ASSERT_TRUE(a.pool.set_guarantee(lender.quota, 10));
  a.run(seconds(1), {&lender}, Lending::kAll);
  a.take(borrower, 4);
  a.run(seconds(2), {&lender}, Lending::kNone);
  EXPECT_TRUE(lender.quota.recalling);
  EXPECT_FALSE(a.pool.take(borrower));
  a.put(borrower, 4);
  a.run(seconds(2), {&lender}, Lending::kNone);
  EXPECT_EQ(lender.quota.in_force(), 10u);
  EXPECT_FALSE(lender.quota.recalling);
}

TEST(Lending, TwoThatRecallShareWhatComesBack) {
  Adjusted a(8);
  Holder first, second;
  Quota borrower;
  ASSERT_TRUE(a.pool.set_guarantee(first.quota, 4));
  ASSERT_TRUE(a.pool.set_guarantee(second.quota, 4));
  a.run(seconds(1), {&first, &second}, Lending::kAll);
  a.take(borrower, 8);
  EXPECT_FALSE(a.pool.take(first.quota));
  EXPECT_FALSE(a.pool.take(second.quota));
  a.put(borrower, 2);
  EXPECT_TRUE(a.pool.take(first.quota));
  EXPECT_TRUE(a.pool.take(second.quota));
  EXPECT_FALSE(a.pool.take(first.quota));
}

TEST(Lending, AChangeOfTheGuaranteeIsTakenFromWhatIsLent) {
  Adjusted a(10);
  Holder lender;
  Quota borrower;
  ASSERT_TRUE(a.pool.set_guarantee(lender.quota, 10));
  a.run(seconds(1), {&lender}, Lending::kAll);
  a.take(borrower, 6);
  ASSERT_TRUE(a.pool.set_guarantee(lender.quota, 7));
  EXPECT_EQ(lender.quota.lent.value(), 7u);
  EXPECT_EQ(a.pool.unallocated(), 3u);
  EXPECT_EQ(borrower.draining.value(), 0u);
  ASSERT_TRUE(a.pool.set_guarantee(lender.quota, 0));
  EXPECT_EQ(a.pool.lent(), 0u);
  EXPECT_EQ(a.pool.unallocated(), 10u);
  EXPECT_FALSE(a.pool.set_guarantee(lender.quota, 11));
}

TEST(Lending, ALevelLendsToAllAndHasItBack) {
  QuotaPool pool(12);
  Quota tenant, level, sibling, borrower;
  ASSERT_TRUE(pool.set_guarantee(tenant, 12));
  ASSERT_TRUE(pool.set_guarantee(level, tenant, 5));
  ASSERT_TRUE(pool.set_guarantee(sibling, tenant, 5));
  pool.lend(level, 5);
  pool.lend(tenant, 2);
  for (int i = 0; i < 7; ++i) ASSERT_TRUE(pool.take(borrower));
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(pool.take(sibling, tenant));
  EXPECT_FALSE(pool.take(sibling, tenant));  // the tenant recalls the part that its levels share
  EXPECT_FALSE(pool.take(level, tenant));
  EXPECT_EQ(pool.recalled(), 7u);
  for (std::uint32_t i = 1; i <= 5; ++i) {
    pool.put(borrower);
    EXPECT_FALSE(pool.take(borrower));
    EXPECT_TRUE(pool.take(level, tenant));
  }
  EXPECT_FALSE(pool.take(sibling, tenant));
  pool.put(borrower);
  EXPECT_TRUE(pool.take(sibling, tenant));
  EXPECT_EQ(tenant.in_use.value(), 1u);
  EXPECT_EQ(pool.overdrawn(), 0u);
}

TEST(Lending, SteadyDemandIsNeverRecalledFor) {
  std::mt19937 random(3);
  Adjusted a(100);
  Holder steady, wavy;
  Quota borrower;
  ASSERT_TRUE(a.pool.set_guarantee(steady.quota, 50));
  ASSERT_TRUE(a.pool.set_guarantee(wavy.quota, 50));
  a.take(steady.quota, 20);
  for (int i = 0; i < 2000; ++i) {
    a.run(seconds(1), {&steady, &wavy});
    while (a.pool.take(borrower)) continue;
    // Up to 30 at least once in the time watched, anything below it in between.
    const std::uint32_t wanted = i % 5 == 0 ? 30 : random() % 30;
    while (wavy.quota.in_use.value() > wanted) a.pool.put(wavy.quota);
    while (wavy.quota.in_use.value() < wanted) ASSERT_TRUE(a.pool.take(wavy.quota));
  }
  EXPECT_EQ(steady.quota.lent.value(), 25u);
  EXPECT_EQ(wavy.quota.lent.value(), 15u);
  EXPECT_EQ(steady.quota.recalls.value() + wavy.quota.recalls.value(), 0u);
}

// --- any demand

struct Party : Holder {
  std::uint32_t wanted = 0;
  std::uint64_t returns_owed = 0;  ///< after so many more, all that it recalled is back
  std::uint64_t recalls_seen = 0;
};

class AnyDemand {
 public:
  explicit AnyDemand(unsigned seed) : random_(seed), pool_(10 + random_() % 60) {
    parties_.resize(2 + random_() % 6);
    for (Party& party : parties_) {
      party.quota.may_share = random_() % 4 != 0;
      pool_.set_guarantee(party.quota, random_() % (pool_.unallocated() + 1));
    }
  }

  void run() {
    for (int step = 0; step < 5000 && !testing::Test::HasFatalFailure(); ++step) {
      now_ += milliseconds(100);
      if (step % 10 == 0)
        for (Party& party : parties_) {
          const Lending lending = random_() % 50 == 0 ? Lending::kAll : Lending::kIdle;
          party.watch.look(pool_, party.quota, nullptr, lending, kPolicy, now_);
          note_recalls();
        }
      Party& party = parties_[random_() % parties_.size()];
      if (random_() % 40 == 0) party.wanted = random_() % (pool_.total() + 1);
      for (unsigned i = random_() % 8; i-- != 0;) act(party);
      check();
    }
    for (const Party& party : parties_)  // once in the time watched, and no more often
      EXPECT_LE(party.quota.recalls.value(), 5000 * milliseconds(100) / kPolicy.idle * 2);
  }

 private:
  void act(Party& party) {
    Quota& q = party.quota;
    if (q.in_use.value() > party.wanted) {
      const bool returns = q.shared_in_use() != 0;
      pool_.put(q);
      for (Party& other : parties_)
        if (returns && other.returns_owed != 0) --other.returns_owed;
      return;
    }
    if (q.in_use.value() == party.wanted) return;
    const std::uint32_t shared = pool_.shared_in_use();
    const bool borrowable = pool_.borrowable() != 0;
    const bool below = q.in_use.value() < q.guaranteed.value();
    const bool in_force = q.below_guarantee();
    const bool taken = pool_.take(q);
    note_recalls();
    ASSERT_TRUE(taken || !in_force);
    ASSERT_TRUE(pool_.shared_in_use() == shared || (borrowable && !below));
    ASSERT_TRUE(taken || !below || party.returns_owed != 0) << "its recall takes too long";
  }

  void note_recalls() {
    for (Party& party : parties_) {
      if (party.recalls_seen == party.quota.recalls.value()) continue;
      party.recalls_seen = party.quota.recalls.value();
      party.returns_owed = pool_.shared_in_use();
    }
  }

  void check() {
    std::uint32_t in_use = 0, guaranteed = 0, lent = 0, recalled = 0, surplus = 0;
    for (const Party& party : parties_) {
      const Quota& q = party.quota;
      in_use += q.in_use.value();
      guaranteed += q.guaranteed.value();
      lent += q.lent.value();
      if (q.recalling) recalled += q.lent.value();
      surplus += q.shared_in_use();
      ASSERT_TRUE(q.in_use.value() >= q.in_force() || pool_.available(q));
      ASSERT_TRUE(q.may_share || q.in_use.value() <= q.guaranteed.value());
    }
    ASSERT_LE(in_use, pool_.total());
    ASSERT_EQ(in_use + pool_.free(), pool_.total());
    ASSERT_EQ(guaranteed + pool_.unallocated(), pool_.total());
    ASSERT_EQ(lent, pool_.lent());
    ASSERT_EQ(recalled, pool_.recalled());
    ASSERT_EQ(surplus, pool_.shared_in_use());
    ASSERT_EQ(pool_.overdrawn(), 0u);
  }

  std::mt19937 random_;
  QuotaPool pool_;
  std::vector<Party> parties_;
  Time now_{};
};

TEST(Lending, AnyDemandKeepsTheSumAndBoundsTheRecall) {
  for (unsigned seed = 0; seed < 200 && !HasFatalFailure(); ++seed) {
    SCOPED_TRACE(seed);
    AnyDemand(seed).run();
  }
}

}  // namespace
}  // namespace softhca
