// SPDX-License-Identifier: Apache-2.0

// The control thread's loop over descriptors (epoll): watches descriptors, and calls a function
// when one is ready.
#pragma once

#include <cstdint>
#include <functional>

#include "daemon/base/expected.hpp"
#include "daemon/base/pulse.hpp"
#include "daemon/base/time.hpp"
#include "daemon/base/unique_fd.hpp"

struct epoll_event;

namespace softhca::control {

/// Stays at its address while its descriptor is open.
struct Watch {
  std::function<void()> ready;  ///< may end the object that it serves, and this watch
};

/// The event for which a descriptor is watched.
enum class Interest : std::uint8_t {
  kNothing,
  kReadable,
  kWritable,  ///< for a descriptor with work left: a socket is writable most of the time
};

class EventLoop {
 public:
  Outcome open();
  /// Gives signs of life by `pulse` from now on.
  void show_turns(Pulse& pulse) { pulse_ = &pulse; }
  /// Watches `fd` until it is closed, or until unwatch().
  Outcome watch(int fd, Watch& what);
  void unwatch(int fd);
  /// Changes the event for which a descriptor is watched, which is kReadable at first. Returns
  /// false if it cannot be changed. REQUIRES: watch() was called for the descriptor.
  bool arm(int fd, Watch& what, Interest interest);

  /// Handles at most one event, as handling one may end the object of another. `timeout`: longest
  /// wait in ms.
  Outcome step(int timeout);

  /// Returns a descriptor that is readable when step() has something to handle.
  int fd() const { return epoll_.get(); }

 private:
  int wait_awake(epoll_event& event);
  int wait_asleep(epoll_event& event, int timeout);

  UniqueFd epoll_;
  Pulse* pulse_ = nullptr;
  Time awake_until_{};       ///< the loop polls instead of sleeping until then
  Duration awake_credit_{};  ///< how long the loop may poll
  Time credited_at_{};
};

}  // namespace softhca::control
