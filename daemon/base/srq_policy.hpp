// How many buffers of a shared receive queue its queue pairs may hold, and what happens beyond that
// (mechanism D).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

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
  kDropConnection,  ///< its queue pair goes to the error state
};
inline constexpr std::array<std::string_view, 4> kOnExceeds = {"raise", "replenish", "drop-message",
                                                               "drop-connection"};

/// Importance of a connection, 0 (least) to 7.
inline constexpr std::uint8_t kImportances = 8;

/// Policy for the shared receive queues of a tenant. By default there is no limit, and nothing is
/// watched.
struct SrqPolicy {
  /// Buffers a queue pair may hold at once, by its importance: the static table (D5). 0: no limit.
  std::array<std::uint32_t, kImportances> limits{};
  LimitKind kind = LimitKind::kHard;
  OnExceed on_exceed = OnExceed::kDropMessage;
  bool statistical = false;     ///< limits follow use (D5)
  double overcommit = 1.0;      ///< sum of limits / buffers of the queue
  std::uint32_t watermark = 0;  ///< buffers left at which to raise the alarm (D4); 0: never

  bool operator==(const SrqPolicy&) const = default;

  /// False: nobody needs to keep account of buffers.
  bool wanted() const {
    for (const std::uint32_t limit : limits)
      if (limit != 0) return true;
    return watermark != 0;
  }
};

}  // namespace softhca
