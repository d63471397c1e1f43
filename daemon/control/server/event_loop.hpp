// The control thread's loop over descriptors (epoll): what is watched, and what is done when it is
// ready.
#pragma once

#include <cstdint>
#include <functional>

#include "daemon/base/expected.hpp"
#include "daemon/base/time.hpp"
#include "daemon/base/unique_fd.hpp"

namespace softhca::control {

/// Stays where it is as long as its descriptor is open.
struct Watch {
  std::function<void()> ready;  ///< may end what it is about, and this watch
};

/// When a descriptor that is watched has its turns.
enum class Interest : std::uint8_t {
  kNothing,
  kReadable,
  kWritable,  ///< of one with something left to do: a socket is writable most of the time
};

class EventLoop {
 public:
  Outcome open();
  /// Watches `fd` until it is closed, or until unwatch().
  Outcome watch(int fd, Watch& what);
  void unwatch(int fd);
  /// Changes what a descriptor is watched for, kReadable at first. REQUIRES: watch() was called for
  /// it. False: it cannot be changed.
  bool arm(int fd, Watch& what, Interest interest);

  /// Handles at most one event: handling one may end what another is about. `timeout`: milliseconds
  /// to wait at most.
  Outcome step(int timeout);

  /// Readable when step() has something to handle.
  int fd() const { return epoll_.get(); }

 private:
  UniqueFd epoll_;
  Time awake_until_{};  ///< it does not sleep for the next event before
};

}  // namespace softhca::control
