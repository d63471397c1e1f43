// SPDX-License-Identifier: Apache-2.0

// The daemon's log: lines of text on standard output or, where standard error is a stream of the
// systemd journal, entries with fields (systemd.journal-fields(7)). The engine does not log.
//
// A reader of the log (a pipe, a terminal, journald) may be slow or stop. So a LogThread writes the
// log, and lines of other threads wait in its queue.
#pragma once

#include <spdlog/common.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/counter.hpp"

namespace softhca::control {

using LogLevel = spdlog::level::level_enum;

/// The subject of a line, for the fields of its entry. Empty or 0: none.
struct LogSubject {
  std::string_view message_id;  ///< listed in deploy/softhca.catalog
  std::string_view event;       ///< kind of event
  std::string_view tenant;
  std::uint32_t queue_pair = 0;
  std::uint32_t process = 0;
  std::string_view peer;  ///< address
  std::uint32_t peer_queue_pair = 0;
};

/// True if $JOURNAL_STREAM names standard error (systemd.exec(5)).
bool stderr_is_journal();
/// Opens the log for all later lines. `output`: a descriptor for lines of text. REQUIRES: the
/// process has no other threads yet.
void open_log(bool to_journal, int output);

/// Writes the log while it exists. Without it, a thread that logs writes its line itself.
class LogThread {
 public:
  /// Limit of the queue. A line beyond it is dropped and counted, and a later line of the log says
  /// so.
  static constexpr std::size_t kMostWaiting = 1024;

  /// REQUIRES: open_log() was called, and no other LogThread exists.
  LogThread();
  /// Waits at most a second for the thread to write the queued lines. A thread that still waits for
  /// the reader ends with the process.
  ~LogThread();
  LogThread(const LogThread&) = delete;
  LogThread& operator=(const LogThread&) = delete;

 private:
  struct Queue;
  friend class LogSink;
  std::shared_ptr<Queue> queue_;
};

/// Returns the number of dropped lines, of all threads.
const Counter& dropped_log_lines();

/// Writes why the program ends: a line on standard error, in order with the lines of the log.
void print_failure(const std::string& text);

void log_line(LogLevel level, const LogSubject& subject, const std::string& text);

/// Returns the fields of an entry, as sd_journal_sendv(3) takes them.
std::vector<std::string> journal_fields(LogLevel level, const LogSubject& subject,
                                        std::string_view text);

}  // namespace softhca::control
