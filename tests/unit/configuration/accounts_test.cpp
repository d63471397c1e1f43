// SPDX-License-Identifier: Apache-2.0

#include "daemon/configuration/resource_manager/accounts.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace softhca::configuration {
namespace {

constexpr Kind kKind = Kind::kRegisteredBytes;
constexpr std::uint64_t kMost = ~std::uint64_t{0};

TEST(Accounts, GiveUpToTheLimitAndNoMore) {
  Accounts accounts;
  EXPECT_FALSE(accounts.take(kKind)) << "no limit set, nothing to have";
  accounts.set_limit(kKind, 10);
  const Charge seven = accounts.take(kKind, 7);
  EXPECT_TRUE(seven);
  EXPECT_EQ(seven.amount(), 7u);
  EXPECT_FALSE(accounts.take(kKind, 4));
  EXPECT_FALSE(accounts.take(kKind, kMost)) << "sums do not wrap";
  EXPECT_TRUE(accounts.take(kKind, 3));
  EXPECT_EQ(accounts.in_use(kKind), 7u) << "the three are given back at once";
  EXPECT_EQ(accounts.high_water(kKind), 10u);
  EXPECT_EQ(accounts.refused(kKind), 3u);
  EXPECT_EQ(accounts.in_use(Kind::kSessions), 0u);
}

TEST(Accounts, TheLargestAmountFits) {
  Accounts accounts;
  accounts.set_limit(kKind, kMost);
  const Charge all = accounts.take(kKind, kMost);
  EXPECT_TRUE(all);
  EXPECT_FALSE(accounts.take(kKind, 1));
  EXPECT_TRUE(accounts.take(kKind, 0));
}

TEST(Accounts, PartOfAChargeIsGivenBackByItself) {
  Accounts accounts;
  accounts.set_limit(kKind, 10);
  Charge rest = accounts.take(kKind, 7);
  {
    const Charge part = rest.split(3);
    EXPECT_EQ(part.amount(), 3u);
    EXPECT_EQ(rest.amount(), 4u);
    EXPECT_EQ(accounts.in_use(kKind), 7u);
  }
  EXPECT_EQ(accounts.in_use(kKind), 4u);
}

TEST(Accounts, AChargeIsGivenBackOnceHoweverItMoves) {
  Accounts accounts;
  accounts.set_limit(kKind, 100);
  Charge a = accounts.take(kKind, 10);
  Charge b(std::move(a));
  EXPECT_FALSE(a);
  EXPECT_EQ(accounts.in_use(kKind), 10u);
  Charge c = accounts.take(kKind, 5);
  c = std::move(b);
  EXPECT_EQ(accounts.in_use(kKind), 10u) << "what c had before is given back";
  Charge& same = c;
  c = std::move(same);
  EXPECT_EQ(accounts.in_use(kKind), 10u);
  EXPECT_EQ(c.amount(), 10u);
  c = {};
  EXPECT_EQ(accounts.in_use(kKind), 0u);
}

TEST(Accounts, AReducedLimitKeepsWhatIsThere) {
  Accounts accounts;
  accounts.set_limit(kKind, 10);
  Charge eight = accounts.take(kKind, 8);
  accounts.set_limit(kKind, 5);
  EXPECT_TRUE(eight);
  EXPECT_FALSE(accounts.take(kKind, 1));
  eight = {};
  EXPECT_TRUE(accounts.take(kKind, 5));
}

TEST(Accounts, LieWithinTheWhole) {
  Accounts whole;
  Accounts a;
  Accounts b;
  for (Accounts* tenant : {&a, &b}) {
    tenant->set_whole(whole);
    tenant->set_limit(kKind, 8);
  }
  whole.set_limit(kKind, 10);
  const Charge first = a.take(kKind, 8);
  EXPECT_FALSE(b.take(kKind, 3));
  EXPECT_EQ(b.refused(kKind), 0u);
  EXPECT_EQ(b.refused_by_whole(kKind), 1u);
  {
    const Charge second = b.take(kKind, 2);
    EXPECT_TRUE(second);
    EXPECT_EQ(whole.in_use(kKind), 10u);
  }
  EXPECT_EQ(whole.in_use(kKind), 8u);
  EXPECT_FALSE(a.take(kKind, 1));
  EXPECT_EQ(whole.in_use(kKind), 8u) << "what the tenant is refused the whole does not count";
}

TEST(Accounts, AgreeWithASumForAnySequence) {
  std::mt19937 random(11);
  Accounts whole;
  std::array<Accounts, 3> tenants;
  for (Accounts& tenant : tenants) tenant.set_whole(whole);
  std::array<std::vector<Charge>, 3> held;
  const auto sum = [](const std::vector<Charge>& charges) {
    std::uint64_t total = 0;
    for (const Charge& charge : charges) total += charge.amount();
    return total;
  };
  for (int step = 0; step < 20000; ++step) {
    const std::size_t t = random() % 3;
    if (random() % 50 == 0) tenants[t].set_limit(kKind, random() % 100);
    if (random() % 50 == 0) whole.set_limit(kKind, random() % 200);
    if (random() % 2 == 0) {
      const std::uint64_t amount = random() % 20;
      const std::uint64_t all = sum(held[0]) + sum(held[1]) + sum(held[2]);
      const bool fits =
          sum(held[t]) + amount <= tenants[t].limit(kKind) && all + amount <= whole.limit(kKind);
      Charge charge = tenants[t].take(kKind, amount);
      ASSERT_EQ(static_cast<bool>(charge), fits);
      if (charge) held[t].push_back(std::move(charge));
    } else if (!held[t].empty()) {
      std::swap(held[t][random() % held[t].size()], held[t].back());
      held[t].pop_back();
    }
    ASSERT_EQ(tenants[t].in_use(kKind), sum(held[t]));
    ASSERT_EQ(whole.in_use(kKind), sum(held[0]) + sum(held[1]) + sum(held[2]));
  }
}

TEST(ObjectLimits, WhatTheMachineAllowsIsPlausible) {
  EXPECT_GE(machine_memory(), std::uint64_t{64} << 20);
  EXPECT_GE(machine_mappings(), 100u);
  EXPECT_GE(machine_descriptors(), 16u);
}

/// Holds some of it that it could do without.
class Holder final : public IdleHolder {
 public:
  Holder(Accounts& accounts, std::uint64_t each, int count) : accounts_(accounts) {
    for (int i = 0; i < count; ++i) charges_.push_back(accounts.take(Kind::kMappings, each));
    accounts.add(*this);
  }
  ~Holder() { accounts_.remove(*this); }
  std::uint64_t idle(Kind kind) const override {
    std::uint64_t sum = 0;
    if (kind == Kind::kMappings)
      for (const Charge& charge : charges_) sum += charge.amount();
    return sum;
  }
  void give_up_idle(Kind) override { charges_.pop_back(); }

