// The daemon's log: lines of text on standard output or, where standard error is a stream of the
// systemd journal, entries with fields (systemd.journal-fields(7)). The engine writes nothing to
// it.
#pragma once

#include <spdlog/common.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

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

/// Does $JOURNAL_STREAM name standard error (systemd.exec(5))?
bool stderr_is_journal();
/// For all that is logged from now on. REQUIRES: there are no other threads yet.
void log_to_journal();

void log_line(LogLevel level, const LogSubject& subject, const std::string& text);

/// The fields of an entry, as sd_journal_sendv(3) takes them.
std::vector<std::string> journal_fields(LogLevel level, const LogSubject& subject,
                                        std::string_view text);

}  // namespace softhca::control
