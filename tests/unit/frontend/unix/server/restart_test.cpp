// SPDX-License-Identifier: Apache-2.0

// The control thread of an adapter that retires, and that of the adapter that follows.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "daemon/frontend/unix/server/server.hpp"
#include "tests/fake_keeper.hpp"
#include "tests/folder.hpp"
#include "tests/unit/device/session/client.hpp"

namespace softhca::control {
namespace {

/// An adapter with a control thread.
class Serving {
 public:
  Serving(FakeKeeper& keeper, const configuration::Config& config)
      : keeping_(keeper), records_(&keeping_), daemon_(config) {
    Adapter& adapter = daemon_.adapter;
    adapter.keeping = &keeping_;
    adapter.records = &records_;
    adapter.kept = KeptDescriptors(&keeping_, records_);
    EXPECT_TRUE(records_.adopt());
    auto left = records_.take_adopted();
    EXPECT_TRUE(adapter.kept.adopt(left));
    const auto free = check_free(config, adapter.kept);
    EXPECT_TRUE(free) << free.error().message;
    server_.on_reload([this] { server_.stop(Server::End::kRetire); });
    const auto opened = server_.open();
    EXPECT_TRUE(opened) << opened.error().message;
    const auto restored = server_.restore(left);
    EXPECT_TRUE(restored) << restored.error().message;
    left.clear();
    thread_ = std::thread([this] { EXPECT_TRUE(server_.run()); });
  }
  ~Serving() {
    if (!thread_.joinable()) return;
    ::kill(::getpid(), SIGTERM);
    thread_.join();
  }

  /// Afterwards the server is not destroyed: its process would end.
  void retire() {
    ::kill(::getpid(), SIGHUP);
    thread_.join();
    EXPECT_TRUE(server_.has_retired());
    daemon_.worker.stop();
    keeping_.retire();
  }
  FakeKeeping& keeping() { return keeping_; }

 private:
  FakeKeeping keeping_;
  records::RecordStore records_;
  Daemon daemon_;
  Server server_{daemon_.adapter, *daemon_.general_services, *daemon_.shared_datagrams};
  std::thread thread_;
};

/// Adapters of which the processes would have ended.
std::vector<std::unique_ptr<Serving>>& retired_ones() {
  static auto* const all = new std::vector<std::unique_ptr<Serving>>;
  return *all;
}

class Restart : public ::testing::Test {
 protected:
  Restart() {
    sigset_t set;
    sigemptyset(&set);
    for (const int signal : {SIGTERM, SIGHUP}) sigaddset(&set, signal);
    ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
    config.daemon.runtime_dir = folder.path() + "/run";
    config.tenants.front().levels = {{.name = "bulk", .is_default = true},
                                     {.name = "fast", .socket = configuration::SocketConfig{}}};
    start();
  }

  void start() { now = std::make_unique<Serving>(keeper, config); }
  void retire() {
    now->retire();
    retired_ones().push_back(std::move(now));
  }
  void restart() {
    retire();
    start();
  }

