// SPDX-License-Identifier: Apache-2.0

#include "daemon/device/adapter/journal.hpp"

#include <gtest/gtest.h>

namespace softhca::control {
namespace {

JournalEntry of(const std::string& tenant, const std::string& text) {
  return {.kind = "test", .tenant = tenant, .text = text};
}

TEST(Journal, GivesWhatCameAfterANumberInOrder) {
  Journal journal;
  EXPECT_TRUE(journal.after(0, 10).entries.empty());
  for (const char* text : {"1", "2", "3", "4"}) journal.add(of(text[0] % 2 ? "a" : "b", text));
  auto page = journal.after(0, 3);
  ASSERT_EQ(page.entries.size(), 3u);
  EXPECT_EQ(page.entries[0].text, "1");
  EXPECT_EQ(page.entries[2].text, "3");
  EXPECT_EQ(page.last, 3u);
  page = journal.after(page.last, 3);
  ASSERT_EQ(page.entries.size(), 1u);
  EXPECT_EQ(page.entries[0].text, "4");
  EXPECT_EQ(page.last, 4u);
  EXPECT_TRUE(journal.after(4, 3).entries.empty());
  EXPECT_EQ(journal.after(9, 3).last, 9u) << "a number from another daemon asks for nothing";
  EXPECT_EQ(journal.after(1, 0).last, 1u);
}

TEST(Journal, TellsOfEachEntry) {
  Journal journal(1);
  std::vector<std::string> told;
  journal.tell([&](const JournalEntry& entry) {
    EXPECT_NE(entry.time, std::chrono::system_clock::time_point{});
    told.push_back(entry.text);
  });
  for (const char* text : {"1", "2", "3"}) journal.add(of("a", text));
  EXPECT_EQ(told, (std::vector<std::string>{"1", "2", "3"}));
}

TEST(Journal, ATenantPushesOutOnlyItsOwn) {
  Journal journal(4);
  journal.add(of("quiet", "kept"));
  for (int i = 0; i < 100; ++i) journal.add(of("loud", std::to_string(i)));
  const auto page = journal.after(0, 1000);
  ASSERT_EQ(page.entries.size(), 5u);
  EXPECT_EQ(page.entries[0].text, "kept");
  EXPECT_EQ(page.entries[1].text, "96");
  EXPECT_TRUE(page.lost);
  EXPECT_FALSE(journal.after(97, 1000).lost);
}

TEST(Journal, GivesTheEntriesOfOneTenant) {
  Journal journal(4);
  journal.add(of("quiet", "kept"));
  for (int i = 0; i < 100; ++i) journal.add(of("loud", std::to_string(i)));
  const auto page = journal.after(0, 1000, "quiet");
  ASSERT_EQ(page.entries.size(), 1u);
  EXPECT_EQ(page.entries[0].text, "kept");
  EXPECT_FALSE(page.lost) << "by another tenant";
  EXPECT_TRUE(journal.after(0, 1000, "unknown").entries.empty());
}

TEST(Journal, TenantsThatAreGoneHaveTogetherAsMuchAsOne) {
  Journal journal(4);
  journal.add(of("", "of the daemon"));
  for (int i = 0; i < 1000; ++i) {
    journal.add(of(std::to_string(i), "comes"));
    journal.add(of(std::to_string(i), "goes"));
    journal.forget(std::to_string(i));
  }
  journal.add(of("there", "comes"));
  const auto page = journal.after(0, 10000);
  ASSERT_EQ(page.entries.size(), 6u);
  EXPECT_EQ(page.entries[0].text, "of the daemon");
  EXPECT_EQ(page.entries[1].tenant, "998");
  EXPECT_EQ(page.entries[5].tenant, "there");
  EXPECT_TRUE(page.lost);
  EXPECT_FALSE(journal.after(1997, 10000).lost);
  journal.forget("nobody");
  EXPECT_EQ(journal.after(0, 10000).entries.size(), 6u);
}

TEST(Journal, KnowsTheLatestFailureOfAQueuePair) {
  Journal journal;
  EXPECT_EQ(journal.failure_of(7), nullptr);
  journal.add({.kind = "queue_pair_error", .tenant = "a", .text = "first", .queue_pair = 7});
  journal.add({.kind = "queue_pair_error", .tenant = "b", .text = "second", .queue_pair = 7});
  journal.add({.kind = "queue_pair_error", .tenant = "a", .text = "other", .queue_pair = 8});
  journal.add({.kind = "set", .tenant = "a", .text = "no failure", .queue_pair = 7});
  ASSERT_NE(journal.failure_of(7), nullptr);
  EXPECT_EQ(journal.failure_of(7)->text, "second");
  journal.forget("b");
  EXPECT_EQ(journal.failure_of(7)->text, "second") << "its tenant is gone";
}

TEST(Journal, KeepsTheTimeItIsGiven) {
  Journal journal;
  const auto then = std::chrono::system_clock::time_point(std::chrono::seconds(5));
  journal.add(of("", "now"));
  journal.add({.time = then, .kind = "test", .text = "then"});
  const auto page = journal.after(0, 10);
  EXPECT_EQ(page.entries[0].time, then);
  EXPECT_GT(page.entries[1].time, then);
  EXPECT_EQ(page.last, 2u);
  EXPECT_EQ(journal.after(0, 1).entries[0].text, "now") << "in the order of numbers, page by page";
}

}  // namespace
}  // namespace softhca::control
