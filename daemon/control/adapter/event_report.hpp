// Which events of the journal (journal.hpp) are written to the log, and how.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>

#include "daemon/control/adapter/journal.hpp"
#include "daemon/control/adapter/log.hpp"

namespace softhca::control {

/// How an event of a kind is logged.
struct EventMessage {
  const char* kind;
  LogLevel level;
  const char* id;      ///< MESSAGE_ID, explained in deploy/softhca.catalog; empty: none
  const char* prefix;  ///< of its text
  bool limited;        ///< programs of a tenant cause it, as often as they like
};

std::span<const EventMessage> event_messages();
/// Null: there is none.
const EventMessage* message_of(const std::string& kind);
/// Its line of the log; more of them say what came before a failure.
std::string line_of(const EventMessage& message, const JournalEntry& entry);

/// Decides which of the events that programs cause are logged, so that one tenant neither fills the
/// log nor uses up what journald takes of the daemon; nor hides what is severe behind what is not.
class EventLimit {
 public:
  static constexpr unsigned kMost = 16;  ///< of a tenant and level
  static constexpr Duration kWindow = std::chrono::seconds(10);

  enum class Verdict : std::uint8_t { kLog, kLast, kDrop };
  /// kLast: it is logged, and those that follow in the window are not.
  Verdict admit(const std::string& tenant, LogLevel level, Time now);
  /// The tenant is gone.
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
  /// MESSAGE_ID of the line that says that some are not logged.
  static constexpr const char* kNotLoggedId = "2dcbdfc6cceb47afa2da0e9bc8201e1b";

  void report(const JournalEntry& entry, Time now);

 private:
  EventLimit limit_;
};

}  // namespace softhca::control
