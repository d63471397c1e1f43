// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/events/event_notifier.hpp"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>

#include <numeric>

#include "daemon/engine/records/system_clock.hpp"

namespace softhca::engine {
namespace {

// After this time without an event the thread sleeps until it is woken.
constexpr Duration kAwakeWithoutEvents = std::chrono::milliseconds(1);
// Without this the kernel would add 50 us to each pause.
constexpr unsigned long kTimerSlack = 5000;
// An event that takes longer is expensive, and cannot be broken off for others. So its class pauses
// this many times as long.
constexpr Duration kDearEvent = std::chrono::microseconds(100);
constexpr int kRestAfterDear = 8;

}  // namespace

EventNotifier::EventNotifier(EventSink& sink, std::size_t classes)
    : sink_(sink), slots_(kSlots), free_(kSlots), of_class_(classes), lines_(classes) {
  std::iota(free_.rbegin(), free_.rend(), std::uint16_t{0});
}

void EventNotifier::start(std::optional<std::uint32_t> avoid) {
  thread_ = std::thread([this] { loop(); });
  ::pthread_setname_np(thread_.native_handle(), "softhca-events");
  cpu_set_t set;
  if (!avoid || ::pthread_getaffinity_np(thread_.native_handle(), sizeof set, &set) != 0) return;
  CPU_CLR(*avoid, &set);
  if (CPU_COUNT(&set) != 0) ::pthread_setaffinity_np(thread_.native_handle(), sizeof set, &set);
}

void EventNotifier::stop() {
  if (!thread_.joinable()) return;
  stopping_.store(true);
  given_some_ = true;
  flush();
  thread_.join();
}

EventNotifier::Answer EventNotifier::hand_over(CompletionQueue& cq, QosClassId qos_class) {
  std::uint32_t& of_class = of_class_[qos_class.value];
  if (of_class == kMostOfClass) return Answer::kClassIsFull;
  if (free_.empty()) return Answer::kFull;
  const std::uint16_t index = free_.back();
  free_.pop_back();
  Slot& slot = slots_[index];
  slot.completion_end = cq.completion_end;
  slot.user_handle = cq.user_handle;
  slot.qos_class = qos_class;
  slot.cq = &cq;
  slot.state.store(State::kWaits, std::memory_order_relaxed);
  cq.notice = index;
  given_.push(index);  // the ring is as long as the table
  ++of_class;
  ++outstanding_;
  given_some_ = true;
  return Answer::kTaken;
}

void EventNotifier::flush() {
  if (!given_some_) return;
  given_some_ = false;
  if (asleep_.exchange(0) != 0) asleep_.notify_one();
}

void EventNotifier::cancel(CompletionQueue& cq) {
  Slot& slot = slots_[cq.notice];
  cq.notice = kNoIndex;
  slot.cq = nullptr;
  State state = State::kWaits;
  slot.state.compare_exchange_strong(state, State::kCancelled);
}

/// A send that was not cancelled in time stored both words before it claimed its slot.
void EventNotifier::await(int completion_end) const {
  const std::uint32_t sends = sends_.load();
  if (sends % 2 != 0 && sending_to_.load() == completion_end) sends_.wait(sends);
}

void EventNotifier::loop() {
  sigset_t all;
  sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
  ::prctl(PR_SET_TIMERSLACK, kTimerSlack);
  Time last_work = monotonic_time();
  while (!stopping_.load(std::memory_order_relaxed)) {
    const Time now = monotonic_time();
    take_in();
    if (serve(now))
      last_work = now;
    else
      pause(now, last_work);
  }
}

/// Moves each event that was handed over to the line of its class.
void EventNotifier::take_in() {
  while (const std::uint16_t* given = given_.front()) {
    const std::uint16_t index = *given;
    given_.pop();
    const std::uint32_t qos_class = slots_[index].qos_class.value;
    Line& line = lines_[qos_class];
    line.slots.push_back(slots_.data(), index);
    if (!line.turn.linked()) turns_.push_back(lines_.data(), qos_class);
  }
}

/// Sends one event, of the class that has its turn. False: there is none, or all classes that have
/// one pause.
bool EventNotifier::serve(Time now) {
  const std::uint32_t last = turns_.back();
  for (;;) {
    const std::uint32_t qos_class = turns_.front();
    if (qos_class == kNoIndex) return false;
    Line& line = lines_[qos_class];
    if (now < line.rests_until) {
      if (qos_class == last) return false;
      turns_.rotate(lines_.data());
      continue;
    }
    const std::uint32_t index = line.slots.pop_front(slots_.data());
    turns_.remove(lines_.data(), qos_class);
    if (!line.slots.empty()) turns_.push_back(lines_.data(), qos_class);
    Slot& slot = slots_[index];
    send(slot);
    if (slot.taken > kDearEvent) line.rests_until = monotonic_time() + kRestAfterDear * slot.taken;
    done_.push(static_cast<std::uint16_t>(index));
    return true;
  }
}

void EventNotifier::send(Slot& slot) {
  slot.sent = true;
  slot.taken = {};
  sending_to_.store(slot.completion_end);
  sends_.fetch_add(1);
  State state = State::kWaits;
  if (slot.state.compare_exchange_strong(state, State::kUnderWay)) {
    const Duration began = read_clock(CLOCK_THREAD_CPUTIME_ID);
    slot.sent = sink_.completion_event(slot.completion_end, slot.user_handle);
    slot.taken = read_clock(CLOCK_THREAD_CPUTIME_ID) - began;
  }
  sends_.fetch_add(1);
  sends_.notify_all();
}

void EventNotifier::pause(Time now, Time last_work) {
  if (!turns_.empty() || now - last_work < kAwakeWithoutEvents) {
    const timespec interval{.tv_sec = 0, .tv_nsec = kInterval.count()};
    ::clock_nanosleep(CLOCK_MONOTONIC, 0, &interval, nullptr);
    return;
  }
  asleep_.exchange(1);  // an event handed over before this is visible now
  if (given_.empty() && !stopping_.load()) asleep_.wait(1);
  asleep_.store(0);
}

}  // namespace softhca::engine
