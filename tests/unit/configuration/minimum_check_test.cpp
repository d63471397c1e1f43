// SPDX-License-Identifier: Apache-2.0

// Minimum rates fit into each other, and into what all tenants may be promised: in a file, and in
// requests while the daemon runs.
#include "daemon/configuration/resource_manager/minimum_check.hpp"

#include <gtest/gtest.h>

#include "daemon/configuration/resource_manager/resource_manager.hpp"
#include "daemon/configuration/resource_manager/sub_allocation.hpp"

namespace softhca::configuration {
namespace {

const std::string kFile =
    "[pools]\n"
    "min_bytes_per_second = 1000\n"
    "[[tenant]]\n"  // 3
    "name = \"a\"\n"
    "addresses = [\"198.18.0.1\"]\n"
    "rate = { min_bytes_per_second = 600, bytes_per_second = 700 }\n"  // 6
    "tvls = 3\n"
    "[[tenant.level]]\n"
    "name = \"low\"\n"
    "default = true\n"
    "tvls = 2\n"
    "rate = { min_bytes_per_second = 400 }\n"
    "[[tenant.level]]\n"
    "name = \"high\"\n"
    "[[tenant]]\n"
    "name = \"b\"\n"
    "addresses = [\"198.18.0.2\"]\n";

std::string error_with(const std::string& from, const std::string& to) {
  std::string file = kFile;
  file.replace(file.find(from), from.size(), to);
  const auto config = parse_config(file, "test.toml");
  return config ? "good" : config.error().message;
}

Config config() {
  const auto parsed = parse_config(kFile, "test.toml");
  EXPECT_TRUE(parsed) << parsed.error().message;
  return *parsed;
}

AllocationChange change(std::string tenant, std::string level, LiveSetting what,
                        std::uint64_t amount) {
  AllocationChange made;
  made.tenant = std::move(tenant);
  made.level = std::move(level);
  made.setting = what;
  made.amount = amount;
  return made;
}
std::string refusal(const AllocationChange& wanted) {
  const AllocationResult result = with_changes(config(), std::span(&wanted, 1));
  return result ? "accepted" : result.refusal().message;
}
bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

TEST(MinimumCheck, AFileSaysThem) {
  const Config read = config();
  EXPECT_EQ(read.tenants[0].rates.sent.min_bytes_per_second, 600u);
  EXPECT_EQ(read.tenants[0].levels[0].rates.sent.min_bytes_per_second, 400u);
  EXPECT_EQ(read.tenants[1].rates.sent, SentLimits{});
}

TEST(MinimumCheck, AFileIsRefusedWithItsLine) {
  EXPECT_EQ(error_with("600", "600"), "good");
  const std::string pool = error_with("= 1000", "= 599");
  EXPECT_TRUE(has(pool, "test.toml:6: tenant.rate: guarantees 600")) << pool;
  EXPECT_TRUE(has(pool, "pools.min_bytes_per_second = 599")) << pool;
  const std::string maximum = error_with("bytes_per_second = 700", "bytes_per_second = 500");
  EXPECT_TRUE(has(maximum, "rate.min_bytes_per_second = 600 is above rate.bytes_per_second = 500"))
      << maximum;
  const std::string level = error_with("second = 400", "second = 601");
  EXPECT_TRUE(has(level,
                  "level low: up to this level, rate.min_bytes_per_second of the levels adds up to "
                  "601, but the tenant has 600"))
      << level;
}

TEST(MinimumCheck, RequestsKeepToIt) {
  EXPECT_EQ(refusal(change("b", "", LiveSetting::kRateMinBytes, 400)), "accepted");
  const std::string pool = refusal(change("b", "", LiveSetting::kRateMinBytes, 401));
  EXPECT_TRUE(has(pool,
                  "asked for 401 more rate.min_bytes_per_second, 400 of "
                  "pools.min_bytes_per_second = 1000 are unallocated"))
      << pool;
  EXPECT_EQ(refusal(change("a", "high", LiveSetting::kRateMinBytes, 200)), "accepted");
  EXPECT_TRUE(has(refusal(change("a", "high", LiveSetting::kRateMinBytes, 201)),
                  "level high: up to this level"));
  EXPECT_TRUE(has(refusal(change("a", "", LiveSetting::kRateMinBytes, 399)),
                  "level low: up to this level"));
  EXPECT_TRUE(has(refusal(change("a", "", LiveSetting::kRateBytes, 599)), "is above"));
}

/// What a tenant gives the levels that it has made is part of its own.
TEST(MinimumCheck, OwnLevelsHaveTheirPart) {
  const Config in_force = config();
  const TenantConfig& given = in_force.tenants[1];
  const auto with_level = [&](std::uint64_t amount) {
    SubAllocation division;
    LevelEdit edit{.level = "mine", .make = true, .is_default = true};
    edit.changes.push_back(change("b", "mine", LiveSetting::kRateMinBytes, amount));
    EXPECT_FALSE(edit_levels(given, division, std::span(&edit, 1)));
    return with_division(in_force, given, division, {});
  };
  EXPECT_TRUE(with_level(0));
  const AllocationResult result = with_level(1);
  ASSERT_FALSE(result);
  EXPECT_TRUE(has(result.refusal().message, "but the tenant has 0")) << result.refusal().message;
}

}  // namespace
}  // namespace softhca::configuration
