// SPDX-License-Identifier: Apache-2.0

// The parts of softhca-run --daemon that need no process.
#include <gtest/gtest.h>

#include "cli/run/run_daemon.hpp"
#include "cli/run/run_manager.hpp"
#include "cli/run/run_options.hpp"
#include "daemon/configuration/config.hpp"

namespace softhca::cli {
namespace {

TEST(RunProbability, TextsOfOne_AreThatNumber) {
  const std::pair<const char*, double> texts[] = {{"1%", 0.01}, {"0.01", 0.01},  {"0", 0},
                                                  {"100%", 1},  {"2.5%", 0.025}, {".5", 0.5}};
  for (const auto& [text, expected] : texts) {
    const auto found = parse_probability(text);
    ASSERT_TRUE(std::holds_alternative<double>(found)) << text;
    EXPECT_DOUBLE_EQ(std::get<double>(found), expected) << text;
  }
}

TEST(RunProbability, OtherTexts_AreRefusedWithAnExample) {
  for (const char* text : {"", "%", "1", "2", "101%", "-1%", "1 %", "1%%", "1e-2", "nan", "few"}) {
    const auto found = parse_probability(text);
    ASSERT_TRUE(std::holds_alternative<Failure>(found)) << text;
    EXPECT_NE(std::get<Failure>(found).message.find("1%"), std::string::npos) << text;
  }
}

TEST(RunConfiguration, AnyNumberOfTenants_IsAGoodConfiguration) {
  for (unsigned count = 1; count <= kMostPrivateTenants; ++count) {
    const auto config = configuration::parse_config(configuration_of_tenants(count), "test");
    ASSERT_TRUE(config) << count << ": " << config.error().message;
    ASSERT_EQ(config->tenants.size(), count);
    EXPECT_EQ(config->tenants[0].name, "a");
    EXPECT_EQ(config->tenants[count - 1].name[0], static_cast<char>('a' + count - 1));
  }
}

TEST(RunConfiguration, Host_HasAPortOfTheAddressOfItsTenant) {
  const auto config = configuration::parse_config(configuration_of_host("b", "127.4.5.2"), "test");
  ASSERT_TRUE(config) << config.error().message;
  ASSERT_EQ(config->ports.size(), 1u);
  ASSERT_EQ(config->tenants.size(), 1u);
  EXPECT_EQ(config->tenants[0].name, "b");
  EXPECT_EQ(config->ports[0].socket, config->tenants[0].addresses[0]);
}

TEST(RunLog, LongText_IsShownByItsLastLines) {
  EXPECT_EQ(last_lines("one\ntwo\nthree\n", 2), "  two\n  three\n");
  EXPECT_EQ(last_lines("one\ntwo", 2), "  one\n  two\n");
  EXPECT_EQ(last_lines("", 2), "");
}

TEST(RunSignals, AnySignal_ComesFromItsByteAsItWas) {
  for (int number = 1; number < 65; ++number)
    for (const bool by_terminal : {false, true}) {
      const RelayedSignal signal = RelayedSignal::of(RelayedSignal{number, by_terminal}.byte());
      EXPECT_EQ(signal.number, number);
      EXPECT_EQ(signal.by_terminal, by_terminal);
    }
}

}  // namespace
}  // namespace softhca::cli
