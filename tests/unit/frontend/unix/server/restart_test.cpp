// SPDX-License-Identifier: Apache-2.0

// The control thread of an adapter that retires, and that of the adapter that follows.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <thread>

#include "daemon/frontend/unix/server/server.hpp"
#include "daemon/operate/reload/reload.hpp"
#include "tests/fake_keeper.hpp"
#include "tests/folder.hpp"
#include "tests/unit/device/session/client.hpp"

namespace softhca::control {
namespace {

/// The end of an adapter at its keeper.
struct Link {
  explicit Link(FakeKeeper& keeper) : keeping(keeper) {
    EXPECT_TRUE(records.adopt());
    left = records.take_adopted();
    EXPECT_TRUE(kept.adopt(left));
    auto read = read_state(kept);
    EXPECT_TRUE(read) << read.error().message;
    if (read) configuration = std::move(*read);
  }
  FakeKeeping keeping;
  records::RecordStore records{&keeping};
  std::vector<records::Adopted> left;
  KeptDescriptors kept{&keeping, records};
  std::optional<ReloadState> configuration;
};

/// An adapter with a control thread.
class Serving {
 public:
  /// `config`: for the first one.
  Serving(FakeKeeper& keeper, const configuration::Config& config)
      : link_(keeper),
        daemon_(link_.configuration ? with_leavers(*link_.configuration) : config),
        reloader_(adapter(), server_, {}, {}, {},
                  link_.configuration ? Layers(*link_.configuration, "") : Layers(config),
                  link_.configuration) {
    adapter().keeping = &link_.keeping;
    adapter().records = &link_.records;
    adapter().kept = std::move(link_.kept);
    const auto free = check_free(adapter().config, adapter().kept);
    EXPECT_TRUE(free) << free.error().message;
    server_.on_reload([this] { std::exchange(on_signal_, nullptr)(); });
    const auto opened = server_.open();
    EXPECT_TRUE(opened) << opened.error().message;
    const auto restored = server_.restore(link_.left);
    EXPECT_TRUE(restored) << restored.error().message;
    link_.left.clear();
    reloader_.resume();
    thread_ = std::thread([this] {
      const auto ended = server_.run();
      EXPECT_TRUE(ended) << ended.error().message;
      retired_ = ended && *ended == Server::End::kRetire;
    });
  }
  ~Serving() {
    if (!thread_.joinable()) return;
    ::kill(::getpid(), SIGTERM);
    thread_.join();
  }

  /// Has the control thread call `call`.
  void on_thread(const std::function<void()>& call) {
    std::promise<void> done;
    on_signal_ = [&] {
      call();
      done.set_value();
    };
    ::kill(::getpid(), SIGHUP);
    done.get_future().wait();
  }
  /// Afterwards the server is not destroyed: its process would end.
  void retire() {
    on_thread([this] { server_.stop(Server::End::kRetire); });
    thread_.join();
    EXPECT_TRUE(retired_);
    daemon_.worker.stop();
    link_.keeping.retire();
  }
  FakeKeeping& keeping() { return link_.keeping; }
  Adapter& adapter() { return daemon_.adapter; }
  Reloader& reloader() { return reloader_; }
  Server& server() { return server_; }

 private:
  Link link_;
  Daemon daemon_;
  Server server_{daemon_.adapter, *daemon_.general_services, *daemon_.shared_datagrams};
  Reloader reloader_;
  std::function<void()> on_signal_;
  bool retired_ = false;
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
    configuration::TenantConfig& like = config.templates.emplace_back(config.tenants.back());
    like.name = "like";
    like.addresses = {Gid::from_ipv4(0xc6120005)};
    like.pcbs = like.vcbs = 10;
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

TEST_F(Restart, SocketThatNoTenantHasAnyMore_IsRemoved) {
  const std::size_t before = keeper.objects();
  now->on_thread([&] {
    // As when an adapter ends in the middle of a reload.
    now->server().listeners().close(*now->adapter().tenants[1]);
    static auto* const left = new std::vector<KeptListener>;
    auto made = take_up_or_listen(now->adapter().kept, path("b/socket"), {});
    ASSERT_TRUE(made);
    left->push_back(std::move(*made));
    configuration::Config wanted = now->adapter().config;
    wanted.tenants.pop_back();
    EXPECT_TRUE(now->reloader().put_into_force(wanted));
    now->reloader().resume();
  });
  retire();
  start();
  EXPECT_FALSE(std::filesystem::exists(path("b")));
  EXPECT_EQ(keeper.objects(), before - 2) << "its socket, and that for its own requests";
  EXPECT_TRUE(connected("a/socket"));
}

/// The settings of a tenant in force. Null: it is not in force.
const configuration::TenantConfig* in_force(Serving& now, const std::string& tenant) {
  return find_tenant(now.adapter().config, tenant);
}

TEST_F(Restart, TenantOnDemandAndUnsavedChange_StayInForce) {
  const configuration::AllocationChange change{
      .tenant = "b", .setting = configuration::LiveSetting::kPcbs, .amount = 77};
  now->on_thread([&] {
    ASSERT_TRUE(
        now->reloader().create_tenant({.name = "made", .template_name = "like"}, {}, false));
    ASSERT_TRUE(now->reloader().change({&change, 1}));
  });
  const UniqueFd program = connected("made/socket");
  send_hello(program);
  ASSERT_EQ(hello_reply(program), 0);
  restart();
  now->on_thread([&] {
    ASSERT_NE(in_force(*now, "made"), nullptr);
    EXPECT_EQ(in_force(*now, "b")->pcbs, 77u);
    ASSERT_EQ(now->reloader().layers().tenants().size(), 1u);
    EXPECT_FALSE(now->reloader().layers().tenants()[0].saved);
    EXPECT_EQ(now->reloader().layers().file().tenants.size(), 2u);
  });
  EXPECT_TRUE(connected("made/socket"));
  char byte;
  EXPECT_EQ(::recv(program.get(), &byte, 1, MSG_DONTWAIT), -1) << "no end of file";
  restart();
  now->on_thread([&] { EXPECT_NE(in_force(*now, "made"), nullptr) << "also by the one after"; });
}

TEST_F(Restart, TenantThatIsLeaving_KeepsItsPrograms_TakesNoNewOnes) {
  UniqueFd program = connected("b/socket");
  send_hello(program);
  ASSERT_EQ(hello_reply(program), 0);
  now->on_thread([&] {
    configuration::Config wanted = now->adapter().config;
    wanted.tenants.pop_back();
    ASSERT_TRUE(now->reloader().put_into_force(wanted));
    now->reloader().resume();
  });
  EXPECT_FALSE(connected("b/socket"));
  restart();
  EXPECT_FALSE(connected("b/socket"));
  now->on_thread([&] {
    EXPECT_EQ(in_force(*now, "b"), nullptr);
    EXPECT_EQ(now->reloader().draining("b"), 1u);
  });
  char byte;
  EXPECT_EQ(::recv(program.get(), &byte, 1, MSG_DONTWAIT), -1) << "no end of file";
  program.reset();
  for (int i = 0; i < 20000 && std::filesystem::exists(path("b")); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    now->on_thread([&] { now->reloader().tick(); });
  }
  EXPECT_FALSE(std::filesystem::exists(path("b"))) << "it goes after its last program";
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
