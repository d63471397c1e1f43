// SPDX-License-Identifier: Apache-2.0

// The last events of a queue pair (qp_event.hpp), in wall-clock time.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "daemon/engine/records/qp_event.hpp"

namespace softhca::control {

struct PastEvent {
  std::chrono::system_clock::time_point first{};
  engine::QpEvent event;

  std::chrono::system_clock::time_point last() const {
    return first + std::chrono::milliseconds(event.lasted_ms);
  }
};

/// Converts the times of events. `now` and `wall` are the same moment on the two clocks.
std::vector<PastEvent> by_calendar(const engine::QpPast& past, Time now,
                                   std::chrono::system_clock::time_point wall);

/// Returns what happened, how often, and the packet.
std::string text_of(const PastEvent& event);
/// Returns a line for each event: how long before `end`, and the event.
std::string lines_of(const std::vector<PastEvent>& past, std::chrono::system_clock::time_point end);

}  // namespace softhca::control