  std::string path(const std::string& name) const { return config.daemon.runtime_dir + "/" + name; }
  UniqueFd connected(const std::string& name, int type = SOCK_SEQPACKET) const {
    UniqueFd socket(::socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
    const timeval limit{.tv_sec = 20, .tv_usec = 0};
    ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path(name).c_str(), path(name).size() + 1);
    const bool done =
        ::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    return done ? std::move(socket) : UniqueFd();
  }
  static void send_hello(const UniqueFd& socket, std::uint64_t magic = abi::kSessionMagic) {
    const abi::HelloRequest hello{magic, {abi::kAbiVersion, 0}};
    const auto record =
        request_record(abi::Operation::kHello, 9, std::as_bytes(std::span(&hello, 1)));
    EXPECT_EQ(::send(socket.get(), record.data(), record.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(record.size()));
  }
  /// The error of the reply to HELLO; -1: none came.
  static int hello_reply(const UniqueFd& socket) {
    const auto reply = receive_reply(socket.get());
    return reply ? reply->header.error : -1;
  }
  static ino_t inode_of(const std::string& path) {
    struct stat found {};
    return ::lstat(path.c_str(), &found) == 0 ? found.st_ino : 0;
  }

  Folder folder;
  configuration::Config config = small_config();
  FakeKeeper keeper;
  std::unique_ptr<Serving> now;
};

TEST_F(Restart, WaitingConnections_OfEverySocket_ServedByTheNextAdapter) {
  retire();
  const UniqueFd tenant = connected("a/socket"), level = connected("a/fast.socket"),
                 other = connected("b/socket"), admin = connected("admin.sock", SOCK_STREAM);
  ASSERT_TRUE(tenant && level && other && admin);
  send_hello(tenant);
  send_hello(level);
  send_hello(other);
  const std::string request = R"({"jsonrpc":"2.0","id":1,"method":"tenants.list"})"
                              "\n";
  ASSERT_EQ(::send(admin.get(), request.data(), request.size(), 0),
            static_cast<ssize_t>(request.size()));
  start();
  EXPECT_EQ(hello_reply(tenant), 0);
  EXPECT_EQ(hello_reply(level), 0);
  EXPECT_EQ(hello_reply(other), 0);
  char text[64];
  EXPECT_GT(::recv(admin.get(), text, sizeof text, 0), 0);
}

TEST_F(Restart, FilesThatProgramsRead_AdapterReplaced_StayInPlace) {
  const std::string device = "a/sysfs/class/infiniband/softhca0/";
  const std::vector<std::string> names = {
      "a",         "a/socket",           "a/fast.socket",
      "a/sysfs",   device + "node_guid", device + "ports/1/gids/0",
      "admin.sock"};
  std::vector<ino_t> inodes;
  for (const std::string& name : names) {
    inodes.push_back(inode_of(path(name)));
    EXPECT_NE(inodes.back(), 0u) << name;
  }
  retire();
  for (std::size_t i = 0; i < names.size(); ++i)
    EXPECT_EQ(inode_of(path(names[i])), inodes[i]) << names[i] << ", while no adapter runs";
  std::ofstream(path(device + "fw_ver")) << "other\n";  // as of an earlier version
  start();
  for (std::size_t i = 0; i < names.size(); ++i)
    EXPECT_EQ(inode_of(path(names[i])), inodes[i]) << names[i];
  EXPECT_EQ(first_line(path(device + "fw_ver")), configuration::DeviceConfig::kFirmware);
}

TEST_F(Restart, RequestsThatWait_ServedByTheNextAdapter) {
  const UniqueFd program = connected("a/socket");
  ASSERT_TRUE(program);
  // The adapter has accepted the connection when it has answered another one.
  const UniqueFd second = connected("a/socket");
  send_hello(second);
  ASSERT_EQ(hello_reply(second), 0);
  retire();
  send_hello(program);
  char byte;
  EXPECT_EQ(::recv(program.get(), &byte, 1, MSG_DONTWAIT), -1) << "no end of file";
  start();
  EXPECT_EQ(hello_reply(program), 0);
}

TEST_F(Restart, ProgramThatEndsMeanwhile_LeavesNothing) {
  const std::size_t before = keeper.objects();
  {
    const UniqueFd program = connected("a/socket");
    send_hello(program, ~abi::kSessionMagic);
    ASSERT_GT(hello_reply(program), 0) << "refused, and still connected";
    EXPECT_EQ(keeper.objects(), before + 2);
    retire();
  }
  start();
  for (int i = 0; i < 20000 && keeper.objects() != before; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(keeper.objects(), before);
}

TEST_F(Restart, TenantThatIsConfiguredNoLonger_IsClosed) {
  retire();
  const std::size_t before = keeper.objects();
  config.tenants.erase(config.tenants.begin() + 1);
  start();
  EXPECT_FALSE(std::filesystem::exists(path("b")));
  EXPECT_EQ(keeper.objects(), before - 2) << "its socket, and that for its own requests";
  EXPECT_TRUE(connected("a/socket"));
}

TEST_F(Restart, OrderlyEnd_AfterARestart_RemovesEverything) {
  restart();
  const UniqueFd program = connected("a/socket");
  send_hello(program);
  ASSERT_EQ(hello_reply(program), 0);
  now.reset();
  EXPECT_FALSE(std::filesystem::exists(path("a")));
  EXPECT_FALSE(std::filesystem::exists(path("admin.sock")));
  EXPECT_EQ(keeper.objects(), 0u);
}

TEST_F(Restart, KeeperThatIsFull_ProgramIsRefused_OthersGoOn) {
  const UniqueFd early = connected("a/socket");
  send_hello(early, ~abi::kSessionMagic);
  ASSERT_GT(hello_reply(early), 0);
  now->keeping().refuse(true);
  char byte;
  EXPECT_EQ(::recv(connected("a/socket").get(), &byte, 1, 0), 0) << "closed";
  now->keeping().refuse(false);
  const UniqueFd late = connected("a/socket");
  for (const UniqueFd* program : {&early, &late}) {
    send_hello(*program);
    EXPECT_EQ(hello_reply(*program), 0);
  }
}

}  // namespace
}  // namespace softhca::control
