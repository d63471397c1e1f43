// SPDX-License-Identifier: Apache-2.0

#include "daemon/base/timer_wheel.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

namespace softhca {
namespace {

using namespace std::chrono_literals;

constexpr Time at(Duration d) { return Time(d); }

std::vector<std::uint32_t> fired(TimerWheel& wheel, Time now) {
  std::vector<std::uint32_t> ids;
  wheel.advance(now, [&](TimerId id) { ids.push_back(id.value); });
  return ids;
}

TEST(TimerWheel, FiresNeverEarlyAndAtMostATickLate) {
  for (const Duration delay :
       std::initializer_list<Duration>{1ns, 10us, 1024ns, 1025ns, 65535ns, 67ms, 4s, 3h, 1000h}) {
    TimerWheel wheel(at(5s));
    wheel.reserve(1);
    const Time deadline = at(5s + delay);
    wheel.arm(TimerId(0), deadline);
    EXPECT_TRUE(wheel.armed(TimerId(0)));
    EXPECT_TRUE(fired(wheel, deadline - 1ns).empty()) << delay.count();
    EXPECT_EQ(fired(wheel, deadline + TimerWheel::kTick).size(), 1u) << delay.count();
    EXPECT_FALSE(wheel.armed(TimerId(0)));
    EXPECT_EQ(wheel.next_deadline(), kNever);
  }
}

TEST(TimerWheel, FiresInOrderOfDeadlineInOneStep) {
  TimerWheel wheel;
  wheel.reserve(5);
  wheel.arm(TimerId(0), at(1h));
  wheel.arm(TimerId(1), at(10us));
  wheel.arm(TimerId(2), at(50ms));
  wheel.arm(TimerId(3), at(100us));
  wheel.arm(TimerId(4), at(2s));
  EXPECT_EQ(fired(wheel, at(2h)), (std::vector<std::uint32_t>{1, 3, 2, 4, 0}));
}

TEST(TimerWheel, RearmingLaterPostpones) {
  TimerWheel wheel;
  wheel.reserve(1);
  for (Duration t = 0us; t < 10ms; t += 50us) {
    wheel.arm(TimerId(0), at(t + 1ms));
    EXPECT_TRUE(fired(wheel, at(t)).empty());
  }
  EXPECT_TRUE(fired(wheel, at(10900us)).empty());
  EXPECT_EQ(fired(wheel, at(10960us)).size(), 1u);
}

TEST(TimerWheel, RearmingEarlierHastens) {
  TimerWheel wheel;
  wheel.reserve(1);
  wheel.arm(TimerId(0), at(1h));
  wheel.arm(TimerId(0), at(20us));
  EXPECT_LE(wheel.next_deadline(), at(21us));
  EXPECT_EQ(fired(wheel, at(22us)).size(), 1u);
  EXPECT_TRUE(fired(wheel, at(2h)).empty());
}

TEST(TimerWheel, CancelledTimersDoNotFireAndMayBeArmedAgain) {
  TimerWheel wheel;
  wheel.reserve(2);
  wheel.arm(TimerId(0), at(1ms));
  wheel.arm(TimerId(1), at(1ms));
  wheel.cancel(TimerId(0));
  wheel.arm(TimerId(1), kNever);
  EXPECT_FALSE(wheel.armed(TimerId(0)));
  EXPECT_FALSE(wheel.armed(TimerId(1)));
  wheel.arm(TimerId(0), at(3ms));
  EXPECT_TRUE(fired(wheel, at(2ms)).empty());
  EXPECT_EQ(fired(wheel, at(4ms)), std::vector<std::uint32_t>{0});
  wheel.cancel(TimerId(0));
}

TEST(TimerWheel, APastDeadlineFiresATickAfterThePresent) {
  TimerWheel wheel(at(1s));
  wheel.reserve(1);
  wheel.arm(TimerId(0), at(1ms));
  EXPECT_EQ(fired(wheel, at(1s) + 2 * TimerWheel::kTick).size(), 1u);
}

TEST(TimerWheel, TimeDoesNotGoBack) {
  TimerWheel wheel;
  wheel.reserve(1);
  fired(wheel, at(1s));
  wheel.arm(TimerId(0), at(1s + 1ms));
  EXPECT_TRUE(fired(wheel, at(0s)).empty());
  EXPECT_EQ(fired(wheel, at(1s + 2ms)).size(), 1u);
}

TEST(TimerWheel, CallbackMayArmAndCancelOthersOfTheSameSlot) {
  TimerWheel wheel;
  wheel.reserve(4);
  for (std::uint32_t i = 0; i < 4; ++i) wheel.arm(TimerId(i), at(1ms));
  std::vector<std::uint32_t> ids;
  const auto note = [&](TimerId id) {
    ids.push_back(id.value);
    if (id.value != 0) return;
    wheel.cancel(TimerId(1));
    wheel.arm(TimerId(2), at(5ms));
    wheel.arm(TimerId(0), at(0ms));
  };
  EXPECT_EQ(wheel.advance(at(1ms) + TimerWheel::kTick, note), 2u);
  EXPECT_EQ(ids, (std::vector<std::uint32_t>{0, 3}));
  EXPECT_EQ(fired(wheel, at(6ms)), (std::vector<std::uint32_t>{0, 2}));
}

TEST(TimerWheel, SleepingUntilNextDeadlineMissesNothing) {
  std::mt19937_64 random(4);
  for (int round = 0; round < 200; ++round) {
    TimerWheel wheel;
    wheel.reserve(1);
    const Time deadline = at(Duration(random() >> (10 + random() % 50)));
    wheel.arm(TimerId(0), deadline);
    Time now{};
    int wakes = 0;
    for (std::vector<std::uint32_t> ids; ids.empty(); ids = fired(wheel, now)) {
      ASSERT_GE(wheel.next_deadline(), now);
      ASSERT_LT(++wakes, 12);
      now = wheel.next_deadline();
    }
    ASSERT_GE(now + 2 * TimerWheel::kTick, deadline);
    ASSERT_LE(now, std::max(deadline, at(0ns)) + 2 * TimerWheel::kTick);
  }
}

TEST(TimerWheel, AgreesWithAMap) {
  constexpr std::uint32_t kTimers = 60;
  std::mt19937_64 random(5);
  for (int round = 0; round < 20; ++round) {
    const auto base = Duration(random() >> 2);
    TimerWheel wheel{Time(base)};
    wheel.reserve(kTimers);
    std::map<std::uint32_t, Time> model;
    Time now(base);
    for (int step = 0; step < 5000; ++step) {
      const auto id = static_cast<std::uint32_t>(random() % kTimers);
      const auto far = Duration(random() % (std::uint64_t{1} << (10 + random() % 32)));
      const auto what = random() % 8;
      if (what < 5) {
        wheel.arm(TimerId(id), now + far);
        model[id] = now + far;
      } else if (what == 5) {
        wheel.cancel(TimerId(id));
        model.erase(id);
      } else {
        now += far / 8;
        ASSERT_TRUE(model.empty() || wheel.next_deadline() != kNever);
        Time last{};
        wheel.advance(now, [&](TimerId due) {
          const auto it = model.find(due.value);
          ASSERT_NE(it, model.end());
          ASSERT_LE(it->second, now);
          ASSERT_GE(it->second + 3 * TimerWheel::kTick, last);
          last = it->second;
          model.erase(it);
        });
        for (const auto& [left, deadline] : model)
          ASSERT_GT(deadline + 2 * TimerWheel::kTick, now) << left;
      }
    }
  }
}

}  // namespace
}  // namespace softhca
