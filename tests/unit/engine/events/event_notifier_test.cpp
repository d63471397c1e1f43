// SPDX-License-Identifier: Apache-2.0

// The thread that sends completion events: each once, in order, none of a queue that is gone, and
// turns between classes.
#include "daemon/engine/events/event_notifier.hpp"

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <functional>
#include <random>
#include <utility>

#include "daemon/engine/records/system_clock.hpp"

namespace softhca::engine {
namespace {

using Answer = EventNotifier::Answer;

constexpr std::uint32_t kClasses = 20;

/// What it keeps is the notifier's until the event has come back.
class Receiver final : public EventSink {
 public:
  bool completion_event(int completion_end, std::uint64_t user_handle) override {
    if (on_event) on_event(user_handle);
    if (full.load()) return false;
    events.emplace_back(completion_end, user_handle);
    return true;
  }
  bool async_event(int, std::uint64_t, std::uint32_t) override { return true; }

  std::atomic<bool> full{false};
  std::function<void(std::uint64_t)> on_event;
  std::vector<std::pair<int, std::uint64_t>> events;
};

class NotifierTest : public ::testing::Test {
 protected:
  CompletionQueue& queue(std::uint64_t handle, int channel = 3) {
    CompletionQueue& cq = queues.emplace_back();
    cq.user_handle = handle;
    cq.completion_end = channel;
    return cq;
  }
  void give(CompletionQueue& cq, std::uint16_t qos_class = 0) {
    ASSERT_EQ(notifier.hand_over(cq, QosClassId(qos_class)), Answer::kTaken);
  }
  /// Until all are back. Those that found their channel full.
  std::size_t take_back_all() {
    notifier.flush();
    std::size_t refused = 0;
    while (notifier.busy()) {
      notifier.take_back([&](CompletionQueue& cq, bool sent, Duration) {
        EXPECT_EQ(cq.notice, kNoIndex);
        refused += !sent;
      });
      std::this_thread::yield();
    }
    return refused;
  }

  Receiver receiver;
  std::deque<CompletionQueue> queues;
  EventNotifier notifier{receiver, kClasses};
};

TEST_F(NotifierTest, EachEventIsSentOnceAndInOrder) {
  notifier.start(std::nullopt);
  std::vector<std::pair<int, std::uint64_t>> given;
  for (std::uint64_t round = 0; round < 200; ++round) {
    for (std::uint64_t i = 0; i < 1 + round % EventNotifier::kMostOfClass; ++i) {
      CompletionQueue& cq = queue(round << 8 | i, static_cast<int>(i % 5));
      given.emplace_back(cq.completion_end, cq.user_handle);
      give(cq);
    }
    EXPECT_EQ(take_back_all(), 0u);
  }
  EXPECT_EQ(receiver.events, given);
}

/// While the thread sleeps, dozes and works, whichever it is when the event comes.
TEST_F(NotifierTest, AnEventThatComesAtAnyMomentIsSent) {
  notifier.start(std::nullopt);
  for (std::uint64_t i = 0; i < 300; ++i) {
    give(queue(i));
    EXPECT_EQ(take_back_all(), 0u);
    const Time until = monotonic_time() + std::chrono::microseconds(i * 10);
    while (monotonic_time() < until) std::this_thread::yield();
  }
  EXPECT_EQ(receiver.events.size(), 300u);
}

TEST_F(NotifierTest, AFullChannelIsTold) {
  receiver.full = true;
  notifier.start(std::nullopt);
  give(queue(1));
  give(queue(2));
  EXPECT_EQ(take_back_all(), 2u);
  receiver.full = false;
  give(queues[0]);
  EXPECT_EQ(take_back_all(), 0u);
  EXPECT_EQ(receiver.events.size(), 1u);
}

/// Queues go while their events are under way; afterwards their channels are closed.
TEST_F(NotifierTest, NoEventIsSentOfAQueueThatIsGone) {
  constexpr std::size_t kQueues = 32;
  std::array<std::atomic<bool>, kQueues> gone{};
  std::atomic<std::uint32_t> late{0};
  receiver.on_event = [&](std::uint64_t handle) {
    std::this_thread::yield();
    late += gone[handle].load();
  };
  notifier.start(std::nullopt);
  std::mt19937 random(1);
  for (int round = 0; round < 500; ++round) {
    queues.clear();
    for (std::size_t i = 0; i < kQueues; ++i) gone[i] = false;
    for (std::size_t i = 0; i < kQueues; ++i) give(queue(i, static_cast<int>(i)));
    notifier.flush();
    for (std::size_t i = 0; i < kQueues; ++i) {
      if (queues[i].notice == kNoIndex || random() % 2 != 0) continue;
      notifier.cancel(queues[i]);
      notifier.await(queues[i].completion_end);
      gone[i] = true;
    }
    take_back_all();
  }
  EXPECT_EQ(late, 0u);
}

TEST_F(NotifierTest, AClassHasRoomOfItsOwn) {
  for (std::uint32_t i = 0; i < EventNotifier::kMostOfClass; ++i) give(queue(i));
  EXPECT_EQ(notifier.hand_over(queue(0), QosClassId(0)), Answer::kClassIsFull);
  std::uint32_t taken = EventNotifier::kMostOfClass;
  for (std::uint16_t c = 1; c < kClasses; ++c)
    for (std::uint32_t i = 0; i < EventNotifier::kMostOfClass; ++i) {
      const Answer answer = notifier.hand_over(queue(0), QosClassId(c));
      EXPECT_EQ(answer, taken < EventNotifier::kSlots ? Answer::kTaken : Answer::kFull);
      taken += answer == Answer::kTaken;
    }
  EXPECT_EQ(taken, EventNotifier::kSlots);
  notifier.start(std::nullopt);
  EXPECT_EQ(take_back_all(), 0u);
  give(queue(0));
}

TEST_F(NotifierTest, ClassesHaveTurns) {
  for (std::uint64_t i = 0; i < 10; ++i) give(queue(i), 0);
  give(queue(100), 1);
  give(queue(101), 1);
  notifier.start(std::nullopt);
  take_back_all();
  ASSERT_EQ(receiver.events.size(), 12u);
  EXPECT_EQ(receiver.events[1].second, 100u);
  EXPECT_EQ(receiver.events[3].second, 101u);
}

/// One that takes long holds up others once, not at every turn.
TEST_F(NotifierTest, AClassWithDearEventsRests) {
  receiver.on_event = [](std::uint64_t handle) {
    const Duration until = read_clock(CLOCK_THREAD_CPUTIME_ID) + std::chrono::milliseconds(20);
    while (handle == 0 && read_clock(CLOCK_THREAD_CPUTIME_ID) < until) {
    }
  };
  give(queue(0), 0);
  give(queue(1), 0);
  for (std::uint64_t i = 100; i < 105; ++i) give(queue(i), 1);
  notifier.start(std::nullopt);
  take_back_all();
  ASSERT_EQ(receiver.events.size(), 7u);
  EXPECT_EQ(receiver.events[0].second, 0u);
  EXPECT_EQ(receiver.events[6].second, 1u);
}

TEST_F(NotifierTest, ItEndsWithEventsLeft) {
  notifier.start(std::nullopt);
  for (std::uint64_t i = 0; i < 64; ++i) give(queue(i));
  notifier.stop();
}

}  // namespace
}  // namespace softhca::engine
