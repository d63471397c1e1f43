// SPDX-License-Identifier: Apache-2.0

// What the admin socket shows of a daemon with sessions.
#include "daemon/operate/admin/admin_view.hpp"

#include <gtest/gtest.h>

#include "daemon/control_thread/process_name.hpp"
#include "tests/unit/device/session/client.hpp"
#include "tests/unit/engine/fixture/task.hpp"

namespace softhca::control {
namespace {

class AdminViewTest : public ::testing::Test {
 protected:
  AdminViewTest() { view.add_to(methods); }

  Json ask(const std::string& method, const Json& params = Json::object()) {
    const RpcResult result = (*methods.find(method))(params, {});
    EXPECT_TRUE(result) << method << ": " << (result ? "" : result.error().message);
    return result ? result.value() : Json::object();
  }
  RpcCode refused(const std::string& method, const Json& params) {
    const RpcResult result = (*methods.find(method))(params, {});
    EXPECT_FALSE(result) << method;
    return result ? RpcCode::kInternalError : result.error().code;
  }
  std::uint32_t make_qp(Client& client) {
    abi::CreateQpRequest request{};
    request.type = 2;
    request.pd = client.make(Operation::kAllocPd);
    abi::CreateCqReply cq{};
    abi::CreateCqRequest cq_request{};
    cq_request.entries = 16;
    cq_request.channel = abi::kNoHandle;
    EXPECT_EQ(client.ask(Operation::kCreateCq, cq_request, &cq), 0);
    request.send_cq = request.receive_cq = cq.handle;
    request.srq = abi::kNoHandle;
    abi::CreateQpReply out{};
    EXPECT_EQ(client.ask(Operation::kCreateQp, request, &out), 0);
    return out.qpn;
  }

