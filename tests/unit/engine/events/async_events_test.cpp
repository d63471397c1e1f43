// SPDX-License-Identifier: Apache-2.0

// Asynchronous events of many sessions, of which some do not read, without an engine.
#include "daemon/engine/events/async_events.hpp"

#include <deque>
#include <map>

#include "daemon/engine/records/costs.hpp"
#include "tests/unit/engine/fixture/parts.hpp"

namespace softhca::engine {
namespace {

using std::chrono::milliseconds;

/// The sockets of processes, each with room for so many events.
class Sockets final : public EventSink {
 public:
  bool completion_event(int, std::uint64_t) override { return false; }
  bool async_event(int fd, std::uint64_t element, std::uint32_t) override {
    ++attempts;
    if (room[fd] == 0) return false;
    --room[fd];
    came[fd].push_back(element);
    return true;
  }

  std::map<int, std::size_t> room;
  std::map<int, std::vector<std::uint64_t>> came;
  std::size_t attempts = 0;
};

class ManySessions : public ::testing::Test {
 protected:
  static constexpr int kSessions = 512;
  static constexpr int kOther = kSessions;  // of another tenant

  ManySessions() {
    other.id = TenantId(1);
    other.qos_class = QosClassId(1);
    cpu.order().join(tenant.qos_class, tenant.id);
    cpu.order().join(other.qos_class, other.id);
    for (int i = 0; i <= kSessions; ++i) {
      Tenant& owner = i == kOther ? other : tenant;
      Session& session = sessions.emplace_back(SessionId(static_cast<std::uint32_t>(i)), owner,
                                               shm::SessionView(memory.base(), 0), VcbId(0));
      session.qos_class = owner.qos_class;
      session.async_end = i;
      AsyncEvents::reserve(session);
    }
  }
  ~ManySessions() override {
    for (Session& session : sessions) events.forget(session);
  }
  void raise(int session, std::uint64_t element) {
    events.raise(sessions[static_cast<std::size_t>(session)], element, EventType::kSrqLimitReached);
  }
  void fill_all() {
    for (int i = 0; i < kSessions; ++i)
      for (std::size_t n = 0; n < 2 * AsyncEvents::kMostDeferred; ++n) raise(i, n);
    sockets.attempts = 0;
  }
  /// Poll steps for a millisecond.
  void run_a_millisecond() {
    for (int i = 0; i < 20; ++i) {
      clock.now += std::chrono::microseconds(50);
      if (clock.now >= events.next_deadline()) events.retry();
    }
  }

  StepClock clock{Time(milliseconds(1000))};
  CpuScheduler cpu{clock, 64, 2, 2};
  Tenant tenant, other;
  RingMemory memory{sizeof(abi::SessionHeader)};
  Sockets sockets;
  AsyncEvents events{sockets, clock, cpu, 2};
  std::deque<Session> sessions;
};

/// The exploit: one of many that are full reads an event each millisecond.
TEST_F(ManySessions, OneThatReadsALittleHasNotTheOthersTriedMoreOften) {
  fill_all();
  for (int ms = 0; ms < 200; ++ms) run_a_millisecond();
  const auto read_and_run = [&] {
    for (int ms = 0; ms < 64; ++ms) {
      sockets.room[3] = 1;
      run_a_millisecond();
    }
  };
  read_and_run();
  sockets.attempts = 0;
  sockets.came[3].clear();
  read_and_run();
  EXPECT_LE(sockets.attempts, kSessions + 3u * 64) << "each once, and what the one asked for";
  EXPECT_GE(sockets.came[3].size(), 32u) << "it is tried as soon as it reads";
}

TEST_F(ManySessions, TriesCostTheirTenant) {
  fill_all();
  const std::uint64_t before = tenant.counters.engine_time.value();
  for (int ms = 0; ms < 100; ++ms) run_a_millisecond();
  EXPECT_EQ(tenant.counters.engine_time.value() - before, sockets.attempts * kEventCost);
  EXPECT_EQ(other.counters.engine_time.value(), 0u);
}

TEST_F(ManySessions, WhoReadsWaitsForNobody) {
  fill_all();
  for (int ms = 0; ms < 10; ++ms) run_a_millisecond();
  for (std::uint64_t i = 0; i < 20; ++i) raise(kOther, i);
  EXPECT_TRUE(sockets.came[kOther].empty());
  sockets.room[kOther] = 100;
  run_a_millisecond();
  run_a_millisecond();
  ASSERT_EQ(sockets.came[kOther].size(), 20u);
  for (std::uint64_t i = 0; i < 20; ++i) EXPECT_EQ(sockets.came[kOther][i], i);
}

TEST_F(ManySessions, EachComesOnceAndInOrderHoweverLittleIsRead) {
  for (std::uint64_t i = 0; i < 100; ++i) raise(0, i);
  for (int ms = 0; ms < 2000; ++ms) {
    sockets.room[0] = 3;
    run_a_millisecond();
  }
  ASSERT_EQ(sockets.came[0].size(), 100u);
  for (std::uint64_t i = 0; i < 100; ++i) EXPECT_EQ(sockets.came[0][i], i);
  EXPECT_EQ(events.next_deadline(), kNever);
}

TEST_F(ManySessions, WhatIsForgottenIsNotTried) {
  fill_all();
  for (Session& session : sessions) events.forget(session);
  EXPECT_EQ(events.next_deadline(), kNever);
  for (int ms = 0; ms < 100; ++ms) run_a_millisecond();
  EXPECT_EQ(sockets.attempts, 0u);
}

/// XRC targets that many processes have open.
class ManyHolders : public ManySessions {
 protected:
  ManyHolders() {
    for (Session& session : sessions) sockets.room[session.async_end] = 1000;
  }
  /// Session 0 has made it, sessions 1 to `last` have opened it.
  QueuePair& make_target(int last, std::uint64_t handle) {
    QueuePair& target = targets.emplace_back();
    target.session = &sessions[0];
    target.tenant = &tenant;
    target.qos_class = tenant.qos_class;
    target.user_handle = handle;
    for (int i = 1; i <= last; ++i) AsyncEvents::add_holder(target, holder(i, handle));
    return target;
  }
  QpHolder holder(int session, std::uint64_t handle) {
    return {&sessions[static_cast<std::size_t>(session)], handle};
  }
  std::size_t tell_all() {
    std::size_t steps = 0;
    for (; events.has_work(); ++steps) {
      const std::size_t before = sockets.attempts;
      events.tell_holders();
      EXPECT_LE(sockets.attempts - before, AsyncEvents::kToldPerStep);
    }
    return steps;
  }

