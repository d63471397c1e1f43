// SPDX-License-Identifier: Apache-2.0

// Two levels of allocation: tenants, and levels that divide a tenant's PCBs (mechanisms A3, A4,
// A8).
#include <gtest/gtest.h>

#include <cerrno>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "daemon/qos/collect/pcb_pool.hpp"

namespace softhca::collect {
namespace {

QosClassId tenant(PcbPool& pool, std::uint32_t guaranteed, bool may_share = true) {
  return *pool.add_group({TenantId(0), guaranteed, may_share});
}
QosClassId level(PcbPool& pool, QosClassId parent, std::uint32_t guaranteed,
                 bool is_default = false, bool may_share = true) {
  return *pool.add_group({TenantId(0), guaranteed, may_share, parent, is_default});
}
std::vector<PcbId> take(PcbPool& pool, QosClassId group, std::size_t most = 1000) {
  std::vector<PcbId> taken;
  while (taken.size() < most) {
    const auto pcb = pool.allocate(group);
    if (!pcb) break;
    taken.push_back(*pcb);
  }
  return taken;
}
std::uint32_t own(const PcbPool& pool, QosClassId group) {
  return pool.group(group).pcbs.guaranteed.value();
}

TEST(PcbLevels, OwnThenTheTenantsThenTheAdapters) {
  PcbPool pool({.pcbs = 20, .dedicated = 0, .max_groups = 8});
  const QosClassId weather = tenant(pool, 10);
  const QosClassId alerts = level(pool, weather, 4);
  const QosClassId other = level(pool, weather, 3);
  const QosClassId ocean = tenant(pool, 5);
  EXPECT_EQ(pool.guaranteed(weather), 10u);
  EXPECT_EQ(take(pool, other).size(), 3u + 3u + 5u);
  EXPECT_EQ(pool.group(weather).pcbs.own_in_use(), 3u);
  EXPECT_EQ(pool.quota().shared_in_use(), 5u);
  EXPECT_EQ(pool.group(weather).all_in_use.value(), 11u);
  EXPECT_EQ(take(pool, ocean).size(), 5u);
  EXPECT_EQ(take(pool, alerts).size(), 4u);
  EXPECT_EQ(pool.group(weather).all_high_water.value(), 15u);
}

TEST(PcbLevels, APcbIsPassedOnToALevelThatMayHaveIt) {
  PcbPool pool({.pcbs = 4, .dedicated = 0, .max_groups = 8});
  const QosClassId weather = tenant(pool, 3);
  const QosClassId alerts = level(pool, weather, 1, false, false);
  const QosClassId other = level(pool, weather, 0);
  const std::vector<PcbId> taken = take(pool, other);
  ASSERT_EQ(taken.size(), 3u) << "two of what the levels share, and the adapter's";
  ASSERT_TRUE(pool.pass_on(taken[0], alerts));
  EXPECT_EQ(pool.group(alerts).pcbs.in_use.value(), 1u);
  EXPECT_EQ(pool.group(other).pcbs.in_use.value(), 2u);
  EXPECT_EQ(pool.group(weather).all_in_use.value(), 3u);
  EXPECT_EQ(pool.state(taken[0]).group, alerts);
  EXPECT_FALSE(pool.pass_on(taken[1], alerts)) << "it has one and may have no more";
  EXPECT_EQ(pool.group(alerts).refused.value(), 1u);
  EXPECT_EQ(pool.state(taken[1]).group, other);
  EXPECT_EQ(take(pool, other).size(), 1u) << "what the first had is free";
  for (const PcbId pcb : taken) pool.free(pcb);
  EXPECT_EQ(pool.group(alerts).pcbs.in_use.value(), 0u);
}

TEST(PcbLevels, CapsAtBothLevels) {
  PcbPool pool({.pcbs = 20, .dedicated = 0, .max_groups = 8});
  const QosClassId capped = tenant(pool, 10, false);
  const QosClassId inner = level(pool, capped, 2, false, false);
  const QosClassId outer = level(pool, capped, 3);
  EXPECT_EQ(take(pool, inner).size(), 2u);
  EXPECT_EQ(take(pool, outer).size(), 8u);
  ASSERT_TRUE(pool.set_may_share(capped, true));
  EXPECT_EQ(take(pool, outer).size(), 10u);
  EXPECT_EQ(take(pool, inner).size(), 0u);
}

TEST(PcbLevels, RefusesMoreThanTheTenantHasUndivided) {
  PcbPool pool({.pcbs = 20, .dedicated = 0, .max_groups = 3});
  const QosClassId weather = tenant(pool, 10);
  const QosClassId alerts = level(pool, weather, 8);
  const auto refused = pool.add_group({TenantId(0), 3, true, weather});
  EXPECT_EQ(refused.error().code, ENOSPC);
  EXPECT_NE(
      refused.error().message.find("asked for 3 more, 2 of 10 of the tenant belong to no level"),
      std::string::npos)
      << refused.error().message;
  EXPECT_EQ(pool.set_guarantee(alerts, 11).error().code, ENOSPC);
  EXPECT_EQ(own(pool, alerts), 8u);
  EXPECT_EQ(pool.add_group({TenantId(0), 0, true, alerts}).error().code, EINVAL);
  EXPECT_EQ(pool.add_group({TenantId(0), 0, true, QosClassId(2)}).error().code, EINVAL);
  EXPECT_EQ(pool.set_guarantee(weather, 21).error().code, ENOSPC);
  EXPECT_EQ(pool.set_default(weather).error().code, EINVAL);
  EXPECT_EQ(pool.guaranteed(weather), 10u);
}

TEST(PcbLevels, ATenantsTotalGrowsInItsSharedPartAndShrinksInOrder) {
  PcbPool pool({.pcbs = 60, .dedicated = 0, .max_groups = 8});
  const QosClassId weather = tenant(pool, 20);
  const QosClassId alerts = level(pool, weather, 8);
  const QosClassId other = level(pool, weather, 4, true);
  const QosClassId bulk = level(pool, weather, 4);
  ASSERT_TRUE(pool.set_guarantee(weather, 24));
  EXPECT_EQ(own(pool, weather), 8u);
  ASSERT_TRUE(pool.set_guarantee(weather, 17));
  EXPECT_EQ(own(pool, weather), 1u);
  ASSERT_TRUE(pool.set_guarantee(weather, 13));
  EXPECT_EQ(own(pool, weather), 0u);
  EXPECT_EQ(own(pool, other), 1u);
  ASSERT_TRUE(pool.set_default(bulk));
  ASSERT_TRUE(pool.set_guarantee(weather, 3));
  EXPECT_EQ(own(pool, bulk), 0u);
  EXPECT_EQ(own(pool, alerts) + own(pool, other), 3u);
  EXPECT_EQ(own(pool, alerts), 2u);
  EXPECT_EQ(pool.quota().unallocated(), 57u);
}

TEST(PcbLevels, ShrinkingBelowUseDrains) {
  PcbPool pool({.pcbs = 12, .dedicated = 0, .max_groups = 8});
  const QosClassId weather = tenant(pool, 10, false);
  const QosClassId alerts = level(pool, weather, 6, false, false);
  std::vector<PcbId> held = take(pool, alerts);
  ASSERT_EQ(held.size(), 6u);
  ASSERT_TRUE(pool.set_guarantee(alerts, 2));
  EXPECT_EQ(pool.draining(alerts), 4u);
  EXPECT_EQ(pool.draining(weather), 0u);
  ASSERT_TRUE(pool.set_guarantee(weather, 4));
  EXPECT_EQ(pool.draining(weather), 2u);
  // What drains can be promised to others at once; they get it as it comes back.
  const QosClassId ocean = tenant(pool, 8);
  EXPECT_EQ(take(pool, ocean).size(), 6u);
  EXPECT_FALSE(pool.allocate(alerts));
  for (const std::uint32_t left : {1u, 0u}) {
    pool.free(held.back());
    held.pop_back();
    EXPECT_EQ(pool.draining(weather), left);
    EXPECT_FALSE(pool.allocate(alerts));
    EXPECT_TRUE(pool.allocate(ocean));
  }
  EXPECT_EQ(pool.quota().overdrawn(), 0u);
  EXPECT_EQ(pool.draining(alerts), 2u);
}

TEST(PcbLevels, ALevelLeavesWhenItHoldsNothing) {
  PcbPool pool({.pcbs = 8, .dedicated = 4, .max_groups = 3});
  const QosClassId weather = tenant(pool, 6);
  EXPECT_EQ(pool.dedicated_limit(weather), 4u);
  const QosClassId alerts = level(pool, weather, 4);
  EXPECT_EQ(pool.dedicated_limit(weather), 1u);
  EXPECT_EQ(pool.dedicated_limit(alerts), 4u);
  const QosClassId other = level(pool, weather, 0);
  EXPECT_EQ(pool.dedicated_limit(alerts), 3u);
  EXPECT_EQ(pool.dedicated_limit(other), 1u);
  const PcbId pcb = *pool.allocate(alerts);
  EXPECT_EQ(pool.remove_group(alerts).error().code, EBUSY);
  EXPECT_EQ(pool.remove_group(weather).error().code, EBUSY);
  ASSERT_TRUE(pool.set_guarantee(alerts, 0));
  pool.free(pcb);
  ASSERT_TRUE(pool.remove_group(alerts));
  EXPECT_EQ(own(pool, weather), 6u);
  ASSERT_TRUE(pool.remove_group(other));
  ASSERT_TRUE(pool.remove_group(weather));
  EXPECT_EQ(pool.quota().unallocated(), 8u);
}

// Adds, removes and changes groups while PCBs are allocated and freed. The model records the holder
// of each PCB and counts the rest anew.
class Churn {
 public:
  explicit Churn(unsigned seed)
      : random_(seed), total_(4 + random_() % 40), pool_(config(total_)) {}

