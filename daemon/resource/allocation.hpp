// What of a tenant, a level or a TVL can be set while the daemon runs: the keys of the schema that
// have a `set`. A value is a number: where the configuration has a word, the number is its place;
// yes is 1; a factor is in thousandths.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "daemon/resource/config.hpp"

namespace softhca::resource {

enum class Allocation : std::uint8_t {
  kVcbs,
  kPcbs,
  kTvls,
  kShared,
  kVcbsPerProcess,
  kMostVcbsPerProcess,
  kDedicatedExecutionCredits,
  kDedicatedCompletionCredits,
  // Settings of a TVL:
  kExecutionCredits,
  kCompletionCredits,
  kKickList,  ///< its longest
  kWeight,
  kTvlBytes,
  kTvlBurstBytes,
  kTvlMessages,
  kTvlBurstMessages,
  kTvlMinBytes,
  // "rate.bytes_per_second", ...
  kRateBytes,
  kRateBurstBytes,
  kRateMessages,
  kRateBurstMessages,
  kRateMinBytes,
  // "inbound_rate.bytes_per_second", ...
  kInboundBytes,
  kInboundBurstBytes,
  kInboundMessages,
  kInboundBurstMessages,
  // "served_rate.bytes_per_second", ...
  kServedBytes,
  kServedBurstBytes,
  kServedMessages,
  kServedBurstMessages,
  // "srq.limit", ...
  kSrqLimit,  ///< for every importance
  kSrqKind,
  kSrqOnExceed,
  kSrqStatistical,
  kSrqOvercommit,
  kSrqWatermark,
  // "connections.identifiers", ...
  kConnectionsIdentifiers,
  kConnectionsListeners,
  kConnectionsBacklog,
  kConnectionsMost,
  kConnectionsHalfOpen,
  kConnectionsPerSecond,
  kConnectionsPcbsEach,
  kConnectionsCompletionCreditsEach,
  kFirstLimit,  ///< what programs take: one for each Kind
};
inline constexpr std::size_t kAllocations =
    static_cast<std::size_t>(Allocation::kFirstLimit) + kKinds;

/// A key of one of the tables of rates.
constexpr bool is_of_rate(Allocation allocation) {
  return allocation >= Allocation::kRateBytes && allocation <= Allocation::kServedBurstMessages;
}

constexpr Allocation limit_of(Kind kind) {
  return static_cast<Allocation>(static_cast<std::size_t>(Allocation::kFirstLimit) +
                                 static_cast<std::size_t>(kind));
}

/// As in the configuration: "vcbs", "execution_credits", "rate.burst_bytes", "sessions".
const std::string& name_of(Allocation allocation);
std::optional<Allocation> allocation_of(std::string_view name);

enum class ValueForm : std::uint8_t { kNumber, kYesNo, kWord, kFactor };
ValueForm form_of(Allocation allocation);
/// kWord: the words that it has, in the order of their numbers.
std::span<const std::string_view> words_of(Allocation allocation);

/// Least and most.
struct Range {
  std::uint64_t least = 0;
  std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
};
/// The range of a setting, for any tenant of a configuration with these pools.
Range range_of(Allocation allocation, const PoolsConfig& pools);

bool is_of_tvl(Allocation allocation);
/// True: a level may have it, too.
bool is_of_level(Allocation allocation);

/// REQUIRES: within the range; it is of a TVL, of a table of a level, or of a tenant and neither
/// kVcbs, kPcbs nor kTvls.
void set(TvlConfig& tvl, Allocation allocation, std::uint64_t amount);
void set(LevelConfig& level, Allocation allocation, std::uint64_t amount);
void set(TenantConfig& tenant, Allocation allocation, std::uint64_t amount);

}  // namespace softhca::resource
