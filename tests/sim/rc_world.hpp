// SPDX-License-Identifier: Apache-2.0

// Two adapters joined by one reliable connection, each doing its workload to the other.
#pragma once

#include <cstdint>

#include "daemon/roce/transport/reliable/requester.hpp"
#include "daemon/roce/transport/reliable/responder.hpp"
#include "daemon/roce/transport/upcalls.hpp"
#include "tests/sim/model.hpp"

namespace softhca::sim {

struct RcSettings {
  Faults faults;
  transport::RcAttributes attributes;
  WorkloadLimits limits;
  std::uint32_t depth = 16;         ///< of both send queues
  std::uint32_t port_buffers = 64;  ///< frames a side can send in one step
  double receive_rate = 1;          ///< chance per step that receives are posted
  double over_rate = 0;             ///< part of the requests and responses that come too fast
  bool counts_receives = true;
  bool may_fail = false;
  /// What each side keeps of what comes before its turn: in all, and so much that it gives it up.
  struct Keeping {
    std::uint32_t places = 0;
    std::uint32_t watermark = 0;
  };
  Keeping keeping[2];
};

RcSettings random_rc_settings(Random& random);

struct RcOutcome {
  std::uint64_t frames = 0;
  Duration elapsed{};
};

/// Throws Failure. Adds what the sides counted to `totals`.
RcOutcome run_rc(const RcSettings& settings, std::uint64_t seed, Counts& totals);

}  // namespace softhca::sim
