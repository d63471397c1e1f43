// SPDX-License-Identifier: Apache-2.0

#include "daemon/frontend/unix/server/tenant_loops.hpp"

#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <list>
#include <string>

#include "tests/unit/device/session/client.hpp"

namespace softhca::control {
namespace {

/// Each descriptor is ready all the time. `turns` records the order in which the loops serve them.
class TenantLoopsTest : public testing::Test {
 protected:
  struct Busy {
    UniqueFd fd{::eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK)};
    Watch watch;
  };

  TenantLoopsTest() { EXPECT_TRUE(loop.open()); }
  Busy& add(std::size_t tenant, char name) {
    Busy& busy = all.emplace_back();
    busy.watch.ready = [this, name] { turns += name; };
    EXPECT_TRUE(loops.watch(*daemon.adapter.tenants[tenant], busy.fd.get(), busy.watch));
    return busy;
  }
  void step(int count) {
    turns.clear();
    for (int i = 0; i < count; ++i) EXPECT_TRUE(loop.step(0));
  }
  auto count(char name) const { return std::count(turns.begin(), turns.end(), name); }

  Daemon daemon;
  EventLoop loop;
  TenantLoops loops{loop};
  std::list<Busy> all;
  std::string turns;
};

TEST_F(TenantLoopsTest, OneDescriptorOfATenantHasAsManyTurnsAsManyOfAnother) {
  for (int i = 0; i < 100; ++i) add(0, 'a');
  add(1, 'b');
  step(40);
  EXPECT_EQ(count('a'), 20) << turns;
  EXPECT_EQ(count('b'), 20) << turns;
}

TEST_F(TenantLoopsTest, WhoComesWaitsForOneTurnOfEachOther) {
  for (int i = 0; i < 100; ++i) add(0, 'a');
  step(10);
  add(1, 'b');
  step(2);
  EXPECT_EQ(count('b'), 1) << turns;
}

TEST_F(TenantLoopsTest, ATenantsDescriptorsTakeTurns) {
  for (const char name : {'a', 'b', 'c', 'd'}) add(0, name);
  step(40);
  for (const char name : {'a', 'b', 'c', 'd'}) EXPECT_EQ(count(name), 10) << turns;
}

TEST_F(TenantLoopsTest, DescriptorsAreSwitchedOffAndOn) {
  Busy& one = add(0, 'a');
  add(1, 'b');
  const engine::Tenant& tenant = *daemon.adapter.tenants[0];
  ASSERT_TRUE(loops.arm(tenant, one.fd.get(), one.watch, Interest::kNothing));
  step(4);
  EXPECT_EQ(turns, "bbbb");
  ASSERT_TRUE(loops.arm(tenant, one.fd.get(), one.watch, Interest::kWritable));
  step(4);
  EXPECT_EQ(count('a'), 2) << turns;
  loops.unwatch(tenant, one.fd.get());
  step(4);
  EXPECT_EQ(turns, "bbbb");
  EXPECT_FALSE(loops.arm(tenant, one.fd.get(), one.watch, Interest::kReadable));
}

TEST_F(TenantLoopsTest, WorkOfATenant_TakesTurnsWithItsDescriptorsAndOtherTenants) {
  add(0, 'a');
  add(1, 'b');
  const engine::Tenant& tenant = *daemon.adapter.tenants[0];
  int left = 10;
  for (const char name : {'x', 'y'})
    loops.add_work(tenant, [this, name, &left] {
      turns += name;
      return --left > 1;
    });
  step(40);
  EXPECT_EQ(count('b'), 20) << turns;
  EXPECT_EQ(count('x'), 5) << turns;
  EXPECT_EQ(count('y'), 5) << turns;
  EXPECT_EQ(count('a'), 10) << turns;
  step(10);
  EXPECT_EQ(count('a'), 5) << "it is over: " << turns;
}

TEST_F(TenantLoopsTest, WorkThatIsOver_LeavesRoomForMore) {
  add(0, 'a');
  for (int round = 0; round < 3; ++round) {
    loops.add_work(*daemon.adapter.tenants[0], [this] {
      turns += 'x';
      return false;
    });
    step(4);
    EXPECT_EQ(count('x'), 1) << turns;
  }
}

}  // namespace
}  // namespace softhca::control