  Daemon daemon;
  AdminMethods methods;
  Client a{daemon, 0}, b{daemon, 1};
  AdminView view{daemon.adapter, [this] {
                   return std::vector<const DeviceSession*>{&a.session(), &b.session()};
                 }};
};

TEST_F(AdminViewTest, StatusShowsThePoolsAsConfigured) {
  const Json status = ask("status");
  EXPECT_EQ(status["tenants"], 2);
  EXPECT_EQ(status["sessions"], 2);
  EXPECT_EQ(status["pid"], ::getppid());
  EXPECT_EQ(status["adapter_pid"], ::getpid());
  const configuration::PoolsConfig& pools = daemon.config.pools;
  EXPECT_EQ(status["pools"]["vcbs"]["total"], pools.vcbs);
  EXPECT_EQ(status["pools"]["vcbs"]["unallocated"], pools.vcbs - 2 * (pools.vcbs / 4));
  EXPECT_EQ(status["pools"]["queue_pairs"]["total"], pools.queue_pairs);
  EXPECT_TRUE(status["ports"].empty());
}

TEST_F(AdminViewTest, StatusCountsTheTimeOfEarlierAdapters) {
  daemon.adapter.lineage.started.steady -= std::chrono::hours(1);
  EXPECT_GT(ask("status")["uptime_s"], 3600);
}

TEST_F(AdminViewTest, TenantShowHasItsProcessesAndWhatTheyTook) {
  EXPECT_EQ(a.greet(), 0);
  make_qp(a);
  const Json tenant = ask("tenant.show", {{"name", "a"}});
  ASSERT_EQ(tenant["processes"].size(), 1u);
  const Json& process = tenant["processes"][0];
  EXPECT_EQ(process["pid"], ::getpid());
  EXPECT_EQ(process["uid"], ::getuid());
  EXPECT_EQ(process["comm"], name_of_process(::getpid()));
  EXPECT_EQ(process["queue_pairs"], 1);
  EXPECT_EQ(process["vcbs"], daemon.config.tenants[0].vcbs_per_process);
  EXPECT_EQ(tenant["vcbs"]["in_use"], daemon.config.tenants[0].vcbs_per_process);
  EXPECT_EQ(tenant["limits"]["queue_pairs"]["in_use"], 1);
  EXPECT_EQ(tenant["tvls"].size(), 5u) << "four for commands, one for dedicated PCBs";
  EXPECT_TRUE(ask("tenant.show", {{"name", "b"}})["processes"][0]["queue_pairs"] == 0);
}

TEST_F(AdminViewTest, WrongParametersAreErrors) {
  EXPECT_EQ(refused("tenant.show", {{"name", "c"}}), RpcCode::kNoSuchThing);
  EXPECT_EQ(refused("tenant.show", Json()), RpcCode::kInvalidParams);
  EXPECT_EQ(refused("tenant.show", Json::array({"a"})), RpcCode::kInvalidParams);
  EXPECT_EQ(refused("qps", {{"tenant", "c"}}), RpcCode::kNoSuchThing);
  EXPECT_THROW((void)(*methods.find("qps"))({{"tenant", 5}}, {}), Json::exception);
}

TEST_F(AdminViewTest, ListsComeInPagesInTheOrderOfNumbers) {
  EXPECT_EQ(a.greet(), 0);
  EXPECT_EQ(b.greet(), 0);
  std::vector<std::uint32_t> made;
  for (int i = 0; i < 5; ++i) made.push_back(make_qp(i % 2 == 0 ? a : b));
  std::sort(made.begin(), made.end());
  std::vector<std::uint32_t> seen;
  Json params = {{"limit", 2}};
  for (int pages = 0; pages < 5; ++pages) {
    const Json page = ask("qps", params);
    for (const Json& qp : page["qps"]) seen.push_back(qp["qpn"]);
    if (!page.contains("next")) break;
    EXPECT_EQ(page["qps"].size(), 2u);
    params["after"] = page["next"];
  }
  EXPECT_EQ(seen, made);
  EXPECT_EQ(ask("qps", {{"tenant", "a"}})["qps"].size(), 3u);
  EXPECT_EQ(ask("qps")["qps"][0]["state"], "RESET");
  EXPECT_TRUE(ask("srqs")["srqs"].empty());
}

TEST_F(AdminViewTest, AQueuePairIsShownWithWhatHappenedToItAndAfterItIsGone) {
  EXPECT_EQ(a.greet(), 0);
  const std::uint32_t qpn = make_qp(a);
  EXPECT_EQ(refused("qp.show", {{"qpn", qpn + 1}}), RpcCode::kNoSuchThing);
  EXPECT_THROW((void)(*methods.find("qp.show"))(Json::object(), {}), Json::exception);
  abi::ModifyQpRequest init{.qpn = qpn, .send_sequence = 0, .attributes = {}};
  init.attributes.mask = engine::attr::kState | engine::attr::kPkeyIndex | engine::attr::kPort |
                         engine::attr::kAccessFlags;
  init.attributes.qp_state = 1;
  init.attributes.port_num = 1;
  init.attributes.access_flags = memory::kRemoteWrite;
  ASSERT_EQ(a.ask(Operation::kModifyQp, init), 0);
  Json shown = ask("qp.show", {{"qpn", qpn}});
  EXPECT_EQ(shown["qpn"], qpn);
  EXPECT_EQ(shown["tenant"], "a");
  EXPECT_EQ(shown["state"], "INIT");
  EXPECT_GT(shown["state_since"], 1e9);
  EXPECT_EQ(shown["attributes"]["access"], Json::array({"remote_write"}));
  EXPECT_EQ(shown["attributes"]["retry_count"], 7);
  EXPECT_TRUE(shown["events"].empty());

  daemon.worker.run(engine::Task{[&](engine::Engine& engine) {
    engine.cpu().fail_later(*engine.durable().queue_pairs.find(Qpn(qpn)),
                            engine::QpFailure::kFatal);
  }});
  do {
    shown = ask("qp.show", {{"qpn", qpn}});
  } while (shown["state"] != "ERR");
  std::vector<std::string> texts;
  for (const Json& event : shown["events"]) texts.push_back(event["text"]);
  EXPECT_EQ(texts, (std::vector<std::string>{"in INIT", "failed: fatal error", "INIT to ERR"}));
  EXPECT_GE(shown["events"][1]["time"], shown["events"][0]["time"]);

  ASSERT_EQ(a.ask(Operation::kDestroyQp, abi::HandleBody{qpn, 0}), 0);
  const Json gone = ask("qp.show", {{"qpn", qpn}});
  EXPECT_EQ(gone["gone"], true);
  EXPECT_EQ(gone["tenant"], "a");
  EXPECT_EQ(gone["failure"], "fatal error");
  ASSERT_EQ(gone["events"].size(), shown["events"].size());
  for (std::size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(gone["events"][i]["text"], texts[i]);
}

TEST_F(AdminViewTest, EventsCanBeFollowed) {
  EXPECT_TRUE(ask("events")["events"].empty());
  daemon.adapter.journal.add({.kind = "session_opened", .tenant = "a", .text = "x", .process = 7});
  const Json page = ask("events");
  ASSERT_EQ(page["events"].size(), 1u);
  EXPECT_EQ(page["events"][0]["kind"], "session_opened");
  EXPECT_EQ(page["events"][0]["pid"], 7);
  EXPECT_TRUE(ask("events", {{"after", page["last"]}})["events"].empty());
}

TEST_F(AdminViewTest, CountersAreThereForEveryTenant) {
  const Json counters = ask("counters");
  ASSERT_EQ(counters["tenants"].size(), 2u);
  EXPECT_EQ(counters["tenants"][1]["name"], "b");
  EXPECT_EQ(counters["tenants"][0]["pcbs"]["guaranteed"], daemon.config.tenants[0].pcbs);
}

}  // namespace
}  // namespace softhca::control
