// SPDX-License-Identifier: Apache-2.0

// Which amounts of a tenant or of a TVL the operator has given: in the file or by a request. The
// others follow from share and class. What a tenant changes itself is not given.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "daemon/configuration/object_limits.hpp"

namespace softhca::configuration {

/// The amounts that follow, besides the limits.
enum class Followed : std::uint8_t {
  kVcbs,
  kVcbsPerProcess,
  kPcbs,
  kTvls,
  kLends,
  kPriority,
  // Amounts of a TVL:
  kWeight,
  kExecutionCredits,
  kCompletionCredits,
  kKickList,
  kCount,
};
inline constexpr auto kFollowed = static_cast<std::size_t>(Followed::kCount);
inline constexpr std::array<std::string_view, kFollowed> kFollowedKeys = {"vcbs",
                                                                          "vcbs_per_process",
                                                                          "pcbs",
                                                                          "tvls",
                                                                          "lends",
                                                                          "priority",
                                                                          "weight",
                                                                          "execution_credits",
                                                                          "completion_credits",
                                                                          "kick_list"};

class GivenAmounts {
 public:
  /// Records that the amount with this key is given. Keys of other settings have no effect.
  void add(std::string_view key) {
    for (std::size_t i = 0; i < kFollowed; ++i)
      if (key == kFollowedKeys[i]) given_.set(i);
    for (std::size_t i = 0; i < kKinds; ++i)
      if (key == kKindNames[i]) given_.set(kFollowed + i);
  }
  bool has(Followed amount) const { return given_.test(static_cast<std::size_t>(amount)); }
  bool has(Kind limit) const { return given_.test(kFollowed + static_cast<std::size_t>(limit)); }

  bool is_same(const GivenAmounts& other) const { return given_ == other.given_; }
  /// Tenants with the same amounts are equal, whether these are given or follow.
  bool operator==(const GivenAmounts&) const { return true; }

 private:
  std::bitset<kFollowed + kKinds> given_{};
};

}  // namespace softhca::configuration
