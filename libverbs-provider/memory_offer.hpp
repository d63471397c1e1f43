// Offers the memory of this process to the daemon, for what cannot be shared.
#pragma once

#include <atomic>

#include "libverbs-provider/control_channel.hpp"
#include "libverbs-provider/lock.hpp"

namespace softhca::provider {

class MemoryOffer {
 public:
  ~MemoryOffer();

  /// The daemon reaches the memory of this process from now on, by /proc/self/mem. 0 or an errno
  /// value: EOPNOTSUPP (the daemon does not want it, or the kernel does not let this program open
  /// it, which has or had rights of its own), EBUSY.
  int make(ControlChannel& control);
  bool is_made() const { return made_.load(std::memory_order_relaxed); }

 private:
  int ask_for_socket(ControlChannel& control);

  Mutex mutex_;
  int socket_ = -1;  ///< where the descriptor goes
  std::atomic<bool> made_{false};
};

}  // namespace softhca::provider
