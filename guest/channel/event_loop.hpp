// SPDX-License-Identifier: Apache-2.0

// The loop of the agent and of the relay over descriptors (epoll), and its timers.
#pragma once

#include <cstdint>
#include <functional>

#include "daemon/base/expected.hpp"
#include "daemon/base/unique_fd.hpp"

namespace softhca::guest {

/// A descriptor that the loop watches. Stays at its address meanwhile.
struct Watch {
  /// Gets the events (EPOLLIN and so on). May end the object that it serves, and this watch.
  std::function<void(std::uint32_t events)> ready;
  std::uint32_t armed = 0;  ///< events that are watched
};

class EventLoop {
 public:
  Outcome open();
  /// Watches the descriptor for these events; none: not at all, as epoll(7) reports errors of each
  /// descriptor that it has. A descriptor must not be closed while it is watched.
  void arm(int fd, Watch& watch, std::uint32_t events);
  /// Handles at most one event, as handling one may end the object of another. `timeout`: longest
  /// wait in ms; -1: forever.
  Outcome step(int timeout);

 private:
  UniqueFd epoll_;
};

/// Calls a function after a time, once.
class Timer {
 public:
  Timer(EventLoop& loop, std::function<void()> expired);
  ~Timer();
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  /// Starts anew. `ms`: at least 1.
  void start(std::uint32_t ms);
  void stop();
  bool is_running() const { return watch_.armed != 0; }

 private:
  EventLoop& loop_;
  std::function<void()> expired_;
  UniqueFd fd_;
  Watch watch_;
};

}  // namespace softhca::guest
