// Asynchronous events of many sessions, of which some do not read, without an engine.
#include "daemon/engine/async_events.hpp"

#include <deque>
#include <map>

#include "daemon/engine/costs.hpp"
#include "tests/unit/engine/parts.hpp"

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
      session.async_fd = i;
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
  AsyncEvents events{sockets, clock, cpu};
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

}  // namespace
}  // namespace softhca::engine
