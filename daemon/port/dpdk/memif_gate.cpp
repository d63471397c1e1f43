// SPDX-License-Identifier: Apache-2.0

#include "daemon/port/dpdk/memif_gate.hpp"

#include <rte_config.h>
#include <sched.h>

#include <array>

struct rte_eth_dev;

namespace softhca::port {
namespace {

std::array<std::atomic<bool>, RTE_MAX_ETHPORTS> busy;

}  // namespace

// Sequentially consistent, like the fence below: either the polling thread sees that the link is
// down, or the interrupt thread sees the polling thread.
BurstGuard::BurstGuard(std::uint16_t port) : busy_(busy[port]) { busy_.store(true); }

BurstGuard::~BurstGuard() { busy_.store(false, std::memory_order_release); }

#ifdef SOFTHCA_WRAP_MEMIF

// The linker (--wrap) redirects the driver's calls of memif_free_regions() here. The link of the
// device is already down. The call does not tell the port, so this waits until no port is in a
// burst.
extern "C" void __real_memif_free_regions(rte_eth_dev* device);
extern "C" void __wrap_memif_free_regions(rte_eth_dev* device) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (const auto& port : busy)
    while (port.load(std::memory_order_acquire)) sched_yield();
  __real_memif_free_regions(device);
}

#endif

}  // namespace softhca::port