  void run(int steps) {
    while (steps-- > 0 && !testing::Test::HasFatalFailure()) {
      switch (random_() % 12) {
        case 0:
          add();
          break;
        case 1:
          change();
          break;
        case 2:
          remove();
          break;
        default:
          random_() % 5 < 3 ? allocate() : give_back();
      }
      check();
    }
  }

 private:
  static constexpr std::uint16_t kGroups = 9;
  struct Held {
    QosClassId parent;
    std::uint32_t guaranteed = 0;  // of a tenant: what its levels share
    bool may_share = true;
    std::vector<PcbId> pcbs;
  };

  static PcbPoolConfig config(std::uint32_t total) {
    return {.pcbs = total, .dedicated = 0, .max_groups = kGroups};
  }
  bool is_tenant(QosClassId id) const { return model_.at(id).parent == kNoQosClass; }
  std::optional<QosClassId> any() {
    if (model_.empty()) return std::nullopt;
    return std::next(model_.begin(), static_cast<long>(random_() % model_.size()))->first;
  }
  std::uint32_t unallocated() const {
    std::uint32_t sum = 0;
    for (const auto& [id, held] : model_) sum += held.guaranteed;
    return total_ - sum;
  }
  std::uint32_t drawn(QosClassId tenant) const {
    std::uint32_t sum = static_cast<std::uint32_t>(model_.at(tenant).pcbs.size());
    for (const auto& [id, held] : model_)
      if (held.parent == tenant && held.pcbs.size() > held.guaranteed)
        sum += static_cast<std::uint32_t>(held.pcbs.size()) - held.guaranteed;
    return sum;
  }
  std::uint32_t shared_used() const {
    std::uint32_t sum = 0;
    for (const auto& [id, held] : model_)
      if (is_tenant(id)) sum += std::max(drawn(id), held.guaranteed) - held.guaranteed;
    return sum;
  }
  bool can_allocate(QosClassId id) const {
    if (in_use_.size() == total_) return false;
    const Held& held = model_.at(id);
    QosClassId tenant = id;
    if (!is_tenant(id)) {
      if (held.pcbs.size() < held.guaranteed) return true;
      if (!held.may_share) return false;
      tenant = held.parent;
    }
    if (drawn(tenant) < model_.at(tenant).guaranteed) return true;
    return model_.at(tenant).may_share && shared_used() < unallocated();
  }

