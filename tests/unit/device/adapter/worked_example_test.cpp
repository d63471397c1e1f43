// SPDX-License-Identifier: Apache-2.0

// The worked example of two-level allocation (mechanism A13), with the configuration of the system
// test, in virtual time. ocean and weather/other flood; some of their commands go to receivers that
// are never ready. weather/alerts still gets its guarantee.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "daemon/device/adapter/setup.hpp"
#include "tests/unit/engine/fixture/process.hpp"

namespace softhca::control {
namespace {

using engine::Process;
using engine::TestQp;

constexpr std::uint32_t kRing = 64;
constexpr std::uint32_t kAlertsPcbs = 12;

configuration::Config worked_example() {
  const char* root = std::getenv("SOFTHCA_SOURCE_ROOT");
  const std::string file =
      std::string(root != nullptr ? root : ".") + "/tests/system/qos/levels.toml";
  std::ifstream in(file);
  std::string text(std::istreambuf_iterator<char>(in), {});
  for (const auto& [word, value] : {std::pair("RUN_DIR", "/nowhere"), {"METRICS", ""}})
    text.replace(text.find(std::string("\"") + word + "\"") + 1, std::string(word).size(), value);
  auto config = configuration::parse_config(text, file);
  EXPECT_TRUE(config) << (config ? "" : config.error().message);
  config->pools.queue_pairs = 256;
  return *config;
}

constexpr std::size_t kLong = 1 << 20;

/// A process of a tenant or level, and one of control that it sends to.
struct Sender {
  std::unique_ptr<Process> process, sink;
  engine::TestCq* cq;
  engine::Buffer* far;
  engine::Buffer *large = nullptr, *far_large = nullptr;  ///< for long_write()
  std::vector<TestQp*> qps;
  std::uint32_t vcbs;
  std::vector<std::uint32_t> under_way = {};  ///< by queue pair
  std::size_t next = 0;
};

class WorkedExample {
 public:
  explicit WorkedExample(const configuration::Config& config)
      : adapter(world.add(limits_of(config))) {
    engine::TenantAllocationChange change;
    adapter.tenants = make_tenants(config, change);
    engine::TenantAllocations allocations(adapter.engine);
    const Outcome done = allocations.change(change);
    EXPECT_TRUE(done) << (done ? "" : done.error().message);
    alerts = make("weather", "alerts", 15, kAlertsPcbs);
    for (const auto& [tenant, level, vcbs] :
         {std::tuple("weather", "other", 10u), {"ocean", "high", 10u}, {"ocean", "low", 5u}})
      floods.push_back(make(tenant, level, vcbs, 16));
  }
  ~WorkedExample() {
    for (Sender* sender : all()) {
      sender->process->end();
      sender->sink->end();
    }
  }

  engine::Tenant& tenant(const std::string& name) {
    for (const auto& there : adapter.tenants)
      if (there->name == name) return *there;
    throw std::invalid_argument(name);
  }
  engine::Level& level(const std::string& of, const std::string& name) {
    for (const auto& there : tenant(of).levels)
      if (there->name == name) return *there;
    throw std::invalid_argument(name);
  }
  const collect::CollectGroup& group(const engine::Level& of) {
    return adapter.engine.pcbs().group(of.qos_class);
  }

  /// Each flood fills every VCB that it finds free: ocean/high with short writes, the others with
  /// long ones, which keep what they have for many steps.
  void flood() {
    for (Sender& sender : floods) {
      poll(sender);
      for (std::uint32_t vcb = 0; vcb < sender.vcbs; ++vcb) {
        const std::size_t i = sender.next++ % sender.qps.size();
        if (!sender.process->vcb_free(vcb) || sender.under_way[i] == kRing) continue;
        const bool ends = sender.process->session->level->name == "high";
        sender.process->post(*sender.qps[i], ends ? write(sender) : long_write(sender));
        ++sender.under_way[i];
      }
    }
  }

  /// As many commands at once as alerts is guaranteed PCBs. Poll steps until all are complete.
  unsigned round(bool flooded) {
    for (std::size_t i = 0; i < kAlertsPcbs; ++i) {
      alerts.process->post(*alerts.qps[i], write(alerts));
      ++alerts.under_way[i];
    }
    for (unsigned steps = 1; steps < 10000; ++steps) {
      if (flooded) flood();
      world.step();
      if (poll(alerts) == 0) return steps;
    }
    ADD_FAILURE() << "alerts does not get on";
    return 0;
  }

  engine::World world;
  engine::Adapter& adapter;
  Sender alerts;
  std::vector<Sender> floods;

 private:
  std::vector<Sender*> all() {
    std::vector<Sender*> senders = {&alerts};
    for (Sender& sender : floods) senders.push_back(&sender);
    return senders;
  }

