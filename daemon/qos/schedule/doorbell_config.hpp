// SPDX-License-Identifier: Apache-2.0

// How many doorbells the daemon holds itself, and which of them it prunes (mechanism B4). Pruned
// doorbells wait in the memory of their processes.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace softhca {

/// Selects the queue pair to lose its doorbell, among those that could proceed. One that cannot
/// (blocked, or held by VCB commands) is always pruned before them.
enum class PrunePolicy : std::uint8_t {
  kNewest,        ///< the queue pair that came in last
  kMostOverflow,  ///< the one pruned most often (rounded to a power of two); of equal ones the
                  ///< newest
};
inline constexpr std::array<std::string_view, 2> kPrunePolicies = {"newest", "most-overflow"};

struct DoorbellConfig {
  /// Queue pairs that may have doorbells in the scheduler at once, and how many of these places
  /// should be free. REQUIRES: entries - threshold >= tenants, so that each tenant has a share.
  std::uint32_t entries = 4096;
  std::uint32_t threshold = 256;
  /// The doorbells of a tenant overflow if fewer of its dedicated PCBs are free, and all others of
  /// them wait for a response or an acknowledgement. 0: never.
  std::uint32_t dedicated_threshold = 1;
  /// True: the thresholds above are lower bounds, and the thresholds in force follow the load.
  bool adaptive = false;
  PrunePolicy prune = PrunePolicy::kNewest;

  bool operator==(const DoorbellConfig&) const = default;
};

}  // namespace softhca
