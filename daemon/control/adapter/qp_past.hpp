// The last events of a queue pair (engine/qp_event.hpp), by the calendar.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "daemon/engine/qp_event.hpp"

namespace softhca::control {

struct PastEvent {
  std::chrono::system_clock::time_point first{};
  engine::QpEvent event;

  std::chrono::system_clock::time_point last() const {
    return first + std::chrono::milliseconds(event.lasted_ms);
  }
};

/// `now` is `wall`.
std::vector<PastEvent> by_calendar(const engine::QpPast& past, Time now,
                                   std::chrono::system_clock::time_point wall);

/// What happened, how often and about which packet.
std::string text_of(const PastEvent& event);
/// A line for each: how long before `end`, and what.
std::string lines_of(const std::vector<PastEvent>& past, std::chrono::system_clock::time_point end);

}  // namespace softhca::control
