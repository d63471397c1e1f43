// SPDX-License-Identifier: Apache-2.0

#include "daemon/device/adapter/qp_past.hpp"

#include <algorithm>
#include <cstdio>

namespace softhca::control {
namespace {

using std::chrono::system_clock;

std::string seconds_text(system_clock::duration span) {
  // Times of events are rounded, so the last event may seem to come after the end.
  const double seconds = std::max(std::chrono::duration<double>(span).count(), 0.0);
  char text[32];
  std::snprintf(text, sizeof text, "%.3f s", seconds);
  return text;
}

}  // namespace

std::vector<PastEvent> by_calendar(const engine::QpPast& past, Time now,
                                   system_clock::time_point wall) {
  std::vector<PastEvent> out;
  for (std::uint32_t i = 0; i < past.count; ++i) {
    const engine::QpEvent& event = past.events[i];
    const auto ago = std::chrono::duration_cast<system_clock::duration>(now - event.first);
    out.push_back({.first = wall - ago, .event = event});
  }
  return out;
}

std::string text_of(const PastEvent& past) {
  const engine::QpEvent& event = past.event;
  std::string text = engine::text_of(event);
  if (event.has_psn != 0) text += ", PSN " + std::to_string(event.psn);
  if (event.count > 1) text += " (" + std::to_string(event.count) + " times)";
  return text;
}

std::string lines_of(const std::vector<PastEvent>& past, system_clock::time_point end) {
  std::string lines;
  for (const PastEvent& event : past) {
    lines += "\n  " + seconds_text(end - event.first) + " before";
    if (event.event.lasted_ms != 0)
      lines += " until " + seconds_text(end - event.last()) + " before";
    lines += ": " + text_of(event);
  }
  return lines;
}

}  // namespace softhca::control
