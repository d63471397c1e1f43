// SPDX-License-Identifier: Apache-2.0

#include "daemon/qos/schedule/tvl_table_spread.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <map>

namespace softhca::schedule {
namespace {

TvlTerms lane(std::uint16_t tenant, std::uint32_t execution, std::uint32_t completion) {
  return {.tenant = TenantId(tenant),
          .qos_class = QosClassId(tenant),
          .max_kick_list = 8,
          .execution_guaranteed = execution,
          .completion_guaranteed = completion};
}

TvlTable::Config config() {
  return {.max_tvls = 4, .execution_credits = 8, .completion_credits = 16};
}

TEST(TvlTable, RefusesCreditsItDoesNotHaveAndChangesNothing) {
  TvlTable table(config());
  ASSERT_TRUE(table.add(lane(0, 6, 10)));
  const auto execution = table.add(lane(1, 3, 0));
  EXPECT_EQ(execution.error().code, ENOSPC);
  EXPECT_NE(execution.error().message.find("3 execution credits, 2 of 8"), std::string::npos)
      << execution.error().message;
  const auto completion = table.add(lane(1, 2, 7));
  EXPECT_NE(completion.error().message.find("7 completion credits, 6 of 16"), std::string::npos)
      << completion.error().message;
  EXPECT_EQ(table.execution_pool().unallocated(), 2u);
  EXPECT_EQ(*table.add(lane(1, 2, 6)), TvlId(1));
}

TEST(TvlTable, RefusesConfigurationsThatCannotWork) {
  TvlTable table(config());
  TvlTerms c = lane(0, 0, 0);
  c.weight = 0;
  EXPECT_EQ(table.add(c).error().code, EINVAL);
  c = lane(0, 0, 0);
  c.max_kick_list = 0;
  EXPECT_EQ(table.add(c).error().code, EINVAL);
  c = lane(0, 1, 0);
  c.may_share = false;
  EXPECT_EQ(table.add(c).error().code, EINVAL);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(table.add(lane(0, 0, 0)));
  EXPECT_EQ(table.add(lane(0, 0, 0)).error().code, ENOSPC);
}

TEST(TvlTable, SpreadsQueuePairsOverTheTenantsOwnLanes) {
  TvlTable table(config());
  const TvlId first = *table.add(lane(0, 0, 0));
  TvlTerms dedicated = lane(0, 0, 0);
  dedicated.purpose = TvlPurpose::kDedicated;
  const TvlId apart = *table.add(dedicated);
  const TvlId second = *table.add(lane(0, 0, 0));

  std::map<TvlId, int> queue_pairs;
  for (int i = 0; i < 100; ++i) {
    const TvlId tvl = *table.pick_tvl(QosClassId(0));
    EXPECT_EQ(table.pick_tvl(QosClassId(0)), tvl);
    table.attach(tvl);
    ++queue_pairs[tvl];
  }
  EXPECT_EQ(queue_pairs, (std::map<TvlId, int>{{first, 50}, {second, 50}}));
  EXPECT_EQ(table.pick_tvl(QosClassId(0), TvlPurpose::kDedicated), apart);
  EXPECT_EQ(table.pick_tvl(QosClassId(1)), std::nullopt);
}

TEST(TvlTable, AClassUsesItsOwnTvlsAlone) {
  TvlTable table(config());
  TvlTerms of_level = lane(0, 0, 0);
  of_level.qos_class = QosClassId(3);
  const TvlId undivided = *table.add(lane(0, 0, 0));
  const TvlId own = *table.add(of_level);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(table.pick_tvl(QosClassId(3)), own);
    EXPECT_EQ(table.pick_tvl(QosClassId(0)), undivided);
    table.attach(own);
  }
  EXPECT_EQ(table.pick_tvl(QosClassId(4)), std::nullopt);
}

TEST(TvlTable, ChangesAllOrNothing) {
  TvlTable table(config());
  const TvlId id = *table.add(lane(0, 4, 4));
  ASSERT_TRUE(table.add(lane(1, 2, 2)));
  TvlTerms wanted = lane(0, 6, 15);
  EXPECT_EQ(table.change(id, wanted).error().code, ENOSPC);
  EXPECT_EQ(table[id].execution.guaranteed.value(), 4u);
  wanted = lane(0, 6, 14);
  wanted.weight = 5;
  wanted.max_kick_list = 2;
  wanted.may_share = false;
  ASSERT_TRUE(table.change(id, wanted));
  EXPECT_EQ(table[id].execution.guaranteed.value(), 6u);
  EXPECT_EQ(table[id].weight, 5u);
  EXPECT_EQ(table[id].max_kick_list, 2u);
  EXPECT_FALSE(table[id].completion.may_share);
  EXPECT_EQ(table.completion_pool().unallocated(), 0u);
  wanted.weight = 0;
  EXPECT_EQ(table.change(id, wanted).error().code, EINVAL);
  EXPECT_EQ(table.change(TvlId(3), lane(0, 0, 0)).error().code, ENOENT);
}

TEST(TvlTable, LeavesOnceNobodyIsOnIt) {
  TvlTable table(config());
  const TvlId id = *table.add(lane(0, 8, 16));
  const TvlId other = *table.add(lane(0, 0, 0));
  table.attach(id);
  ASSERT_TRUE(table.execution_pool().take(table[id].execution));
  ASSERT_TRUE(table.close(id));
  EXPECT_EQ(table.pick_tvl(QosClassId(0)), other);
  EXPECT_EQ(table.execution_pool().unallocated(), 8u);
  EXPECT_EQ(table[id].execution.draining.value(), 1u);
  EXPECT_EQ(table.remove(id).error().code, EBUSY);
  table.execution_pool().put(table[id].execution);
  EXPECT_EQ(table.remove(id).error().code, EBUSY);
  table.detach(id);
  ASSERT_TRUE(table.remove(id));
  EXPECT_EQ(table.remove(id).error().code, ENOENT);
  EXPECT_EQ(*table.add(lane(1, 1, 1)), id);
}

TEST(TvlTable, DedicatedLanesBringTheirOwnCredits) {
  TvlTable table(config());
  TvlTerms dedicated = lane(0, 5, 7);
  dedicated.purpose = TvlPurpose::kDedicated;
  const TvlId id = *table.add(dedicated);
  EXPECT_EQ(table.execution_pool().total(), 13u);
  EXPECT_EQ(table.execution_pool().unallocated(), 8u);
  ASSERT_TRUE(table.add(lane(0, 8, 16)));
  ASSERT_TRUE(table.remove(id));
  EXPECT_EQ(table.execution_pool().total(), 8u);
  EXPECT_EQ(table.completion_pool().total(), 16u);
  dedicated.weight = 0;
  EXPECT_FALSE(table.add(dedicated));
  EXPECT_EQ(table.completion_pool().total(), 16u);
}

/// The size of the pool follows the change. The guarantees of other TVLs do not change.
TEST(TvlTable, DedicatedCreditsChangeWhileTheyAreUsed) {
  TvlTable table(config());
  TvlTerms dedicated = lane(0, 5, 7);
  dedicated.purpose = TvlPurpose::kDedicated;
  const TvlId id = *table.add(dedicated);
  const TvlId other = *table.add(lane(1, 8, 16));
  dedicated.execution_guaranteed = 6;
  dedicated.completion_guaranteed = 2;
  ASSERT_TRUE(table.change(id, dedicated));
  EXPECT_EQ(table.execution_pool().total(), 14u);
  EXPECT_EQ(table.completion_pool().total(), 18u);
  EXPECT_EQ(table.execution_pool().unallocated(), 0u);
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(table.execution_pool().take(table[id].execution));
  dedicated.execution_guaranteed = 1;
  ASSERT_TRUE(table.change(id, dedicated));
  EXPECT_EQ(table.execution_pool().total(), 9u);
  EXPECT_EQ(table[id].execution.draining.value(), 5u);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(table.execution_pool().take(table[other].execution));
  for (int i = 0; i < 6; ++i) table.execution_pool().put(table[id].execution);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(table.execution_pool().take(table[other].execution));
  dedicated.execution_guaranteed = 4;
  ASSERT_TRUE(table.change(id, dedicated));
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(table.execution_pool().take(table[id].execution));
  dedicated.execution_guaranteed = 2;
  EXPECT_EQ(table.change(id, dedicated).error().code, EBUSY) << "none is free to go";
  EXPECT_EQ(table[id].execution.guaranteed.value(), 4u);
  EXPECT_EQ(table.execution_pool().total(), 12u);
}

}  // namespace
}  // namespace softhca::schedule
