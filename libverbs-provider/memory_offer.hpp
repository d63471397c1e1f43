// Offers the memory of this process to the daemon, for what cannot be shared.
#pragma once

#include <atomic>

#include "libverbs-provider/control_channel.hpp"
#include "libverbs-provider/lock.hpp"

namespace softhca::provider {

class MemoryOffer {
 public:
  /// The daemon reaches the memory of this process from now on, by /proc/self/mem. 0 or an errno
  /// value: EOPNOTSUPP (the daemon does not want it, or the file cannot be opened: open_error()),
  /// EBUSY, EMFILE.
  int make(ControlChannel& control);
  bool is_made() const { return made_.load(std::memory_order_relaxed); }
  /// Why /proc/self/mem could not be opened; 0: it could, or that was never tried.
  int open_error() const { return open_error_.load(std::memory_order_relaxed); }

 private:
  int ask_for_socket(ControlChannel& control);

  Mutex mutex_;
  OwnDescriptor socket_;  ///< where the descriptor goes
  std::atomic<int> open_error_{0};
  std::atomic<bool> made_{false};
};

}  // namespace softhca::provider