 private:
  Accounts& accounts_;
  std::vector<Charge> charges_;
};

TEST(IdleHolder, WithMostGivesUpWhatSomebodyLacks) {
  Accounts accounts;
  accounts.set_limit(Kind::kMappings, 100);
  accounts.set_limit(Kind::kSharedBytes, 1);
  Holder few(accounts, 10, 2), many(accounts, 10, 8);
  EXPECT_FALSE(accounts.take(Kind::kSharedBytes, 2)) << "no holder has any of this";
  {
    const Charge taken = accounts.take(Kind::kMappings, 15);
    EXPECT_TRUE(taken);
    EXPECT_EQ(few.idle(Kind::kMappings), 20u);
    EXPECT_EQ(many.idle(Kind::kMappings), 60u);
    EXPECT_EQ(accounts.in_use(Kind::kMappings), 95u);
    EXPECT_FALSE(accounts.take(Kind::kMappings, 86)) << "all that is idle would not be enough";
    EXPECT_EQ(accounts.in_use(Kind::kMappings), 95u);
    EXPECT_EQ(accounts.refused(Kind::kMappings), 1u);
  }
  EXPECT_FALSE(accounts.take(Kind::kMappings, ~std::uint64_t{0}));
  EXPECT_TRUE(accounts.take(Kind::kMappings, 100));
  EXPECT_EQ(few.idle(Kind::kMappings) + many.idle(Kind::kMappings), 0u);
}

TEST(IdleHolder, OfOthersMakesRoomInTheWhole) {
  Accounts whole, one, other;
  whole.set_limit(Kind::kMappings, 10);
  for (Accounts* part : {&one, &other}) {
    part->set_whole(whole);
    part->set_limit(Kind::kMappings, 10);
  }
  Holder holder(one, 1, 10);
  EXPECT_TRUE(other.take(Kind::kMappings, 4));
  EXPECT_EQ(one.in_use(Kind::kMappings), 6u);
  EXPECT_EQ(other.refused_by_whole(Kind::kMappings), 0u);
}

TEST(Accounts, SomeCanBeKeptFromSome) {
  Accounts accounts;
  accounts.set_limit(Kind::kMappings, 3);
  const Charge taken = accounts.take(Kind::kMappings, 1, 2);
  EXPECT_TRUE(taken);
  EXPECT_FALSE(accounts.take(Kind::kMappings, 1, 2));
  EXPECT_FALSE(accounts.take(Kind::kMappings, 0, 4));
  EXPECT_TRUE(accounts.take(Kind::kMappings, 2));
}

}  // namespace
}  // namespace softhca::configuration
