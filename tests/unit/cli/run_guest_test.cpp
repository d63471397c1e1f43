// SPDX-License-Identifier: Apache-2.0

// The parts of softhca-run --guest that need no process.
#include "cli/run/run_guest.hpp"

#include <getopt.h>
#include <gtest/gtest.h>

namespace softhca::cli {
namespace {

Found<RunOptions> parse(std::vector<const char*> words) {
  words.insert(words.begin(), "softhca-run");
  words.push_back(nullptr);
  optind = 0;  // begins anew
  return parse_run_options(static_cast<int>(words.size()) - 1, const_cast<char**>(words.data()));
}

TEST(RunGuest, WordsInTheCommand_Replaced) {
  const std::vector<std::string> command = {"qemu",
                                            "memory-backend-file,mem-path={region},size={bytes}",
                                            "socket,fd={channel}", "{other}"};
  EXPECT_EQ(
      command_of_guest(command, {.region = 5, .bytes = 4096, .channel = 7}),
      (std::vector<std::string>{"qemu", "memory-backend-file,mem-path=/proc/self/fd/5,size=4096",
                                "socket,fd=7", "{other}"}));
}

TEST(RunGuest, Options_Parsed) {
  const auto found = parse({"--guest", "vm1", "--channel", "vsock:3", "--unsealed", "--", "qemu"});
  ASSERT_TRUE(std::holds_alternative<RunOptions>(found));
  const auto& options = std::get<RunOptions>(found);
  EXPECT_TRUE(options.guest.is_given);
  EXPECT_EQ(options.tenant, "vm1");
  EXPECT_EQ(options.guest.channel, "vsock:3");
  EXPECT_FALSE(options.guest.seal);
  EXPECT_EQ(options.command, std::vector<std::string>{"qemu"});
}

TEST(RunGuest, OptionsThatDoNotGoTogether_Refused) {
  const std::vector<std::vector<const char*>> wrong = {
      {"--channel", "vsock", "qemu"},
      {"--unsealed", "qemu"},
      {"--guest", "a", "--daemon", "qemu"},
      {"--guest", "a", "--level", "gold", "qemu"},
      {"--guest", "", "qemu"},
      {"--guest", "a", "--channel", "", "qemu"},
      {"--guest", "a"},
  };
  for (const auto& words : wrong)
    EXPECT_TRUE(std::holds_alternative<Failure>(parse(words))) << words[0];
}

}  // namespace
}  // namespace softhca::cli
