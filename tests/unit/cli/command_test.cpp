// SPDX-License-Identifier: Apache-2.0

// The tree of commands: words that are wrong, help, and what completion offers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "cli/ctl/command_help.hpp"
#include "cli/ctl/command_tree.hpp"
#include "cli/ctl/command_words.hpp"
#include "cli/ctl/ctl_commands.hpp"
#include "daemon/configuration/live_settings.hpp"

namespace softhca::cli {
namespace {

std::vector<std::string> split(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::string meant(const std::string& words) { return "; did you mean " + words + '?'; }

class CommandTree : public testing::Test {
 protected:
  CommandTree() { add_commands(app_, options_); }

  std::string wrong(const std::string& line) const { return Walk(app_, split(line)).wrong_text(); }
  /// Returns the kind, and the words without their descriptions. `typed`: the start of the last.
  std::string candidates(const std::string& line, const std::string& typed) const {
    std::vector<std::string> words = split(line);
    words.push_back(typed);
    const auto names = [](const Walk& walk, const std::string& kind) -> std::vector<std::string> {
      if (kind != "TENANT") return {"7", "12"};
      return {"sea" + walk.value_of("--runtime-dir"), "sky"};
    };
    std::string text;
    for (const std::string& out : candidates_for(app_, words, names))
      text += (text.empty() ? "" : " ") + out.substr(0, out.find('\t'));
    return text;
  }
  std::string problem(const std::string& line) {
    std::vector<std::string> words = split(line);
    std::reverse(words.begin(), words.end());
    try {
      app_.parse(words);
    } catch (const std::exception& error) {
      return error.what();
    }
    return {};
  }

  Options options_;
  CLI::App app_{"Show and change a running softhcad.", "softhcactl"};
};

TEST(SimilarWords, Misspelt_BestFirst) {
  const std::vector<std::string> known = {"tenant", "tenants", "top", "qps", "qp", "status"};
  EXPECT_EQ(similar_words("tenan", known), (std::vector<std::string>{"tenant", "tenants"}));
  EXPECT_EQ(similar_words("stat", known), (std::vector<std::string>{"status"}));
  EXPECT_EQ(similar_words("QPS", known), (std::vector<std::string>{"qps", "qp"}));
  EXPECT_EQ(similar_words("tpo", known), (std::vector<std::string>{"top"}));
  EXPECT_TRUE(similar_words("nonsense", known).empty());
}

TEST_F(CommandTree, WrongWord_NamesTheLevelAndWhatIsSimilar) {
  EXPECT_EQ(wrong("tenat"), "unknown command \"tenat\"" + meant("tenant"));
  EXPECT_EQ(wrong("tenant shwo"), "tenant: unknown command \"shwo\"" + meant("show"));
  EXPECT_EQ(wrong("qps --stat RTS"), "qps: unknown option --stat" + meant("--state"));
  EXPECT_EQ(wrong("qps --runtimedir=x"),
            "qps: unknown option --runtimedir" + meant("--runtime-dir"));
  EXPECT_EQ(wrong("status more"), "status: takes no further argument: \"more\"");
  EXPECT_EQ(wrong("nonsense"), "unknown command \"nonsense\"");
}

TEST_F(CommandTree, RightWords_NothingIsWrong) {
  for (const char* const line :
       {"-o json tenant show a", "qps --watch --state RTS", "qps --watch 5 -t a", "top -n 3",
        "set a pcbs=3 b pcbs=4 --dry-run", "-ojson status", "--as a level make b -- -c"})
    EXPECT_EQ(Walk(app_, split(line)).wrong(), "") << line;
}

TEST_F(CommandTree, WrongValue_NamesWhatIsPossible) {
  EXPECT_EQ(problem("qps --state RTX"), "--state: unknown value \"RTX\"" + meant("RTR or RTS"));
  EXPECT_EQ(problem("qps -o xml"),
            "--output: unknown value \"xml\"; give table, wide, json or yaml");
  EXPECT_NE(problem("qps --watch 0"), "");
  EXPECT_NE(problem("top -n 0"), "");
  EXPECT_NE(problem("capture -n 0"), "");
  for (const char* const peer : {"nowhere", "198.18.0", "[fd00::1", "198.18.0.1:2:3", ""})
    EXPECT_NE(problem(std::string("connections --peer=") + peer), "") << peer;
  for (const char* const peer : {"198.18.0.1", "fd00::1", "198.18.0.1:7471", "[fd00::1]:7471"})
    EXPECT_EQ(problem(std::string("connections --peer=") + peer), "") << peer;
}

/// Returns why the words of `set` are refused.
std::string refusal_of_set(const std::string& words) {
  try {
    changes_of(split(words));
  } catch (const CommandError& error) {
    return error.what();
  }
  return {};
}

TEST(SetWords, FractionOfAWholeNumber_IsRefusedWithWhatIsAllowed) {
  for (const char* const value : {"1.5G", "1.5"})
    EXPECT_THAT(refusal_of_set(std::string("a rate.bytes_per_second=") + value),
                testing::HasSubstr("must be a whole number, such as 300, 64K"));
  EXPECT_EQ(refusal_of_set("a srq.overcommit=1.5"), "");
  EXPECT_EQ(refusal_of_set("a srq.overcommit=2"), "");
  EXPECT_THAT(refusal_of_set("a srq.overcommit=1.5G"), testing::HasSubstr("such as 1.5"));
}

TEST(SetWords, KeyTwiceForATarget_IsRefused) {
  for (const char* const words : {"a pcbs=2 pcbs=3", "a pcbs=2 b pcbs=2 a pcbs=2"})
    EXPECT_THAT(refusal_of_set(words), testing::HasSubstr("is given twice"));
  EXPECT_EQ(refusal_of_set("a pcbs=2 vcbs=2 a/l pcbs=2 b pcbs=2"), "");
  EXPECT_THROW(terms_of(7, {"importance=1", "importance=2"}), CommandError);
  EXPECT_THROW(level_of("make", {"l", "pcbs=1", "pcbs=2"}), CommandError);
}

TEST_F(CommandTree, Values_AreReadInAnyCase) {
  EXPECT_EQ(problem("qps --state rts,Err --watch"), "");
  EXPECT_EQ(options_.filter.states, (std::vector<std::string>{"RTS", "ERR"}));
  EXPECT_EQ(options_.print.watch, 2);
  EXPECT_TRUE(options_.command);
}

TEST_F(CommandTree, WatchWithArgument_ArgumentIsNotItsValue) {
  EXPECT_EQ(problem("tenant show --watch sea"), "");
  EXPECT_EQ(options_.tenant, "sea");
  EXPECT_EQ(options_.print.watch, 2);
}

TEST_F(CommandTree, Completion_OffersCommandsOptionsAndValues) {
  EXPECT_EQ(candidates("", "te"), "words tenants tenant");
  EXPECT_EQ(candidates("tenant", ""), "words show create remove");
  EXPECT_EQ(candidates("qps", "--st"), "words --state");
  EXPECT_EQ(candidates("qps", "--run"), "words --runtime-dir");
  EXPECT_EQ(candidates("fault add", "d"), "words drop delay duplicate");
  EXPECT_EQ(candidates("-o", ""), "words table wide json yaml");
  EXPECT_EQ(candidates("", "--output=j"), "words --output=json");
  EXPECT_EQ(candidates("help tenant", "sh"), "words show");
  EXPECT_EQ(candidates("completion", ""), "words bash zsh fish");
}

TEST_F(CommandTree, Completion_OffersNamesOfTheDaemonAndKeys) {
  EXPECT_EQ(candidates("--runtime-dir /x tenant show", ""), "words sea/x sky");
  EXPECT_EQ(candidates("qps -t", "sk"), "words sky");
  EXPECT_EQ(candidates("qp show", "1"), "words 12");
  EXPECT_EQ(candidates("set sea", "pc"), "words pcbs=");
  EXPECT_EQ(candidates("set", "s"),
            "words sea sky shared= served_rate.bytes_per_second= served_rate.burst_bytes= "
            "served_rate.messages_per_second= served_rate.burst_messages= share= srq.limit= "
            "srq.kind= srq.on_exceed= srq.statistical= srq.overcommit= srq.watermark= sessions= "
            "shared_receive_queues= shared_bytes=");
  EXPECT_EQ(candidates("qp set 7", "imp"), "words importance=");
}

TEST_F(CommandTree, Completion_LeavesFilesAndUsersToTheShell) {
  EXPECT_EQ(candidates("capture -w", ""), "files");
  EXPECT_EQ(candidates("--runtime-dir", ""), "directories");
  EXPECT_EQ(candidates("tenant create web --template small --owner", ""), "users");
  EXPECT_EQ(candidates("nonsense", ""), "words");
  EXPECT_EQ(candidates("status", ""), "words");
}

/// Checks the help of a command and of those below it.
void check_help(CLI::App& app) {
  const std::string help = app.help();
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
  EXPECT_NE(help.find("Usage: " + full_name(app)), std::string::npos) << help;
  for (const CLI::App* const command : commands_of(app))
    EXPECT_NE(help.find("  " + command->get_name() + " "), std::string::npos) << help;
  for (CLI::App* const command : app.get_subcommands([](CLI::App*) { return true; }))
    check_help(*command);
}

TEST_F(CommandTree, HelpOfEachCommand_Fits80Columns) { check_help(app_); }

TEST(Keys, EachKeyThatCanBeSet_IsCompleted) {
  for (std::size_t i = 0; i < configuration::kLiveSettings; ++i)
    EXPECT_THAT(
        keys_of("SET-KEY"),
        testing::Contains(configuration::name_of(static_cast<configuration::LiveSetting>(i))));
}

}  // namespace
}  // namespace softhca::cli
