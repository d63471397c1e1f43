#include "daemon/control/adapter/log.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

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

}  // namespace
}  // namespace softhca::control
