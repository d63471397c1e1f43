// The control thread's loop over descriptors (epoll): what is watched, and what is done when it is
// ready.
#pragma once

#include <functional>

#include "daemon/base/expected.hpp"
#include "daemon/base/unique_fd.hpp"

namespace softhca::control {

/// Stays where it is as long as its descriptor is open.
struct Watch {
  std::function<void()> ready;  ///< may end what it is about, and this watch
};

class EventLoop {
 public:
  Outcome open();
  /// Watches `fd` until it is closed, or until unwatch().
  Outcome watch(int fd, Watch& what);
  void unwatch(int fd);
  /// Switches the watching of a descriptor on or off. REQUIRES: watch() was called for it. False:
  /// it cannot be changed.
  bool arm(int fd, Watch& what, bool armed);

  /// Handles at most one event: handling one may end what another is about. `timeout`: milliseconds
  /// to wait at most.
  Outcome step(int timeout);

 private:
  UniqueFd epoll_;
};

}  // namespace softhca::control
