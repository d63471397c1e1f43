#include "daemon/control/server/event_loop.hpp"

#include <sys/epoll.h>

#include <cerrno>

#include "daemon/base/system_error.hpp"

namespace softhca::control {

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

Outcome EventLoop::step(int timeout) {
  epoll_event event;
  const int count = ::epoll_wait(epoll_.get(), &event, 1, timeout);
  if (count < 0 && errno != EINTR) return system_error("epoll_wait");
  if (count != 1) return {};
  const auto ready = static_cast<Watch*>(event.data.ptr)->ready;  // it may end the watch
  ready();
  return {};
}

}  // namespace softhca::control
