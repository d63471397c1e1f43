// SPDX-License-Identifier: Apache-2.0

// The table of queue pairs by itself.
#include "daemon/engine/records/qp_table.hpp"

#include <gtest/gtest.h>

#include <set>

#include "tests/unit/engine/fixture/process.hpp"

namespace softhca::engine {
namespace {

/// A table with a state of its own.
struct OwnState {
  DurableState state;
};
struct Table : OwnState, QpTable {
  explicit Table(std::uint32_t queue_pairs, std::uint64_t seed = 0)
      : OwnState{DurableState({.queue_pairs = queue_pairs})}, QpTable(state, seed) {}
};

class QpTableTest : public ::testing::Test {
 protected:
  QueuePair& make(Session& session) {
    pairs.push_back(std::make_unique<QueuePair>());
    pairs.back()->session = &session;
    return *pairs.back();
  }
  std::size_t count_of(const Session& session) {
    std::size_t n = 0;
    session.queue_pairs.for_each([&](QueuePair&) { ++n; });
    return n;
  }

  Tenant tenant;
  RingMemory memory{sizeof(abi::SessionHeader)};
  Session first{SessionId(1), tenant, shm::SessionView(memory.base(), 0), VcbId(0)};
  Session second{SessionId(2), tenant, shm::SessionView(memory.base(), 0), VcbId(0)};
  std::vector<std::unique_ptr<QueuePair>> pairs;
};

TEST_F(QpTableTest, HoldsAsManyAsAPowerOfTwo) {
  Table table(5);
  for (int i = 0; i < 8; ++i) {
    QueuePair& qp = make(first);
    ASSERT_TRUE(table.add(qp));
    EXPECT_EQ(table.find(qp.qpn), &qp);
    EXPECT_EQ(table.at(qp.slot), &qp);
  }
  EXPECT_FALSE(table.add(make(first)));
  EXPECT_EQ(count_of(first), 8u);
}

/// Each is found, none is special, and the next does not follow from the last.
TEST_F(QpTableTest, NumbersFollowFromASeed) {
  constexpr std::uint32_t kSlots = 1024;
  const auto numbers = [&](std::uint64_t seed) {
    Table table(kSlots, seed);
    std::vector<std::uint32_t> out;
    for (std::uint32_t i = 0; i < 3 * kSlots; ++i) {
      QueuePair& qp = make(first);
      if (!table.add(qp)) ADD_FAILURE();
      EXPECT_EQ(table.find(qp.qpn), &qp);
      EXPECT_GT(qp.qpn.value, QpTable::kOwn);
      EXPECT_LT(qp.qpn.value, kMulticastQpn.value);
      out.push_back(qp.qpn.value);
      table.remove(qp);
      pairs.pop_back();
    }
    return out;
  };
  const auto some = numbers(1), others = numbers(2);
  EXPECT_EQ(some, numbers(1));
  EXPECT_NE(some, others);
  EXPECT_EQ(std::set(some.begin(), some.end()).size(), some.size()) << "one comes again";
  std::size_t steps = 0;  // that are as short as where they count up
  for (std::size_t i = 1; i < some.size(); ++i)
    steps += some[i] - some[i - 1] + kSlots < 2 * kSlots;
  EXPECT_LT(steps, some.size() / 100);
}

/// All numbers a slot can have come before one comes again, and none of them is special.
TEST_F(QpTableTest, NumbersComeBackLate) {
  constexpr std::uint32_t kSlots = 1u << 16;
  Table table(kSlots);
  std::set<std::uint32_t> seen;
  QueuePair& qp = make(first);
  for (std::uint32_t i = 0; i < 3 * kSlots; ++i) {
    ASSERT_TRUE(table.add(qp));
    ASSERT_GT(qp.qpn.value, QpTable::kOwn);
    ASSERT_LT(qp.qpn.value, kMulticastQpn.value);
    ASSERT_TRUE(seen.insert(qp.qpn.value).second);
    const Qpn number = qp.qpn;
    table.remove(qp);
    ASSERT_EQ(table.find(number), nullptr);
  }
}

TEST_F(QpTableTest, GenerationsWrapAroundSpecialNumbers) {
  Table table(1);
  QueuePair& qp = make(first);
  for (std::uint32_t i = 0; i < (1u << 24) + 10; ++i) {
    table.add(qp);
    if (qp.qpn.value <= QpTable::kOwn || qp.qpn == kMulticastQpn) FAIL() << qp.qpn.value;
    table.remove(qp);
  }
}

/// The next engine gives each queue pair the number that it had.
TEST_F(QpTableTest, GivenNumber_SlotIsTakenOnce) {
  constexpr std::uint32_t kSlots = 8;
  Table before(kSlots, 3), after(kSlots, 4);
  std::set<std::uint32_t> numbers;
  for (std::uint32_t i = 0; i < kSlots / 2; ++i) {
    QueuePair& old = make(first);
    ASSERT_TRUE(before.add(old));
    QueuePair& next = make(second);
    ASSERT_TRUE(after.add(next, old.qpn));
    EXPECT_EQ(next.qpn, old.qpn);
    EXPECT_EQ(next.slot, old.slot);
    EXPECT_EQ(after.find(old.qpn), &next);
    EXPECT_FALSE(after.add(make(second), old.qpn));
    numbers.insert(old.qpn.value);
  }
  QueuePair& returned = *after.find(Qpn(*numbers.begin()));
  after.remove(returned);
  numbers.erase(returned.qpn.value);
  for (std::uint32_t i = 0; i <= kSlots / 2; ++i) {
    QueuePair& chosen = make(second);
    ASSERT_TRUE(after.add(chosen));
    EXPECT_TRUE(numbers.insert(chosen.qpn.value).second) << "given before";
    EXPECT_EQ(after.find(chosen.qpn), &chosen);
  }
  EXPECT_FALSE(after.add(make(second)));
}

TEST_F(QpTableTest, GivenNumber_NoneOfThisSize_Refused) {
  Table table(8);
  for (const std::uint32_t number : {0u, 1u, 7u, 0xffffffu, 0xfffff8u, 0x1000008u})
    EXPECT_FALSE(table.add(make(first), Qpn(number))) << number;
}

TEST_F(QpTableTest, WellKnownNumbersAreTheDaemons) {
  Table table(4);
  EXPECT_EQ(table.find(Qpn(0)), nullptr);
  EXPECT_EQ(table.find(Qpn(1)), nullptr);
  QueuePair& own = make(first);
  own.qpn = Qpn(1);
  ASSERT_TRUE(table.add_own(own));
  EXPECT_EQ(table.find(Qpn(1)), &own);
  EXPECT_EQ(table.at(own.slot), &own);
  EXPECT_LT(own.slot, table.slots());
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(table.add(make(first)));
  EXPECT_FALSE(table.add(make(first))) << "its slot is none of theirs";
  table.remove(own);
  EXPECT_EQ(table.find(Qpn(1)), nullptr);
  ASSERT_TRUE(table.add_own(own));
}

TEST_F(QpTableTest, ListsOfSessionsFollow) {
  Table table(4);
  QueuePair &a = make(first), &b = make(first);
  table.add(a);
  table.add(b);
  table.hand_over(a, second);
  EXPECT_EQ(a.session, &second);
  EXPECT_EQ(count_of(first), 1u);
  EXPECT_EQ(count_of(second), 1u);
  table.remove(a);
  table.remove(b);
  EXPECT_EQ(count_of(first) + count_of(second), 0u);
  table.for_each([](QueuePair&) { FAIL(); });
}

}  // namespace
}  // namespace softhca::engine
