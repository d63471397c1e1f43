// Keeps net_memif from unmapping a peer's rings under the thread that polls them.
#pragma once

#include <atomic>
#include <cstdint>

namespace softhca::port {

/// Held during a burst on a memif port. When a peer goes away, the driver takes the link down and
/// then frees the rings, on DPDK's interrupt thread; with the drivers linked statically, the
/// freeing waits until no burst is under way. REQUIRES: the holder looks at the link after taking
/// the guard and leaves the device alone when it is down.
class BurstGuard {
 public:
  explicit BurstGuard(std::uint16_t port);
  ~BurstGuard();
  BurstGuard(const BurstGuard&) = delete;
  BurstGuard& operator=(const BurstGuard&) = delete;

 private:
  /// Written by the polling thread, read by the interrupt thread.
  std::atomic<bool>& busy_;
};

}  // namespace softhca::port
