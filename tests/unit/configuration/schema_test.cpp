// SPDX-License-Identifier: Apache-2.0

// The tables of keys are complete, agree with themselves, and are what parsing, differences and
// changes go by.
#include "daemon/configuration/schema/schema.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <new>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "daemon/configuration/resource_manager/reload_plan.hpp"
#include "daemon/configuration/resource_manager/resource_manager.hpp"
#include "daemon/configuration/schema/schema_print.hpp"

namespace softhca::configuration {
namespace {

constexpr const char* kOneTenant = "[[tenant]]\nname = \"t\"\naddresses = [\"198.18.0.1\"]\n";

/// f(name, table, S) for every structure that has keys.
template <class F>
void for_each_table(F&& f) {
  f("daemon", DaemonConfig{});
  f("admin", AdminConfig{});
  f("metrics", MetricsConfig{});
  f("pools", PoolsConfig{});
  f("doorbells", DoorbellConfig{});
  f("adjustment", AdjustmentConfig{});
  f("congestion", CongestionParameters{});
  f("general_services", GeneralServicesConfig{});
  f("connections", ConnectionsConfig{});
  f("device", DeviceConfig{});
  f("port", PortConfig{});
  f("socket", SocketConfig{});
  f("tenant", TenantConfig{});
  f("tenant.device", TenantDevice{});
  f("tenant.tvl", TvlConfig{});
  f("tenant.level", LevelConfig{});
  f("tenant.rate", SentLimits{});
  f("tenant.inbound_rate", InboundLimits{});
  f("tenant.served_rate", ServedLimits{});
  f("tenant.srq", SrqPolicy{});
  f("tenant.srq_rule", SrqRule{});
}

/// Which bytes of a structure are the values of its keys.
template <class S>
std::vector<bool> covered_bytes(const S& section) {
  std::vector<bool> covered(sizeof(S), false);
  const auto cover = [&](const void* place, std::size_t bytes) {
    const auto first =
        static_cast<const std::byte*>(place) - reinterpret_cast<const std::byte*>(&section);
    ASSERT_GE(first, 0);
    ASSERT_LE(static_cast<std::size_t>(first) + bytes, sizeof(S)) << "of another structure";
    std::fill_n(covered.begin() + first, bytes, true);
  };
  for (const Key& key : schema_of<S>().keys) cover(key.at.place(&section), key.at.bytes);
  // These members have no key: [[tenant.device]], [[tenant.level]], [[tenant.srq_rule]], what
  // tenants set themselves, and fixed values.
  if constexpr (std::is_same_v<S, TenantConfig>) {
    cover(&section.devices, sizeof section.devices);
    cover(&section.levels, sizeof section.levels);
    cover(&section.srq_rules, sizeof section.srq_rules);
  }
  if constexpr (std::is_same_v<S, LevelConfig>) {
    cover(&section.own_rules, sizeof section.own_rules);
    cover(&section.own, sizeof section.own);
  }
  if constexpr (requires { section.fixed; }) cover(&section.fixed, sizeof section.fixed);
  if constexpr (std::is_same_v<S, ReliabilityParameters>)
    cover(&section.flight, sizeof section.flight);
  return covered;
}

/// A byte that belongs to no key is padding and does not affect comparisons. The exception is
/// MetricsConfig::chosen, which comparisons ignore as well.
TEST(Schema, EveryMemberIsTheValueOfAKey) {
  for_each_table([](const char* name, auto sample) {
    using S = decltype(sample);
    const std::vector<bool> covered = covered_bytes(sample);
    alignas(S) std::byte storage[sizeof(S)] = {};
    S* section = new (storage) S();
    for (std::size_t i = 0; i < sizeof(S); ++i) {
      if (covered[i]) continue;
      const std::byte before = storage[i];
      storage[i] ^= std::byte{1};
      EXPECT_TRUE(*section == S()) << name << ": byte " << i << " belongs to no key";
      storage[i] = before;
    }
    section->~S();
  });
}

TEST(Schema, TablesAgreeWithThemselves) {
  for_each_table([](const std::string& name, auto sample) {
    std::set<std::string> names;
    for (const Key& key : schema_of<decltype(sample)>().keys) {
      SCOPED_TRACE(name + "." + key.name);
      EXPECT_TRUE(names.insert(key.name).second);
      EXPECT_EQ(key.at.type == Type::kWord, !key.words.empty());
      EXPECT_EQ(key.at.type == Type::kTable, key.table != nullptr);
      for (const char* bound : {key.most_key, key.least_key})
        EXPECT_TRUE(bound == nullptr || find_key(schema_of<decltype(sample)>(), bound) != nullptr);
      EXPECT_TRUE(!key.in_pool || find_key(schema_of<PoolsConfig>(), key.name) != nullptr);
      EXPECT_TRUE(key.shown == Shown::kOn || *key.sample != '\0');
    }
  });
}

/// What an operator has to know stays bounded: a new name replaces an old one. `guid`, `pci` and
/// `numa` of devices, and `kick`, came without one that could go.
TEST(Schema, NamesOfKeys_NoMoreThanToday) {
  std::set<std::string> names;
  const auto add = [&](const Schema& table) {
    for (const Key& key : table.keys) names.insert(key.name);
  };
  for_each_table([&](const char*, auto sample) { add(schema_of<decltype(sample)>()); });
  add(schema_of<ReliabilityParameters>());
  add(schema_of<PeerConfig>());
  EXPECT_LE(names.size(), 114u);
}

TEST(Schema, DefaultsAreWithinTheirRanges) {
  for_each_table([](const std::string& name, auto section) {
    for (const Key& key : schema_of<decltype(section)>().keys) {
      if (key.at.look(&section) == nullptr || key.at.type == Type::kTvls) continue;
      const Range range = range_of(key);
      EXPECT_GE(amount_in(key, &section), range.least) << name << "." << key.name;
      EXPECT_LE(amount_in(key, &section), range.most) << name << "." << key.name;
    }
  });
}

/// A value that is not the default, and fits with the defaults of the other keys.
template <class S>
std::optional<std::uint64_t> another_amount(const Key& key, const S& section) {
  const Range range = range_of(key);
  const std::uint64_t amount = amount_in(key, &section);
  switch (key.at.type) {
    case Type::kBoolean:
    case Type::kWord:
    case Type::kFactor:
      return amount == range.most ? range.least : range.most;
    case Type::kInteger:
    case Type::kSeconds:
      return amount > range.least ? amount - 1 : amount + 1;
    default:
      return std::nullopt;
  }
}

/// What a file says of the key is read into its member and no other, and a reload has that one
/// difference and refuses it where the table says so.
TEST(Schema, EveryKeyIsReadAndCompared) {
  const auto before = parse_config(kOneTenant, "t.toml");
  ASSERT_TRUE(before);
  for_each_section([&](const char* name, auto member) {
    using S = std::remove_cvref_t<decltype((*before).*member)>;
    for (const Key& key : schema_of<S>().keys) {
      SCOPED_TRACE(std::string(name) + "." + key.name);
      S wanted = (*before).*member;
      const auto amount = another_amount(key, wanted);
      if (!amount) continue;
      set_amount(key, &wanted, *amount);
      std::string value = to_text(key, &wanted);
      value = value.substr(0, value.find(' '));  // of a duration, without its unit
      const auto after = parse_config(
          std::string("[") + name + "]\n" + key.name + " = " + value + "\n" + kOneTenant, "t.toml");
      ASSERT_TRUE(after) << after.error().message;
      EXPECT_TRUE((*after).*member == wanted);
      std::vector<Difference> differences = plan_reload(*before, *after).differences;
      std::erase_if(differences, [](const Difference& d) { return d.section == "tenant"; });
      ASSERT_EQ(differences.size(), 1u);
      EXPECT_EQ(differences[0].section, name);
      EXPECT_EQ(differences[0].key, key.name);
      EXPECT_EQ(differences[0].to, to_text(key, &wanted));
      EXPECT_EQ(differences[0].refusal, key.refusal);
    }
  });
}

TEST(Schema, EveryAllocationIsAKeyOfATenantOrATvl) {
  std::vector<int> keys(kLiveSettings, 0);
  const auto count = [&](const Schema& table) {
    for (const Key& key : table.keys)
      if (key.set) ++keys[static_cast<std::size_t>(*key.set)];
  };
  count(schema_of<TenantConfig>());
  count(schema_of<SentLimits>());
  count(schema_of<InboundLimits>());
  count(schema_of<ServedLimits>());
  count(schema_of<SrqPolicy>());
  count(schema_of<ConnectionsConfig>());
  count(schema_of<TvlConfig>());
  EXPECT_THAT(keys, testing::Each(1));
}

std::string text_of(const char* file) {
  std::ostringstream text;
  text << std::ifstream(std::string(std::getenv("SOFTHCA_SOURCE_ROOT")) + '/' + file).rdbuf();
  return text.str();
}

TEST(Schema, FullSample_IsWhatItPrints) {
  EXPECT_TRUE(text_of("config/softhca-full.toml") == sample_configuration())
      << "run tools/generate-configuration";
}

/// Least and most of a key can be set, and nothing beyond them.
TEST(Schema, WhatIsSetKeepsToTheRangeOfTheKey) {
  auto config = parse_config(std::string(kOneTenant) + "tvls = 2\nsrq = { limit = 1 }\n", "t.toml");
  ASSERT_TRUE(config);
  for (std::size_t i = 0; i < kLiveSettings; ++i) {
    const auto setting = static_cast<LiveSetting>(i);
    SCOPED_TRACE(name_of(setting));
    const Range range = range_of(setting, config->pools);
    const auto cause = [&](std::uint64_t amount) {
      const AllocationChange change{.tenant = "t", .setting = setting, .amount = amount};
      const auto result = with_changes(*config, std::span(&change, 1));
      return result ? "" : result.refusal().message;
    };
    if (setting != LiveSetting::kTvls) {  // a tenant has one, a level none
      EXPECT_THAT(cause(range.least), testing::Not(testing::HasSubstr("is not between")));
    }
    EXPECT_THAT(cause(range.most), testing::Not(testing::HasSubstr("is not between")));
    EXPECT_THAT(cause(range.most + 1), testing::HasSubstr("is not between"));
    if (range.least > 0) {
      EXPECT_THAT(cause(range.least - 1), testing::HasSubstr("is not between"));
    }
  }
}

}  // namespace
}  // namespace softhca::configuration
