// SPDX-License-Identifier: Apache-2.0

// The admin socket with clients of all kinds, driven by hand.
#include "daemon/operate/admin/admin_socket.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "tests/folder.hpp"

namespace softhca::control {
namespace {

constexpr std::size_t kBigAnswer = 3u << 20u;

class AdminSocketTest : public ::testing::Test {
 protected:
  AdminSocketTest() {
    methods.add("echo", [](const Json& params) -> RpcResult { return params; });
    methods.add("big", [](const Json&) -> RpcResult { return Json(std::string(kBigAnswer, 'x')); });
    const auto opened = admin.open(kept, path, {.owner = "", .group = "", .mode = 0600});
    EXPECT_TRUE(opened) << opened.error().message;
  }

  UniqueFd connected() {
    UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    EXPECT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    run();
    return socket;
  }
  /// As the control thread does, a bounded number of times.
  void run(int steps = 200) {
    for (int i = 0; i < steps; ++i) admin.serve();
  }
  void send(const UniqueFd& socket, const std::string& text) {
    for (std::size_t sent = 0; sent < text.size();) {
      const ssize_t n = ::send(socket.get(), text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
      if (n > 0) sent += static_cast<std::size_t>(n);
      if (n < 0 && errno != EAGAIN) return;
      admin.serve();
    }
    run();
  }
  /// What has come; `closed`: and nothing more will.
  std::string received(const UniqueFd& socket, bool* closed = nullptr) {
    std::string text;
    std::array<char, 65536> bytes;
    for (int idle = 0; idle < 3;) {
      const ssize_t n = ::recv(socket.get(), bytes.data(), bytes.size(), 0);
      if (n > 0) text.append(bytes.data(), static_cast<std::size_t>(n));
      if (n == 0 || (n < 0 && errno != EAGAIN)) {
        if (closed != nullptr) *closed = true;
        break;
      }
      if (n < 0) ++idle;
      run(10);
    }
    return text;
  }
  static std::string request(const std::string& id, const std::string& method = "echo") {
    return R"({"jsonrpc":"2.0","id":)" + id + R"(,"method":")" + method + R"(","params":[)" + id +
           "]}\n";
  }
  static std::string reply(const std::string& id) {
    return Json{{"jsonrpc", "2.0"}, {"id", Json::parse(id)}, {"result", {Json::parse(id)}}}.dump() +
           "\n";
  }

  Folder folder;
  std::string path = folder.path() + "/admin.sock";
  AdminMethods methods;
  BlockingCalls calls;
  KeptDescriptors kept;
  AdminSocket admin{methods, calls, "", {.line = 1u << 20u, .clients = 4, .rpc = {}}};
};

TEST_F(AdminSocketTest, IsForItsOwnerOnlyAndGoesAwayWithTheDaemon) {
  struct stat found {};
  ASSERT_EQ(::stat(path.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777u, 0600u);
  AdminSocket second(methods, calls);
  EXPECT_FALSE(second.open(kept, path, {})) << "another daemon's";
  {
    AdminSocket other(methods, calls);
    ASSERT_TRUE(other.open(kept, folder.path() + "/other", {}));
  }
  EXPECT_NE(::stat((folder.path() + "/other").c_str(), &found), 0);
  EXPECT_EQ(::stat(path.c_str(), &found), 0) << "the refused one did not take it away";
}

TEST_F(AdminSocketTest, DescriptorsGoWithTheirAnswerAndNotWithABatch) {
  UniqueFd left, right;
  methods.add("file", [&](const Json&) -> RpcResult {
    int pipe[2];
    EXPECT_EQ(::pipe(pipe), 0);
    left = UniqueFd(pipe[0]);
    RpcResult result(Json("here"));
    std::vector<UniqueFd> descriptors;
    descriptors.emplace_back(pipe[1]);
    result.attach(std::move(descriptors));
    return result;
  });
  const UniqueFd client = connected();
  const auto passed = [&] {
    iovec part{};
    std::array<char, 4096> bytes;
    part = {bytes.data(), bytes.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    EXPECT_GT(::recvmsg(client.get(), &message, 0), 0);
    const cmsghdr* header = CMSG_FIRSTHDR(&message);
    if (header == nullptr) return UniqueFd();
    int descriptor;
    std::memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
    return UniqueFd(descriptor);
  };
  send(client, request("1", "file"));
  right = passed();
  ASSERT_TRUE(right);
  EXPECT_EQ(::write(right.get(), "x", 1), 1);
  char byte = 0;
  EXPECT_EQ(::read(left.get(), &byte, 1), 1);
  right.reset();
  EXPECT_EQ(::read(left.get(), &byte, 1), 0) << "the daemon keeps none";
  std::string batch = request("1", "file");
  batch.pop_back();
  send(client, "[" + batch + "]\n");
  EXPECT_FALSE(passed());
  EXPECT_EQ(::read(left.get(), &byte, 1), 0);
}

TEST_F(AdminSocketTest, AnswersLinesInOrderHoweverTheyAreCut) {
  const UniqueFd client = connected();
  const std::string text = request("1") + "\n \r\n" + request("2") + request("3");
  for (const char c : text) send(client, std::string(1, c));
  EXPECT_EQ(received(client), reply("1") + reply("2") + reply("3"));
  send(client, text);
  EXPECT_EQ(received(client), reply("1") + reply("2") + reply("3"));
}

/// After the step that has answered it, the adapter may retire.
TEST_F(AdminSocketTest, AnAnswerGoesOutInTheStepThatMakesIt) {
  bool answered = false;
  methods.add("mark", [&](const Json& params) -> RpcResult {
    answered = true;
    return params;
  });
  const UniqueFd client = connected();
  const std::string line = request("1", "mark");
  ASSERT_EQ(::send(client.get(), line.data(), line.size(), 0), static_cast<ssize_t>(line.size()));
  for (int i = 0; i < 10 && !answered; ++i) admin.serve();
  std::array<char, 256> bytes;
  const ssize_t got = ::recv(client.get(), bytes.data(), bytes.size(), 0);
  ASSERT_GT(got, 0);
  EXPECT_EQ(std::string(bytes.data(), static_cast<std::size_t>(got)), reply("1"));
}

TEST_F(AdminSocketTest, ALastLineWithoutNewlineIsAnsweredToo) {
  const UniqueFd client = connected();
  std::string text = request("1") + request("2");
  text.pop_back();
  send(client, text);
  ::shutdown(client.get(), SHUT_WR);
  run();
  bool closed = false;
  EXPECT_EQ(received(client, &closed), reply("1") + reply("2"));
  EXPECT_TRUE(closed);
}

TEST_F(AdminSocketTest, NonsenseIsAnsweredAndTheNextLineServed) {
  const UniqueFd client = connected();
  send(client, "{]\n" + request("4"));
  const std::string text = received(client);
  EXPECT_NE(text.find("-32700"), std::string::npos);
  EXPECT_TRUE(text.ends_with(reply("4")));
}

TEST_F(AdminSocketTest, ALineWithoutEndEndsTheConnection) {
  const UniqueFd client = connected();
  send(client, std::string((1u << 20u) + 100, ' '));
  bool closed = false;
  const std::string text = received(client, &closed);
  EXPECT_NE(text.find("-32600"), std::string::npos);
  EXPECT_TRUE(closed);
  const UniqueFd other = connected();
  send(other, request("1"));
  EXPECT_EQ(received(other), reply("1"));
}

TEST_F(AdminSocketTest, AClientThatDoesNotReadKeepsNobodyWaitingAndIsNotReadFrom) {
  const UniqueFd slow = connected();
  // Long requests, for few of them to fill the socket: each answer is long too.
  const std::string big = std::string(60'000, ' ') + request("1", "big");
  send(slow, big);
  // Answered once; the rest stays in its socket until the answer has gone.
  std::size_t taken = 0;
  for (int i = 0; i < 10'000; ++i) {
    const ssize_t n = ::send(slow.get(), big.data(), big.size(), MSG_NOSIGNAL);
    if (n < 0) break;
    taken += static_cast<std::size_t>(n);
    admin.serve();
  }
  EXPECT_LT(taken, 4u << 20u);
  const UniqueFd quick = connected();
  send(quick, request("2"));
  EXPECT_EQ(received(quick), reply("2"));
  std::size_t answers = 0;
  const std::string text = received(slow);
  for (const char c : text) answers += c == '\n';
  EXPECT_GT(answers, 1u);
  EXPECT_GT(text.size(), 2 * kBigAnswer);
}

TEST_F(AdminSocketTest, TooManyClientsAreToldSo) {
  std::vector<UniqueFd> clients;
  for (int i = 0; i < 4; ++i) clients.push_back(connected());
  bool closed = false;
  EXPECT_NE(received(connected(), &closed).find("too many"), std::string::npos);
  EXPECT_TRUE(closed);
  clients.pop_back();
  run();
  const UniqueFd next = connected();
  send(next, request("1"));
  EXPECT_EQ(received(next), reply("1"));
}

TEST_F(AdminSocketTest, AClientThatGoesInTheMiddleIsForgotten) {
  for (int i = 0; i < 20; ++i) {
    UniqueFd client = connected();
    send(client, i % 2 == 0 ? request("1", "big") + request("2", "big") : "{\"jsonrpc\"");
    client.reset();
    run();
  }
  const UniqueFd next = connected();
  send(next, request("1"));
  EXPECT_EQ(received(next), reply("1"));
}

}  // namespace
}  // namespace softhca::control