  void add() {
    const auto above = any();
    Held held{.parent = above && is_tenant(*above) ? *above : kNoQosClass,
              .guaranteed = static_cast<std::uint32_t>(random_() % 8),
              .may_share = random_() % 3 != 0,
              .pcbs = {}};
    const std::uint32_t left =
        held.parent == kNoQosClass ? unallocated() : model_.at(held.parent).guaranteed;
    const bool fits = model_.size() < kGroups && held.guaranteed <= left;
    const auto added = pool_.add_group({TenantId(0), held.guaranteed, held.may_share, held.parent});
    ASSERT_EQ(static_cast<bool>(added), fits);
    if (!fits) return;
    ASSERT_FALSE(model_.contains(*added));
    if (held.parent != kNoQosClass) model_.at(held.parent).guaranteed -= held.guaranteed;
    model_[*added] = held;
  }

  void change() {
    const auto id = any();
    if (!id) return;
    const std::uint32_t asked = random_() % 12;
    const std::uint32_t before = pool_.guaranteed(*id);
    const Held& held = model_.at(*id);
    const std::uint32_t left = is_tenant(*id) ? unallocated() : model_.at(held.parent).guaranteed;
    ASSERT_EQ(static_cast<bool>(pool_.set_guarantee(*id, asked)), asked <= before + left);
    if (asked > before + left) asked_in_vain(*id, before);
    // Which level gave what is tested with quota_division.hpp; this tests that the sums are right.
    if (asked <= before + left) {
      ASSERT_EQ(pool_.guaranteed(*id), asked);
    }
    for (auto& [other, group] : model_) group.guaranteed = own(pool_, other);
  }
  void asked_in_vain(QosClassId id, std::uint32_t before) {
    ASSERT_EQ(pool_.guaranteed(id), before);
  }

