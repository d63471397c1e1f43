#include "daemon/schedule/tvl_table.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <map>

namespace softhca::schedule {
namespace {

TvlConfig lane(std::uint16_t tenant, std::uint32_t execution, std::uint32_t completion) {
  return {.tenant = TenantId(tenant),
          .max_kick_list = 8,
          .execution_guaranteed = execution,
          .completion_guaranteed = completion};
}

TvlTable::Config config() {
  return {.max_tvls = 4, .max_tenants = 2, .execution_credits = 8, .completion_credits = 16};
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
  EXPECT_EQ(table.size(), 1u);
  EXPECT_TRUE(table.add(lane(1, 2, 6)));
}

TEST(TvlTable, RefusesConfigurationsThatCannotWork) {
  TvlTable table(config());
  EXPECT_EQ(table.add(lane(2, 0, 0)).error().code, EINVAL);
  TvlConfig c = lane(0, 0, 0);
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
  TvlConfig dedicated = lane(0, 0, 0);
  dedicated.purpose = TvlPurpose::kDedicated;
  const TvlId apart = *table.add(dedicated);
  const TvlId second = *table.add(lane(0, 0, 0));

  std::map<TvlId, int> queue_pairs;
  for (std::uint32_t qpn = 100; qpn < 200; ++qpn) {
    const TvlId tvl = *table.pick_tvl(TenantId(0), Qpn(qpn));
    EXPECT_EQ(table.pick_tvl(TenantId(0), Qpn(qpn)), tvl);
    ++queue_pairs[tvl];
  }
  EXPECT_EQ(queue_pairs, (std::map<TvlId, int>{{first, 50}, {second, 50}}));
  EXPECT_EQ(table.pick_tvl(TenantId(0), Qpn(101), TvlPurpose::kDedicated), apart);
  EXPECT_EQ(table.pick_tvl(TenantId(1), Qpn(100)), std::nullopt);
}

}  // namespace
}  // namespace softhca::schedule
