// SPDX-License-Identifier: Apache-2.0

#include "daemon/configuration/resource_manager/reload_plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

namespace softhca::configuration {
namespace {

Config with_port() {
  Config config = default_config();
  PortConfig& port = config.ports.emplace_back();
  port.name = "up";
  port.interface = "eth0";
  port.addresses = {*parse_interface_address("10.0.0.1/24")};
  LevelConfig& level = config.tenants[0].levels.emplace_back();
  level.name = "high";
  level.is_default = true;
  TenantConfig& small = config.templates.emplace_back();
  small.name = "small";
  small.levels = {level};
  return config;
}

/// One thing an operator may change, the text it is announced with, and whether it is refused.
struct Edit {
  std::function<void(Config&)> make;
  const char* text;
  bool live;
  bool alone = false;  ///< removes or renumbers what others edit
};

const Edit kEdits[] = {
    {[](Config& c) { c.daemon.log_level = "debug"; }, "daemon: log_level \"info\" -> \"debug\"",
     true},
    {[](Config& c) { c.daemon.idle = IdlePolicy::kPoll; }, "daemon: idle \"adaptive\" -> \"poll\"",
     true},
    {[](Config& c) { c.daemon.drain_timeout = std::chrono::seconds(7); },
     "daemon: drain_timeout_s 0 s -> 7 s", true},
    {[](Config& c) { c.daemon.engine_cpu = 1; },
     "daemon: engine_cpu none -> 1 (the engine's thread gets its core only when it starts; restart "
     "the daemon to change it)",
     false},
    {[](Config& c) { c.metrics.address = ""; }, "metrics: address \"127.0.0.1:9465\" -> \"\"",
     true},
    {[](Config& c) { c.pools.pcbs = 9000; },
     "pools: pcbs 8192 -> 9000 (the daemon lays out its tables only when it starts; restart the "
     "daemon to change it)",
     false},
    {[](Config& c) { c.pools.tenants = 9; },
     "pools: tenants 64 -> 9 (the daemon lays out its tables only when it starts; restart the "
     "daemon to change it)",
     false},
    {[](Config& c) { c.pools.sessions = 9; }, "pools: sessions 1024 -> 9", true},
    {[](Config& c) { c.congestion.mode = CongestionMode::kOn; },
     "congestion: mode \"notify\" -> \"on\"", true},
    {[](Config& c) { c.congestion.rpg_max_rate = 7; }, "congestion: rpg_max_rate 10000 -> 7", true},
    {[](Config& c) { c.congestion.cnp_dscp = 7; }, "congestion: cnp_dscp 48 -> 7", true},
    {[](Config& c) { c.congestion.datagrams = false; }, "congestion: datagrams true -> false",
     true},
    {[](Config& c) { c.device.name = "rdma0"; },
     "device: name \"softhca0\" -> \"rdma0\" (running programs have read the device's attributes; "
     "restart the daemon to change it)",
     false},
    {[](Config& c) { c.ports[0].interface = "eth9"; },
     "port up: interface \"eth0\" -> \"eth9\" (the daemon opens ports only when it starts; restart "
     "the daemon to change it)",
     false},
    {[](Config& c) { c.ports[0].socket = *parse_address("10.0.0.1"); },
     "port up: socket none -> 10.0.0.1 (the daemon opens ports only when it starts; restart the "
     "daemon to change it)",
     false},
    {[](Config& c) { c.ports.clear(); },
     "port up: removed (the daemon opens ports only when it starts; restart the daemon to change "
     "it)",
     false, true},
    {[](Config& c) { c.ports.emplace_back().name = "down"; },
     "port down: added (the daemon opens ports only when it starts; restart the daemon to change "
     "it)",
     false, true},
    {[](Config& c) { c.ports[0].addresses.push_back(*parse_interface_address("10.0.0.2/24")); },
     "port up: addresses [10.0.0.1/24] -> [10.0.0.1/24, 10.0.0.2/24]", true},
    {[](Config& c) { c.ports[0].gateway4 = *parse_address("10.0.0.9"); },
     "port up: gateway4 none -> 10.0.0.9", true},
    {[](Config& c) { c.tenants.emplace_back().name = "c"; }, "tenant c: added", true, true},
    {[](Config& c) { c.tenants.erase(c.tenants.begin()); }, "tenant a: removed", true, true},
    {[](Config& c) { c.templates.emplace_back().name = "other"; }, "template other: added", true},
    {[](Config& c) { c.templates[0].pcbs = 9; }, "template small: pcbs 0 -> 9", true},
    {[](Config& c) { c.templates[0].levels[0].pcbs = 9; },
     "template small: level high: pcbs 0 -> 9", true},
    {[](Config& c) { c.templates[0].tvls.resize(3); }, "template small: tvls 0 -> 3", true},
    {[](Config& c) { c.templates.clear(); }, "template small: removed", true, true},
    {[](Config& c) { c.tenants[1].addresses = {*parse_address("fe80::7")}; },
     "tenant b: addresses [198.18.0.2] -> [fe80::7]", true},
    {[](Config& c) { c.tenants[0].socket.mode = 0600; }, "tenant a: socket.mode 0o660 -> 0o600",
     true},
    {[](Config& c) { c.tenants[0].vcbs = 3; }, "tenant a: vcbs 1024 -> 3", true},
    {[](Config& c) { c.tenants[0].shared = false; }, "tenant a: shared true -> false", true},
    {[](Config& c) { c.tenants[0].tvls.resize(7); }, "tenant a: tvls 4 -> 7", true},
    {[](Config& c) { c.tenants[0].tvls[2].weight = 9; }, "tenant a: TVL 2: weight 5 -> 9", true},
    {[](Config& c) { c.tenants[0].tvls[3].kick_list = 9; }, "tenant a: TVL 3: kick_list 1024 -> 9",
     true},
    {[](Config& c) { c.tenants[0].levels[0].pcbs = 9; }, "tenant a: level high: pcbs 0 -> 9", true},
    {[](Config& c) { c.tenants[0].levels[0].users = {"root"}; },
     "tenant a: level high: users [] -> [\"root\"]", true},
    {[](Config& c) { c.tenants[0].levels[0].tvls = 2; }, "tenant a: level high: tvls 0 -> 2", true},
    {[](Config& c) {
       c.tenants[0].levels[0].socket = SocketConfig{.owner = "", .group = "", .mode = 0600};
     },
     "tenant a: level high: socket none -> { owner = \"\", group = \"\", mode = 0o600 }", true},
    {[](Config& c) { c.doorbells.threshold = 9; }, "doorbells: threshold 256 -> 9", true},
    {[](Config& c) { c.tenants[0].limits[Kind::kQueuePairs] = 9; },
     "tenant a: queue_pairs 65536 -> 9", true},
};

TEST(ReloadPlan, NothingChangesNothing) {
  EXPECT_TRUE(plan_reload(with_port(), with_port()).empty());
  EXPECT_TRUE(plan_reload(with_port(), with_port()).is_live());
}

TEST(ReloadPlan, EveryEditIsOneDifferenceOfThatText) {
  for (const Edit& edit : kEdits) {
    Config wanted = with_port();
    edit.make(wanted);
    const ReloadPlan plan = plan_reload(with_port(), wanted);
    EXPECT_THAT(plan.texts(), testing::ElementsAre(edit.text));
    EXPECT_EQ(plan.is_live(), edit.live) << edit.text;
    EXPECT_EQ(plan.refusals().size(), edit.live ? 0u : 1u) << edit.text;
  }
}

TEST(ReloadPlan, TheWayBackSwapsFromAndTo) {
  for (const Edit& edit : kEdits) {
    Config wanted = with_port();
    edit.make(wanted);
    const auto there = plan_reload(with_port(), wanted).differences;
    const auto back = plan_reload(wanted, with_port()).differences;
    ASSERT_EQ(back.size(), 1u) << edit.text;
    EXPECT_EQ(there[0].from, back[0].to);
    EXPECT_EQ(there[0].to, back[0].from);
    EXPECT_EQ(there[0].key, back[0].key);
    EXPECT_EQ(there[0].is_live(), back[0].is_live());
  }
}

TEST(ReloadPlan, LevelsComeAndGoAndChangeTheirOrder) {
  Config wanted = with_port();
  wanted.tenants[0].levels.emplace_back().name = "low";
  EXPECT_THAT(plan_reload(with_port(), wanted).texts(),
              testing::ElementsAre("tenant a: level low: added"));
  EXPECT_THAT(plan_reload(wanted, with_port()).texts(),
              testing::ElementsAre("tenant a: level low: removed"));
  Config swapped = wanted;
  std::swap(swapped.tenants[0].levels[0], swapped.tenants[0].levels[1]);
  const ReloadPlan plan = plan_reload(wanted, swapped);
  EXPECT_TRUE(plan.is_live());
  EXPECT_THAT(plan.texts(),
              testing::ElementsAre("tenant a: levels [\"high\", \"low\"] -> [\"low\", \"high\"]"));
}

TEST(ReloadPlan, CountsItsChanges) {
  Config wanted = with_port();
  EXPECT_EQ(plan_reload(with_port(), wanted).summary(), "nothing has changed");
  wanted.tenants[0].pcbs += 1;
  EXPECT_EQ(plan_reload(with_port(), wanted).summary(), "1 change made");
  wanted.tenants[0].vcbs += 1;
  EXPECT_EQ(plan_reload(with_port(), wanted).summary(), "2 changes made");
}

TEST(ReloadPlan, OrderOfTenantsIsNoDifference) {
  Config wanted = with_port();
  std::swap(wanted.tenants[0], wanted.tenants[1]);
  EXPECT_TRUE(plan_reload(with_port(), wanted).empty());
}

/// Any set of edits that do not touch each other's keys: their differences together, and one that
/// is refused is enough to refuse all.
TEST(ReloadPlan, AnySetOfEditsIsTheSumOfThem) {
  std::mt19937 random(7);
  for (int round = 0; round < 500; ++round) {
    Config wanted = with_port();
    std::vector<std::string> texts;
    bool live = true;
    for (const Edit& edit : kEdits) {
      if (random() % 4 != 0 || edit.alone) continue;
      edit.make(wanted);
      texts.emplace_back(edit.text);
      live = live && edit.live;
    }
    const ReloadPlan plan = plan_reload(with_port(), wanted);
    EXPECT_THAT(plan.texts(), testing::UnorderedElementsAreArray(texts));
    EXPECT_EQ(plan.is_live(), live);
    EXPECT_EQ(plan.empty(), texts.empty());
  }
}

}  // namespace
}  // namespace softhca::configuration
