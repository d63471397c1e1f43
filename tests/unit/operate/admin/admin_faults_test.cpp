// SPDX-License-Identifier: Apache-2.0

// Faults as clients of the admin socket ask for them.
#include "daemon/operate/admin/admin_faults.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "daemon/device/adapter/control_clock.hpp"
#include "daemon/operate/admin/fault_request.hpp"
#include "tests/unit/device/session/client.hpp"
#include "tests/unit/engine/fixture/task.hpp"

namespace softhca::control {
namespace {

class AdminFaultsTest : public ::testing::Test {
 protected:
  AdminFaultsTest() { faults->add_to(methods); }

  /// `params`: JSON, as it comes from a client.
  RpcResult call(const char* method, const std::string& params) {
    return (*methods.find(method))(Json::parse(params), {.pid = 77, .uid = 8, .gid = 9});
  }
  Json done(const char* method, const std::string& params) {
    const RpcResult result = call(method, params);
    EXPECT_TRUE(result) << result.error().message;
    return result ? result.value() : Json::object();
  }
  RpcCode refused(const char* method, const std::string& params) {
    const RpcResult result = call(method, params);
    EXPECT_FALSE(result) << params;
    return result ? RpcCode::kInternalError : result.error().code;
  }
  std::size_t in_force() { return done("faults", "{}").at("faults").size(); }
  std::vector<std::string> events() {
    std::vector<std::string> kinds;
    for (const JournalEntry& entry : daemon.adapter.journal.after(0, 100).entries) {
      kinds.push_back(entry.kind);
      EXPECT_TRUE(entry.tenant.empty()) << "its programs could have it pushed out";
    }
    return kinds;
  }
  bool engine_has_faults() {
    bool on = false;
    daemon.worker.run(
        engine::Task{[&](engine::Engine& engine) { on = engine.packets().faults().on(); }});
    return on;
  }

