// Configurations put into force on a running engine.
#include "daemon/control/reload.hpp"

#include <gtest/gtest.h>

#include <random>

#include "tests/unit/control/client.hpp"
#include "tests/unit/control/folder.hpp"

namespace softhca::control {
namespace {

using resource::Config;
using resource::TenantConfig;

class ReloadTest : public ::testing::Test {
 protected:
  ReloadTest() { EXPECT_TRUE(server.open()); }

  static Config config_in(const std::string& folder) {
    Config config = small_config();
    config.daemon.runtime_dir = folder;
    config.pools.tenants = 4;
    config.tenants[0].levels = {{.name = "high", .vcbs = 100, .pcbs = 200, .tvls = 2},
                                {.name = "low", .vcbs = 50, .pcbs = 100}};
    config.tenants[0].levels[1].is_default = true;
    return config;
  }
  static TenantConfig another(const char* name, std::uint32_t last_byte) {
    TenantConfig tenant = small_config().tenants[1];
    tenant.name = name;
    tenant.addresses = {Gid::from_ipv4(0xc6120000 + last_byte)};
    return tenant;
  }

  engine::Tenant* find(const std::string& name) {
    for (const auto& tenant : daemon.adapter.tenants)
      if (tenant->name == name) return tenant.get();
    return nullptr;
  }

  /// The engine and the accounts have exactly what the configuration in force says.
  void expect_in_force() {
    const Config& config = daemon.adapter.config;
    std::uint64_t vcbs = 0, pcbs = 0, lanes = 0, execution = 0, completion = 0;
    ASSERT_EQ(daemon.adapter.tenants.size(), config.tenants.size());
    for (const TenantConfig& entry : config.tenants) {
      const engine::Tenant* tenant = find(entry.name);
      ASSERT_NE(tenant, nullptr) << entry.name;
      std::uint32_t own_vcbs = tenant->vcbs.guaranteed.value();
      for (std::size_t i = 0; i < tenant->levels.size(); ++i) {
        const engine::Level& level = *tenant->levels[i];
        EXPECT_EQ(level.vcbs.guaranteed.value(), entry.levels[i].vcbs);
        EXPECT_EQ(daemon.engine.pcbs().guaranteed(level.group), entry.levels[i].pcbs);
        own_vcbs += level.vcbs.guaranteed.value();
      }
      EXPECT_EQ(own_vcbs, entry.vcbs) << entry.name;
      EXPECT_EQ(daemon.engine.pcbs().guaranteed(tenant->group), entry.pcbs) << entry.name;
      EXPECT_EQ(tenant->vcbs.may_share, entry.shared);
      EXPECT_EQ(tenant->accounts.limit(resource::Kind::kSessions),
                entry.limits[resource::Kind::kSessions]);
      vcbs += entry.vcbs;
      pcbs += entry.pcbs;
      lanes += entry.tvls.size();
      for (const resource::TvlConfig& tvl : entry.tvls) {
        execution += tvl.execution_credits;
        completion += tvl.completion_credits;
      }
    }
    const schedule::TvlTable& tvls = daemon.engine.tvls();
    for (std::uint16_t i = 0; i < tvls.size(); ++i) {
      const schedule::Tvl& tvl = tvls[TvlId(i)];
      if (!tvl.used || tvl.purpose != schedule::TvlPurpose::kCommands) continue;
      --lanes;
      execution -= tvl.execution.guaranteed.value();
      completion -= tvl.completion.guaranteed.value();
    }
    EXPECT_EQ(lanes, 0u);
    EXPECT_EQ(execution, 0u);
    EXPECT_EQ(completion, 0u);
    EXPECT_EQ(daemon.adapter.vcbs.unallocated(), config.pools.vcbs - vcbs);
    EXPECT_EQ(daemon.engine.pcbs().quota().unallocated(),
              config.pools.pcbs - config.pools.dedicated_pcbs - pcbs);
  }

