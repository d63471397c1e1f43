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
  kSoft,  ///< exceeding it is reported
  kHard,  ///< exceeding it is answered as OnExceed says
};
inline constexpr std::array<std::string_view, 2> kLimitKinds = {"soft", "hard"};

/// What happens to a message that would exceed its queue pair's hard limit (D6).
enum class OnExceed : std::uint8_t {
  kRaise,           ///< its limit grows, as long as a part of the queue is assigned to nobody
  kReplenish,       ///< it gets a buffer on credit from that part; the limit stays
  kDropMessage,     ///< receiver not ready (RC), or a counted drop (UC, UD)
  kDropConnection,  ///< its queue pair goes to the error state, and its peer is told (RC)
  kQuarantine,  ///< as kDropMessage, but for one buffer at a time, until it gave back its surplus
};
inline constexpr std::array<std::string_view, 5> kOnExceeds = {"raise", "replenish", "drop-message",
                                                               "drop-connection", "quarantine"};

/// Importance of a connection, 0 (least) to 7.
inline constexpr std::uint8_t kImportances = 8;

/// Entries that a shared receive queue can have.
inline constexpr std::uint32_t kMostSrqBuffers = 65536;

/// Policy for the shared receive queues of a tenant. By default there is no limit, and only
/// runaways are reported.
struct SrqPolicy {
  /// Buffers a queue pair may hold at once, by its importance: the static table (D5). 0: no limit.
  std::array<std::uint32_t, kImportances> limits{};
  LimitKind kind = LimitKind::kHard;
  OnExceed on_exceed = OnExceed::kDropMessage;
  bool statistical = false;     ///< limits follow use (D5)
  double overcommit = 1.0;      ///< sum of limits / buffers of the queue
  std::uint32_t watermark = 0;  ///< buffers left at which to raise the alarm (D4); 0: never
  /// Report a queue pair that drew most of a queue of which an eighth is left.
  bool runaways = true;

  bool operator==(const SrqPolicy&) const = default;

  /// False: nobody needs to keep account of buffers.
  bool wanted() const {
    for (const std::uint32_t limit : limits)
      if (limit != 0) return true;
    return watermark != 0;
  }
};

/// What holds for some of the queue pairs, instead of what the policy says. All that is given must
/// fit; what a rule does not say is as in the policy.
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

/// The first that fits holds.
using SrqRules = std::vector<SrqRule>;
inline constexpr std::size_t kMostSrqRules = 64;  ///< of a tenant

/// False: nobody needs to keep account of buffers.
inline bool accounts_wanted(const SrqPolicy& policy, const SrqRules& rules) {
  for (const SrqRule& rule : rules)
    if (rule.limit.value_or(0) != 0) return true;
  return policy.wanted();
}

}  // namespace softhca
