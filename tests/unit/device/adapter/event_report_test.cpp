// SPDX-License-Identifier: Apache-2.0

#include "daemon/device/adapter/event_report.hpp"

#include <gtest/gtest.h>
#include <spdlog/spdlog.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "daemon/base/unique_fd.hpp"
#include "daemon/device/adapter/log.hpp"
#include "daemon/engine/records/event_log.hpp"
#include "daemon/engine/records/qp_failure.hpp"

namespace softhca::control {
namespace {

constexpr Time kStart{std::chrono::hours(1)};

/// Takes what is logged.
class EventReportTest : public ::testing::Test {
 protected:
  EventReportTest() : before_(spdlog::default_logger()), out_(::memfd_create("log", MFD_CLOEXEC)) {
    open_log(false, out_.get());
  }
  ~EventReportTest() override {
    open_log(false, STDOUT_FILENO);
    spdlog::set_default_logger(before_);
  }

  std::vector<std::string> lines() {
    std::vector<std::string> all;
    std::ifstream in("/proc/self/fd/" + std::to_string(out_.get()));
    for (std::string line; std::getline(in, line);) all.push_back(line);
    EXPECT_EQ(::ftruncate(out_.get(), 0), 0);
    EXPECT_EQ(::lseek(out_.get(), 0, SEEK_SET), 0);
    return all;
  }
  static JournalEntry failure(const std::string& tenant, std::uint32_t queue_pair) {
    return {.kind = "queue_pair_error",
            .tenant = tenant,
            .text = "bad response",
            .queue_pair = queue_pair,
            .peer = "10.0.0.2",
            .peer_queue_pair = 18};
  }

  EventReport report;

 private:
  std::shared_ptr<spdlog::logger> before_;
  UniqueFd out_;
};

TEST_F(EventReportTest, SaysWhoAndWhat) {
  report.report(failure("web", 17), kStart);
  report.report({.kind = "reload", .text = "1 change made"}, kStart);
  report.report(
      {.kind = "tenant_removed", .tenant = "web", .text = "removed, its last program has ended"},
      kStart);
  EXPECT_EQ(
      lines(),
      (std::vector<std::string>{
          "warning: tenant web: queue pair 17: failed: bad response (peer 10.0.0.2, queue pair 18)",
          "info: reload: 1 change made", "info: tenant web: removed, its last program has ended"}));
  report.report({.kind = "session_opened", .tenant = "web", .text = "process 1 connected"}, kStart);
  EXPECT_TRUE(lines().empty()) << "of no interest but for debugging";
}

TEST_F(EventReportTest, SaysWhatCameBeforeAFailure) {
  const std::chrono::system_clock::time_point end(std::chrono::seconds(1'000'000));
  engine::QpEvent waits{.first = kStart, .lasted_ms = 1500, .count = 3, .detail = 640};
  waits.kind_bits = static_cast<std::uint8_t>(engine::QpEventKind::kRnrNakReceived);
  waits.psn = 77;
  waits.has_psn = 1;
  engine::QpEvent failed{.first = kStart + std::chrono::seconds(2), .count = 1};
  failed.kind_bits = static_cast<std::uint8_t>(engine::QpEventKind::kFailed);
  failed.detail = static_cast<std::uint32_t>(engine::QpFailure::kBadResponse);
  engine::QpPast past;
  past.events[past.count++] = waits;
  past.events[past.count++] = failed;
  JournalEntry entry = failure("web", 17);
  entry.time = end;
  entry.past = by_calendar(past, kStart + std::chrono::seconds(3), end + std::chrono::seconds(1));
  report.report(entry, kStart);
  EXPECT_EQ(lines(),
            (std::vector<std::string>{
                "warning: tenant web: queue pair 17: failed: bad response (peer 10.0.0.2, queue "
                "pair 18)",
                "  2.000 s before until 0.500 s before: RNR NAK received: the peer has no receive; "
                "retry after 640 us, PSN 77 (3 times)",
                "  0.000 s before: failed: bad response"}));
}

TEST_F(EventReportTest, ATenantDoesNotFillTheLog) {
  for (std::uint32_t i = 1; i <= 1000; ++i) report.report(failure("loud", i), kStart);
  report.report(failure("quiet", 1), kStart);
  auto all = lines();
  ASSERT_EQ(all.size(), EventLimit::kMost + 2u);
  EXPECT_NE(all[EventLimit::kMost].find("loud: further events are not logged, after 16 in 10 s"),
            std::string::npos);
  EXPECT_NE(all.back().find("quiet"), std::string::npos);
  report.report(failure("loud", 1), kStart + EventLimit::kWindow - Duration(1));
  EXPECT_TRUE(lines().empty());
  report.report(failure("loud", 1), kStart + EventLimit::kWindow);
  EXPECT_EQ(lines().size(), 1u);
  for (int i = 0; i < 100; ++i)
    report.report({.kind = "set", .tenant = "loud", .text = "by the operator"}, kStart);
  EXPECT_EQ(lines().size(), 100u);
}

TEST_F(EventReportTest, WhatIsSevereIsNotHiddenBehindWhatIsNot) {
  for (std::uint32_t i = 1; i <= 1000; ++i) report.report(failure("sly", i), kStart);
  (void)lines();
  report.report({.kind = "hostile_memory", .tenant = "sly", .text = "doorbell"}, kStart);
  EXPECT_EQ(lines().size(), 1u);
}

TEST(EventMessages, AreThereForWhatTheEngineReports) {
  using engine::DaemonEventKind;
  for (unsigned i = 0; i <= static_cast<unsigned>(DaemonEventKind::kForgedPackets); ++i) {
    const char* const kind = engine::name_of(static_cast<DaemonEventKind>(i));
    EXPECT_NE(message_of(kind), nullptr) << kind;
  }
}

/// Each message that is logged at all can be looked up: `journalctl -x`.
TEST(EventMessages, AreInTheCatalog) {
  const char* const root = std::getenv("SOFTHCA_SOURCE_ROOT");
  ASSERT_NE(root, nullptr);
  std::ifstream file(std::string(root) + "/deploy/softhca.catalog");
  ASSERT_TRUE(file);
  std::set<std::string> explained;
  for (std::string line; std::getline(file, line);) {
    std::smatch id;
    if (!std::regex_match(line, id, std::regex("-- ([0-9a-f]{32})"))) continue;
    EXPECT_TRUE(explained.insert(id[1]).second) << line;
  }
  std::set<std::string> used{EventReport::kNotLoggedId};
  std::set<std::string> kinds;
  for (const EventMessage& message : event_messages()) {
    EXPECT_TRUE(kinds.insert(message.kind).second) << message.kind;
    EXPECT_EQ(*message.id == '\0', message.level <= spdlog::level::debug) << message.kind;
    if (*message.id == '\0') continue;
    EXPECT_TRUE(used.insert(message.id).second) << message.kind;
  }
  EXPECT_EQ(used, explained);
}

}  // namespace
}  // namespace softhca::control
