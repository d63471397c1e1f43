// SPDX-License-Identifier: Apache-2.0

#include "daemon/qos/collect/function_table.hpp"

#include <gtest/gtest.h>

#include <cerrno>

namespace softhca::collect {
namespace {

TEST(FunctionTable, MapsEveryVcbOfARangeToItsFunction) {
  FunctionTable table(10);
  ASSERT_TRUE(table.assign(VcbId(2), 3, TenantId(7), QosClassId(1)));
  EXPECT_FALSE(table[VcbId(1)].assigned());
  for (std::uint32_t i = 2; i < 5; ++i) {
    EXPECT_EQ(table[VcbId(i)].tenant, TenantId(7));
    EXPECT_EQ(table[VcbId(i)].qos_class, QosClassId(1));
    EXPECT_EQ(table[VcbId(i)].pcb, kNoPcb);
  }
  EXPECT_FALSE(table[VcbId(5)].assigned());
  EXPECT_EQ(table.unassigned(), 7u);
}

TEST(FunctionTable, RefusesOverlapsAndNamesTheCulprit) {
  FunctionTable table(10);
  ASSERT_TRUE(table.assign(VcbId(4), 2, TenantId(3), QosClassId(0)));
  const Outcome refused = table.assign(VcbId(2), 3, TenantId(1), QosClassId(1));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EBUSY);
  EXPECT_NE(refused.error().message.find("VCB 4 belongs to tenant 3"), std::string::npos);
  EXPECT_FALSE(table[VcbId(2)].assigned());
  EXPECT_EQ(table.unassigned(), 8u);
}

TEST(FunctionTable, RefusesRangesThatLeaveTheTable) {
  FunctionTable table(10);
  EXPECT_TRUE(table.assign(VcbId(10), 0, TenantId(0), QosClassId(0)));
  EXPECT_EQ(table.assign(VcbId(9), 2, TenantId(0), QosClassId(0)).error().code, EINVAL);
  EXPECT_EQ(table.assign(VcbId(11), 0, TenantId(0), QosClassId(0)).error().code, EINVAL);
  EXPECT_EQ(table.assign(VcbId(1), 0xffffffff, TenantId(0), QosClassId(0)).error().code, EINVAL);
  EXPECT_EQ(table.release(VcbId(9), 2).error().code, EINVAL);
}

TEST(FunctionTable, ReleasesUnlessBound) {
  FunctionTable table(4);
  ASSERT_TRUE(table.assign(VcbId(0), 4, TenantId(0), QosClassId(0)));
  table[VcbId(3)].pcb = PcbId(5);
  EXPECT_EQ(table.release(VcbId(2), 2).error().code, EBUSY);
  EXPECT_TRUE(table[VcbId(2)].assigned());
  table[VcbId(3)].pcb = kNoPcb;
  EXPECT_TRUE(table.release(VcbId(2), 2));
  EXPECT_TRUE(table.release(VcbId(2), 2));
  EXPECT_EQ(table.unassigned(), 2u);
}

TEST(FunctionTable, FindsTheFirstRunThatIsLongEnough) {
  FunctionTable table(10);
  ASSERT_TRUE(table.assign(VcbId(2), 1, TenantId(0), QosClassId(0)));
  ASSERT_TRUE(table.assign(VcbId(6), 1, TenantId(0), QosClassId(0)));
  EXPECT_EQ(table.find_unassigned(2), VcbId(0));
  EXPECT_EQ(table.find_unassigned(3), VcbId(3));
  EXPECT_EQ(table.find_unassigned(4), std::nullopt);
}

}  // namespace
}  // namespace softhca::collect
