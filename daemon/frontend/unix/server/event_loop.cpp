// SPDX-License-Identifier: Apache-2.0

#include "daemon/frontend/unix/server/event_loop.hpp"

#include <sched.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "daemon/base/system_error.hpp"
#include "daemon/engine/records/system_clock.hpp"

namespace softhca::control {
namespace {

// Programs mostly send several requests in a row. Waking a thread on an idle processor takes longer
// than answering a request.
constexpr Duration kAwake = std::chrono::microseconds(100);
// Longest polling at once. In the long run, the loop polls for at most half of the time. So a
// program with occasional requests cannot keep a processor busy.
constexpr Duration kMostAwake = std::chrono::milliseconds(20);

}  // namespace

Outcome EventLoop::open() {
  epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return system_error("control thread");
  return {};
}

Outcome EventLoop::watch(int fd, Watch& what) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = &what;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return system_error("epoll_ctl");
  return {};
}

void EventLoop::unwatch(int fd) { ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

bool EventLoop::arm(int fd, Watch& what, Interest interest) {
  epoll_event event{};
  if (interest == Interest::kReadable) event.events = EPOLLIN;
  if (interest == Interest::kWritable) event.events = EPOLLOUT;
  event.data.ptr = &what;
  return ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) == 0;
}

/// Polls for the next event without sleeping. Returns 0 if none came.
int EventLoop::wait_awake(epoll_event& event) {
  const Time begin = engine::monotonic_time();
  awake_credit_ = std::min(awake_credit_ + (begin - credited_at_) / 2, kMostAwake);
  credited_at_ = begin;
  const Time until = std::min(awake_until_, begin + awake_credit_);
  int count = 0;
  Time now = begin;
  while (count == 0 && now < until) {
    count = ::epoll_wait(epoll_.get(), &event, 1, 0);
    if (count == 0) ::sched_yield();
    now = engine::monotonic_time();
  }
  awake_credit_ -= now - begin;
  return count;
}

int EventLoop::wait_asleep(epoll_event& event, int timeout) {
  if (pulse_ != nullptr) pulse_->fall_asleep();
  const int count = ::epoll_wait(epoll_.get(), &event, 1, timeout);
  if (pulse_ != nullptr) pulse_->wake_up();
  return count;
}

Outcome EventLoop::step(int timeout) {
  epoll_event event;
  int count = 0;
  if (timeout != 0) count = wait_awake(event);
  if (count == 0) count = wait_asleep(event, timeout);
  if (count < 0 && errno != EINTR) return system_error("epoll_wait");
  if (count != 1) return {};
  const auto ready = static_cast<Watch*>(event.data.ptr)->ready;  // it may end the watch
  ready();
  if (timeout != 0) awake_until_ = engine::monotonic_time() + kAwake;
  return {};
}

}  // namespace softhca::control
