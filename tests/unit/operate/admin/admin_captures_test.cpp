// SPDX-License-Identifier: Apache-2.0

// Captures as clients of the admin socket begin and end them.
#include "daemon/operate/admin/admin_captures.hpp"

#include <gtest/gtest.h>

#include "tests/unit/device/session/client.hpp"
#include "tests/unit/engine/fixture/task.hpp"

namespace softhca::control {
namespace {

class AdminCapturesTest : public ::testing::Test {
 protected:
  AdminCapturesTest() {
    EXPECT_TRUE(captures->open());
    captures->add_to(methods);
  }

  RpcResult start(const Json& params = Json::object()) {
    return (*methods.find("capture.start"))(params, {.pid = 77, .uid = 8, .gid = 9});
  }
  /// What a client gets: the memory, and the end of the pipe.
  std::vector<UniqueFd> started(const Json& params = Json::object()) {
    RpcResult result = start(params);
    EXPECT_TRUE(result) << result.error().message;
    EXPECT_EQ(result.value()["version"], abi::kCaptureVersion);
    auto descriptors = result.take_descriptors();
    EXPECT_EQ(descriptors.size(), 2u);
    return descriptors;
  }
  RpcCode refused(const Json& params) {
    const RpcResult result = start(params);
    EXPECT_FALSE(result);
    return result ? RpcCode::kInternalError : result.error().code;
  }
  std::size_t under_way() {
    return (*methods.find("captures"))({}, {}).value().at("captures").size();
  }
  bool engine_captures() {
    bool on = false;
    daemon.worker.run(
        engine::Task{[&](engine::Engine& engine) { on = engine.packets().captures().on(); }});
    return on;
  }
  std::vector<std::string> events() {
    std::vector<std::string> kinds;
    for (const JournalEntry& entry : daemon.adapter.journal.after(0, 100).entries) {
      kinds.push_back(entry.kind);
      EXPECT_EQ(entry.process, 77u);
      EXPECT_TRUE(entry.tenant.empty()) << "its programs could have it pushed out";
      texts.push_back(entry.text);
    }
    return kinds;
  }

  std::vector<std::string> texts;  ///< of events()
  Daemon daemon;
  AdminMethods methods;
  std::unique_ptr<AdminCaptures> captures = std::make_unique<AdminCaptures>(daemon.adapter);
};

TEST_F(AdminCapturesTest, LastsUntilAllCopiesOfThePipeAreClosed) {
  EXPECT_FALSE(engine_captures());
  auto descriptors = started({{"tenant", "a"}});
  UniqueFd copy(::dup(descriptors[1].get()));
  captures->serve();
  EXPECT_TRUE(engine_captures());
  const Json listed = (*methods.find("captures"))({}, {}).value().at("captures").at(0);
  EXPECT_EQ(listed["pid"], 77);
  EXPECT_EQ(listed["uid"], 8);
  EXPECT_EQ(listed["tenant"], "a");
  EXPECT_FALSE(listed.contains("port"));
  descriptors.clear();
  captures->serve();
  EXPECT_TRUE(engine_captures());
  copy.reset();
  captures->serve();
  EXPECT_FALSE(engine_captures());
  EXPECT_EQ(under_way(), 0u);
  EXPECT_EQ(events(), (std::vector<std::string>{"capture_started", "capture_ended"}));
  EXPECT_EQ(texts.front(), "user 8, process 77 captures packets of tenant a");
}

TEST_F(AdminCapturesTest, WhoWritesToThePipeChangesNothing) {
  const auto descriptors = started();
  while (::write(descriptors[1].get(), "x", 1) == 1) {
  }
  captures->serve();
  EXPECT_TRUE(engine_captures());
}

TEST_F(AdminCapturesTest, AnAnswerThatNobodyGetsEndsIt) {
  { const RpcResult unsent = start(); }
  captures->serve();
  EXPECT_FALSE(engine_captures());
}

TEST_F(AdminCapturesTest, TheMemoryCannotBeMadeShorter) {
  const auto descriptors = started({{"ring_bytes", 65536}});
  EXPECT_NE(::ftruncate(descriptors[0].get(), 4096), 0);
}

TEST_F(AdminCapturesTest, OnlySoManyAtATime) {
  std::list<std::vector<UniqueFd>> all;
  for (int i = 0; i < 4; ++i) all.push_back(started({{"ring_bytes", 65536}}));
  EXPECT_EQ(refused({}), RpcCode::kRefused);
  EXPECT_EQ(under_way(), 4u);
  all.pop_front();
  captures->serve();
  all.push_back(started({{"ring_bytes", 65536}}));
  EXPECT_EQ(under_way(), 4u);
}

TEST_F(AdminCapturesTest, WrongParameters) {
  EXPECT_EQ(refused({{"tenant", "nobody"}}), RpcCode::kNoSuchThing);
  EXPECT_EQ(refused({{"port", "nowhere"}}), RpcCode::kNoSuchThing);
  for (const Json& ring : {Json(0), Json(65537), Json(4096), Json(std::uint64_t{1} << 40)})
    EXPECT_EQ(refused({{"ring_bytes", ring}}), RpcCode::kInvalidParams) << ring;
  for (const Json& snaplen : {Json(0), Json(1 << 20)})
    EXPECT_EQ(refused({{"snaplen", snaplen}}), RpcCode::kInvalidParams) << snaplen;
  EXPECT_EQ(under_way(), 0u);
}

TEST_F(AdminCapturesTest, TheDaemonEndsThemWithItself) {
  const auto descriptors = started();
  captures.reset();
  EXPECT_FALSE(engine_captures());
  pollfd end{.fd = descriptors[1].get(), .events = 0, .revents = 0};
  EXPECT_EQ(::poll(&end, 1, 0), 1);
  EXPECT_NE(end.revents & POLLERR, 0);
}

}  // namespace
}  // namespace softhca::control
