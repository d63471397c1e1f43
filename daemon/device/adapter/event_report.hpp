// SPDX-License-Identifier: Apache-2.0

// Decides which events of the journal (journal.hpp) the daemon logs, and how.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>

#include "daemon/device/adapter/journal.hpp"
#include "daemon/device/adapter/log.hpp"

namespace softhca::control {

/// How events of a kind are logged.
struct EventMessage {
  const char* kind;
  LogLevel level;
  const char* id;      ///< MESSAGE_ID, explained in deploy/softhca.catalog; empty: none
  const char* prefix;  ///< of the log text
  bool limited;        ///< programs of a tenant can cause it at any rate
};

std::span<const EventMessage> event_messages();
/// Returns the message of a kind of events. Null: these events are not logged.
const EventMessage* message_of(const std::string& kind);
/// Returns the log text of an event. Further lines say what preceded a failure.
std::string line_of(const EventMessage& message, const JournalEntry& entry);

/// Decides which events caused by programs are logged. One tenant can neither fill the log nor use
/// up journald's limit for the daemon. The limit is per log level, so minor events do not hide
/// severe ones.
class EventLimit {
 public:
  static constexpr unsigned kMost = 16;  ///< events of a tenant and log level in a window
  static constexpr Duration kWindow = std::chrono::seconds(10);

  enum class Verdict : std::uint8_t { kLog, kLast, kDrop };
  /// kLast: the event is logged, and later events in the window are not.
  Verdict admit(const std::string& tenant, LogLevel level, Time now);
  /// Drops the windows of a tenant that is gone.
  void forget(const std::string& tenant) {
    std::erase_if(windows_, [&](const auto& window) { return window.first.first == tenant; });
  }

 private:
  struct Window {
    Time until{};
    unsigned events = 0;
  };
  std::map<std::pair<std::string, LogLevel>, Window> windows_;
};

class EventReport {
 public:
  /// MESSAGE_ID of the log line that says that further events are not logged.
  static constexpr const char* kNotLoggedId = "2dcbdfc6cceb47afa2da0e9bc8201e1b";

  void report(const JournalEntry& entry, Time now);

 private:
  EventLimit limit_;
};

}  // namespace softhca::control
