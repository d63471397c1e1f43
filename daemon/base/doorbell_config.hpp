// How many doorbells the daemon keeps itself, and which of them leave it (mechanism B4); the others
// wait in the memory of their programs.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace softhca {

/// Which queue pair's doorbell is pruned, among those that could go on. One that cannot (blocked,
/// or held by VCB commands) is always pruned before them.
enum class PrunePolicy : std::uint8_t {
  kNewest,        ///< of the queue pair that came in last
  kMostOverflow,  ///< of a queue pair pruned most often (to a power of two); of these the newest
};
inline constexpr std::array<std::string_view, 2> kPrunePolicies = {"newest", "most-overflow"};

struct DoorbellConfig {
  /// Queue pairs that may have doorbells in the scheduler at once, and how many of these places are
  /// to be free. REQUIRES: entries - threshold >= tenants, so that each has a share.
  std::uint32_t entries = 4096;
  std::uint32_t threshold = 256;
  /// Dedicated PCBs of a tenant: with fewer free, and all others waiting for a response or an
  /// acknowledgement, its doorbells overflow. 0: never.
  std::uint32_t dedicated_threshold = 1;
  /// True: the thresholds above are the least; the thresholds in force follow the load.
  bool adaptive = false;
  PrunePolicy prune = PrunePolicy::kNewest;

  bool operator==(const DoorbellConfig&) const = default;
};

}  // namespace softhca
