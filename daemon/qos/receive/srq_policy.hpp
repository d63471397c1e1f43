// SPDX-License-Identifier: Apache-2.0

// How many buffers of a shared receive queue its queue pairs may hold, and what happens beyond that
// (mechanism D).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/net.hpp"

namespace softhca {

enum class LimitKind : std::uint8_t {
  kSoft,  ///< the daemon reports a queue pair that exceeds it
  kHard,  ///< the daemon acts as OnExceed says
};
inline constexpr std::array<std::string_view, 2> kLimitKinds = {"soft", "hard"};

/// What the engine does with a message that would exceed its queue pair's hard limit (D6).
enum class OnExceed : std::uint8_t {
  kRaise,        ///< raises the limit, while a part of the queue is not assigned to any queue pair
  kReplenish,    ///< lends a buffer from that part; the limit stays
  kDropMessage,  ///< reports receiver not ready (RC), or drops and counts the message (UC, UD)
  kDropConnection,  ///< moves the queue pair to the error state, and notifies its peer (RC)
  kQuarantine,  ///< as kDropMessage, but admits one buffer at a time until the surplus is returned
};
inline constexpr std::array<std::string_view, 5> kOnExceeds = {"raise", "replenish", "drop-message",
                                                               "drop-connection", "quarantine"};

/// Importance of a connection, 0 (least) to 7.
inline constexpr std::uint8_t kImportances = 8;

/// Most entries of a shared receive queue.
inline constexpr std::uint32_t kMostSrqBuffers = 65536;

/// Policy for the shared receive queues of a tenant. The defaults set no limit. Without a watermark
/// the engine reports runaways: a queue pair that took most of the buffers of a queue of which an
/// eighth is left.
struct SrqPolicy {
  /// Buffers that a queue pair may hold at once, by its importance: the static table (D5). 0: no
  /// limit.
  std::array<std::uint32_t, kImportances> limits{};
  LimitKind kind = LimitKind::kHard;
  OnExceed on_exceed = OnExceed::kDropMessage;
  bool statistical = false;     ///< limits follow the use of the queue (D5)
  double overcommit = 1.0;      ///< sum of limits / buffers of the queue
  std::uint32_t watermark = 0;  ///< buffers left that raise the alarm (D4); 0: never

  bool operator==(const SrqPolicy&) const = default;

  /// True if the policy needs the buffers held per queue pair to be counted.
  bool wanted() const {
    for (const std::uint32_t limit : limits)
      if (limit != 0) return true;
    return watermark != 0;
  }
};

/// Overrides the policy for queue pairs that match all given criteria. Values that a rule does not
/// give are those of the policy.
struct SrqRule {
  std::vector<AddressPrefix> peers;    ///< of a connected queue pair; empty: any, or none
  std::string level;                   ///< of its process; empty: any
  std::optional<std::uint32_t> queue;  ///< number of the shared receive queue

  std::optional<std::uint32_t> limit;  ///< 0: none
  std::optional<std::uint8_t> importance;
  std::optional<LimitKind> kind;
  std::optional<OnExceed> on_exceed;

  bool operator==(const SrqRule&) const = default;
};

/// The first rule that matches applies.
using SrqRules = std::vector<SrqRule>;
inline constexpr std::size_t kMostSrqRules = 64;  ///< of a tenant

/// True if the policy or a rule needs the buffers held per queue pair to be counted.
inline bool accounts_wanted(const SrqPolicy& policy, const SrqRules& rules) {
  for (const SrqRule& rule : rules)
    if (rule.limit.value_or(0) != 0) return true;
  return policy.wanted();
}

}  // namespace softhca
