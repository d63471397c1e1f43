// SPDX-License-Identifier: Apache-2.0

// The settings of a tenant, a level or a TVL that can change while the daemon runs: the keys of the
// schema that have a `set`. A value is a number. For a word of the configuration it is the word's
// index; for yes it is 1; a factor is in thousandths, a share in tenths of a percent.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "daemon/configuration/config.hpp"

namespace softhca::configuration {

enum class LiveSetting : std::uint8_t {
  kShare,
  kClass,
  kVcbs,
  kPcbs,
  kTvls,
  kShared,
  kVcbsPerProcess,
  // Settings of a TVL:
  kExecutionCredits,
  kCompletionCredits,
  kKickList,  ///< its maximum length
  kWeight,
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
  kConnectionsMost,
  kConnectionsHalfOpen,
  kConnectionsPerSecond,
  kConnectionsPcbsEach,
  kFirstLimit,  ///< limits of what programs take: one for each Kind
};
inline constexpr std::size_t kLiveSettings =
    static_cast<std::size_t>(LiveSetting::kFirstLimit) + kKinds;

/// True if the setting is a key of one of the tables of rates.
constexpr bool is_of_rate(LiveSetting setting) {
  return setting >= LiveSetting::kRateBytes && setting <= LiveSetting::kServedBurstMessages;
}

/// True if the setting is a key of `srq`.
constexpr bool is_of_srq(LiveSetting setting) {
  return setting >= LiveSetting::kSrqLimit && setting <= LiveSetting::kSrqWatermark;
}

constexpr LiveSetting limit_of(Kind kind) {
  return static_cast<LiveSetting>(static_cast<std::size_t>(LiveSetting::kFirstLimit) +
                                  static_cast<std::size_t>(kind));
}

/// Returns the name as in the configuration: "vcbs", "execution_credits", "rate.burst_bytes",
/// "sessions".
const std::string& name_of(LiveSetting setting);
std::optional<LiveSetting> live_setting_of(std::string_view name);

enum class ValueForm : std::uint8_t { kNumber, kYesNo, kWord, kFactor, kShare };
ValueForm form_of(LiveSetting setting);
/// Returns the words of a setting of form kWord, in the order of their numbers.
std::span<const std::string_view> words_of(LiveSetting setting);

/// The least and the greatest value.
struct Range {
  std::uint64_t least = 0;
  std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
};
/// Returns the range of a setting, for any tenant of a configuration with these pools.
Range range_of(LiveSetting setting, const PoolsConfig& pools);

bool is_of_tvl(LiveSetting setting);
/// True if a level may have the setting, too.
bool is_of_level(LiveSetting setting);

/// Sets a value. REQUIRES: the value is within the range. The setting belongs to a TVL, to a table
/// of a level, or to a tenant and is neither kVcbs, kPcbs nor kTvls.
void set(TvlConfig& tvl, LiveSetting setting, std::uint64_t amount);
void set(LevelConfig& level, LiveSetting setting, std::uint64_t amount);
void set(TenantConfig& tenant, LiveSetting setting, std::uint64_t amount);

}  // namespace softhca::configuration
