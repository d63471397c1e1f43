// A rate of a tenant, a level, a TVL or a queue pair, or of their peers, and what waits for it.
#pragma once

#include <cstdint>

#include "daemon/base/counter.hpp"
#include "daemon/base/intrusive_queue.hpp"
#include "daemon/base/linked_list.hpp"
#include "daemon/base/rate_limits.hpp"
#include "daemon/base/time.hpp"
#include "daemon/schedule/rate_limiter.hpp"

namespace softhca::engine {

struct RateGate;

/// What waits for a rate: a queue pair or a class, by its number.
struct RateWaiter {
  IndexLink link;
  RateGate* gate = nullptr;  ///< while it is linked
};
using RateWaiters = IndexList<RateWaiter, &RateWaiter::link>;

/// It closes when the rate is used up, and opens when the debt is paid. Belongs to the engine's
/// thread; the counters may be read on any.
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
  RateWaiters classes;         ///< nothing of them is fetched
  RateWaiters queue_pairs;     ///< nor of them
  ListLink<RateGate> passing;  ///< it is open, and queue pairs that waited have their turns
  Counter held_ns;             ///< time it was closed, counted when that is over
  Gauge held;                  ///< 1: it is closed
  Counter minimum_bytes;       ///< that went before others, who waited, for its minimum
};

/// One that peers go through.
struct PeerGate : RateGate {
  Counter bytes;  ///< let through while it has limits
};

/// What peers may do with a tenant, a level or a queue pair.
struct PeerGates {
  PeerGate inbound;  ///< their sends, writes and atomics
  PeerGate served;   ///< what they read
};

/// Those of one queue pair.
struct QpRates {
  RateGate sent;
  PeerGates peers;
};

}  // namespace softhca::engine
