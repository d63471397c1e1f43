// SPDX-License-Identifier: Apache-2.0

// What a peer hears of a reliable connection that is gone.
#include "tests/unit/engine/fixture/pair.hpp"

namespace softhca::engine {
namespace {

class TimeWaitTest : public ::testing::Test {
 protected:
  TimeWaitTest() : pair(Way::kWire) {
    pair.connect_pair();
    from = &a.make_buffer(3000);
    to = &b.make_buffer(3000);
    from->fill(1);
  }
  ~TimeWaitTest() { pair.expect_idle(); }

  /// What `b` sends is lost.
  void silence_b(bool silent) {
    static_cast<port::MemoryPort&>(*b.adapter.engine.ports()[0]->port).set_link(!silent);
  }
  /// A message arrives, its acknowledgement does not, and the receiver goes away.
  void send_and_lose_the_acknowledgement() {
    for (int i = 0; i < 3; ++i) b.post_receive(*pair.qb, {to->all()});
    a.post(*pair.qa, {.sge = {from->all()}});  // the addresses are known after this
    ASSERT_EQ(pair.wait_status(*pair.cb), Status::kSuccess);
    ASSERT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
    silence_b(true);
    a.post(*pair.qa, {.sge = {from->all()}});
    ASSERT_EQ(pair.wait_status(*pair.cb), Status::kSuccess);
    b.destroy(*pair.qb);
    EXPECT_FALSE(pair.ca->poll());
    silence_b(false);
  }

  Pair pair;
  Process& a = *pair.a;
  Process& b = *pair.b;
  Buffer* from;
  Buffer* to;
};

TEST_F(TimeWaitTest, WhatArrivedIsAcknowledgedAfterTheEnd) {
  send_and_lose_the_acknowledgement();
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
}

TEST_F(TimeWaitTest, WhatDidNotArriveIsNot) {
  send_and_lose_the_acknowledgement();
  ASSERT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
  a.post(*pair.qa, {.sge = {from->all()}});
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kRetryExceededError);
}

class TimeWaits : public ::testing::Test {
 protected:
  std::vector<TimeWait> memory = std::vector<TimeWait>(TimeWaitTable::kPlaces);
  TimeWaitTable table{memory};
};

TEST_F(TimeWaits, FindsTheNewestAndForgetsTheOldest) {
  const Time now{std::chrono::seconds(1)};
  const Time until = now + std::chrono::seconds(1);
  for (std::uint32_t i = 1; i <= TimeWaitTable::kPlaces + 1; ++i)
    table.add({.qpn = Qpn(i),
               .tenant = TenantId(static_cast<std::uint16_t>(i % 8)),
               .answer = {},
               .until = until});
  EXPECT_EQ(table.find(Qpn(1), now), nullptr);
  ASSERT_NE(table.find(Qpn(2), now), nullptr);
  EXPECT_EQ(table.find(Qpn(2), now)->qpn, Qpn(2));
  EXPECT_NE(table.find(Qpn(TimeWaitTable::kPlaces + 1), now), nullptr);
  EXPECT_EQ(table.find(Qpn(2), until), nullptr);
  EXPECT_EQ(table.find(Qpn(0), now), nullptr);
}

/// The next engine answers, too, and takes the places in the same order.
TEST_F(TimeWaits, TheNextTable_GoesOn) {
  const Time now{std::chrono::seconds(1)};
  const auto entry = [&](std::uint32_t qpn) {
    return TimeWait{.qpn = Qpn(qpn),
                    .tenant = TenantId(static_cast<std::uint16_t>(qpn % 8)),
                    .until = now + std::chrono::milliseconds(qpn)};
  };
  for (std::uint32_t i = 1; i <= TimeWaitTable::kPlaces + 10; ++i) table.add(entry(i));
  TimeWaitTable next(memory);
  EXPECT_EQ(next.find(Qpn(10), now), nullptr);
  ASSERT_NE(next.find(Qpn(11), now), nullptr);
  next.add(entry(TimeWaitTable::kPlaces + 11));
  EXPECT_EQ(next.find(Qpn(11), now), nullptr);
  EXPECT_NE(next.find(Qpn(12), now), nullptr);
}

TEST_F(TimeWaits, ATenantTakesItsOwnPlacesFirst) {
  const Time now{std::chrono::seconds(1)};
  const auto add = [&](std::uint32_t qpn, std::uint16_t tenant) {
    table.add({.qpn = Qpn(qpn),
               .tenant = TenantId(tenant),
               .answer = {},
               .until = now + std::chrono::milliseconds(qpn)});
  };
  for (std::uint32_t i = 1; i <= 100; ++i) add(i, 0);
  add(101, 1);
  for (std::uint32_t i = 102; i <= 2000; ++i) add(i, 0);
  EXPECT_NE(table.find(Qpn(101), now), nullptr);
  EXPECT_NE(table.find(Qpn(2000), now), nullptr);
  EXPECT_NE(table.find(Qpn(2000 - TimeWaitTable::kPlacesOfTenant + 1), now), nullptr);
  EXPECT_EQ(table.find(Qpn(2000 - TimeWaitTable::kPlacesOfTenant), now), nullptr);
}

}  // namespace
}  // namespace softhca::engine
