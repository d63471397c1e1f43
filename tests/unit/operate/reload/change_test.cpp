// SPDX-License-Identifier: Apache-2.0

// Whichever step of a change fails, everything is as before.
#include "daemon/operate/reload/change.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>

#include "daemon/frontend/unix/server/server.hpp"
#include "tests/folder.hpp"
#include "tests/unit/device/session/client.hpp"

namespace softhca::control {
namespace {

namespace fs = std::filesystem;
using configuration::Config;
using configuration::SocketConfig;
using configuration::TenantConfig;

class ReloadChangeTest : public ::testing::Test {
 protected:
  ReloadChangeTest() {
    EXPECT_TRUE(server.open());
    // A port without a kernel interface: its addresses need no guard.
    daemon.adapter.config.ports.push_back({.name = "p", .addresses = {{address(1), 24}}});
  }

  static Gid address(std::uint32_t last_byte) { return Gid::from_ipv4(0xc6120000 + last_byte); }
  static Config config_in(const std::string& folder) {
    Config config = small_config();
    config.daemon.runtime_dir = folder;
    config.pools.tenants = 2;
    config.tenants[0].levels = {
        {.name = "high", .vcbs = 100, .pcbs = 200, .tvls = 2, .socket = SocketConfig{}},
        {.name = "low", .vcbs = 50, .pcbs = 100}};
    config.tenants[0].levels[1].is_default = true;
    return config;
  }
  /// What makes every kind of step: the tenant that comes has the number of one that goes.
  Config wanted() const {
    Config config = daemon.adapter.config;
    config.metrics.address = "127.0.0.1:1";
    config.ports[0].addresses.push_back({address(2), 24});
    TenantConfig& a = config.tenants[0];
    a.socket.mode = 0600;
    a.control.mode = 0660;
    a.addresses = {address(17)};
    a.vcbs -= 10;
    a.levels[0].socket->mode = 0600;
    a.levels[1] = {.name = "new", .vcbs = 20, .pcbs = 30, .is_default = true};
    a.levels[1].socket = SocketConfig{.mode = 0600};
    TenantConfig& c = config.tenants[1];
    c.name = "c";
    c.addresses = {address(3)};
    c.levels = {{.name = "one", .vcbs = 1, .pcbs = 1, .tvls = 1, .is_default = true}};
    c.levels[0].socket = SocketConfig{};
    return config;
  }

  /// All that programs, operators and the engine see.
  std::string picture() {
    std::ostringstream out;
    std::set<fs::path> paths;
    for (const auto& entry : fs::recursive_directory_iterator(folder.path()))
      paths.insert(entry.path());
    for (const fs::path& path : paths) {
      const auto status = fs::symlink_status(path);
      out << path << " " << static_cast<unsigned>(status.permissions());
      if (fs::is_symlink(status)) out << " -> " << fs::read_symlink(path);
      if (fs::is_regular_file(status)) {
        std::ifstream in(path);
        out << " " << std::string(std::istreambuf_iterator<char>(in), {});
      }
      out << "\n";
    }
    const auto quota = [&](const Quota& of) {
      out << " " << of.guaranteed.value() << " " << of.draining.value() << " " << of.may_share;
    };
    for (const auto& tenant : daemon.adapter.tenants) {
      out << tenant->name << " " << tenant->id.value << " " << tenant->control.leaving << ":";
      quota(tenant->control.vcbs);
      out << " " << daemon.engine.pcbs().guaranteed(tenant->qos_class);
      for (const auto& level : tenant->levels) {
        out << "; " << level->name;
        quota(level->control.vcbs);
        out << " " << daemon.engine.pcbs().guaranteed(level->qos_class);
      }
      for (const auto& gone : former.of(*tenant))
        out << " formerly " << static_cast<unsigned>(gone.gid.bytes[15]);
      out << "\n" << shown_connections(tenant->name) << "\n";
    }
    for (std::uint16_t i = 0; i < daemon.engine.tvls().size(); ++i) {
      const schedule::Tvl& tvl = daemon.engine.tvls()[TvlId(i)];
      if (tvl.used) out << i << " of " << tvl.tenant.value << " " << tvl.weight << "\n";
    }
    out << guards.size() << " guards, " << daemon.adapter.vcbs.unallocated() << " VCBs free, "
        << endpoints << " metrics endpoints\n";
    return out.str();
  }
  std::string shown_connections(const std::string& tenant) {
    const auto shown = (*server.admin_methods().find("tenant.show"))({{"name", tenant}}, {});
    return shown.value()["connections"]["limits"].dump();
  }