  Folder folder;
  Daemon daemon{config_in(folder.path())};
  Server server{daemon.adapter};
  Reloader reloader{daemon.adapter, server, {}, "", {}};
};

TEST_F(ReloadTest, BeginsAsConfigured) { expect_in_force(); }

TEST_F(ReloadTest, AnySequenceLeavesWhatTheConfigurationSays) {
  std::mt19937 random(11);
  unsigned accepted = 0;
  for (int round = 0; round < 300; ++round) {
    Config wanted = daemon.adapter.config;
    std::erase_if(wanted.tenants,
                  [&](const TenantConfig& t) { return t.name != "a" && random() % 3 == 0; });
    for (const auto& [name, address] : {std::pair("b", 2), {"c", 3}, {"d", 4}, {"e", 5}})
      if (random() % 3 == 0 && std::none_of(wanted.tenants.begin(), wanted.tenants.end(),
                                            [&](const auto& t) { return t.name == name; }))
        wanted.tenants.push_back(another(name, static_cast<std::uint32_t>(address)));
    for (TenantConfig& tenant : wanted.tenants) {
      std::uint32_t divided_vcbs = 0, divided_pcbs = 0;
      for (resource::LevelConfig& level : tenant.levels) {
        divided_vcbs += level.vcbs = random() % 300;
        divided_pcbs += level.pcbs = random() % 500;
        level.shared = random() % 2 != 0;
      }
      tenant.vcbs = divided_vcbs + random() % 2000;
      tenant.pcbs = divided_pcbs + random() % 4000;
      tenant.tvls.resize(3 + random() % 4, tenant.tvls.back());
      for (resource::TvlConfig& tvl : tenant.tvls) tvl.execution_credits = 1 + random() % 100;
      tenant.shared = random() % 4 != 0;
    }
    const bool fits = wanted.tenants.size() <= wanted.pools.tenants &&
                      !check_room(daemon.adapter.config, wanted, {});
    const Config before = daemon.adapter.config;
    const ReloadResult result = reloader.put_into_force(wanted);
    ASSERT_EQ(static_cast<bool>(result), fits);
    EXPECT_TRUE(daemon.adapter.config == (fits ? wanted : before));
    expect_in_force();
    accepted += fits;
  }
  EXPECT_GT(accepted, 20u);
  EXPECT_LT(accepted, 300u);
}

TEST_F(ReloadTest, ARefusedSocketTakesBackTheOthers) {
  Config wanted = daemon.adapter.config;
  wanted.tenants.push_back(another("c", 3));
  wanted.tenants.push_back(another("d", 4));
  for (std::size_t i = 2; i < 4; ++i) wanted.tenants[i].vcbs = wanted.tenants[i].pcbs = 0;
  for (std::size_t i = 2; i < 4; ++i) wanted.tenants[i].tvls = {resource::TvlConfig{}};
  wanted.tenants.back().socket.owner = "nobody-of-that-name";
  wanted.tenants[1].socket.mode = 0600;
  const ReloadResult result = reloader.put_into_force(wanted);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.refusal->cause, ReloadRefusal::Cause::kSetup);
  EXPECT_FALSE(std::filesystem::exists(folder.path() + "/c"));
  EXPECT_EQ(std::filesystem::status(folder.path() + "/b/socket").permissions(),
            std::filesystem::perms(0660));
  expect_in_force();
}

TEST_F(ReloadTest, SaysWhatIsNotLive) {
  Config wanted = daemon.adapter.config;
  wanted.pools.pcbs += 1;
  wanted.tenants.pop_back();
  const ReloadResult result = reloader.put_into_force(wanted);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.refusal->cause, ReloadRefusal::Cause::kNotLive);
  EXPECT_EQ(result.refusal->lines.size(), 1u);
  EXPECT_EQ(result.plan.differences.size(), 2u);
  expect_in_force();
}

TEST_F(ReloadTest, ARequestIsMadeAsAWholeOrNotAtAll) {
  using resource::Allocation;
  const std::vector<resource::AllocationChange> swap = {{"b", Allocation::kPcbs, 5000, {}},
                                                        {"a", Allocation::kPcbs, 300, {}}};
  EXPECT_TRUE(reloader.change(swap));
  expect_in_force();
  const std::vector<resource::AllocationChange> greedy = {{"b", Allocation::kPcbs, 10, {}},
                                                          {"a", Allocation::kPcbs, 9000, {}}};
  const ReloadResult refused = reloader.change(greedy);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.refusal->allocation.resource, "pcbs");
  EXPECT_EQ(refused.refusal->allocation.asked, 8700u);
  EXPECT_EQ(refused.refusal->allocation.free, 7626u);
  expect_in_force();
}

}  // namespace
}  // namespace softhca::control
