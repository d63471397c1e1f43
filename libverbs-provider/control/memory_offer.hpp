// SPDX-License-Identifier: Apache-2.0

// Offers the memory of this process to the daemon, for regions that cannot be shared.
#pragma once

#include <atomic>

#include "libverbs-provider/control/control_channel.hpp"
#include "libverbs-provider/lock.hpp"

namespace softhca::provider {

class MemoryOffer {
 public:
  /// Lets the daemon reach the memory of this process by /proc/self/mem. Returns 0 or an errno
  /// value: EOPNOTSUPP (the daemon refuses, or the file cannot be opened: open_error()), EBUSY,
  /// EMFILE.
  int make(ControlChannel& control);
  bool is_made() const { return made_.load(std::memory_order_relaxed); }
  /// Returns why /proc/self/mem could not be opened. 0: it was opened, or this was never tried.
  int open_error() const { return open_error_.load(std::memory_order_relaxed); }

 private:
  int ask_for_socket(ControlChannel& control);

  Mutex mutex_;
  OwnDescriptor socket_;  ///< takes the descriptor
  std::atomic<int> open_error_{0};
  std::atomic<bool> made_{false};
};

}  // namespace softhca::provider