  void remove() {
    const auto id = any();
    if (!id) return;
    bool empty = model_.at(*id).pcbs.empty();
    for (const auto& [other, held] : model_) empty &= held.parent != *id;
    // What its levels hold from it they hold still when it is a tenant.
    ASSERT_EQ(static_cast<bool>(pool_.remove_group(*id)), empty);
    if (!empty) return;
    if (!is_tenant(*id)) model_.at(model_.at(*id).parent).guaranteed += model_.at(*id).guaranteed;
    model_.erase(*id);
  }

  void allocate() {
    const auto id = any();
    if (!id) return;
    const bool expected = can_allocate(*id);
    const auto pcb = pool_.allocate(*id);
    ASSERT_EQ(pcb.has_value(), expected);
    if (!pcb) return;
    ASSERT_TRUE(in_use_.insert(pcb->value).second) << "in two places";
    model_.at(*id).pcbs.push_back(*pcb);
  }

  void give_back() {
    const auto id = any();
    if (!id || model_.at(*id).pcbs.empty()) return;
    std::vector<PcbId>& pcbs = model_.at(*id).pcbs;
    std::swap(pcbs[random_() % pcbs.size()], pcbs.back());
    in_use_.erase(pcbs.back().value);
    pool_.free(pcbs.back());
    pcbs.pop_back();
  }

  void check() const {
    ASSERT_EQ(pool_.quota().free(), total_ - in_use_.size());
    ASSERT_EQ(pool_.quota().unallocated(), unallocated());
    ASSERT_EQ(pool_.quota().shared_in_use(), shared_used());
    for (const auto& [id, held] : model_) {
      const Quota& q = pool_.group(id).pcbs;
      ASSERT_EQ(q.guaranteed.value(), held.guaranteed);
      ASSERT_EQ(q.in_use.value(), is_tenant(id) ? drawn(id) : held.pcbs.size());
      ASSERT_LE(q.draining.value(), q.shared_in_use());
      if (pool_.quota().overdrawn() == 0 && q.below_guarantee()) {
        ASSERT_TRUE(pool_.quota().available(q));
      }
    }
  }

  std::mt19937 random_;
  std::uint32_t total_;
  PcbPool pool_;
  std::map<QosClassId, Held> model_;
  std::set<std::uint32_t> in_use_;
};

TEST(PcbLevels, AnySequenceAgreesWithANaiveModel) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    Churn churn(seed);
    churn.run(2000);
    ASSERT_FALSE(HasFatalFailure()) << "seed " << seed;
  }
}

TEST(PcbLevels, HardCapOfTenant_LevelsGuaranteedNone_PassItByOneAltogether) {
  PcbPool pool({.pcbs = 8, .dedicated = 8, .max_groups = 5});
  const QosClassId tenant = *pool.add_group({TenantId(0), 2, false});
  const QosClassId whole = *pool.add_group({TenantId(0), 2, true, tenant});
  const QosClassId first = *pool.add_group({TenantId(0), 0, true, tenant});
  const QosClassId other = *pool.add_group({TenantId(0), 0, true, tenant});
  ASSERT_TRUE(pool.allocate(whole));
  ASSERT_TRUE(pool.allocate(whole));
  EXPECT_FALSE(pool.allocate(first));
  const auto beyond = pool.allocate_dedicated(first);
  ASSERT_TRUE(beyond) << "or it would never get on";
  EXPECT_FALSE(pool.allocate_dedicated(other));
  EXPECT_FALSE(pool.allocate_dedicated(whole));
  pool.free(*beyond);
  EXPECT_TRUE(pool.allocate_dedicated(other)) << "they take turns";
  EXPECT_FALSE(pool.allocate_dedicated(first));
}

}  // namespace
}  // namespace softhca::collect
