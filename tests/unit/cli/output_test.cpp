// SPDX-License-Identifier: Apache-2.0

// Tables that fit the terminal, sentences broken into lines, numbers with units, and YAML.
#include "cli/ctl/ctl_output.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cli/ctl/ctl_commands.hpp"

namespace softhca::cli {
namespace {

TextTable queue_pairs() {
  TextTable table({"QPN", "STATE", {"PATH", Column::kWide}, "PEER", {"RESENT", Column::kAlarm}});
  table.add({"7", "RTS", "local", "198.18.0.2", "0"});
  table.add({"11282572", "ERR", "wire", "198.18.0.14", "12"});
  return table;
}

std::size_t widest(const std::string& text) {
  std::size_t most = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    most = std::max(most, columns_of(std::string_view(text).substr(at, end - at)));
    at = end + 1;
  }
  return most;
}

TEST(TextTable, NumbersAndWords_NumbersRightWordsLeft) {
  EXPECT_EQ(queue_pairs().text({}),
            "     QPN  STATE  PEER         RESENT\n"
            "       7  RTS    198.18.0.2        0\n"
            "11282572  ERR    198.18.0.14      12\n");
}

TEST(TextTable, Wide_HasEveryColumn) {
  EXPECT_EQ(queue_pairs().text({.wide = true}),
            "     QPN  STATE  PATH   PEER         RESENT\n"
            "       7  RTS    local  198.18.0.2        0\n"
            "11282572  ERR    wire   198.18.0.14      12\n");
}

TEST(TextTable, WiderThanTheTerminal_LeavesOutColumnsFromTheRightAndNamesThem) {
  EXPECT_EQ(queue_pairs().text({.width = 34}),
            "     QPN  STATE  PEER\n"
            "       7  RTS    198.18.0.2\n"
            "11282572  ERR    198.18.0.14\n"
            "not shown: RESENT (-o wide shows\n"
            "    all)\n");
  EXPECT_EQ(queue_pairs().text({.width = 8}).substr(0, 27), "     QPN\n       7\n11282572\n");
}

TEST(TextTable, LongLastColumn_IsBrokenIntoLines) {
  TextTable table({"N", "EVENT"});
  table.add({"1", "NAK received: the peer misses a packet"});
  table.add({"2", "in RTS"});
  EXPECT_EQ(table.text({.width = 24}),
            "N  EVENT\n"
            "1  NAK received: the\n"
            "   peer misses a packet\n"
            "2  in RTS\n");
}

TEST(TextTable, AnyWidth_NoLineIsLonger) {
  TextTable table({"TENANT", "LINK", "ADDRESSES", "COUNT"});
  table.add(
      {"a-tenant-with-a-long-name", "up", "fd18:1111:2222:3333:4444:5555:6666:7777", "12345"});
  for (std::size_t width = 12; width < 90; ++width)
    EXPECT_LE(widest(table.text({.width = width})), width);
}

TEST(TextTable, Color_PaintsTitlesStatesAndAlarms) {
  const std::string text = queue_pairs().text({.color = true});
  EXPECT_NE(text.find("\x1b[1mSTATE\x1b[0m"), std::string::npos);
  EXPECT_NE(text.find("\x1b[32mRTS\x1b[0m    198"), std::string::npos);
  EXPECT_NE(text.find("\x1b[31mERR\x1b[0m"), std::string::npos);
  EXPECT_NE(text.find("    \x1b[33m12\x1b[0m"), std::string::npos);
  EXPECT_EQ(text.find("\x1b[33m0"), std::string::npos);
}

TEST(Wrapped, LongLine_BreaksBetweenWordsAndIndents) {
  EXPECT_EQ(wrapped("one two three four five six\nshort\n", 14),
            "one two three\n    four five\n    six\nshort\n");
  EXPECT_EQ(wrapped("one two three\n", 0), "one two three\n");
  EXPECT_EQ(wrapped("exactly ten\n", 11), "exactly ten\n");
}

TEST(LinesOf, LongWordAndCommas_BreaksAfterCommasAndInsideWords) {
  EXPECT_EQ(lines_of("10.0.0.1,10.0.0.2,10.0.0.3", 18),
            (std::vector<std::string>{"10.0.0.1,10.0.0.2,", "10.0.0.3"}));
  EXPECT_EQ(lines_of("abcdefghij", 4), (std::vector<std::string>{"abcd", "efgh", "ij"}));
  EXPECT_EQ(lines_of("äöüäöü", 4), (std::vector<std::string>{"äöüä", "öü"}));
}

TEST(Units, Bytes_ThreeDigitsAndPowerOf1024) {
  EXPECT_EQ(byte_text(0), "0 B");
  EXPECT_EQ(byte_text(1023), "1023 B");
  EXPECT_EQ(byte_text(1536), "1.50 KiB");
  EXPECT_EQ(byte_text(12662634496.0), "11.8 GiB");
  EXPECT_EQ(byte_text(1048575), "1.00 MiB");
}

TEST(Units, Counts_ExactUntilSixDigits) {
  const Output human(OutputStyle{}), exact(OutputStyle{.exact = true});
  EXPECT_EQ(human.count(99999), "99999");
  EXPECT_EQ(human.count(1234567), "1.23M");
  EXPECT_EQ(exact.count(1234567), "1234567");
  EXPECT_EQ(human.rate(2300000), "2.30 M/s");
  EXPECT_EQ(human.rate(12), "12/s");
  EXPECT_EQ(exact.rate(2300000), "2300000");
  EXPECT_EQ(human.byte_rate(1610612736), "1.50 GiB/s");
  EXPECT_EQ(exact.bytes(1610612736), "1610612736");
  EXPECT_EQ(human.count(Json{{"n", 5}}, "missing"), "-");
  EXPECT_EQ(human.bytes(Json{{"n", 2048}}, "n"), "2.00 KiB");
}

TEST(Yaml, Structures_BlockStyle) {
  const Json document = Json::parse(R"({"list":[{"a":1,"b":{"c":true}},[1,2],[],"x"],"none":null,
                                        "empty":{}})");
  EXPECT_EQ(yaml_text(document),
            "empty: {}\n"
            "list:\n"
            "  - a: 1\n"
            "    b:\n"
            "      c: true\n"
            "  - - 1\n"
            "    - 2\n"
            "  - []\n"
            "  - x\n"
            "none: null\n");
  EXPECT_EQ(yaml_text(Json::array()), "[]\n");
  EXPECT_EQ(yaml_text(3), "3\n");
}

