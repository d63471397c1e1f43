#include "daemon/resource/general_services_config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <type_traits>

#include "daemon/resource/config.hpp"
#include "daemon/resource/reload_plan.hpp"

namespace softhca::resource {
namespace {

using testing::HasSubstr;

Expected<Config> parse(const std::string& keys) {
  return parse_config(
      "[general_services]\n" + keys + "\n[[tenant]]\nname = \"t\"\naddresses = [\"198.18.0.1\"]\n",
      "t.toml");
}
std::string error_of(const std::string& keys) {
  const auto config = parse(keys);
  return config ? "accepted" : config.error().message;
}

TEST(GeneralServicesConfig, EveryKey) {
  for_each_general_services_key([](const char* name, auto member) {
    GeneralServicesConfig wanted;
    std::string value = "7";
    if constexpr (std::is_same_v<decltype(member), double GeneralServicesConfig::*>) {
      wanted.*member = 0.25;
      value = "0.25";
    } else {
      if (std::string(name) == "buffers" || std::string(name) == "window_ms") value = "33";
      wanted.*member = static_cast<std::uint32_t>(std::stoul(value));
    }
    const auto config = parse(std::string(name) + " = " + value);
    ASSERT_TRUE(config) << config.error().message;
    EXPECT_TRUE(config->general_services == wanted) << name;
    const ReloadPlan plan = plan_reload(*parse(""), *config);
    EXPECT_TRUE(plan.is_live()) << name;
    ASSERT_EQ(plan.texts().size(), 1u) << name;
    EXPECT_THAT(plan.texts()[0], testing::StartsWith(std::string("general_services: ") + name));
  });
}

TEST(GeneralServicesConfig, SharedDatagramsHaveTheSameKeysInATableOfTheirOwn) {
  const std::string tenant = "\n[[tenant]]\nname = \"t\"\naddresses = [\"198.18.0.1\"]\n";
  const auto config = parse_config("[shared_datagrams]\nbuffers = 64" + tenant, "t.toml");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->shared_datagrams.buffers, 64u);
  EXPECT_TRUE(config->general_services == GeneralServicesConfig{});
  const ReloadPlan plan = plan_reload(*parse(""), *config);
  EXPECT_TRUE(plan.is_live());
  ASSERT_EQ(plan.texts().size(), 1u);
  EXPECT_THAT(plan.texts()[0], testing::StartsWith("shared_datagrams: buffers"));
}

TEST(GeneralServicesConfig, Bounds) {
  for (const char* text : {"buffers = 0",
                           "buffers = 16385",
                           "buffers = 15",
                           "buffers_per_client = 0",
                           "buffers_per_client = 1025",
                           "low_threshold = 16385",
                           "high_threshold = -1",
                           "source_part = 0",
                           "source_part = 1.5",
                           "source_part = \"all\"",
                           "source_rate = -1",
                           "source_burst = 0",
                           "new_sources_part = 0",
                           "new_sources_rate = 100000001",
                           "new_sources_burst = 0",
                           "probation_ms = 86400001",
                           "forget_after_ms = -1",
                           "window_ms = 9",
                           "raise_after = 9",
                           "lower_after = 0",
                           "raise_most = 0",
                           "engine_share = 0",
                           "engine_share = 1.1",
                           "tenant_clients = 257",
                           "tenant_buffers = 16385",
                           "send_rate = -1",
                           "send_burst = 0",
                           "buffer = 1"})
    EXPECT_THAT(error_of(text), HasSubstr("t.toml:2: general_services.")) << text;
  EXPECT_THAT(error_of("low_threshold = 9\nhigh_threshold = 8"),
              HasSubstr("3: general_services.high_threshold:"));
  EXPECT_THAT(error_of("buffers = 15"), HasSubstr("must be at least buffers_per_client, 16"));
}

}  // namespace
}  // namespace softhca::resource
