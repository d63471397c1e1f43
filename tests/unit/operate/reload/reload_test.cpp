// SPDX-License-Identifier: Apache-2.0

// Configurations put into force on a running engine.
#include "daemon/operate/reload/reload.hpp"
#include "daemon/engine/requests/level_settings.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <stdexcept>
#include <string>

#include "daemon/frontend/unix/server/server.hpp"
#include "tests/folder.hpp"
#include "tests/unit/device/session/client.hpp"
#include "tests/unit/engine/fixture/task.hpp"

namespace softhca::control {
namespace {

using configuration::Config;
using configuration::TenantConfig;

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
      std::uint32_t own_vcbs = tenant->control.vcbs.guaranteed.value();
      ASSERT_EQ(tenant->levels.size(), entry.levels.size());
      for (const auto& level : tenant->levels) {
        const configuration::LevelConfig* settings = settings_of(entry, *level);
        ASSERT_NE(settings, nullptr) << level->name;
        EXPECT_FALSE(level->control.leaving);
        EXPECT_EQ(level->control.vcbs.guaranteed.value(), settings->vcbs);
        EXPECT_EQ(level->is_default, settings->is_default);
        EXPECT_EQ(daemon.engine.pcbs().guaranteed(level->qos_class), settings->pcbs);
        EXPECT_EQ(daemon.engine.pcbs().group(level->qos_class).is_default, settings->is_default);
        EXPECT_EQ(std::filesystem::exists(socket_of(*tenant, *level)),
                  settings->socket.has_value());
        own_vcbs += level->control.vcbs.guaranteed.value();
        expect_lanes(*tenant, entry, level->qos_class);
      }
      expect_lanes(*tenant, entry, tenant->qos_class);
      EXPECT_EQ(own_vcbs, entry.vcbs) << entry.name;
      EXPECT_EQ(daemon.engine.pcbs().guaranteed(tenant->qos_class), entry.pcbs) << entry.name;
      EXPECT_EQ(tenant->control.vcbs.may_share, entry.shared);
      EXPECT_EQ(tenant->control.accounts.limit(configuration::Kind::kSessions),
                entry.limits[configuration::Kind::kSessions]);
      vcbs += entry.vcbs;
      pcbs += entry.pcbs;
      lanes += entry.tvls.size();
      for (const configuration::TvlConfig& tvl : entry.tvls) {
        execution += tvl.execution_credits;
        completion += tvl.completion_credits;
      }
    }
    const schedule::TvlTable& tvls = daemon.engine.tvls();
    for (std::uint16_t i = 0; i < tvls.size(); ++i) {
      const schedule::Tvl& tvl = tvls[TvlId(i)];
      if (!tvl.used || tvl.purpose != schedule::TvlPurpose::kCommands ||
          tvl.tenant.value >= config.pools.tenants)  // of no tenant
        continue;
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
    EXPECT_EQ(daemon.engine.pcbs().dedicated(), config.pools.dedicated_pcbs);
  }

  std::string socket_of(const engine::Tenant& tenant, const engine::Level& level) const {
    return folder.path() + "/" + tenant.name + "/" + level.name + ".socket";
  }
  /// Lanes for commands are as configured; there is one dedicated lane for each level, or for the
  /// tenant.
  void expect_lanes(const engine::Tenant& tenant, const TenantConfig& entry, QosClassId qos_class) {
    const schedule::TvlTable& tvls = daemon.engine.tvls();
    std::vector<std::uint32_t> weights, wanted;
    std::size_t dedicated = 0;
    for (std::uint16_t i = 0; i < tvls.size(); ++i) {
      const schedule::Tvl& tvl = tvls[TvlId(i)];
      if (!tvl.used || tvl.tenant != tenant.id || tvl.qos_class != qos_class) continue;
      if (tvl.purpose == schedule::TvlPurpose::kCommands) {
        weights.push_back(tvl.weight);
        continue;
      }
      ++dedicated;
      const engine::Level* level = tenant.find_level(qos_class);
      EXPECT_EQ(tvl.execution.guaranteed.value(),
                dedicated_part(TenantConfig::kDedicatedExecutionCredits, entry, level));
      EXPECT_EQ(tvl.completion.guaranteed.value(),
                dedicated_part(TenantConfig::kDedicatedCompletionCredits, entry, level));
    }
    for (const configuration::TvlConfig& tvl : engine::tvls_of(entry, tenant.find_level(qos_class)))
      wanted.push_back(tvl.weight);
    std::sort(weights.begin(), weights.end());
    std::sort(wanted.begin(), wanted.end());
    EXPECT_EQ(weights, wanted);
    EXPECT_EQ(dedicated, qos_class == tenant.qos_class && !entry.levels.empty() ? 0u : 1u);
  }