TEST(Yaml, StringsThatLookLikeSomethingElse_AreQuoted) {
  for (const char* const text :
       {"",     "no",   "Yes", "NULL",       "y",  "12", "0x10", "1e5", "1:30",
        "a: b", "a #b", "- a", " a",         "a ", "*a", "&a",   "!a",  "{a",
        "a\nb", "\"",   "%",   "2026-11-28", "~",  ".5", "=",    "<<"})
    EXPECT_EQ(yaml_text(text), Json(text).dump() + "\n");
  for (const char* const text : {"local", "manual recovery", "a/b.c-d_e", "nobody", "falsehood"})
    EXPECT_EQ(yaml_text(text), std::string(text) + "\n");
}

TEST(Yaml, CharactersThatYamlForbids_AreEscaped) {
  EXPECT_EQ(yaml_text("a\x7f"), "\"a\\u007f\"\n");
  EXPECT_EQ(yaml_text("\u0085\u2028\ufeff"), "\"\\u0085\\u2028\\ufeff\"\n");
  EXPECT_EQ(yaml_text("\u00e4\U0001f600"), "\"\u00e4\U0001f600\"\n");
  EXPECT_EQ(yaml_text(std::string("\x01")), "\"\\u0001\"\n");
}

TEST(Yaml, NumbersWithExponent_HaveAPoint) {
  EXPECT_EQ(yaml_text(1e-5), "1.0e-05\n");
  EXPECT_EQ(yaml_text(1.5e-5), "1.5e-05\n");
  EXPECT_EQ(yaml_text(0.25), "0.25\n");
}

TEST(Filter, StatePeerAndProcess_AllHaveToFit) {
  const Json qp = {{"state", "RTS"}, {"destination", "10.0.0.2"}, {"pid", 7}};
  const Json connection = {{"state", "established"}, {"peer", "10.0.0.2:7174"}, {"pid", 7}};
  EXPECT_TRUE(Filter{}.keeps(qp));
  EXPECT_TRUE((Filter{.states = {"ERR", "RTS"}, .peer = "10.0.0.2", .pid = 7}.keeps(qp)));
  EXPECT_FALSE((Filter{.states = {"ERR"}}.keeps(qp)));
  EXPECT_FALSE((Filter{.peer = "10.0.0.20"}.keeps(qp)));
  EXPECT_FALSE((Filter{.pid = 8}.keeps(qp)));
  EXPECT_TRUE((Filter{.peer = "10.0.0.2"}.keeps(connection)));
  EXPECT_TRUE((Filter{.peer = "10.0.0.2:7174"}.keeps(connection)));
  EXPECT_FALSE((Filter{.peer = "10.0.0"}.keeps(connection)));
}

}  // namespace
}  // namespace softhca::cli
