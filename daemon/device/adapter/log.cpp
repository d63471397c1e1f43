// SPDX-License-Identifier: Apache-2.0

#include "daemon/device/adapter/log.hpp"

#include <poll.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <syslog.h>
#include <systemd/sd-journal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

namespace softhca::control {

/// A line of text, or the fields of an entry of the journal.
struct LogLine {
  std::string text;
  std::vector<std::string> fields{};
  int output = -1;
};

namespace {

constexpr const char* kIdentifier = "softhcad";

constexpr std::chrono::seconds kLastLines(1);

bool to_journal = false;
int log_output = STDOUT_FILENO;
Counter dropped_lines;  ///< guarded by the mutex of the queue

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

void write_text(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {
      pollfd room{.fd = fd, .events = POLLOUT, .revents = 0};
      ::poll(&room, 1, -1);
    } else if (errno != EINTR) {
      return;  // the reader is gone
    }
  }
}

/// Writes a line. May block for as long as the reader does not read.
void write_line(LogLine& line) {
  if (line.fields.empty()) return write_text(line.output, line.text);
  std::vector<iovec> entry;
  entry.reserve(line.fields.size());
  for (std::string& field : line.fields) entry.push_back({field.data(), field.size()});
  if (::sd_journal_sendv(entry.data(), static_cast<int>(entry.size())) < 0)
    write_text(STDERR_FILENO, line.text);
}

}  // namespace

bool stderr_is_journal() {
  const char* const stream = std::getenv("JOURNAL_STREAM");
  struct stat there {};
  if (stream == nullptr || ::fstat(STDERR_FILENO, &there) != 0) return false;
  return std::to_string(there.st_dev) + ":" + std::to_string(there.st_ino) == stream;
}

struct LogThread::Queue {
  std::mutex mutex;
  std::condition_variable changed;  ///< a line was added, the thread has to end, or it has ended
  std::deque<LogLine> lines;
  bool ending = false;
  bool ended = false;
  bool lost = false;  ///< lines were dropped since the last notice of that

  void push(LogLine line) {
    const std::lock_guard lock(mutex);
    if (lines.size() >= kMostWaiting) {
      dropped_lines.add();
      lost = true;
      return;
    }
    lines.push_back(std::move(line));
    changed.notify_all();
  }

  void run() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return ending || !lines.empty(); });
      if (lines.empty()) break;
      LogLine line = std::move(lines.front());
      lines.pop_front();
      const bool tell = lines.empty() && std::exchange(lost, false);
      lock.unlock();
      write_line(line);
      if (tell) write_loss();
      lock.lock();
    }
    ended = true;
    changed.notify_all();
  }

  static void write_loss();
};

/// Takes all lines logged by spdlog, with or without a subject.
class LogSink final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  /// Null: the thread that logs writes each line at once.
  static inline std::shared_ptr<LogThread::Queue> queue;

  static void take(LogLine line) {
    if (queue != nullptr)
      queue->push(std::move(line));
    else
      write_line(line);
  }
  /// Returns the line for a message, in the format of the log.
  static LogLine make_line(LogLevel level, const LogSubject& subject, std::string_view text) {
    LogLine line{.text = std::string(spdlog::level::to_string_view(level).data()) + ": " +
                         std::string(text) + "\n",
                 .output = log_output};
    if (to_journal) line.fields = journal_fields(level, subject, text);
    return line;
  }

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    take(make_line(message.level, {}, {message.payload.data(), message.payload.size()}));
  }
  void flush_() override {}
};

void LogThread::Queue::write_loss() {
  LogLine line =
      LogSink::make_line(spdlog::level::warn, {},
                         "log lines were dropped, " + std::to_string(dropped_lines.value()) +
                             " so far: the log is read too slowly");
  write_line(line);
}

LogThread::LogThread() : queue_(std::make_shared<Queue>()) {
  std::thread([queue = queue_] { queue->run(); }).detach();
  LogSink::queue = queue_;
}

LogThread::~LogThread() {
  std::unique_lock lock(queue_->mutex);
  queue_->ending = true;
  queue_->changed.notify_all();
  queue_->changed.wait_for(lock, kLastLines, [&] { return queue_->ended; });
  if (queue_->ended) LogSink::queue = nullptr;
}

const Counter& dropped_log_lines() { return dropped_lines; }

void open_log(bool journal, int lines_to) {
  to_journal = journal;
  log_output = lines_to;
  LogSink::queue = nullptr;
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>(kIdentifier, std::make_shared<LogSink>()));
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

void print_failure(const std::string& text) {
  LogSink::take({.text = "softhcad: " + text + "\n", .output = STDERR_FILENO});
}

void log_line(LogLevel level, const LogSubject& subject, const std::string& text) {
  if (spdlog::should_log(level)) LogSink::take(LogSink::make_line(level, subject, text));
}

}  // namespace softhca::control
