// SPDX-License-Identifier: Apache-2.0

// Which TVLs queue pairs take, and what these weigh, without an engine.
#include "daemon/engine/commands/tvl_assignment.hpp"

#include "tests/unit/engine/fixture/parts.hpp"

namespace softhca::engine {
namespace {

class Assignment : public Parts {
 protected:
  Assignment() {
    cpu.order().join(other.qos_class, other.id);
    add_tvl(schedule::TvlPurpose::kDedicated);
    add_tvl(other, schedule::TvlPurpose::kDedicated);
  }
  Tenant& other_tenant() {
    other.id = TenantId(1);
    other.qos_class = *pcbs.add_group({.tenant = other.id});
    return other;
  }
  TvlId add(const Tenant& owner, std::uint32_t weight) {
    return *assignment.add({.tenant = owner.id,
                            .qos_class = owner.qos_class,
                            .weight = weight,
                            .max_kick_list = 8,
                            .execution_guaranteed = 1,
                            .completion_guaranteed = 1});
  }
  int turns_of_other() { return turns_of_second(mine, theirs); }

  TvlAssignment assignment{core, intake, kTenants, kTenants};
  Tenant other;
  PairOf mine{tenant, 10}, theirs{other_tenant(), 11};
};

TEST_F(Assignment, ATenantWeighsAsTheHeaviestOfItsTvlsInUse) {
  add(other, 3);
  EXPECT_NEAR(turns_of_other(), 200, 10) << "no queue pair is on it";
  assignment.join(theirs);
  EXPECT_NEAR(turns_of_other(), 300, 10);
  assignment.leave(theirs);
  EXPECT_NEAR(turns_of_other(), 200, 10);
}

TEST_F(Assignment, TvlsOfAClassDivideItsTimeByTheirWeights) {
  add(other, 3);
  const TvlId light = add(other, 1);
  PairOf first{other, 12}, second{other, 13}, more[] = {{other, 14}, {other, 15}};
  assignment.join(first);
  for (PairOf& one : more) assignment.join(one);
  assignment.join(second);
  ASSERT_EQ(second.sq.tvl, light);
  EXPECT_NEAR(turns_of_second(first, second), 100, 5);
  ASSERT_TRUE(assignment.change(light, {.tenant = other.id,
                                        .qos_class = other.qos_class,
                                        .weight = 3,
                                        .max_kick_list = 8,
                                        .execution_guaranteed = 1,
                                        .completion_guaranteed = 1}));
  EXPECT_NEAR(turns_of_second(first, second), 200, 5);
  for (PairOf& one : more) assignment.leave(one);
  assignment.leave(first);
  assignment.leave(second);
}

TEST_F(Assignment, AHeavyTvlTakesMoreQueuePairs) {
  const TvlId heavy = add(other, 3);
  const TvlId light = add(other, 1);
  QueuePair pairs[8] = {};
  for (QueuePair& pair : pairs) {
    pair.tenant = &other;
    pair.qos_class = other.qos_class;
    assignment.join(pair);
  }
  EXPECT_EQ(tvls[heavy].queue_pairs, 6u);
  EXPECT_EQ(tvls[light].queue_pairs, 2u);
  for (QueuePair& pair : pairs) assignment.leave(pair);
}

TEST_F(Assignment, ANewQueuePairTakesTheTvlThatHasTheFewest) {
  const TvlId first = add(other, 1), second = add(other, 1);
  QueuePair pairs[3] = {};
  for (QueuePair& pair : pairs) {
    pair.tenant = &other;
    pair.qos_class = other.qos_class;
    assignment.join(pair);
  }
  EXPECT_EQ(pairs[0].sq.tvl, first);
  EXPECT_EQ(pairs[1].sq.tvl, second);
  assignment.leave(pairs[1]);
  assignment.leave(pairs[2]);
  assignment.join(pairs[2]);
  EXPECT_EQ(pairs[2].sq.tvl, second);
}

}  // namespace
}  // namespace softhca::engine