  static std::uint32_t dedicated_part(std::uint32_t all, const TenantConfig& entry,
                                      const engine::Level* level) {
    if (level == nullptr) return entry.shared ? all : 1;
    const configuration::LevelConfig& settings = *settings_of(entry, *level);
    if (!entry.shared || !settings.shared) return 1;
    std::uint32_t pcbs = 0;
    for (const configuration::LevelConfig& each : entry.levels) pcbs += each.pcbs;
    const auto levels = static_cast<std::uint32_t>(entry.levels.size());
    const std::uint32_t rest = all - std::min(all, levels);
    return 1 + (pcbs == 0 ? rest / levels : rest * settings.pcbs / pcbs);
  }

  /// Any levels that fit in the tenant and together.
  static void divide(TenantConfig& tenant, std::mt19937& random) {
    tenant.levels.clear();
    std::uint32_t vcbs = 0, pcbs = 0, lanes = 1;
    for (const char* name : {"high", "low", "spare"}) {
      if (random() % 3 == 0) continue;
      configuration::LevelConfig level{.name = name};
      vcbs += level.vcbs = random() % 300;
      pcbs += level.pcbs = random() % 500;
      lanes += level.tvls = random() % 3;
      level.shared = random() % 2 != 0;
      if (random() % 2 != 0)
        level.socket = configuration::SocketConfig{.owner = "", .group = "", .mode = 0600};
      tenant.levels.push_back(level);
    }
    std::shuffle(tenant.levels.begin(), tenant.levels.end(), random);
    if (!tenant.levels.empty()) tenant.levels[random() % tenant.levels.size()].is_default = true;
    tenant.vcbs = vcbs + random() % 2000;
    tenant.pcbs = pcbs + random() % 4000;
    tenant.tvls.resize(lanes + random() % 4, tenant.tvls.back());
    for (configuration::TvlConfig& tvl : tenant.tvls) {
      tvl.weight = 1 + random() % 9;
      tvl.execution_credits = 1 + random() % 100;
    }
    tenant.shared = random() % 4 != 0;
  }

  Folder folder;
  Daemon daemon{config_in(folder.path())};
  Server server{daemon.adapter, *daemon.general_services, *daemon.shared_datagrams};
  Reloader reloader{daemon.adapter, server, {}, {}, {}};
};

TEST_F(ReloadTest, BeginsAsConfigured) { expect_in_force(); }

