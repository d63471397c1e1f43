// SPDX-License-Identifier: Apache-2.0

#include "daemon/qos/collect/pcb_pool.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <random>
#include <set>
#include <vector>

namespace softhca::collect {
namespace {

QosClassId add(PcbPool& pool, std::uint16_t tenant, std::uint32_t guaranteed,
               bool may_share = true) {
  return *pool.add_group({TenantId(tenant), guaranteed, may_share});
}

std::uint32_t take_all(PcbPool& pool, QosClassId group) {
  std::uint32_t taken = 0;
  while (pool.allocate(group)) ++taken;
  return taken;
}

TEST(PcbPool, OwnThenSharedThenNothing) {
  PcbPool pool({.pcbs = 10, .dedicated = 0, .max_groups = 2});
  const QosClassId a = add(pool, 0, 3);
  const QosClassId b = add(pool, 1, 4);
  EXPECT_EQ(take_all(pool, a), 6u);
  EXPECT_EQ(pool.group(a).pcbs.own_in_use(), 3u);
  EXPECT_EQ(pool.group(a).pcbs.shared_in_use(), 3u);
  EXPECT_EQ(pool.group(a).refused.value(), 1u);
  // The flood of one tenant leaves the other its guarantee, and no more.
  EXPECT_EQ(take_all(pool, b), 4u);
  EXPECT_EQ(pool.group(b).pcbs.high_water.value(), 4u);
}

TEST(PcbPool, WithoutAccessToTheSharedRestTheGuaranteeIsTheCap) {
  PcbPool pool({.pcbs = 10, .dedicated = 0, .max_groups = 1});
  EXPECT_EQ(take_all(pool, add(pool, 0, 3, false)), 3u);
}

TEST(PcbPool, ASharedPcbGivenBackIsAtOnceForOthers) {
  PcbPool pool({.pcbs = 3, .dedicated = 0, .max_groups = 2});
  const QosClassId a = add(pool, 0, 1);
  const QosClassId b = add(pool, 1, 1);
  const PcbId first = *pool.allocate(a);
  ASSERT_TRUE(pool.allocate(a));
  ASSERT_TRUE(pool.allocate(b));
  ASSERT_FALSE(pool.allocate(b));
  pool.free(first);
  EXPECT_TRUE(pool.allocate(b));
  EXPECT_FALSE(pool.allocate(a));
}

TEST(PcbPool, ANewUseStartsWithAnEmptyScoreboard) {
  PcbPool pool({.pcbs = 1, .dedicated = 0, .max_groups = 1});
  const QosClassId a = add(pool, 5, 1);
  const PcbId pcb = *pool.allocate(a);
  pool.state(pcb).scoreboard.add(Scoreboard::kAll);
  pool.free(pcb);
  EXPECT_EQ(pool.state(pcb).use, PcbUse::kFree);
  ASSERT_EQ(pool.allocate(a), pcb);
  EXPECT_EQ(pool.state(pcb).scoreboard.bits(), 0u);
  EXPECT_EQ(pool.state(pcb).group, a);
  EXPECT_EQ(pool.state(pcb).use, PcbUse::kPool);
  EXPECT_EQ(pool.state(pcb).vcb, kNoVcb);
}

TEST(PcbPool, RefusesOverCommitmentAndSaysWhy) {
  PcbPool pool({.pcbs = 10, .dedicated = 0, .max_groups = 3});
  add(pool, 0, 7);
  const auto refused = pool.add_group({TenantId(1), 4, true});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ENOSPC);
  EXPECT_NE(refused.error().message.find("asked for 4 more, 3 of 10"), std::string::npos)
      << refused.error().message;
  add(pool, 1, 3);
  add(pool, 2, 0);
  EXPECT_NE(pool.add_group({TenantId(3), 0, true}).error().message.find("full"), std::string::npos);
}

TEST(PcbPool, RemovesAGroupOnceItHoldsNothing) {
  PcbPool pool({.pcbs = 4, .dedicated = 2, .max_groups = 1});
  const QosClassId a = add(pool, 0, 4);
  const PcbId pcb = *pool.allocate(a);
  EXPECT_EQ(pool.remove_group(a).error().code, EBUSY);
  pool.free(pcb);
  const PcbId dedicated = *pool.allocate_dedicated(a);
  EXPECT_EQ(pool.remove_group(a).error().code, EBUSY);
  pool.free(dedicated);
  EXPECT_TRUE(pool.remove_group(a));
  EXPECT_EQ(pool.remove_group(a).error().code, ENOENT);
  EXPECT_EQ(pool.remove_group(QosClassId(9)).error().code, ENOENT);
  EXPECT_EQ(take_all(pool, add(pool, 1, 4)), 4u);
}

TEST(PcbPool, ChangesAGuarantee) {
  PcbPool pool({.pcbs = 4, .dedicated = 0, .max_groups = 2});
  const QosClassId a = add(pool, 0, 1, false);
  EXPECT_TRUE(pool.set_guarantee(a, 4));
  EXPECT_EQ(take_all(pool, a), 4u);
  EXPECT_EQ(pool.set_guarantee(a, 5).error().code, ENOSPC);
  EXPECT_EQ(pool.set_guarantee(QosClassId(1), 1).error().code, ENOENT);
}

TEST(PcbPool, DedicatedPcbsAreSharedOutFairlyAndApartFromTheOthers) {
  PcbPool pool({.pcbs = 2, .dedicated = 7, .max_groups = 3});
  const QosClassId a = add(pool, 0, 0);
  EXPECT_EQ(pool.dedicated_limit(a), 7u);
  const QosClassId b = add(pool, 1, 0);
  const QosClassId c = add(pool, 2, 0);
  for (const QosClassId group : {a, b, c}) EXPECT_EQ(pool.dedicated_limit(group), 2u);
  EXPECT_EQ(take_all(pool, a), 2u);
  std::set<std::uint32_t> ids;
  for (const QosClassId group : {a, b, c}) {
    for (int i = 0; i < 2; ++i) {
      const auto pcb = pool.allocate_dedicated(group);
      ASSERT_TRUE(pcb);
      EXPECT_EQ(pool.state(*pcb).use, PcbUse::kDedicated);
      EXPECT_TRUE(ids.insert(pcb->value).second);
      EXPECT_GE(pcb->value, 2u);
    }
    EXPECT_FALSE(pool.allocate_dedicated(group));
    EXPECT_EQ(pool.group(group).dedicated_refused.value(), 1u);
  }
  pool.free(PcbId(*ids.begin()));
  EXPECT_TRUE(pool.allocate_dedicated(a));
}

TEST(PcbPool, DedicatedPcbsAreSharedOutByGuarantee) {
  PcbPool pool({.pcbs = 100, .dedicated = 20, .max_groups = 4});
  const QosClassId large = add(pool, 0, 60);
  const QosClassId small = add(pool, 1, 20);
  const QosClassId none = add(pool, 2, 0);
  EXPECT_EQ(pool.dedicated_limit(large), 13u) << "1 + 17 * 60 / 80";
  EXPECT_EQ(pool.dedicated_limit(small), 5u);
  EXPECT_EQ(pool.dedicated_limit(none), 1u);
  for (int i = 0; i < 13; ++i) EXPECT_TRUE(pool.allocate_dedicated(large));
  EXPECT_FALSE(pool.allocate_dedicated(large));
  EXPECT_TRUE(pool.allocate_dedicated(none));
  ASSERT_TRUE(pool.set_guarantee(large, 20));
  EXPECT_EQ(pool.dedicated_limit(large), 9u);
  EXPECT_EQ(pool.dedicated_limit(small), 9u);
  ASSERT_TRUE(pool.set_guarantee(none, 60));
  EXPECT_EQ(pool.dedicated_limit(none), 11u);
}

TEST(PcbPool, DedicatedPcbsAreNoWayRoundAHardCap) {
  PcbPool pool({.pcbs = 8, .dedicated = 6, .max_groups = 2});
  const QosClassId capped = *pool.add_group({TenantId(0), 2, false});
  const PcbId first = *pool.allocate(capped);
  ASSERT_TRUE(pool.allocate(capped));
  EXPECT_FALSE(pool.allocate_dedicated(capped));
  pool.free(first);
  ASSERT_TRUE(pool.allocate_dedicated(capped));
  EXPECT_FALSE(pool.allocate(capped));
  EXPECT_FALSE(pool.allocate_dedicated(capped));
  const QosClassId nothing = *pool.add_group({TenantId(1), 0, false});
  EXPECT_TRUE(pool.allocate_dedicated(nothing)) << "one, or it would never get on";
  EXPECT_FALSE(pool.allocate_dedicated(nothing));
}

TEST(PcbPool, DedicatedPcbsBecomeOrdinaryOnesAndBack) {
  PcbPool pool({.pcbs = 10, .dedicated = 4, .max_groups = 2});
  const QosClassId a = add(pool, 0, 6);
  const QosClassId b = add(pool, 1, 2);
  EXPECT_EQ(pool.set_dedicated(7).error().code, ENOSPC) << "more than the unallocated ones";
  EXPECT_EQ(pool.set_dedicated(1).error().code, ENOSPC) << "one for each";
  const auto before = pool.snapshot();
  ASSERT_TRUE(pool.set_dedicated(6));
  EXPECT_EQ(pool.quota().total(), 8u);
  EXPECT_EQ(pool.dedicated_limit(a), 4u);
  EXPECT_EQ(pool.dedicated_limit(b), 2u);
  pool.restore(before);
  EXPECT_EQ(pool.dedicated(), 4u);
  EXPECT_EQ(pool.quota().total(), 10u);
  EXPECT_EQ(pool.dedicated_limit(a), 2u);
  ASSERT_TRUE(pool.set_dedicated(2));
  EXPECT_EQ(take_all(pool, a), 10u);
  EXPECT_EQ(take_all(pool, b), 2u);
  EXPECT_EQ(pool.set_dedicated(4).error().code, EBUSY);
  std::vector<PcbId> dedicated;
  for (const QosClassId id : {a, b}) dedicated.push_back(*pool.allocate_dedicated(id));
  EXPECT_FALSE(pool.allocate_dedicated(a));
  for (const PcbId pcb : dedicated) pool.free(pcb);
  for (std::uint32_t i = 0; i < pool.size(); ++i)
    if (pool.state(PcbId(i)).use == PcbUse::kPool) pool.free(PcbId(i));
  ASSERT_TRUE(pool.set_dedicated(6));
  EXPECT_EQ(take_all(pool, a), 6u);
}

TEST(PcbPool, DedicatedPcbsThatAreTooManyBecomeOrdinaryAsTheyComeBack) {
  PcbPool pool({.pcbs = 10, .dedicated = 6, .max_groups = 2});
  const QosClassId a = add(pool, 0, 6);
  add(pool, 1, 2);
  std::vector<PcbId> taken;
  while (const auto pcb = pool.allocate_dedicated(a)) taken.push_back(*pcb);
  ASSERT_EQ(taken.size(), 4u);
  const auto before = pool.snapshot();
  ASSERT_TRUE(pool.set_dedicated(2));
  EXPECT_EQ(pool.dedicated(), 2u);
  EXPECT_EQ(pool.quota().total(), 12u) << "two are in use beyond";
  pool.restore(before);
  EXPECT_EQ(pool.quota().total(), 10u);
  ASSERT_TRUE(pool.set_dedicated(2));
  pool.free(taken.back());
  taken.pop_back();
  EXPECT_EQ(pool.quota().total(), 13u);
  ASSERT_TRUE(pool.set_dedicated(3)) << "the other stays";
  for (const PcbId pcb : taken) pool.free(pcb);
  EXPECT_EQ(pool.quota().total(), 13u);
  EXPECT_EQ(take_all(pool, a), 11u);
  EXPECT_TRUE(pool.allocate_dedicated(a));
}

TEST(PcbPool, EveryGroupGetsADedicatedPcbOrIsRefused) {
  PcbPool pool({.pcbs = 2, .dedicated = 1, .max_groups = 3});
  add(pool, 0, 0);
  EXPECT_EQ(pool.add_group({TenantId(1), 0, true}).error().code, ENOSPC);
}

// A group added after others drew more than the part now left to each.
TEST(PcbPool, ProgramsOfNoLevelHaveAPartOfTheDedicatedPcbsOfTheirOwn) {
  PcbPool pool({.pcbs = 8, .dedicated = 6, .max_groups = 4});
  const QosClassId tenant = *pool.add_group({.tenant = TenantId(0)});
  pool.set_undivided(tenant, true);
  EXPECT_EQ(pool.dedicated_limit(tenant), 6u);
  const QosClassId level = *pool.add_group({.tenant = TenantId(0), .parent = tenant});
  const QosClassId other = *pool.add_group({.tenant = TenantId(1)});
  for (const QosClassId group : {tenant, level, other}) {
    EXPECT_EQ(pool.dedicated_limit(group), 2u);
    EXPECT_TRUE(pool.allocate_dedicated(group));
    EXPECT_TRUE(pool.allocate_dedicated(group));
    EXPECT_FALSE(pool.allocate_dedicated(group));
  }
  EXPECT_TRUE(pool.add_group({.tenant = TenantId(2)}));
  pool.set_undivided(tenant, false);
  EXPECT_EQ(pool.dedicated_limit(tenant), 1u) << "beyond them, if it is free";
  EXPECT_EQ(pool.dedicated_limit(level), 2u) << "6 for 3";
}

TEST(PcbPool, ALateGroupWaitsForDedicatedPcbsToDrain) {
  PcbPool pool({.pcbs = 0, .dedicated = 2, .max_groups = 2});
  const QosClassId a = add(pool, 0, 0);
  const PcbId first = *pool.allocate_dedicated(a);
  ASSERT_TRUE(pool.allocate_dedicated(a));
  const QosClassId b = add(pool, 1, 0);
  EXPECT_FALSE(pool.allocate_dedicated(b));
  pool.free(first);
  EXPECT_FALSE(pool.allocate_dedicated(a));
  EXPECT_TRUE(pool.allocate_dedicated(b));
}

// Compares with a model that finds a PCB by counting. The verdicts must be the same, no PCB may be
// handed out twice, and a group below its guarantee must never be refused.
TEST(PcbPool, AgreesWithANaiveModel) {
  std::mt19937 random(6);
  for (int round = 0; round < 40; ++round) {
    const std::uint32_t total = 1 + random() % 200;
    const std::uint16_t groups = 1 + random() % 5;
    PcbPool pool({.pcbs = total, .dedicated = 10, .max_groups = groups});
    struct Held {
      std::uint32_t guaranteed;
      bool may_share;
      std::vector<PcbId> pcbs;
    };
    std::vector<Held> model;
    std::uint32_t left = total;
    for (std::uint16_t g = 0; g < groups; ++g) {
      const std::uint32_t guaranteed = random() % (left + 1);
      left -= guaranteed;
      model.push_back({guaranteed, random() % 2 != 0, {}});
      ASSERT_EQ(add(pool, g, guaranteed, model.back().may_share), QosClassId(g));
    }
    std::set<std::uint32_t> in_use;
    for (int step = 0; step < 3000; ++step) {
      const auto g = static_cast<std::uint16_t>(random() % groups);
      Held& held = model[g];
      if (random() % 5 < 3) {
        std::uint32_t shared = 0;
        for (const Held& h : model)
          shared += std::max<std::size_t>(h.pcbs.size(), h.guaranteed) - h.guaranteed;
        const bool expected =
            held.pcbs.size() < held.guaranteed || (held.may_share && shared < left);
        const auto pcb = pool.allocate(QosClassId(g));
        ASSERT_EQ(pcb.has_value(), expected);
        if (!pcb) continue;
        ASSERT_LT(pcb->value, total);
        ASSERT_TRUE(in_use.insert(pcb->value).second);
        held.pcbs.push_back(*pcb);
      } else if (!held.pcbs.empty()) {
        std::swap(held.pcbs[random() % held.pcbs.size()], held.pcbs.back());
        in_use.erase(held.pcbs.back().value);
        pool.free(held.pcbs.back());
        held.pcbs.pop_back();
      }
      ASSERT_EQ(pool.group(QosClassId(g)).pcbs.in_use.value(), held.pcbs.size());
    }
  }
}

}  // namespace
}  // namespace softhca::collect
