// SPDX-License-Identifier: Apache-2.0

// The parts of the send queue scheduler: its lists, and its overflow.
#include <gtest/gtest.h>

#include "daemon/qos/schedule/send_queue_overflow.hpp"
#include "tests/unit/qos/schedule/overflow_memory.hpp"

namespace softhca::schedule {
namespace {

using DescriptorState = SendQueueLists::State;

constexpr QosClassId kClass(0), kOther(1);

class SendQueueParts : public testing::Test {
 protected:
  /// An idle queue pair; `pending` commands are announced.
  QpSlot make(QosClassId qos_class, std::uint32_t pending = 1) {
    const QpSlot slot(next_++);
    SendQueueLists::Descriptor& d = lists[slot];
    d.state = DescriptorState::kIdle;
    d.qos_class = qos_class;
    d.entries = 64;
    d.write = pending;
    return slot;
  }

  SendQueueLists lists{16, 2};

 private:
  std::uint32_t next_ = 0;
};

using SendQueueListsTest = SendQueueParts;

TEST_F(SendQueueListsTest, AClassHasWorkWhileOneOfItIsReady) {
  const QpSlot slot = make(kOther);
  EXPECT_TRUE(lists.with_work().empty());
  lists.link(slot, 0);
  EXPECT_EQ(lists[slot].state, DescriptorState::kReady);
  EXPECT_EQ(lists.with_work().front(), kOther.value);
  EXPECT_EQ(lists.active_count(), 1u);
  lists.leave(slot);
  lists.enter(slot, DescriptorState::kBlocked);
  EXPECT_TRUE(lists.with_work().empty());
  EXPECT_EQ(lists.active_count(), 1u);
  lists.unlink(slot);
  EXPECT_EQ(lists.active_count(), 0u);
  EXPECT_EQ(lists.linked(), 0u);
  EXPECT_EQ(lists.linked_high_water(), 1u);
}

TEST_F(SendQueueListsTest, ReadyOnesTakeTurns) {
  const QpSlot first = make(kClass), second = make(kClass);
  lists.link(first, 0);
  lists.link(second, 0);
  EXPECT_EQ(lists.next_ready(lists[kClass]), first);
  EXPECT_EQ(lists.next_ready(lists[kClass]), second);
  EXPECT_EQ(lists.next_ready(lists[kClass]), first);
}

TEST_F(SendQueueListsTest, OneWithVcbCommandsThatHaveNotStartedIsHeld) {
  const QpSlot slot = make(kClass);
  lists[slot].kicked = 1;
  lists[slot].by_vcb = true;
  lists.link(slot, 0);
  EXPECT_EQ(lists[slot].state, DescriptorState::kHeld);
  EXPECT_TRUE(lists.with_work().empty());
  EXPECT_EQ(lists[kClass].held.front(), slot.value);
}

TEST_F(SendQueueListsTest, AStoppedClassHasNoWork) {
  lists.link(make(kClass), 0);
  lists[kClass].stopped = true;
  lists.update(kClass);
  EXPECT_TRUE(lists.with_work().empty());
}

TEST_F(SendQueueListsTest, FindsTheFirstWanted) {
  lists.link(make(kClass), 0);
  lists.link(make(kOther), 0);
  EXPECT_EQ(lists.find(lists.active(), [](QosClassId id) { return id == kOther; }), kOther.value);
  EXPECT_EQ(lists.find(lists.active(), [](QosClassId) { return false; }), kNoIndex);
}

class SendQueueOverflowTest : public SendQueueParts {
 protected:
  OverflowMemory memory;
  SendQueueOverflow overflow{lists, memory, {.entries = 2, .threshold = 0}};
};

TEST_F(SendQueueOverflowTest, BeyondTheLimitADoorbellGoesToTheBufferAndComesBack) {
  const QpSlot first = make(kClass, 3), second = make(kClass, 4), third = make(kClass, 5);
  overflow.link(first);
  overflow.link(second);
  EXPECT_FALSE(overflow.may_relieve());
  overflow.link(third);
  EXPECT_EQ(lists.linked(), 2u);
  EXPECT_EQ(lists[third].state, DescriptorState::kOverflow);
  EXPECT_EQ(memory.ends.at(third.value), 5u);
  EXPECT_EQ(lists[third].pending(), 0u);
  EXPECT_FALSE(overflow.may_relieve());
  lists.unlink(first);
  lists[first].state = DescriptorState::kIdle;
  const Relief relief = overflow.relieve();
  EXPECT_EQ(relief.kind, Relief::Kind::kRecovered);
  EXPECT_EQ(relief.slot, third);
  EXPECT_EQ(lists[third].pending(), 5u);
  EXPECT_EQ(overflow.relieve().kind, Relief::Kind::kNone);
}

TEST_F(SendQueueOverflowTest, AClassWithinItsShareIsNotPrunedForAnother) {
  const QpSlot first = make(kClass), second = make(kClass), other = make(kOther);
  overflow.link(first);
  overflow.link(second);
  overflow.link(other);
  EXPECT_EQ(lists[other].state, DescriptorState::kReady);
  EXPECT_EQ(lists[kClass].linked, 1u);
  EXPECT_EQ(lists[kClass].counters.overflow.value(), 1u);
}

TEST_F(SendQueueOverflowTest, ABoundHoldsWhateverIsFree) {
  overflow.set_bound(kClass, 1);
  const QpSlot first = make(kClass), second = make(kClass);
  overflow.link(first);
  overflow.link(second);
  EXPECT_EQ(lists[kClass].linked, 1u);
  EXPECT_FALSE(overflow.may_relieve());
  overflow.set_bound(kClass, 0);
  EXPECT_EQ(overflow.relieve().kind, Relief::Kind::kPruned);
  EXPECT_EQ(lists.linked(), 0u);
}

TEST_F(SendQueueOverflowTest, LaterDoorbellsJoinTheOneInTheBuffer) {
  for (int i = 0; i < 2; ++i) overflow.link(make(kClass));
  const QpSlot third = make(kClass, 5);
  overflow.link(third);
  EXPECT_EQ(overflow.join(third, 5), RingVerdict::kStale);
  EXPECT_EQ(overflow.join(third, 9), RingVerdict::kAccepted);
  EXPECT_EQ(memory.ends.at(third.value), 9u);
}

TEST_F(SendQueueOverflowTest, WhatWasScribbledOnIsLostAndCounted) {
  for (int i = 0; i < 2; ++i) overflow.link(make(kClass));
  const QpSlot third = make(kClass, 5);
  overflow.link(third);
  memory.ends[third.value] = 65;  // its send queue has 64 entries
  EXPECT_EQ(overflow.join(third, 6), RingVerdict::kHostile);
  EXPECT_EQ(lists[third].state, DescriptorState::kIdle);
  EXPECT_EQ(lists[kClass].counters.lost.value(), 1u);
  EXPECT_EQ(lists[kClass].counters.overflow.value(), 0u);
}

TEST_F(SendQueueOverflowTest, TheLimitLeavesAPlaceToEachClassThatHasDoorbells) {
  overflow.configure({.entries = 100, .threshold = 90});
  EXPECT_EQ(overflow.limit(), 10u);
  overflow.configure({.entries = 1, .threshold = 0});
  EXPECT_EQ(overflow.limit(), 1u);
  for (const QosClassId id : {kClass, kOther}) overflow.link(make(id));
  EXPECT_EQ(overflow.limit(), 2u);
  EXPECT_EQ(lists.linked(), 2u);
  overflow.link(make(kOther));
  EXPECT_EQ(lists[kClass].linked, 1u);
  EXPECT_EQ(lists[kOther].linked, 1u);
}

}  // namespace
}  // namespace softhca::schedule