TEST_F(ReloadTest, CdiFile_FollowsTheTenantsThatTakeSessions) {
  const std::string file = folder.path() + "/cdi.json", libraries = folder.path() + "/lib";
  const auto has = [&](const std::string& tenant) {
    const std::string text{std::istreambuf_iterator<char>(std::ifstream(file).rdbuf()), {}};
    return text.find("\"name\": \"" + tenant + "\"") != std::string::npos;
  };
  EXPECT_FALSE(std::filesystem::exists(file)) << "without a provider";
  for (const char* name : {"/libibverbs/libsofthca-rdmav34.so", "/softhca/libsofthca-preload.so"}) {
    std::filesystem::create_directories(std::filesystem::path(libraries + name).parent_path());
    std::ofstream(libraries + name) << "x";
  }
  daemon.adapter.libraries = libraries;
  Config wanted = daemon.adapter.config;
  wanted.tenants.push_back(another("c", 3));
  ASSERT_TRUE(reloader.put_into_force(wanted));
  EXPECT_TRUE(has("a") && has("c"));
  wanted.tenants.pop_back();
  ASSERT_TRUE(reloader.put_into_force(wanted));
  EXPECT_TRUE(has("a"));
  EXPECT_FALSE(has("c"));
  server.device_trees().remove();
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST_F(ReloadTest, AnySequenceLeavesWhatTheConfigurationSays) {
  std::mt19937 random(11);
  unsigned accepted = 0;
  for (int round = 0; round < 300; ++round) {
    Config wanted = daemon.adapter.config;
    std::erase_if(wanted.tenants,
                  [&](const TenantConfig& t) { return t.name != "a" && random() % 3 == 0; });
    for (const auto& [name, address] : {std::pair("b", 2), {"c", 3}, {"d", 4}, {"e", 5}})
      if (random() % 3 == 0 &&
          std::none_of(wanted.tenants.begin(), wanted.tenants.end(),
                       [taken = name](const auto& t) { return t.name == taken; }))
        wanted.tenants.push_back(another(name, static_cast<std::uint32_t>(address)));
    for (TenantConfig& tenant : wanted.tenants) divide(tenant, random);
    wanted.pools.dedicated_pcbs = 16 + random() % 512;
    const bool fits = wanted.tenants.size() <= wanted.pools.tenants &&
                      !check_room(daemon.adapter.config, wanted, {});
    const Config before = daemon.adapter.config;
    const ReloadResult result = reloader.put_into_force(wanted);
    ASSERT_EQ(static_cast<bool>(result), fits)
        << (result ? "" : result.refusal->lines.front()) << " in round " << round;
    EXPECT_TRUE(daemon.adapter.config == (fits ? wanted : before));
    expect_in_force();
    accepted += fits;
  }
  EXPECT_GT(accepted, 20u);
  EXPECT_LT(accepted, 300u);
}

TEST_F(ReloadTest, TenantsOnDemandComeAndGoAndLeaveNothing) {
  Config file = daemon.adapter.config;
  TenantConfig& small = file.templates.emplace_back(another("small", 10));
  small.vcbs = small.pcbs = 100;
  small.tvls.resize(2);
  small.levels = {{.name = "only", .vcbs = 10, .pcbs = 10, .tvls = 1, .is_default = true}};
  for (std::uint32_t i = 11; i < 14; ++i) small.addresses.push_back(Gid::from_ipv4(0xc6120000 + i));
  ASSERT_TRUE(reloader.put_into_force(file));
  const Config before = daemon.adapter.config;
  const auto files = [&] {
    const std::filesystem::recursive_directory_iterator all(folder.path());
    return std::distance(begin(all), end(all));
  };
  const auto files_before = files();
  for (int round = 0; round < 70; ++round) {
    for (const char* which : {"x", "y", "z"}) {
      const std::string name = which + std::to_string(round);
      const auto made = reloader.create_tenant({.name = name, .template_name = "small"}, {}, false);
      ASSERT_EQ(static_cast<bool>(made), *which != 'z') << "there is room for four";
      expect_in_force();
    }
    const std::string y = "y" + std::to_string(round);
    ASSERT_EQ(daemon.adapter.settings(*find(y)).addresses.front(), small.addresses.at(1));
    const std::vector<configuration::AllocationChange> own = {
        {y, configuration::LiveSetting::kPcbs, 20, {}, "only"}};
    ASSERT_TRUE(reloader.change_own(*find(y), own));
    for (const char* which : {"y", "x"}) {
      ASSERT_TRUE(reloader.remove_tenant(which + std::to_string(round), false, {}));
      EXPECT_FALSE(reloader.draining(which + std::to_string(round))) << "no program is attached";
      expect_in_force();
    }
    ASSERT_FALSE(reloader.remove_tenant(y, true, {})) << "it is gone";
  }
  EXPECT_EQ(daemon.adapter.config, before);
  EXPECT_EQ(files(), files_before);
  EXPECT_TRUE(reloader.layers().tenants().empty());
  EXPECT_TRUE(reloader.layers().own().empty()) << "what tenants divided that are gone";
  EXPECT_LE(reloader.revisions().all().size(), Revisions::kKept);
  EXPECT_LE(daemon.adapter.journal.after(0, 10000).entries.size(), 2 * 256u);
}

TEST_F(ReloadTest, PlanChange_LevelThatTheTenantMade_RefusedLikeTheChange) {
  const std::vector<configuration::LevelEdit> edits = {{.level = "own", .make = true}};
  const auto make = [&](const TenantConfig& given, configuration::SubAllocation& division) {
    return configuration::edit_levels(given, division, edits);
  };
  ASSERT_TRUE(reloader.divide(*find("a"), make, "level made", {}));
  const std::vector<configuration::AllocationChange> changes = {
      {"a", configuration::LiveSetting::kPcbs, 1, {}, "own"}};
  const PlannedRequest planned = reloader.plan_change(changes);
  const ReloadResult changed = reloader.change(changes, {}, false);
  ASSERT_FALSE(changed);
  ASSERT_FALSE(planned.result);
  EXPECT_EQ(planned.result.refusal->lines, changed.refusal->lines);
}

TEST_F(ReloadTest, ATenantOnDemandWhoseSocketCannotBeMadeIsNotThere) {
  Config file = daemon.adapter.config;
  file.templates.push_back(another("small", 10));
  file.templates[0].vcbs = file.templates[0].pcbs = 0;
  file.templates[0].tvls = {configuration::TvlConfig{}};
  ASSERT_TRUE(reloader.put_into_force(file));
  std::ofstream(folder.path() + "/web") << "in the way";
  const configuration::TenantRequest web{.name = "web", .template_name = "small"};
  const ReloadResult result = reloader.create_tenant(web, {}, false);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.refusal->cause, ReloadRefusal::Cause::kSetup);
  expect_in_force();
  EXPECT_EQ(reloader.layers().find("web"), nullptr);
  std::filesystem::remove(folder.path() + "/web");
  EXPECT_TRUE(reloader.create_tenant(web, {}, false));
  expect_in_force();
  EXPECT_EQ(reloader.socket_of("web"), folder.path() + "/web/socket");
}

