// SPDX-License-Identifier: Apache-2.0

#include "daemon/configuration/config_loader.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

namespace softhca::configuration {
namespace {

std::string sample() {
  return std::string(std::getenv("SOFTHCA_SOURCE_ROOT")) + "/config/softhca.toml";
}

TEST(ConfigLoader, WithoutOptions_IsTheFile) {
  const auto config = ConfigLoader(sample()).load();
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_TRUE(*config == *load_config(sample()));
  EXPECT_EQ(ConfigLoader().name(), "built-in configuration");
  EXPECT_TRUE(*ConfigLoader().load() == default_config());
  EXPECT_FALSE(ConfigLoader("/nonexistent").load());
}

TEST(ConfigLoader, Options_ReplaceKeysOfTheFile) {
  const ConfigLoader loader(sample(), {.runtime_dir = "/x/y",
                                       .metrics = "127.0.0.1:1234",
                                       .metrics_credentials = "/x/token",

                                       .log_level = "debug"});
  for (int reload = 0; reload < 2; ++reload) {
    const auto config = loader.load();
    ASSERT_TRUE(config) << config.error().message;
    EXPECT_EQ(config->daemon.runtime_dir, "/x/y");
    EXPECT_EQ(config->daemon.log_level, "debug");
    EXPECT_EQ(config->metrics.address, "127.0.0.1:1234");
    EXPECT_EQ(config->metrics.credentials_file, "/x/token");
    EXPECT_TRUE(config->metrics.chosen) << "the daemon does not start without it";
  }
}

TEST(ConfigLoader, MetricsNone_IsNoEndpoint) {
  const auto config = ConfigLoader(sample(), {.metrics = "none"}).load();
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->metrics.address, "");
}

TEST(ConfigLoader, BadOption_IsNamedWithWhatItMustBe) {
  const auto complaint = [](const CommandLineSettings& settings) {
    const auto config = ConfigLoader("", settings).load();
    return config ? "accepted" : config.error().message;
  };
  EXPECT_EQ(complaint({.runtime_dir = "here"}),
            "--runtime-dir here: must be an absolute path, beginning with '/'");
  EXPECT_EQ(complaint({.log_level = "loud"}),
            "--log-level loud: must be trace, debug, info, warning, error, critical or off");
  EXPECT_TRUE(complaint({.metrics = "9465"}).starts_with("--metrics 9465: must be like "));
}

}  // namespace
}  // namespace softhca::configuration
