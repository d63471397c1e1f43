// SPDX-License-Identifier: Apache-2.0

#include "guest/channel/event_loop.hpp"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "daemon/base/system_error.hpp"

namespace softhca::guest {

Outcome EventLoop::open() {
  epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return system_error("epoll_create1");
  return {};
}

void EventLoop::arm(int fd, Watch& watch, std::uint32_t events) {
  if (fd < 0 || events == watch.armed) return;
  epoll_event event{};
  event.events = events;
  event.data.ptr = &watch;
  const int operation = events == 0        ? EPOLL_CTL_DEL
                        : watch.armed == 0 ? EPOLL_CTL_ADD
                                           : EPOLL_CTL_MOD;
  if (::epoll_ctl(epoll_.get(), operation, fd, &event) == 0) watch.armed = events;
}

Outcome EventLoop::step(int timeout) {
  epoll_event event;
  const int count = ::epoll_wait(epoll_.get(), &event, 1, timeout);
  if (count < 0 && errno != EINTR) return system_error("epoll_wait");
  if (count != 1) return {};
  const auto ready = static_cast<Watch*>(event.data.ptr)->ready;  // it may end the watch
  ready(event.events);
  return {};
}

Timer::Timer(EventLoop& loop, std::function<void()> expired)
    : loop_(loop),
      expired_(std::move(expired)),
      fd_(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) {
  watch_.ready = [this](std::uint32_t) {
    std::uint64_t times;
    if (::read(fd_.get(), &times, sizeof times) != sizeof times) return;
    stop();
    expired_();
  };
}

Timer::~Timer() { stop(); }

void Timer::start(std::uint32_t ms) {
  const itimerspec after{.it_interval = {},
                         .it_value = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1'000'000L}};
  ::timerfd_settime(fd_.get(), 0, &after, nullptr);
  loop_.arm(fd_.get(), watch_, EPOLLIN);
}

void Timer::stop() { loop_.arm(fd_.get(), watch_, 0); }

}  // namespace softhca::guest
