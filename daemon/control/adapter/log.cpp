#include "daemon/control/adapter/log.hpp"

#include <spdlog/sinks/systemd_sink.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <syslog.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>

namespace softhca::control {
namespace {

constexpr const char* kIdentifier = "softhcad";

bool to_journal = false;

int priority_of(LogLevel level) {
  switch (level) {
    case spdlog::level::critical:
      return LOG_CRIT;
    case spdlog::level::err:
      return LOG_ERR;
    case spdlog::level::warn:
      return LOG_WARNING;
    case spdlog::level::info:
      return LOG_INFO;
    default:
      return LOG_DEBUG;
  }
}

}  // namespace

bool stderr_is_journal() {
  const char* const stream = std::getenv("JOURNAL_STREAM");
  struct stat there {};
  if (stream == nullptr || ::fstat(STDERR_FILENO, &there) != 0) return false;
  return std::to_string(there.st_dev) + ":" + std::to_string(there.st_ino) == stream;
}

void log_to_journal() {
  to_journal = true;
  auto sink = std::make_shared<spdlog::sinks::systemd_sink_mt>(kIdentifier);
  spdlog::set_default_logger(std::make_shared<spdlog::logger>(kIdentifier, std::move(sink)));
}

std::vector<std::string> journal_fields(LogLevel level, const LogSubject& subject,
                                        std::string_view text) {
  std::vector<std::string> fields{"MESSAGE=" + std::string(text),
                                  "PRIORITY=" + std::to_string(priority_of(level)),
                                  std::string("SYSLOG_IDENTIFIER=") + kIdentifier};
  const auto add = [&](const char* name, std::string_view value) {
    if (!value.empty()) fields.push_back(std::string(name) + "=" + std::string(value));
  };
  const auto add_number = [&](const char* name, std::uint32_t value) {
    if (value != 0) add(name, std::to_string(value));
  };
  add("MESSAGE_ID", subject.message_id);
  add("SOFTHCA_EVENT", subject.event);
  add("SOFTHCA_TENANT", subject.tenant);
  add_number("SOFTHCA_QPN", subject.queue_pair);
  add_number("SOFTHCA_PID", subject.process);
  add("SOFTHCA_PEER", subject.peer);
  add_number("SOFTHCA_PEER_QPN", subject.peer_queue_pair);
  return fields;
}

void log_line(LogLevel level, const LogSubject& subject, const std::string& text) {
  if (!spdlog::should_log(level)) return;
  if (!to_journal) return spdlog::log(level, "{}", text);
  std::vector<std::string> fields = journal_fields(level, subject, text);
  std::vector<iovec> entry;
  entry.reserve(fields.size());
  for (std::string& field : fields) entry.push_back({field.data(), field.size()});
  if (::sd_journal_sendv(entry.data(), static_cast<int>(entry.size())) < 0)
    std::fprintf(stderr, "%s\n", text.c_str());
}

}  // namespace softhca::control
