// SPDX-License-Identifier: Apache-2.0

// JSON-RPC 2.0, from any bytes to an answer.
#include "daemon/operate/admin/admin_rpc.hpp"

#include <gtest/gtest.h>

#include <random>

namespace softhca::control {
namespace {

class AdminRpc : public ::testing::Test {
 protected:
  AdminRpc() {
    methods.add("echo", [this](const Json& params) -> RpcResult {
      ++calls;
      return params;
    });
    methods.add("refuse",
                [](const Json&) -> RpcResult { return refusal("tenant ocean", "pcbs", 300, 120); });
    methods.add("need_name", [](const Json& params) -> RpcResult {
      return Json(params.at("name").get<std::string>());
    });
    methods.add("long", [](const Json&) -> RpcResult { return Json(std::string(1000, 'x')); });
    methods.add("bytes", [](const Json&) -> RpcResult { return Json("\xff\xfe"); });
  }

  Json ask(const std::string& text, const RpcLimits& limits = {}) {
    const std::string reply = answer(methods, text, limits);
    EXPECT_EQ(reply.find('\n'), std::string::npos);
    Json json = Json::parse(reply, nullptr, false);
    EXPECT_FALSE(json.is_discarded()) << reply;
    return json;
  }
  int code_of(const std::string& text) {
    const Json reply = ask(text);
    EXPECT_EQ(reply.value("jsonrpc", ""), "2.0");
    return reply.contains("error") ? reply["error"]["code"].get<int>() : 0;
  }