  std::unique_ptr<ReloadChange> draft(const Config& config) {
    auto change =
        ReloadChange::draft({daemon.adapter, server, guards, former, move_metrics}, config);
    EXPECT_TRUE(change);
    return std::move(*change);
  }

  Folder folder;
  Daemon daemon{config_in(folder.path())};
  Server server{daemon.adapter, *daemon.general_services, *daemon.shared_datagrams};
  KernelGuards guards;
  FormerAddresses former;
  int endpoints = 1;
  MoveMetrics move_metrics =
      [this](const configuration::MetricsConfig&) -> Expected<ReplaceMetrics> {
    ++endpoints;
    std::shared_ptr<int> second(&endpoints, [](int* count) { --*count; });
    return ReplaceMetrics([second] {});
  };
};

Outcome fail() { return Error{"as the test wants it", EIO}; }

TEST_F(ReloadChangeTest, HasAStepForAllThatCanFail) {
  const Config config = wanted();
  const auto change = draft(config);
  std::vector<std::string> names;
  for (const Step& step : change->steps()) names.push_back(step.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{
                "metrics endpoint", "address of port p", "permissions of tenant a",
                "addresses of tenant a", "permissions of the control socket of tenant a",
                "permissions of tenant a, level high", "socket of tenant a, level new",
                "socket of tenant c", "control socket of tenant c", "socket of tenant c, level one",
                "shares of datagrams", "VCBs", "former addresses", "allocations"}));
}

TEST_F(ReloadChangeTest, IsNothingButADraftBeforeItsSteps) {
  const std::string before = picture();
  const Config config = wanted();
  { (void)draft(config)->steps(); }
  EXPECT_EQ(picture(), before);
}

TEST_F(ReloadChangeTest, WhichFailsAtAnyStepChangesNothing) {
  const std::string before = picture();
  const Config config = wanted();
  const std::size_t count = draft(config)->steps().size();
  for (std::size_t i = 0; i < count; ++i)
    for (const bool half_made : {false, true}) {
      const auto change = draft(config);
      auto steps = change->steps();
      if (half_made && !steps[i].undo) continue;  // it changes all or nothing
      steps[i].apply = [half_made, made = steps[i].apply]() -> Outcome {
        if (half_made) {
          EXPECT_TRUE(made());
        }
        return fail();
      };
      const Outcome outcome = apply(steps);
      ASSERT_FALSE(outcome) << steps[i].name;
      EXPECT_EQ(outcome.error().message, steps[i].name + ": " + fail().error().message);
      EXPECT_EQ(picture(), before) << steps[i].name;
    }
  EXPECT_EQ(endpoints, 1);
}

TEST_F(ReloadChangeTest, IsMadeWhenNoStepFails) {
  Config config = wanted();
  config.ports.clear();  // the engine has none
  const auto change = draft(config);
  const Outcome outcome = apply(change->steps());
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_EQ(endpoints, 2);
  EXPECT_TRUE(fs::exists(folder.path() + "/c/one.socket"));
  EXPECT_TRUE(fs::exists(folder.path() + "/a/new.socket"));
  EXPECT_EQ(change->opened().size(), 1u);
  EXPECT_EQ(change->allocations().released.size(), 1u) << "tenant b";
}

}  // namespace
}  // namespace softhca::control
