// SPDX-License-Identifier: Apache-2.0

// A rate of a tenant, a level or a queue pair, or of their peers, and the queue pairs and classes
// that wait for it.
#pragma once

#include <cstdint>

#include "daemon/base/counter.hpp"
#include "daemon/base/intrusive_queue.hpp"
#include "daemon/base/linked_list.hpp"
#include "daemon/base/time.hpp"
#include "daemon/qos/pools/rate_limits.hpp"
#include "daemon/qos/schedule/rate_limiter.hpp"

namespace softhca::engine {

struct RateGate;

/// A queue pair or a class that waits for a rate, by its number.
struct RateWaiter {
  IndexLink link;
  RateGate* gate = nullptr;  ///< valid while it is linked
};
using RateWaiters = IndexList<RateWaiter, &RateWaiter::link>;

/// A gate closes when the rate is used up, and opens when the debt is paid. It belongs to the
/// engine's thread. Any thread may read the counters.
struct RateGate {
  RateGate() = default;
  RateGate(const RateGate&) = delete;
  RateGate& operator=(const RateGate&) = delete;

  bool closed() const { return closed_since != kNever; }
  RateLimits limits() const {
    const Rate &bytes = limiter.bytes(), &messages = limiter.messages();
    return {bytes.per_second, bytes.burst, messages.per_second, messages.burst};
  }

  schedule::RateLimiter limiter;
  Time closed_since = kNever;
  RateWaiters classes;         ///< waiting classes: no command is fetched
  RateWaiters queue_pairs;     ///< waiting queue pairs: no command is fetched
  ListLink<RateGate> passing;  ///< it is open, and queue pairs that waited have their turns
  Counter held_ns;             ///< time it was closed, added when it opens
  Gauge held;                  ///< 1: it is closed
  Counter minimum_bytes;       ///< bytes sent before waiting others, for its minimum
};

/// A gate for operations of peers.
struct PeerGate : RateGate {
  Counter bytes;  ///< bytes that passed while it has limits
};

/// Gates for operations of peers on a tenant, a level or a queue pair.
struct PeerGates {
  PeerGate inbound;  ///< their sends, writes and atomics
  PeerGate served;   ///< their reads
};

/// The gates of one queue pair.
struct QpRates {
  RateGate sent;
  PeerGates peers;
};

}  // namespace softhca::engine