TEST_F(ReloadTest, ARefusedSocketTakesBackTheOthers) {
  Config wanted = daemon.adapter.config;
  wanted.tenants.push_back(another("c", 3));
  wanted.tenants.push_back(another("d", 4));
  for (std::size_t i = 2; i < 4; ++i) wanted.tenants[i].vcbs = wanted.tenants[i].pcbs = 0;
  for (std::size_t i = 2; i < 4; ++i) wanted.tenants[i].tvls = {configuration::TvlConfig{}};
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

// A tenant that comes has the number of one that goes, and a later one of the reload is refused.
TEST_F(ReloadTest, ATenantThatStaysAfterAllIsServedAgain) {
  const auto small = [](const char* name, std::uint32_t last_byte) {
    TenantConfig tenant = another(name, last_byte);
    tenant.vcbs = tenant.pcbs = 0;
    tenant.tvls = {configuration::TvlConfig{}};
    return tenant;
  };
  Config full = daemon.adapter.config;
  full.tenants[1].connections.listeners = 7;
  full.tenants.push_back(small("c", 3));
  full.tenants.push_back(small("d", 4));
  ASSERT_EQ(full.tenants.size(), full.pools.tenants);
  ASSERT_TRUE(reloader.put_into_force(full));
  const TenantId number = find("b")->id;
  const auto connections = [&] {
    return (*server.admin_methods().find("tenant.show"))({{"name", "b"}}, {})
        .value()["connections"];
  };
  const auto before = connections();
  ASSERT_EQ(before["limits"]["listeners"]["limit"], 7);

  Config wanted = full;
  wanted.tenants[1] = small("e", 5);
  wanted.tenants[1].rates.sent.min_bytes_per_second = 1000;
  wanted.tenants[2].socket.owner = "nobody-of-that-name";
  ASSERT_FALSE(reloader.put_into_force(wanted));
  EXPECT_EQ(connections(), before);
  for (const std::uint8_t management_class : {7, 4})
    EXPECT_TRUE(daemon.general_services->set_buffers(*find("b"),
                                                     engine::class_selector(management_class), 16));
  expect_in_force();

  wanted.tenants[2].socket = full.tenants[2].socket;
  wanted.general_services.buffers = 8 * 16 - 1;  // of e as well, which has its clients already
  ASSERT_FALSE(reloader.put_into_force(wanted));
  EXPECT_EQ(connections(), before);

  wanted.general_services.buffers = 8 * 16;
  ASSERT_TRUE(reloader.put_into_force(wanted));
  EXPECT_EQ(find("e")->id, number) << "as it was in the refused one";
  EXPECT_EQ(daemon.engine.cpu().minimums().of(number).rate().per_second, 1000u);
}

TEST_F(ReloadTest, AddressesOfDevices_ChangeWhileTheyAreThere) {
  Config wanted = daemon.adapter.config;
  TenantConfig tenant = another("c", 3);
  tenant.vcbs = tenant.pcbs = 0;
  tenant.tvls = {configuration::TvlConfig{}};
  for (const std::uint32_t address : {0xc6120003u, 0xc6120004u}) {
    configuration::TenantDevice& device = tenant.devices.emplace_back();
    device.name = "mlx5_" + std::to_string(tenant.devices.size() - 1);
    device.addresses = {Gid::from_ipv4(address)};
  }
  const auto put = [&] {
    wanted.tenants.back().addresses.clear();
    for (const configuration::TenantDevice& device : wanted.tenants.back().devices)
      wanted.tenants.back().addresses.push_back(device.addresses.front());
    return static_cast<bool>(reloader.put_into_force(wanted));
  };
  wanted.tenants.push_back(tenant);
  ASSERT_TRUE(put());
  const auto gid_of = [&](const std::string& device) {
    return first_line(folder.path() + "/c/sysfs/class/infiniband/" + device + "/ports/1/gids/0");
  };
  EXPECT_EQ(gid_of("mlx5_1"), "0000:0000:0000:0000:0000:ffff:c612:0004");
  std::swap(wanted.tenants.back().devices[0].addresses, wanted.tenants.back().devices[1].addresses);
  ASSERT_TRUE(put());
  EXPECT_EQ(gid_of("mlx5_0"), "0000:0000:0000:0000:0000:ffff:c612:0004");
  EXPECT_EQ(gid_of("mlx5_1"), "0000:0000:0000:0000:0000:ffff:c612:0003");
  EXPECT_EQ(find("c")->addresses[0].device, 0);
  EXPECT_EQ(find("c")->addresses[0].gid, Gid::from_ipv4(0xc6120004));
  wanted.tenants.back().devices.pop_back();
  EXPECT_FALSE(put());
  EXPECT_EQ(gid_of("mlx5_1"), "0000:0000:0000:0000:0000:ffff:c612:0003");
}

TEST_F(ReloadTest, BuffersThatClientsHoldAreNotTakenFromThem) {
  Config wanted = daemon.adapter.config;
  wanted.general_services.buffers = 4 * 16 - 1;  // two clients for each of two tenants
  wanted.general_services.engine_share = 0.01;
  wanted.tenants[1].pcbs = 10;
  const Config before = daemon.adapter.config;
  const ReloadResult refused = reloader.put_into_force(wanted);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.refusal->cause, ReloadRefusal::Cause::kSetup);
  EXPECT_EQ(refused.refusal->lines.front(),
            "shares of datagrams: [general_services]: clients have requested 64 buffers, more than "
            "`buffers` = 63");
  EXPECT_TRUE(daemon.adapter.config == before);
  EXPECT_EQ(daemon.general_services->view().parameters.buffers, before.general_services.buffers);
  expect_in_force();

  wanted.tenants.pop_back();  // its clients end with it
  wanted.general_services.buffers = 2 * 16;
  ASSERT_TRUE(reloader.put_into_force(wanted));
  EXPECT_EQ(daemon.general_services->view().parameters.buffers, 32u);
  expect_in_force();
}

