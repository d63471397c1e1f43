// SPDX-License-Identifier: Apache-2.0

// Shared receive queues: time constants of their policy, and counters of its effects (D1 to D6).
#pragma once

#include "daemon/base/counter.hpp"
#include "daemon/base/time.hpp"
#include "daemon/qos/receive/srq_policy.hpp"

namespace softhca::receive {

inline constexpr Duration kHalfLife = std::chrono::seconds(1);          ///< of scores
inline constexpr Duration kInterval = std::chrono::milliseconds(100);   ///< of the moving average
inline constexpr Duration kAlarmPause = std::chrono::milliseconds(10);  ///< between two rankings
inline constexpr Duration kRunawayPause = std::chrono::seconds(10);     ///< between two reports
inline constexpr std::uint32_t kRunawayPart = 8;  ///< of a queue, left when a runaway is reported

/// Counters of one tenant, which the engine thread writes.
struct ProvisioningCounters {
  Counter soft_exceeded;        ///< times a queue pair went over its soft limit
  Counter hard_refused;         ///< draws refused
  Counter raised;               ///< buffers added to limits
  Counter replenished;          ///< buffers granted on credit beyond a limit
  Counter recouped;             ///< buffers taken off limits, or off idle queue pairs
  Counter connections_dropped;  ///< queue pairs sent to the error state; counted by the engine
  Counter quarantines;          ///< times a queue pair was put into quarantine
  Gauge quarantined;            ///< queue pairs in quarantine
  Gauge held;                   ///< buffers held by queue pairs, of queues with limits
  Gauge held_high_water;        ///< most at once
  Counter watermarks;           ///< times a queue fell to its low watermark; counted by the engine
  Counter runaways;             ///< times a runaway was reported; counted by the engine
};

}  // namespace softhca::receive
