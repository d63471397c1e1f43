// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/requests/diagnostic_requests.hpp"

#include <algorithm>
#include <utility>

#include "daemon/engine/engine.hpp"

namespace softhca::engine {

void AddCapture::run(Engine& engine) const { engine.packets().captures().add(capture); }

void RemoveCapture::run(Engine& engine) const { engine.packets().captures().remove(capture); }

void AddFault::run(Engine& engine) { engine.packets().faults().add(fault, std::move(room)); }

void RemoveFault::run(Engine& engine) const { engine.packets().faults().remove(fault); }

std::unique_ptr<Faults::Room> TakeFaultRoom::run(Engine& engine) const {
  return engine.packets().faults().take_room();
}

CopiedEvents CopyEvents::run(Engine& engine) const {
  const EventLog& log = engine.event_log();
  std::uint64_t next = std::max(first, log.oldest());
  for (; next < log.count(); ++next) to.push_back({log[next], log.past(next)});
  return {.next = next, .now = engine.clock().now};
}

}  // namespace softhca::engine
