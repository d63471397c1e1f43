// SPDX-License-Identifier: Apache-2.0

// Counters of how reloads of the configuration ended. Written by the control thread, read by any
// thread.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "daemon/base/counter.hpp"

namespace softhca::configuration {

enum class ReloadOutcome : std::uint8_t {
  kSuccess,  ///< the file is in effect
  kBadFile,  ///< the file cannot be read or has errors
  kNotLive,  ///< the file changes a setting that needs a restart
  kNotFree,  ///< there is not enough room
  kSetup,    ///< sockets, ports or the metrics endpoint could not be created
  kCount,
};

constexpr const char* name_of(ReloadOutcome outcome) {
  constexpr std::array<const char*, static_cast<std::size_t>(ReloadOutcome::kCount)> kNames{
      "success", "bad_file", "not_live", "no_room", "setup"};
  return kNames[static_cast<std::size_t>(outcome)];
}

struct ReloadCounters {
  std::array<Counter, static_cast<std::size_t>(ReloadOutcome::kCount)> by_result;
  Gauge last_successful;    ///< 1: the last reload succeeded
  Counter last_success_ms;  ///< time of the last success, in ms since 1970

  /// Counts a reload. `now`: time since 1970.
  void add(ReloadOutcome outcome, std::chrono::milliseconds now) {
    by_result[static_cast<std::size_t>(outcome)].add();
    if (outcome == ReloadOutcome::kSuccess) return in_force(now);
    last_successful.set(0);
  }
  /// Records that the file is in effect. Also called at the start, which does not count as a
  /// reload.
  void in_force(std::chrono::milliseconds now) {
    last_successful.set(1);
    last_success_ms.set(static_cast<std::uint64_t>(now.count()));
  }
};

}  // namespace softhca::configuration
