// SPDX-License-Identifier: Apache-2.0

// Event channels that threads and processes share.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "tests/emulated.hpp"
#include "tests/unit/libverbs-provider/connections/connection_fixture.hpp"

namespace softhca::provider::test {
namespace {

class SharedChannel : public ConnectionTest {
 protected:
  void SetUp() override {
    ConnectionTest::SetUp();
    if (!IsSkipped() && !HasFatalFailure()) id_ = make_id(channel_);
  }
  void TearDown() override {
    if (id_.cm != nullptr) {
      EXPECT_EQ(rdma_destroy_id(id_.cm), 0);
    }
    ConnectionTest::TearDown();
  }

  std::size_t commands() { return daemon().count(abi::Operation::kConnectionCommand); }
  /// Until the daemon has seen `more` commands than there were: a waiting thread has asked.
  void await_commands(std::size_t before, std::size_t more) {
    while (commands() < before + more) std::this_thread::yield();
  }

  TestId id_;
};

/// 0 when every one is made and ended.
int make_and_end_ids(rdma_event_channel* channel, int count) {
  for (int i = 0; i < count; ++i) {
    rdma_cm_id* id = nullptr;
    if (rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP) != 0) return 1;
    if (rdma_destroy_id(id) != 0) return 2;
  }
  return 0;
}

TEST_F(SharedChannel, CommandsPassOneThatWaits) {
  const std::size_t before = commands();
  std::atomic<int> status{0};
  std::thread waiter([&] { status = take_event(channel_); });
  await_commands(before, 1);
  EXPECT_EQ(make_and_end_ids(channel_, 20), 0);
  EXPECT_EQ(status, 0);
  daemon().post_event(number_, event_of(id_, 7));
  waiter.join();
  EXPECT_EQ(status, 7);
  EXPECT_FALSE(readable(channel_));
}

TEST_F(SharedChannel, EachEventHasOneTaker) {
  constexpr int kEvents = 60, kThreads = 3;
  std::atomic<int> sum{0};
  std::vector<std::thread> takers;
  for (int i = 0; i < kThreads; ++i)
    takers.emplace_back([&] {
      for (int taken = 0; taken < kEvents / kThreads; ++taken) sum += take_event(channel_);
    });
  for (int i = 1; i <= kEvents; ++i) daemon().post_event(number_, event_of(id_, i));
  for (std::thread& taker : takers) taker.join();
  EXPECT_EQ(sum, kEvents * (kEvents + 1) / 2);
  EXPECT_FALSE(readable(channel_));
}

TEST_F(SharedChannel, CommandsOfManyThreads) {
  std::atomic<int> failed{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] { failed += make_and_end_ids(channel_, 50); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed, 0);
}

void* wait_for_event(void* channel) {
  rdma_cm_event* event = nullptr;
  rdma_get_cm_event(static_cast<rdma_event_channel*>(channel), &event);
  return event;
}

TEST_F(SharedChannel, CancelledThreadLeavesItWhole) {
  for (int round = 0; round < 20; ++round) {
    const std::size_t before = commands();
    pthread_t waiter;
    ASSERT_EQ(pthread_create(&waiter, nullptr, wait_for_event, channel_), 0);
    if (round % 2 == 0) await_commands(before, 1);  // else in the middle of whatever it does
    ASSERT_EQ(pthread_cancel(waiter), 0);
    void* result = nullptr;
    ASSERT_EQ(pthread_join(waiter, &result), 0);
    EXPECT_EQ(result, PTHREAD_CANCELED);
    EXPECT_EQ(make_and_end_ids(channel_, 2), 0);
  }
  // Nothing holds the connection.
  EXPECT_EQ(rdma_destroy_id(id_.cm), 0);
  id_ = {};
  rdma_destroy_event_channel(channel_);
  channel_ = nullptr;
  while (daemon().session_count() != 0) std::this_thread::yield();
}

/// As with the kernel's file, which the waiting thread keeps open.
TEST_F(SharedChannel, ClosedWhileAnotherThreadWaits) {
  const std::size_t before = commands();
  EXPECT_EQ(rdma_destroy_id(id_.cm), 0);
  id_ = {};
  static rdma_event_channel copy;
  copy = *channel_;
  pthread_t waiter;
  ASSERT_EQ(pthread_create(&waiter, nullptr, wait_for_event, &copy), 0);
  await_commands(before, 2);
  rdma_destroy_event_channel(channel_);
  channel_ = nullptr;
  while (daemon().session_count() != 0) std::this_thread::yield();
  timespec until{};
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += 100'000'000;
  until.tv_sec += until.tv_nsec / 1'000'000'000;
  until.tv_nsec %= 1'000'000'000;
  void* result = nullptr;
  EXPECT_EQ(pthread_timedjoin_np(waiter, &result, &until), ETIMEDOUT);
  ASSERT_EQ(pthread_cancel(waiter), 0);
  ASSERT_EQ(pthread_join(waiter, &result), 0);
  EXPECT_EQ(result, PTHREAD_CANCELED);
}

void handle_signal(int flags) {
  struct sigaction action {};
  action.sa_handler = [](int) {};
  action.sa_flags = flags;
  ASSERT_EQ(::sigaction(SIGUSR1, &action, nullptr), 0);
}

TEST_F(SharedChannel, SignalsInterruptOrRestart) {
  handle_signal(0);
  std::atomic<int> result{0};
  std::thread interrupted([&] { result = take_event(channel_); });
  while (result == 0) {
    ::pthread_kill(interrupted.native_handle(), SIGUSR1);
    std::this_thread::yield();
  }
  interrupted.join();
  EXPECT_EQ(result, -EINTR);

  handle_signal(SA_RESTART);
  result = 0;
  const std::size_t before = commands();
  std::thread restarted([&] { result = take_event(channel_); });
  await_commands(before, 1);
  for (int i = 0; i < 20; ++i) ::pthread_kill(restarted.native_handle(), SIGUSR1);
  EXPECT_EQ(result, 0);
  daemon().post_event(number_, event_of(id_, 9));
  restarted.join();
  EXPECT_EQ(result, 9);
}

TEST_F(SharedChannel, ForkedChildSharesIt) {
  for (int round = 0; round < 3; ++round) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) ::_exit(make_and_end_ids(channel_, 50));
    EXPECT_EQ(make_and_end_ids(channel_, 50), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  daemon().post_event(number_, event_of(id_, 5));
  EXPECT_EQ(take_event(channel_), 5);
}

TEST_F(SharedChannel, ChildClosesItsCopyAlone) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    rdma_destroy_event_channel(channel_);
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(make_and_end_ids(channel_, 5), 0);
}

TEST_F(SharedChannel, KilledChildLeavesNobodyWaiting) {
  if (!kernel_has_robust_mutexes()) GTEST_SKIP() << "no robust futexes";
  for (int round = 0; round < 20; ++round) {
    rdma_event_channel* shared = rdma_create_event_channel();
    ASSERT_NE(shared, nullptr);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) ::_exit(make_and_end_ids(shared, 1 << 30));
    await_commands(commands(), 1 + static_cast<std::size_t>(round) % 4);
    ::kill(child, SIGKILL);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    // Killed in the middle of a command it has ended the channel; else it is as before.
    rdma_cm_id* id = nullptr;
    const int made = rdma_create_id(shared, &id, nullptr, RDMA_PS_TCP);
    if (made != 0) {
      EXPECT_EQ(errno, EIO);
    } else {
      EXPECT_EQ(rdma_destroy_id(id), 0);
    }
    rdma_destroy_event_channel(shared);
  }
}

}  // namespace
}  // namespace softhca::provider::test
