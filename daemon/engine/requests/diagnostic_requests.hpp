// SPDX-License-Identifier: Apache-2.0

// Requests for captures and faults, and for the events that the engine has noted.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/base/time.hpp"
#include "daemon/engine/diagnostics/faults.hpp"
#include "daemon/engine/records/event_log.hpp"

namespace softhca::engine {

class Capture;
class Engine;

/// Starts a capture.
struct AddCapture {
  Capture& capture;
  void run(Engine& engine) const;
};

/// Ends a capture. The engine does not use it any more.
struct RemoveCapture {
  Capture& capture;
  void run(Engine& engine) const;
};

/// Puts a fault into force. REQUIRES: fewer than Faults::kMost are in force.
struct AddFault {
  Fault& fault;
  std::unique_ptr<Faults::Room> room{};  ///< for packets that it holds; null: there is room already
  void run(Engine& engine);
};

/// Ends a fault. The packets that it holds go on in the next poll step.
struct RemoveFault {
  const Fault& fault;
  void run(Engine& engine) const;
};

/// Returns the room for held packets when it is not needed any more, else null.
struct TakeFaultRoom {
  std::unique_ptr<Faults::Room> run(Engine& engine) const;
};

/// An event of the log, and the history of its queue pair.
struct LoggedEvent {
  DaemonEvent event;
  QpPast past;
};

/// What CopyEvents returns.
struct CopiedEvents {
  std::uint64_t next = 0;  ///< number of the next event
  Time now{};
};

/// Copies the events from number `first` on that the log still has. REQUIRES: `to` is empty and has
/// the capacity for EventLog::kKept, since the engine allocates nothing for it.
struct CopyEvents {
  std::uint64_t first;
  std::vector<LoggedEvent>& to;
  CopiedEvents run(Engine& engine) const;
};

}  // namespace softhca::engine