  Daemon daemon;
  AdminMethods methods;
  std::unique_ptr<AdminFaults> faults = std::make_unique<AdminFaults>(daemon.adapter);
};

TEST_F(AdminFaultsTest, AreAddedShownAndRemoved) {
  EXPECT_FALSE(engine_has_faults());
  const Json added =
      done("fault.add", R"({"kind":"drop","tenant":"a","probability":0.25,"count":9,"seed":3})");
  EXPECT_EQ(added["number"], 1);
  EXPECT_EQ(added["kind"], "drop");
  EXPECT_EQ(added["tenant"], "a");
  EXPECT_EQ(added["direction"], "both");
  EXPECT_EQ(added["probability"], 0.25);
  EXPECT_EQ(added["count"], 9);
  EXPECT_EQ(added["seed"], 3);
  EXPECT_EQ(added["met"], 0);
  EXPECT_EQ(added["injected"], 0);
  EXPECT_EQ(added["pid"], 77);
  EXPECT_EQ(added["uid"], 8);
  EXPECT_GT(added["left_s"], 290);
  EXPECT_LE(added["left_s"], 300);
  EXPECT_TRUE(engine_has_faults());
  done("fault.add", R"({"kind":"rnr","tenant":"b","every":10,"direction":"received"})");
  const Json told = done("faults", "{}");
  EXPECT_EQ(told["faults"].size(), 2u);
  EXPECT_EQ(told["faults"][1]["every"], 10);
  EXPECT_EQ(told["injected"]["drop"], 0);
  EXPECT_EQ(told["injected"].size(), engine::kFaultKinds);
  EXPECT_EQ(done("fault.remove", R"({"numbers":[1]})")["removed"], Json::parse("[1]"));
  EXPECT_TRUE(engine_has_faults());
  EXPECT_EQ(done("fault.remove", R"({"all":true})")["removed"], Json::parse("[2]"));
  EXPECT_FALSE(engine_has_faults());
  EXPECT_EQ(events(), (std::vector<std::string>{"fault_added", "fault_added", "fault_removed",
                                                "fault_removed"}));
}

TEST_F(AdminFaultsTest, EndWithTheirTime) {
  done("fault.add", R"({"kind":"drop","tenant":"a","every":1,"for_s":0.1})");
  const Time end = now() + std::chrono::seconds(10);
  while (in_force() != 0 && now() < end) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(in_force(), 0u);
  EXPECT_FALSE(engine_has_faults());
  EXPECT_EQ(events(), (std::vector<std::string>{"fault_added", "fault_expired"}));
}

TEST_F(AdminFaultsTest, OnlySoManyAtATime) {
  const std::string drop = R"({"kind":"drop","tenant":"a","every":1})";
  for (std::size_t i = 0; i < engine::Faults::kMost; ++i) done("fault.add", drop);
  EXPECT_EQ(refused("fault.add", drop), RpcCode::kRefused);
  EXPECT_EQ(in_force(), engine::Faults::kMost);
  done("fault.remove", R"({"numbers":[3]})");
  EXPECT_EQ(done("fault.add", drop)["number"], engine::Faults::kMost + 1) << "none comes twice";
}

TEST_F(AdminFaultsTest, WrongParameters) {
  for (const char* wrong : {R"({"kind":"explode","tenant":"a","every":1})",
                            R"({"kind":"drop","every":1})",
                            R"({"kind":"drop","tenant":"a"})",
                            R"({"kind":"drop","tenant":"a","every":0})",
                            R"({"kind":"drop","tenant":"a","every":-1})",
                            R"({"kind":"drop","tenant":"a","every":1.5})",
                            R"({"kind":"drop","tenant":"a","every":"1"})",
                            R"({"kind":"drop","tenant":"a","every":1,"probability":0.5})",
                            R"({"kind":"drop","tenant":"a","probability":0})",
                            R"({"kind":"drop","tenant":"a","probability":1.01})",
                            R"({"kind":"drop","tenant":"a","probability":true})",
                            R"({"kind":"drop","tenant":"a","every":1,"for_s":0})",
                            R"({"kind":"drop","tenant":"a","every":1,"for_s":1e9})",
                            R"({"kind":"drop","tenant":"a","every":1,"direction":"up"})",
                            R"({"kind":"drop","tenant":"a","every":1,"delay_s":1})",
                            R"({"kind":"drop","tenant":"a","every":1,"by":1})",
                            R"({"kind":"drop","tenant":"a","every":1,"count":0})",
                            R"({"kind":"drop","tenant":"a","every":1,"seed":-1})",
                            R"({"kind":"drop","qpn":16777216,"every":1})",
                            R"({"kind":"drop","qpn":0,"every":1})",
                            R"({"kind":"rnr","tenant":"a","every":1,"direction":"sent"})",
                            R"({"kind":"delay","tenant":"a","every":1})",
                            R"({"kind":"delay","tenant":"a","every":1,"delay_s":11})",
                            R"({"kind":"delay","tenant":"a","every":1,"delay_s":1,"jitter_s":-1})",
                            R"({"kind":"reorder","tenant":"a","every":1,"by":65})",
                            "[]"})
    EXPECT_EQ(refused("fault.add", wrong), RpcCode::kInvalidParams) << wrong;
  for (const char* nobody : {R"({"kind":"drop","tenant":"nobody","every":1})",
                             R"({"kind":"drop","port":"nowhere","every":1})",
                             R"({"kind":"drop","qpn":16777215,"every":1})"})
    EXPECT_EQ(refused("fault.add", nobody), RpcCode::kNoSuchThing) << nobody;
  EXPECT_EQ(refused("fault.remove", R"({"numbers":[1]})"), RpcCode::kNoSuchThing);
  EXPECT_EQ(refused("fault.remove", "{}"), RpcCode::kInvalidParams);
  EXPECT_EQ(refused("fault.remove", R"({"all":true,"numbers":[1]})"), RpcCode::kInvalidParams);
  EXPECT_EQ(in_force(), 0u);
  EXPECT_TRUE(events().empty());
}

TEST_F(AdminFaultsTest, WithoutAPortThereAreNoPackets) {
  for (const char* packets : {"delay", "duplicate", "reorder", "corrupt"}) {
    Json params = {{"kind", packets}, {"tenant", "a"}, {"every", 1u}};
    if (params["kind"] == "delay") params["delay_s"] = 0.1;
    const RpcResult result = call("fault.add", params.dump());
    ASSERT_FALSE(result) << packets;
    EXPECT_EQ(result.error().code, RpcCode::kNoSuchThing);
    EXPECT_NE(result.error().message.find("use drop or rnr"), std::string::npos);
  }
}

TEST_F(AdminFaultsTest, TheDaemonEndsThemWithItself) {
  done("fault.add", R"({"kind":"drop","tenant":"a","every":1})");
  faults.reset();
  EXPECT_FALSE(engine_has_faults());
}

TEST(FaultRequest, DefaultsAndBounds) {
  const Time begin{std::chrono::seconds(5)};
  const auto delay = fault_terms(
      Json::parse(R"({"kind":"delay","every":3,"delay_s":0.5,"jitter_s":0.25,"for_s":2})"), begin);
  ASSERT_TRUE(delay) << delay.error().message;
  EXPECT_EQ(delay->delay, std::chrono::milliseconds(500));
  EXPECT_EQ(delay->jitter, std::chrono::milliseconds(250));
  EXPECT_EQ(delay->until, begin + std::chrono::seconds(2));
  EXPECT_EQ(delay->every, 3u);
  const auto reorder = fault_terms(Json::parse(R"({"kind":"reorder","probability":1})"), begin);
  ASSERT_TRUE(reorder) << reorder.error().message;
  EXPECT_EQ(reorder->by, 3u);
  EXPECT_EQ(reorder->delay, std::chrono::milliseconds(10));
  EXPECT_EQ(reorder->seed, 1u);
  EXPECT_EQ(reorder->until, begin + std::chrono::seconds(300));
  const Json shown = to_json(engine::Fault(7, *reorder), begin);
  EXPECT_EQ(shown["number"], 7);
  EXPECT_EQ(shown["by"], 3);
  EXPECT_EQ(shown["left_s"], 300);
}

}  // namespace
}  // namespace softhca::control
