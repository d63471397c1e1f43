// SPDX-License-Identifier: Apache-2.0

// Keeps net_memif from unmapping a peer's rings under the thread that polls them.
#pragma once

#include <atomic>
#include <cstdint>

namespace softhca::port {

/// Held during a burst on a memif port. When a peer goes away, the driver takes the link down and
/// then frees the rings, on DPDK's interrupt thread. With statically linked drivers, the freeing
/// waits until no burst runs. REQUIRES: the holder checks the link after it takes the guard, and
/// does not touch the device if the link is down.
class BurstGuard {
 public:
  explicit BurstGuard(std::uint16_t port);
  ~BurstGuard();
  BurstGuard(const BurstGuard&) = delete;
  BurstGuard& operator=(const BurstGuard&) = delete;

 private:
  /// Writer: polling thread; reader: interrupt thread.
  std::atomic<bool>& busy_;
};

}  // namespace softhca::port
