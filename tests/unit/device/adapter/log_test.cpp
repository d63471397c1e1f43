// SPDX-License-Identifier: Apache-2.0

#include "daemon/device/adapter/log.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <string>

#include "daemon/base/unique_fd.hpp"

namespace softhca::control {
namespace {

using testing::ElementsAre;

TEST(Log, AnEntryHasAFieldForWhatIsKnown) {
  EXPECT_THAT(journal_fields(spdlog::level::info, {}, "ready"),
              ElementsAre("MESSAGE=ready", "PRIORITY=6", "SYSLOG_IDENTIFIER=softhcad"));
  EXPECT_THAT(journal_fields(spdlog::level::warn,
                             {.message_id = "0123",
                              .event = "queue_pair_error",
                              .tenant = "web",
                              .queue_pair = 17,
                              .process = 4711,
                              .peer = "10.0.0.2",
                              .peer_queue_pair = 18},
                             "it failed"),
              ElementsAre("MESSAGE=it failed", "PRIORITY=4", "SYSLOG_IDENTIFIER=softhcad",
                          "MESSAGE_ID=0123", "SOFTHCA_EVENT=queue_pair_error", "SOFTHCA_TENANT=web",
                          "SOFTHCA_QPN=17", "SOFTHCA_PID=4711", "SOFTHCA_PEER=10.0.0.2",
                          "SOFTHCA_PEER_QPN=18"));
}

TEST(Log, PrioritiesAreThoseOfSyslog) {
  const auto priority = [](LogLevel level) { return journal_fields(level, {}, "")[1]; };
  EXPECT_EQ(priority(spdlog::level::trace), "PRIORITY=7");
  EXPECT_EQ(priority(spdlog::level::debug), "PRIORITY=7");
  EXPECT_EQ(priority(spdlog::level::err), "PRIORITY=3");
  EXPECT_EQ(priority(spdlog::level::critical), "PRIORITY=2");
}

TEST(Log, IsTheJournalWhereItsStreamIsStandardError) {
  struct stat there {};
  ASSERT_EQ(::fstat(STDERR_FILENO, &there), 0);
  const auto inode = [&](ino_t number) {
    return std::to_string(there.st_dev) + ":" + std::to_string(number);
  };
  ::setenv("JOURNAL_STREAM", inode(there.st_ino).c_str(), 1);
  EXPECT_TRUE(stderr_is_journal());
  // As when standard error was redirected since.
  ::setenv("JOURNAL_STREAM", inode(there.st_ino + 1).c_str(), 1);
  EXPECT_FALSE(stderr_is_journal());
  ::setenv("JOURNAL_STREAM", "", 1);
  EXPECT_FALSE(stderr_is_journal());
  ::unsetenv("JOURNAL_STREAM");
  EXPECT_FALSE(stderr_is_journal());
}

/// The log goes to a pipe, which is read when the test says so.
struct LogToPipe : testing::Test {
  LogToPipe() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    reader = UniqueFd(ends[0]);
    writer = UniqueFd(ends[1]);
    ::fcntl(writer.get(), F_SETPIPE_SZ, 4096);
    open_log(false, writer.get());
  }
  ~LogToPipe() override { open_log(false, STDOUT_FILENO); }

  std::string read_all() {
    writer.reset();
    std::string text;
    std::array<char, 4096> buffer;
    for (ssize_t got; (got = ::read(reader.get(), buffer.data(), buffer.size())) > 0;)
      text.append(buffer.data(), static_cast<std::size_t>(got));
    return text;
  }

  UniqueFd reader, writer;
};

TEST_F(LogToPipe, WithoutAThread_LinesAreWrittenAtOnce) {
  spdlog::info("one");
  log_line(spdlog::level::warn, {.tenant = "web"}, "two");
  EXPECT_EQ(read_all(), "info: one\nwarning: two\n");
}

TEST_F(LogToPipe, ReaderThatReads_GetsAllLinesInOrderAtTheEnd) {
  {
    const LogThread thread;
    for (int i = 0; i < 20; ++i) spdlog::info("line {}", i);
    print_failure("the end");
  }
  std::string expected;
  for (int i = 0; i < 20; ++i) expected += "info: line " + std::to_string(i) + "\n";
  EXPECT_EQ(read_all(), expected) << "a failure goes to standard error";
}

/// The thread that logs goes on, and the daemon can end. If that thread wrote the lines itself,
/// this test would never end.
TEST_F(LogToPipe, ReaderThatDoesNotRead_LinesAreDroppedAndCounted) {
  const std::uint64_t before = dropped_log_lines().value();
  const std::string line(100, 'x');
  constexpr std::size_t kLines = 3 * LogThread::kMostWaiting;
  {
    const LogThread thread;
    for (std::size_t i = 0; i < kLines; ++i) spdlog::info(line);
  }
  const std::uint64_t dropped = dropped_log_lines().value() - before;
  EXPECT_GT(dropped, LogThread::kMostWaiting);
  EXPECT_LT(dropped, kLines);
  spdlog::info("after the end");  // goes nowhere, and waits for nothing
  // The thread is still there. It says what was dropped when the reader has come back.
  std::string text;
  std::array<char, 4096> buffer;
  while (text.find("log lines were dropped") == std::string::npos) {
    const ssize_t got = ::read(reader.get(), buffer.data(), buffer.size());
    ASSERT_GT(got, 0);
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  EXPECT_NE(text.find("warning: log lines were dropped, " +
                      std::to_string(dropped_log_lines().value()) + " so far"),
            std::string::npos)
      << text.substr(text.size() - 200);
}

}  // namespace
}  // namespace softhca::control
