// How reloads of the configuration ended. Written by the control thread, read by any.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "daemon/base/counter.hpp"

namespace softhca::resource {

enum class ReloadOutcome : std::uint8_t {
  kSuccess,  ///< the file is in force
  kBadFile,  ///< it cannot be read or has mistakes
  kNotLive,  ///< it changes what cannot change while the daemon runs
  kNotFree,  ///< there is no room
  kSetup,    ///< sockets, ports or the metrics endpoint could not be made
  kCount,
};

constexpr const char* name_of(ReloadOutcome outcome) {
  constexpr std::array<const char*, static_cast<std::size_t>(ReloadOutcome::kCount)> kNames{
      "success", "bad_file", "not_live", "no_room", "setup"};
  return kNames[static_cast<std::size_t>(outcome)];
}

struct ReloadCounters {
  std::array<Counter, static_cast<std::size_t>(ReloadOutcome::kCount)> by_result;
  Gauge last_successful;    ///< 1, or 0
  Counter last_success_ms;  ///< when, since 1970

  /// `now`: since 1970.
  void add(ReloadOutcome outcome, std::chrono::milliseconds now) {
    by_result[static_cast<std::size_t>(outcome)].add();
    if (outcome == ReloadOutcome::kSuccess) return in_force(now);
    last_successful.set(0);
  }
  /// The file is in force: also at the start, which is no reload.
  void in_force(std::chrono::milliseconds now) {
    last_successful.set(1);
    last_success_ms.set(static_cast<std::uint64_t>(now.count()));
  }
};

}  // namespace softhca::resource