// More buffers than the maximum. Reading a file refuses such a value; put_into_force() does not
// check it again.
TEST_F(ReloadTest, SaysWhichSectionStaysAsItWas) {
  Config wanted = daemon.adapter.config;
  const auto before = wanted.shared_datagrams;
  wanted.shared_datagrams.buffers = 2 * configuration::kMaxGeneralServicesBuffers;
  wanted.general_services.buffers = 2048;
  const ReloadResult result = reloader.put_into_force(wanted);
  ASSERT_TRUE(result);
  EXPECT_EQ(result.kept,
            std::vector<std::string>{"[shared_datagrams] not applied, old values stay in force: at "
                                     "most 16384 buffers; correct it and reload"});
  EXPECT_TRUE(daemon.adapter.config.shared_datagrams == before);
  EXPECT_EQ(daemon.general_services->view().parameters.buffers, 2048u);
  expect_in_force();
}

TEST_F(ReloadTest, SharedReceiveQueuesThatAreThereFollowAPolicy) {
  Client client(daemon, 1);
  ASSERT_EQ(client.greet(), 0);
  abi::CreateSrqRequest request{};
  request.pd = client.make(Operation::kAllocPd);
  request.max_wr = 16384;
  request.max_sge = 1;
  abi::CreateSrqReply made{};
  ASSERT_EQ(client.ask(Operation::kCreateSrq, request, &made), 0);
  const auto limit = [&] {
    std::uint32_t found = 0;
    client.session().for_each_srq([&](auto, const engine::SharedReceiveQueue& srq, auto) {
      if (srq.provisioner) found = srq.provisioner->policy().limits[0];
    });
    return found;
  };
  EXPECT_EQ(limit(), 0u);
  for (const std::uint32_t wanted_limit : {7u, 9u, 0u, 3u}) {
    Config wanted = daemon.adapter.config;
    wanted.tenants[1].srq.limits.fill(wanted_limit);
    ASSERT_TRUE(reloader.put_into_force(wanted));
    EXPECT_EQ(limit(), wanted_limit);
  }
}

