// SPDX-License-Identifier: Apache-2.0

// The time of a thread, against the clocks of the system. Bounds are wide: the machine may be busy.
#include "daemon/engine/turns/work_clock.hpp"

#include <gtest/gtest.h>
#include <time.h>

#include <thread>

#include "daemon/engine/records/costs.hpp"

namespace softhca::engine {
namespace {

using std::chrono::milliseconds;

Duration read_clock(clockid_t clock) {
  timespec t;
  ::clock_gettime(clock, &t);
  return std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
}
Time system_now() { return Time(read_clock(CLOCK_MONOTONIC)); }
Duration thread_now() { return read_clock(CLOCK_THREAD_CPUTIME_ID); }

void work(Duration how_long) {
  const Duration begin = thread_now();
  while (thread_now() - begin < how_long) {
  }
}

Duration lap_of(WorkClock& clock) {
  return Duration(static_cast<std::int64_t>(clock.lap() / kUnitsPerNanosecond));
}

TEST(WorkClock, LapsAreTheTimeOfTheThread) {
  WorkClock clock;
  const Duration begin = thread_now();
  clock.begin_step(system_now());
  Duration all{};
  for (int i = 0; i < 200; ++i) {
    work(std::chrono::microseconds(100));
    all += lap_of(clock);
  }
  const Duration expected = thread_now() - begin;
  EXPECT_GE(all, milliseconds(20) * 9 / 10);
  EXPECT_LE(all, expected * 11 / 10);
}

TEST(WorkClock, WithoutTheProcessorTimeStands) {
  WorkClock clock;
  clock.begin_step(system_now());
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_LT(lap_of(clock), milliseconds(10));
}

TEST(WorkClock, WaitingForTheWorkAtHandCounts) {
  WorkClock clock;
  clock.begin_step(system_now());
  std::this_thread::sleep_for(milliseconds(50));
  WorkClock::count_wait(milliseconds(50));
  EXPECT_GE(lap_of(clock), milliseconds(50));
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_LT(lap_of(clock), milliseconds(10)) << "once";
}

TEST(WorkClock, TimeMayBeGiven) {
  std::uint64_t now = 100;
  WorkClock clock(now);
  clock.begin_step(Time{});
  now += 7;
  EXPECT_EQ(clock.lap(), 7u);
  now += 10'000'000;
  EXPECT_EQ(clock.lap(), 10'000'000u);
  EXPECT_EQ(clock.lap(), 0u);
}

TEST(WorkClock, WhatWasBeforeAStepDoesNotCount) {
  WorkClock clock;
  clock.begin_step(system_now());
  work(milliseconds(20));
  clock.begin_step(system_now());
  EXPECT_LT(lap_of(clock), milliseconds(10));
}

}  // namespace
}  // namespace softhca::engine
