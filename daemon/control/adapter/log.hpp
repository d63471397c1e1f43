// The daemon's log: lines of text on standard output or, where standard error is a stream of the
// systemd journal, entries with fields (systemd.journal-fields(7)). The engine writes nothing to
// it.
//
// A reader of the log may be slow, or may stop: a pipe, a terminal, journald itself. So a LogThread
// writes it, and what the other threads log waits for it in a queue.
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

/// What a line is about, for the fields of its entry. Empty or 0: nothing of the kind.
struct LogSubject {
  std::string_view message_id;  ///< of deploy/softhca.catalog
  std::string_view event;       ///< its kind
  std::string_view tenant;
  std::uint32_t queue_pair = 0;
  std::uint32_t process = 0;
  std::string_view peer;  ///< address
  std::uint32_t peer_queue_pair = 0;
};

/// True if $JOURNAL_STREAM names standard error (systemd.exec(5)).
bool stderr_is_journal();
/// For all that is logged from now on. `output`: a descriptor for lines of text. REQUIRES: there
/// are no other threads yet.
void open_log(bool to_journal, int output);

/// Writes what is logged while it exists. Without it, each line is written when it is logged.
class LogThread {
 public:
  /// Lines that wait to be written. One more is dropped and counted; the log says so later.
  static constexpr std::size_t kMostWaiting = 1024;

  /// REQUIRES: open_log() was called, and there is no other LogThread.
  LogThread();
  /// Waits a second at most for what is logged to be written. A thread that still waits for the
  /// reader then goes with the process.
  ~LogThread();
  LogThread(const LogThread&) = delete;
  LogThread& operator=(const LogThread&) = delete;

 private:
  struct Queue;
  friend class LogSink;
  std::shared_ptr<Queue> queue_;
};

/// Lines that were dropped, of all threads.
const Counter& dropped_log_lines();

/// Says why the program ends: a line on standard error, in turn with those that are logged.
void print_failure(const std::string& text);

void log_line(LogLevel level, const LogSubject& subject, const std::string& text);

/// The fields of an entry, as sd_journal_sendv(3) takes them.
std::vector<std::string> journal_fields(LogLevel level, const LogSubject& subject,
                                        std::string_view text);

}  // namespace softhca::control