TEST_F(ReloadTest, MembersOfALevelAreThoseOfTheConfigurationInForce) {
  const auto members = [&](const char* level) -> const engine::LevelControl& {
    for (const auto& each : daemon.adapter.tenants[0]->levels)
      if (each->name == level) return each->control;
    throw std::out_of_range(level);
  };
  Config wanted = daemon.adapter.config;
  wanted.tenants[0].levels[0].users = {"root", "4711"};
  ASSERT_TRUE(reloader.put_into_force(wanted));
  EXPECT_EQ(members("high").users, (std::vector<uid_t>{0, 4711}));
  EXPECT_TRUE(members("low").users.empty());
  std::swap(wanted.tenants[0].levels[0].users, wanted.tenants[0].levels[1].users);
  wanted.tenants[0].levels[1].groups = {"4712"};
  ASSERT_TRUE(reloader.put_into_force(wanted));
  EXPECT_TRUE(members("high").users.empty());
  EXPECT_EQ(members("low").users, (std::vector<uid_t>{0, 4711}));
  EXPECT_EQ(members("low").groups, std::vector<gid_t>{4712});
}

// What programs read of their addresses is written before anything changes.
TEST_F(ReloadTest, AddressesThatCannotBeShownChangeNothing) {
  namespace fs = std::filesystem;
  const auto gids_of = [&](const char* tenant) {
    return folder.path() + "/" + tenant + "/sysfs/class/infiniband/softhca0/ports/1/gids";
  };
  const auto shown = [&](const char* tenant) {
    std::ifstream in(gids_of(tenant) + "/0");
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  const std::string before = shown("a");
  Config wanted = daemon.adapter.config;
  wanted.tenants[0].addresses = {Gid::from_ipv4(0xc6120011)};
  wanted.tenants[1].addresses = {Gid::from_ipv4(0xc6120012)};
  wanted.tenants[1].pcbs = 10;
  fs::create_directories(gids_of("b") + "/.0/in the way");
  const ReloadResult refused = reloader.put_into_force(wanted);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.refusal->cause, ReloadRefusal::Cause::kSetup);
  EXPECT_EQ(shown("a"), before);
  EXPECT_FALSE(fs::exists(gids_of("a") + "/.0"));
  EXPECT_NE(find("a")->addresses.front().gid, wanted.tenants[0].addresses.front());
  expect_in_force();

  fs::remove_all(gids_of("b") + "/.0");
  ASSERT_TRUE(reloader.put_into_force(wanted));
  EXPECT_EQ(shown("a"), "0000:0000:0000:0000:0000:ffff:c612:0011\n");
  EXPECT_EQ(shown("b"), "0000:0000:0000:0000:0000:ffff:c612:0012\n");
  EXPECT_EQ(find("a")->addresses.front().gid, wanted.tenants[0].addresses.front());
  expect_in_force();
}

