// SPDX-License-Identifier: Apache-2.0

#include "daemon/configuration/general_services_config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "daemon/configuration/config.hpp"
#include "daemon/configuration/resource_manager/reload_plan.hpp"
#include "daemon/configuration/schema/schema.hpp"

namespace softhca::configuration {
namespace {

using testing::HasSubstr;

Expected<Config> parse_services(const std::string& keys) {
  return parse_config(
      "[general_services]\n" + keys + "\n[[tenant]]\nname = \"t\"\naddresses = [\"198.18.0.1\"]\n",
      "t.toml");
}
std::string services_error(const std::string& keys) {
  const auto config = parse_services(keys);
  return config ? "accepted" : config.error().message;
}

TEST(GeneralServicesConfig, EveryKey) {
  for (const Key& key : schema_of<GeneralServicesConfig>().keys) {
    const std::string name = key.name;
    GeneralServicesConfig wanted;
    const bool is_part = key.at.type == Type::kFactor;
    const bool is_large = name == "buffers";
    set_amount(key, &wanted, is_part ? 250 : is_large ? 33 : 7);
    const std::string value = to_text(key, &wanted);
    const auto config = parse_services(name + " = " + value);
    ASSERT_TRUE(config) << config.error().message;
    EXPECT_TRUE(config->general_services == wanted) << name;
    const ReloadPlan plan = plan_reload(*parse_services(""), *config);
    EXPECT_TRUE(plan.is_live()) << name;
    ASSERT_EQ(plan.texts().size(), 1u) << name;
    EXPECT_THAT(plan.texts()[0], testing::StartsWith("general_services: " + name));
  }
}

TEST(GeneralServicesConfig, SharedDatagramsHaveTheSameKeysInATableOfTheirOwn) {
  const std::string tenant = "\n[[tenant]]\nname = \"t\"\naddresses = [\"198.18.0.1\"]\n";
  const auto config = parse_config("[shared_datagrams]\nbuffers = 64" + tenant, "t.toml");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->shared_datagrams.buffers, 64u);
  EXPECT_TRUE(config->general_services == GeneralServicesConfig{});
  const ReloadPlan plan = plan_reload(*parse_services(""), *config);
  EXPECT_TRUE(plan.is_live());
  ASSERT_EQ(plan.texts().size(), 1u);
  EXPECT_THAT(plan.texts()[0], testing::StartsWith("shared_datagrams: buffers"));
}

TEST(GeneralServicesConfig, TenantBuffers_QuarterOfAllOrOneClient) {
  EXPECT_EQ(tenant_buffers({}), 256u);
  EXPECT_EQ(tenant_buffers({.buffers = 16384}), 256u) << "no tenant takes most of many";
  EXPECT_EQ(tenant_buffers({.buffers = 512}), 128u);
  EXPECT_EQ(tenant_buffers({.buffers = 32, .buffers_per_client = 16}), 16u);
}

TEST(GeneralServicesConfig, Bounds) {
  for (const char* text :
       {"buffers = 0", "buffers = 16385", "buffers = 15", "buffers_per_client = 0",
        "buffers_per_client = 1025", "low_threshold = 16385", "high_threshold = -1",
        "engine_share = 0", "engine_share = 1.1", "engine_share = \"all\"", "tenant_clients = 16",
        "buffer = 1"})
    EXPECT_THAT(services_error(text), HasSubstr("t.toml:2: general_services.")) << text;
  EXPECT_THAT(services_error("low_threshold = 9\nhigh_threshold = 8"),
              HasSubstr("3: general_services.high_threshold:"));
  EXPECT_THAT(services_error("buffers = 15"), HasSubstr("must be at least buffers_per_client, 16"));
}

}  // namespace
}  // namespace softhca::configuration
