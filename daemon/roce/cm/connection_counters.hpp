// SPDX-License-Identifier: Apache-2.0

// Counters of the connection service of a tenant. The control thread writes them; any thread reads
// them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "daemon/base/counter.hpp"
#include "daemon/base/histogram.hpp"

namespace softhca::management {

struct ConnectionCounters {
  /// Codes of REJ (IBA 12.6.7.2) up to the last; greater codes count as 0.
  static constexpr std::size_t kRejectReasons = 36;
  static constexpr std::size_t kRefusals = 9;  ///< the number of values of rdma_cm::Refusal

  Counter established_active, established_passive;
  Counter unreachable;
  std::array<Counter, kRejectReasons> rejects_sent, rejects_received;
  std::array<Counter, kRefusals> refused;
  Histogram establish_ns;  ///< from the program's connect, or from the peer's request
  // Counters of the connection manager, as of the last read.
  Counter mads_received, mads_sent, retries, duplicates, malformed, stale, timeouts;
  Gauge connections, half_open, listeners, identifiers, event_channels;
};

}  // namespace softhca::management