// The configuration fits, and the engine refuses in the middle of the change all the same: what it
// has done by then is taken back.
TEST_F(ReloadTest, WhatTheEngineRefusesChangesNothing) {
  Config wanted = daemon.adapter.config;
  wanted.tenants.push_back(another("c", 3));
  wanted.tenants[1].pcbs = 10;  // shrinks
  wanted.tenants[1].tvls.pop_back();
  wanted.tenants[0].vcbs += 100;
  wanted.tenants[0].levels = {{.name = "low", .vcbs = 20, .pcbs = 30, .tvls = 1},
                              {.name = "new", .vcbs = 10, .pcbs = 10, .tvls = 1}};
  wanted.tenants[0].levels[0].is_default = true;
  wanted.tenants[0].levels[1].socket =
      configuration::SocketConfig{.owner = "", .group = "", .mode = 0600};
  wanted.tenants[2].levels = {{.name = "one", .vcbs = 1, .pcbs = 1, .tvls = 1}};
  wanted.tenants[2].levels[0].is_default = true;

  const TenantId nobody(static_cast<std::uint16_t>(daemon.adapter.config.pools.tenants - 1));
  ASSERT_EQ(wanted.tenants.size(), nobody.value);
  collect::PcbPool& pcbs = daemon.engine.pcbs();
  schedule::TvlTable& tvls = daemon.engine.tvls();
  const auto run = [&](auto&& task) {
    daemon.worker.run(engine::Task{[&](engine::Engine&) { task(); }});
  };
  const auto refused = [&](const char* what) {
    SCOPED_TRACE(what);
    const Config before = daemon.adapter.config;
    const ReloadResult result = reloader.put_into_force(wanted);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.refusal->cause, ReloadRefusal::Cause::kSetup);
    EXPECT_TRUE(daemon.adapter.config == before);
    EXPECT_FALSE(std::filesystem::exists(folder.path() + "/c"));
    EXPECT_FALSE(std::filesystem::exists(folder.path() + "/a/new.socket"));
    EXPECT_EQ(find("a")->levels.size(), 2u);
  };

  std::vector<QosClassId> groups;
  run([&] {
    while (const auto group = pcbs.add_group({.tenant = nobody})) groups.push_back(*group);
  });
  refused("no collect group is left");
  run([&] {
    for (const QosClassId group : groups) EXPECT_TRUE(pcbs.remove_group(group));
  });
  expect_in_force();

  std::vector<TvlId> rows;
  run([&] {
    while (const auto row = tvls.add({.tenant = nobody, .max_kick_list = 1})) rows.push_back(*row);
    EXPECT_TRUE(tvls.remove(rows.back()));  // one is left: some are made before it ends
    rows.pop_back();
  });
  refused("no TVL is left");
  run([&] {
    for (const TvlId row : rows) EXPECT_TRUE(tvls.remove(row));
  });
  expect_in_force();

  Quota taken;
  ASSERT_TRUE(daemon.adapter.vcbs.set_guarantee(taken, daemon.adapter.vcbs.unallocated()));
  refused("no VCB is left");
  ASSERT_TRUE(daemon.adapter.vcbs.set_guarantee(taken, 0));
  expect_in_force();

  EXPECT_TRUE(reloader.put_into_force(wanted));
  expect_in_force();
}