  Sender make(const std::string& of, const std::string& name, std::uint32_t vcbs,
              std::size_t queue_pairs) {
    Sender sender{.process = std::make_unique<Process>(adapter, tenant(of), vcbs, &level(of, name)),
                  .sink = std::make_unique<Process>(adapter, tenant("control"), 7)};
    sender.cq = &sender.process->make_cq(4096);
    engine::TestCq& sunk = sender.sink->make_cq(64);
    sender.far = &sender.sink->make_buffer(64);
    sender.large = &sender.process->make_buffer(kLong);
    sender.far_large = &sender.sink->make_buffer(kLong);
    for (std::size_t i = 0; i < queue_pairs; ++i) {
      TestQp& from = sender.process->make_qp(*sender.cq, *sender.cq, {.send_entries = kRing});
      connect(*sender.process, from, *sender.sink, sender.sink->make_qp(sunk, sunk));
      sender.qps.push_back(&from);
    }
    sender.vcbs = vcbs;
    sender.under_way.resize(queue_pairs);
    return sender;
  }

  static engine::Work write(const Sender& sender) {
    return {.opcode = abi::Opcode::kRdmaWrite,
            .flags = abi::kCommandSignaled | abi::kCommandInline,
            .bytes = std::vector<std::byte>(64),
            .remote_addr = sender.far->addr(),
            .rkey = sender.far->key};
  }
  static engine::Work long_write(const Sender& sender) {
    return {.opcode = abi::Opcode::kRdmaWrite,
            .sge = {sender.large->all()},
            .remote_addr = sender.far_large->addr(),
            .rkey = sender.far_large->key};
  }

  /// Commands that are still under way.
  std::uint32_t poll(Sender& sender) {
    while (const auto c = sender.cq->poll()) {
      EXPECT_EQ(c->status, abi::CompletionStatus::kSuccess);
      for (std::size_t i = 0; i < sender.qps.size(); ++i)
        if (sender.qps[i]->qp.qpn.value == c->qpn) --sender.under_way[i];
    }
    std::uint32_t sum = 0;
    for (const std::uint32_t n : sender.under_way) sum += n;
    return sum;
  }
};

TEST(WorkedExampleInVirtualTime, AlertsHasItsGuaranteeWhileTheOthersFlood) {
  WorkedExample example(worked_example());
  unsigned alone = 0;
  for (int i = 0; i < 10; ++i) alone = std::max(alone, example.round(false));
  for (int i = 0; i < 500; ++i) {
    example.flood();
    example.world.step();
  }
  unsigned beside = 0;
  for (int i = 0; i < 300 && !testing::Test::HasFailure(); ++i)
    beside = std::max(beside, example.round(true));

  const engine::Level& alerts = example.level("weather", "alerts");
  EXPECT_EQ(example.group(alerts).refused.value(), 0u) << "alerts found no PCB";
  EXPECT_EQ(alerts.counters.send_queue_mode.value(), 0u);
  // Only half: how many of the waiting commands a step collects depends on the other levels.
  EXPECT_GE(example.group(alerts).pcbs.high_water.value(), kAlertsPcbs / 2);
  // The others are at their limits.
  for (const auto& [tenant, level] :
       {std::pair("weather", "other"), {"ocean", "high"}, {"ocean", "low"}}) {
    const engine::Level& flooding = example.level(tenant, level);
    EXPECT_GT(example.group(flooding).refused.value(), 0u) << level;
  }
  EXPECT_GE(example.group(example.level("weather", "other")).pcbs.high_water.value(), 8u);
  const auto& writes = example.level("ocean", "high").counters;
  EXPECT_GT(writes.commands_vcb.value() + writes.commands_doorbell.value(), 1000u)
      << "no flood of writes";
  EXPECT_EQ(example.adapter.engine.pcbs().quota().overdrawn(), 0u);
  RecordProperty("steps_alone", static_cast<int>(alone));
  RecordProperty("steps_beside_floods", static_cast<int>(beside));
  // Its turns come, whatever waits beside it: each of the others has one in between.
  EXPECT_LE(beside, 8 * alone);
}

/// It is the guarantee that does it.
TEST(WorkedExampleInVirtualTime, WithoutItsGuaranteeAlertsFindsNoPcb) {
  configuration::Config config = worked_example();
  for (configuration::TenantConfig& tenant : config.tenants)
    for (configuration::LevelConfig& level : tenant.levels)
      if (level.name == "alerts") level.pcbs = 0;
  WorkedExample example(config);
  for (int i = 0; i < 500; ++i) {
    example.flood();
    example.world.step();
  }
  for (int i = 0; i < 10; ++i) example.round(true);
  EXPECT_GT(example.group(example.level("weather", "alerts")).refused.value(), 0u);
}

}  // namespace
}  // namespace softhca::control
