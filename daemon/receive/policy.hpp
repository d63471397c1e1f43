// What the operator says about shared receive queues (mechanisms D1 to D6).
#pragma once

#include <array>
#include <cstdint>

#include "daemon/base/counter.hpp"
#include "daemon/base/time.hpp"

namespace softhca::receive {

enum class LimitKind : std::uint8_t {
  kSoft,  ///< exceeding is told
  kHard,  ///< exceeding is answered as OnExceed says
};

/// What becomes of a message that would exceed its queue pair's hard limit (D6).
enum class OnExceed : std::uint8_t {
  kRaise,           ///< its limit grows, as long as a part of the queue is assigned to nobody
  kReplenish,       ///< it gets a buffer on credit from that part; the limit stays
  kDropMessage,     ///< receiver not ready (RC), or a counted drop (UC, UD)
  kDropConnection,  ///< its queue pair goes to the error state
};

/// Importance of a connection, 0 (least) to 7.
inline constexpr std::uint8_t kImportances = 8;

struct Policy {
  /// Buffers a queue pair may hold at once, by its importance: the static table (D5). 0: no limit.
  std::array<std::uint32_t, kImportances> limits{};
  LimitKind kind = LimitKind::kHard;
  OnExceed on_exceed = OnExceed::kDropMessage;
  bool statistical = false;     ///< limits follow use (D5)
  double overcommit = 1.0;      ///< sum of limits / buffers of the queue
  std::uint32_t watermark = 0;  ///< buffers left at which to raise the alarm (D4); 0: never
  Duration half_life = std::chrono::seconds(1);          ///< of the score board
  Duration interval = std::chrono::milliseconds(100);    ///< of the moving average
  Duration alarm_pause = std::chrono::milliseconds(10);  ///< between two rankings

  bool operator==(const Policy&) const = default;

  /// False: nothing has to be kept account of.
  bool wanted() const {
    for (const std::uint32_t limit : limits)
      if (limit != 0) return true;
    return watermark != 0;
  }
};

/// Of a tenant; written by the engine thread.
struct ProvisioningCounters {
  Counter soft_exceeded;        ///< times a queue pair went over its soft limit
  Counter hard_refused;         ///< draws refused
  Counter raised;               ///< buffers by which limits grew
  Counter replenished;          ///< buffers given on credit beyond a limit
  Counter recouped;             ///< buffers by which limits shrank, or whose queue pair was idle
  Counter connections_dropped;  ///< queue pairs sent to the error state; by the engine
  Gauge held;                   ///< buffers held by queue pairs, of queues with limits
  Gauge held_high_water;        ///< most at once
  Counter watermarks;           ///< times a queue fell to its low watermark
};

}  // namespace softhca::receive
