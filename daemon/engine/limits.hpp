// SPDX-License-Identifier: Apache-2.0

// The sizes of an engine's tables. They stay as long as it lives.
#pragma once

#include <cstdint>

#include "daemon/engine/records/qp_table.hpp"
#include "daemon/qos/schedule/doorbell_config.hpp"

namespace softhca::engine {

struct EngineLimits {
  std::uint32_t vcbs = 4096;
  std::uint32_t pcbs = 8192;  ///< without the dedicated ones
  std::uint32_t dedicated_pcbs = 1024;
  std::uint16_t tenants = 64;
  std::uint16_t levels = 192;  ///< of all tenants
  std::uint16_t tvls = 256;
  std::uint32_t execution_credits = 1024;
  std::uint32_t completion_credits = 8192;
  std::uint32_t queue_pairs = 8192;  ///< rounded up to a power of two
  std::uint64_t qpn_seed = 0;        ///< decides their numbers; 0: they count up
  std::uint32_t memory_regions = 131072;
  std::uint32_t memory_windows = 16384;
  std::uint32_t kept_packets = 8192;  ///< out-of-order packets that are buffered
  DoorbellConfig doorbells = {};
};

/// The sizes of the tables that the next engine takes over.
inline DurableState::Sizes durable_sizes(const EngineLimits& limits) {
  return {.queue_pairs = QpTable::slots_for(limits.queue_pairs),
          .memory_regions = limits.memory_regions,
          .memory_windows = limits.memory_windows};
}
/// Sets the sizes that an earlier engine has chosen.
inline void set_sizes(EngineLimits& limits, const DurableState::Sizes& sizes) {
  limits.queue_pairs = sizes.queue_pairs;
  limits.memory_regions = sizes.memory_regions;
  limits.memory_windows = sizes.memory_windows;
}

}  // namespace softhca::engine