  AdminMethods methods;
  int calls = 0;
};

TEST_F(AdminRpc, AnswersWithTheIdAndTheResult) {
  const Json reply = ask(R"({"jsonrpc":"2.0","id":"x","method":"echo","params":{"a":1}})");
  EXPECT_EQ(reply, Json::parse(R"({"jsonrpc":"2.0","id":"x","result":{"a":1}})"));
  EXPECT_EQ(ask(R"({"jsonrpc":"2.0","id":null,"method":"echo"})")["result"], Json());
}

TEST_F(AdminRpc, ErrorsHaveTheCodesOfTheSpecification) {
  EXPECT_EQ(code_of("{"), -32700);
  EXPECT_EQ(code_of(""), -32700);
  EXPECT_EQ(code_of("\xff"), -32700);
  EXPECT_EQ(code_of("1"), -32600);
  EXPECT_EQ(code_of(R"({"id":1,"method":"echo"})"), -32600) << "no version";
  EXPECT_EQ(code_of(R"({"jsonrpc":"2.0","id":1,"method":5})"), -32600);
  EXPECT_EQ(code_of(R"({"jsonrpc":"2.0","id":[1],"method":"echo"})"), -32600);
  EXPECT_EQ(code_of(R"({"jsonrpc":"2.0","id":1,"method":"echo","params":5})"), -32600);
  EXPECT_EQ(code_of(R"({"jsonrpc":"2.0","id":1,"method":"none"})"), -32601);
  EXPECT_EQ(code_of(R"({"jsonrpc":"2.0","id":1,"method":"need_name","params":{}})"), -32602);
  EXPECT_EQ(code_of(R"({"jsonrpc":"2.0","id":1,"method":"need_name","params":{"name":7}})"),
            -32602);
  EXPECT_EQ(code_of(R"({"jsonrpc":"2.0","id":1,"method":"need_name","params":[1]})"), -32602);
  EXPECT_EQ(calls, 0);
}

TEST_F(AdminRpc, ARefusalSaysWhatWasAskedAndWhatWasFree) {
  const Json error = ask(R"({"jsonrpc":"2.0","id":1,"method":"refuse"})")["error"];
  EXPECT_EQ(error["code"], 1);
  EXPECT_EQ(error["data"], Json::parse(R"({"resource":"pcbs","asked":300,"free":120})"));
}

TEST_F(AdminRpc, NotificationsAreDoneAndNotAnswered) {
  EXPECT_EQ(answer(methods, R"({"jsonrpc":"2.0","method":"echo"})"), "");
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(answer(methods, R"({"jsonrpc":"2.0","method":"none"})"), "");
}

TEST_F(AdminRpc, ABatchIsAnsweredInOneArray) {
  const Json reply = ask(R"([{"jsonrpc":"2.0","id":1,"method":"echo","params":[1]},
                             {"jsonrpc":"2.0","method":"echo"}, 7,
                             {"jsonrpc":"2.0","id":2,"method":"none"}])");
  ASSERT_EQ(reply.size(), 3u);
  EXPECT_EQ(reply[0]["result"], Json::parse("[1]"));
  EXPECT_EQ(reply[1]["error"]["code"], -32600);
  EXPECT_EQ(reply[1]["id"], Json());
  EXPECT_EQ(reply[2]["error"]["code"], -32601);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(answer(methods, R"([{"jsonrpc":"2.0","method":"echo"}])"), "");
  EXPECT_EQ(ask("[]")["error"]["code"], -32600);
}

TEST_F(AdminRpc, BatchesAndTheirAnswersAreBounded) {
  const auto batch = [](std::size_t n, const std::string& method) {
    std::string text;
    for (std::size_t i = 0; i < n; ++i)
      text += (i == 0 ? "[" : ",") +
              (R"({"jsonrpc":"2.0","id":)" + std::to_string(i) + R"(,"method":")" + method + "\"}");
    return text + "]";
  };
  EXPECT_TRUE(ask(batch(64, "echo")).is_array());
  EXPECT_EQ(ask(batch(65, "echo"))["error"]["code"], -32600);
  const Json replies = ask(batch(64, "long"), {.depth = 32, .batch = 64, .reply = 10'000});
  std::size_t whole = 0, refused = 0;
  for (const Json& reply : replies) {
    whole += reply.contains("result");
    refused += reply.contains("error") && reply["error"]["code"] == 5;
  }
  EXPECT_EQ(whole, 9u);
  EXPECT_EQ(whole + refused, 64u);
}

TEST_F(AdminRpc, DepthIsBounded) {
  const auto nested = [](std::size_t n) {
    return R"({"jsonrpc":"2.0","id":1,"method":"echo","params":)" + std::string(n, '[') +
           std::string(n, ']') + "}";
  };
  EXPECT_EQ(code_of(nested(31)), 0);
  EXPECT_EQ(code_of(nested(32)), -32700);
  EXPECT_EQ(code_of(nested(500'000)), -32700);
  EXPECT_EQ(code_of(std::string(500'000, '[')), -32700);
  EXPECT_EQ(code_of(R"({"jsonrpc":"2.0","id":1,"method":"echo","params":[")" +
                    std::string(100, '[') + R"(\"[["]})"),
            0)
      << "brackets within a string are none";
}

TEST_F(AdminRpc, BytesThatAreNoTextAreReplaced) {
  EXPECT_EQ(ask(R"({"jsonrpc":"2.0","id":1,"method":"bytes"})")["result"], "\uFFFD\uFFFD");
}

TEST_F(AdminRpc, AnyBytesAreAnswered) {
  std::mt19937 random(1);
  const std::string base = R"([{"jsonrpc":"2.0","id":1,"method":"echo","params":{"a":[1,"x"]}}])";
  for (int i = 0; i < 2'000; ++i) {
    std::string text = base;
    for (unsigned n = random() % 6; n > 0; --n)
      text[random() % text.size()] = static_cast<char>(random());
    if (random() % 4 == 0) text.resize(random() % text.size());
    const std::string reply = answer(methods, text);
    if (!reply.empty()) {
      ASSERT_FALSE(Json::parse(reply, nullptr, false).is_discarded()) << text;
    }
  }
}

}  // namespace
}  // namespace softhca::control
