#include "daemon/port/dpdk/memif_gate.hpp"

#include <rte_config.h>
#include <sched.h>

#include <array>

struct rte_eth_dev;

namespace softhca::port {
namespace {

std::array<std::atomic<bool>, RTE_MAX_ETHPORTS> busy;

}  // namespace

// Sequentially consistent, as is the fence below: either the poller sees the link down, or the
// interrupt thread sees the poller.
BurstGuard::BurstGuard(std::uint16_t port) : busy_(busy[port]) { busy_.store(true); }

BurstGuard::~BurstGuard() { busy_.store(false, std::memory_order_release); }

#ifdef SOFTHCA_WRAP_MEMIF

// The linker (--wrap) sends the driver's calls of memif_free_regions() here. The link of the device
// is down by then. Which port it is cannot be told, so this waits for each to be between bursts.
extern "C" void __real_memif_free_regions(rte_eth_dev* device);
extern "C" void __wrap_memif_free_regions(rte_eth_dev* device) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (const auto& port : busy)
    while (port.load(std::memory_order_acquire)) sched_yield();
  __real_memif_free_regions(device);
}

#endif

}  // namespace softhca::port