TEST_F(ReloadTest, DedicatedPcbsAreTakenFromWhatNobodyIsGuaranteed) {
  Config wanted = daemon.adapter.config;
  std::uint32_t guaranteed = 0;
  for (const TenantConfig& tenant : wanted.tenants) guaranteed += tenant.pcbs;
  wanted.pools.dedicated_pcbs = wanted.pools.pcbs - guaranteed;
  EXPECT_TRUE(reloader.put_into_force(wanted));
  expect_in_force();
  ++wanted.pools.dedicated_pcbs;
  const ReloadResult refused = reloader.put_into_force(wanted);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.refusal->cause, ReloadRefusal::Cause::kSetup);
  expect_in_force();
}

TEST_F(ReloadTest, DedicatedPcbsThatAreInUseComeBack) {
  Config wanted = daemon.adapter.config;
  collect::PcbPool& pcbs = daemon.engine.pcbs();
  const QosClassId b = find("b")->qos_class;
  std::vector<PcbId> taken;
  daemon.worker.run(engine::Task{[&](engine::Engine&) {
    while (const auto pcb = pcbs.allocate_dedicated(b)) taken.push_back(*pcb);
  }});
  wanted.pools.dedicated_pcbs = static_cast<std::uint32_t>(taken.size()) - 1;
  EXPECT_TRUE(reloader.put_into_force(wanted));
  daemon.worker.run(engine::Task{[&](engine::Engine&) {
    for (const PcbId pcb : taken) pcbs.free(pcb);
  }});
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

TEST_F(ReloadTest, CountsReloadsByResult) {
  const configuration::ReloadCounters& counters = daemon.adapter.reloads;
  const auto count = [&](configuration::ReloadOutcome outcome) {
    return counters.by_result[static_cast<std::size_t>(outcome)].value();
  };
  EXPECT_EQ(counters.last_successful.value(), 1u) << "what was read at the start is in force";
  EXPECT_EQ(count(configuration::ReloadOutcome::kSuccess), 0u) << "a start is not a reload";
  const std::uint64_t in_force_since = counters.last_success_ms.value();
  EXPECT_GT(in_force_since, 0u);
  // The built-in configuration has other pools.
  ASSERT_FALSE(reloader.reload());
  EXPECT_EQ(counters.last_successful.value(), 0u);
  EXPECT_EQ(counters.last_success_ms.value(), in_force_since);
  EXPECT_EQ(count(configuration::ReloadOutcome::kNotLive), 1u);
  EXPECT_EQ(count(configuration::ReloadOutcome::kSuccess), 0u);
}

TEST_F(ReloadTest, ARequestIsMadeAsAWholeOrNotAtAll) {
  using configuration::LiveSetting;
  const std::vector<configuration::AllocationChange> swap = {{"b", LiveSetting::kPcbs, 5000, {}},
                                                             {"a", LiveSetting::kPcbs, 300, {}}};
  EXPECT_TRUE(reloader.change(swap));
  expect_in_force();
  const std::vector<configuration::AllocationChange> greedy = {{"b", LiveSetting::kPcbs, 10, {}},
                                                               {"a", LiveSetting::kPcbs, 9000, {}}};
  const ReloadResult refused = reloader.change(greedy);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.refusal->allocation.resource, "pcbs");
  EXPECT_EQ(refused.refusal->allocation.asked, 8700u);
  EXPECT_EQ(refused.refusal->allocation.free, 7626u);
  expect_in_force();
}

}  // namespace
}  // namespace softhca::control