  std::deque<QueuePair> targets;
};

TEST_F(ManyHolders, EventOfATarget_IsToldAFewOfItsProcessesInEachStep) {
  const QueuePair& target = make_target(kSessions - 1, 7);
  events.raise(target, EventType::kQpFatal);
  EXPECT_EQ(sockets.attempts, 1u) << "its own session is told at once";
  const std::uint64_t before = tenant.counters.engine_time.value();
  EXPECT_EQ(tell_all(),
            (kSessions - 1 + AsyncEvents::kToldPerStep - 1) / AsyncEvents::kToldPerStep);
  EXPECT_EQ(tenant.counters.engine_time.value() - before, (kSessions - 1) * kEventCost);
  for (int i = 0; i < kSessions; ++i)
    EXPECT_EQ(sockets.came[i], std::vector<std::uint64_t>{7}) << i;
}

TEST_F(ManyHolders, EventThatOccursAgainBeforeItIsTold_IsToldOnce) {
  const QueuePair& target = make_target(20, 7);
  events.raise(target, EventType::kQpFatal);
  events.tell_holders();
  for (int i = 0; i < 100; ++i) {
    events.raise(target, EventType::kQpLastWqeReached);
    events.raise(target, EventType::kQpFatal);
  }
  tell_all();
  EXPECT_EQ(sockets.came[0].size(), 201u);
  for (int i = 1; i <= 20; ++i) EXPECT_EQ(sockets.came[i].size(), 3u) << i;
}

TEST_F(ManyHolders, ProcessThatLetsGoMeanwhile_IsNotToldAndTheOthersAreToldOnce) {
  QueuePair& target = make_target(30, 7);
  events.raise(target, EventType::kQpFatal);
  events.tell_holders();  // 1 to 8
  for (const int i : {3, 20, 30}) events.remove_holder(*target.holders, holder(i, 7));
  tell_all();
  for (int i = 1; i <= 30; ++i)
    EXPECT_EQ(sockets.came[i].size(), i == 20 || i == 30 ? 0u : 1u) << i;
}

TEST_F(ManyHolders, AllProcessesLetGo_NothingIsLeftToTell) {
  QueuePair& target = make_target(10, 7);
  events.raise(target, EventType::kQpFatal);
  for (int i = 1; i <= 10; ++i) events.remove_holder(*target.holders, holder(i, 7));
  EXPECT_FALSE(events.has_work());
  EXPECT_EQ(events.tell_holders(), 0u);
}

TEST_F(ManyHolders, Heir_KnowsOfAllEvents) {
  QueuePair& target = make_target(10, 7);
  events.raise(target, EventType::kQpFatal);
  events.raise(target, EventType::kQpLastWqeReached);
  EXPECT_EQ(events.take_heir(*target.holders), holder(1, 7));
  EXPECT_EQ(sockets.came[1].size(), 2u);
  tell_all();
  for (int i = 1; i <= 10; ++i) EXPECT_EQ(sockets.came[i].size(), 2u) << i;
}

TEST_F(ManyHolders, TargetOfAnotherTenant_DoesNotWaitForAll) {
  for (std::uint64_t i = 0; i < 40; ++i) events.raise(make_target(400, i), EventType::kQpFatal);
  QueuePair& another = make_target(0, 99);
  another.tenant = &other;
  another.qos_class = other.qos_class;
  AsyncEvents::add_holder(another, holder(kOther, 99));
  events.raise(another, EventType::kQpFatal);
  events.tell_holders();
  EXPECT_EQ(sockets.came[kOther], std::vector<std::uint64_t>{99});
  tell_all();
}

}  // namespace
}  // namespace softhca::engine
