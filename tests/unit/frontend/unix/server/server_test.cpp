// SPDX-License-Identifier: Apache-2.0

// The control thread with its sockets: connections that cannot be served.
#include "daemon/frontend/unix/server/server.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <rdma/rdma_user_cm.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <filesystem>
#include <mutex>
#include <thread>

#include "daemon/operate/reload/reload.hpp"
#include "libverbs-provider/control/tenant_socket.hpp"
#include "tests/folder.hpp"
#include "tests/unit/device/session/client.hpp"

namespace softhca::control {
namespace {

using configuration::Kind;

configuration::Config config_in(const std::string& folder) {
  configuration::Config config = small_config();
  config.daemon.runtime_dir = folder;
  return config;
}

class ServerTest : public ::testing::Test {
 protected:
  explicit ServerTest(abi::VersionRange protocol = abi::kSpokenVersions) {
    daemon.adapter.protocol = protocol;
    sigset_t set;
    sigemptyset(&set);
    for (const int signal : {SIGTERM, SIGHUP}) sigaddset(&set, signal);
    ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
    server.on_tick([this] { reloader.tick(); });
    server.on_reload([this] {
      const std::lock_guard lock(wanted_changing);
      EXPECT_TRUE(reloader.put_into_force(wanted));
    });
    const auto opened = server.open();
    EXPECT_TRUE(opened) << opened.error().message;
    thread = std::thread([this] { EXPECT_TRUE(server.run()); });
  }
  ~ServerTest() {
    if (thread.joinable()) {
      ::kill(::getpid(), SIGTERM);
      thread.join();
    }
    for (const auto& tenant : daemon.adapter.tenants)
      configuration::for_each_kind([&](Kind kind) {
        EXPECT_EQ(tenant->control.accounts.in_use(kind), 0u) << configuration::name_of(kind);
      });
  }

  UniqueFd new_socket() const {
    UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    const timeval limit{.tv_sec = 20, .tv_usec = 0};
    EXPECT_EQ(::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    return socket;
  }
  bool try_connect(const UniqueFd& socket, const std::string& tenant) const {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = folder.path() + "/" + tenant + "/socket";
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    return ::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  void connect(const UniqueFd& socket, const std::string& tenant) const {
    ASSERT_TRUE(try_connect(socket, tenant));
  }
  UniqueFd connected(const std::string& tenant) const {
    UniqueFd socket = new_socket();
    connect(socket, tenant);
    return socket;
  }
  /// The error of the reply to HELLO; -1: the connection was closed; -2: no answer came.
  static int greet(const UniqueFd& socket) {
    const struct {
      abi::RequestHeader header;
      abi::HelloRequest body;
    } request{{1, 9}, {abi::kSessionMagic, {abi::kAbiVersion, 0}}};
    if (::send(socket.get(), &request, sizeof request, MSG_NOSIGNAL) < 0) return -1;
    struct {
      abi::ReplyHeader header;
      abi::HelloReply body;
    } reply{};
    const ssize_t got = ::recv(socket.get(), &reply, sizeof reply, 0);
    if (got < 0) return errno == ECONNRESET ? -1 : -2;
    return got == 0 ? -1 : reply.header.error;
  }

  /// An event channel of the level with this name. The error of the reply, or -1.
  static int open_channel(const UniqueFd& socket, const char* level = "",
                          abi::VersionRange versions = {abi::kAbiVersion, 0}) {
    struct {
      abi::RequestHeader header;
      abi::HelloWithLevel body;
    } request{};
    request.header = {static_cast<std::uint32_t>(abi::Operation::kOpenEventChannel), 1};
    request.body.hello = {abi::kSessionMagic, versions};
    std::strncpy(request.body.level, level, sizeof request.body.level - 1);
    if (::send(socket.get(), &request, sizeof request, MSG_NOSIGNAL) < 0) return -1;
    struct {
      abi::ReplyHeader header;
      abi::HandleBody body;
    } reply{};  // the descriptor that comes with it is dropped
    const ssize_t got = ::recv(socket.get(), &reply, sizeof reply, 0);
    return got < static_cast<ssize_t>(sizeof reply.header) ? -1 : reply.header.error;
  }
  /// A client of queue pair 2. The error of the reply, or -1.
  static int open_datagrams(const UniqueFd& socket,
                            abi::VersionRange versions = {abi::kAbiVersion, 0}) {
    const struct {
      abi::RequestHeader header;
      abi::OpenDatagramClientRequest body;
    } request{{static_cast<std::uint32_t>(abi::Operation::kOpenDatagramClient), 1},
              {.magic = abi::kSessionMagic,
               .oldest = versions.oldest,
               .qpn = abi::kProgramQpn,
               .selector = 5,
               .flags = 0,
               .buffers = 0,
               .newest = versions.newest}};
    if (::send(socket.get(), &request, sizeof request, MSG_NOSIGNAL) < 0) return -1;
    return answer(socket);
  }
  static int set_buffers(const UniqueFd& socket, std::uint32_t buffers) {
    const struct {
      abi::RequestHeader header;
      abi::HandleBody body;
    } request{{static_cast<std::uint32_t>(abi::Operation::kSetDatagramBuffers), 2}, {buffers, 0}};
    if (::send(socket.get(), &request, sizeof request, MSG_NOSIGNAL) < 0) return -1;
    return answer(socket);
  }
  /// The error of a reply, or -1.
  static int answer(const UniqueFd& socket) {
    struct {
      abi::ReplyHeader header;
      abi::DatagramQuotaBody body;
    } reply{};
    const ssize_t got = ::recv(socket.get(), &reply, sizeof reply, 0);
    return got < static_cast<ssize_t>(sizeof reply.header) ? -1 : reply.header.error;
  }
  /// A command of rdma_cm. The error of the reply, or -1.
  template <class Body, class Out>
  static int command(const UniqueFd& socket, std::uint32_t number, const Body& body, Out& out) {
    struct {
      abi::RequestHeader header;
      abi::ConnectionCommandRequest request;
      std::byte body[sizeof(Body)];
    } record{};
    record.header = {static_cast<std::uint32_t>(abi::Operation::kConnectionCommand), 2};
    record.request.command = number;
    std::memcpy(record.body, &body, sizeof body);
    if (::send(socket.get(), &record, sizeof record, MSG_NOSIGNAL) < 0) return -1;
    struct {
      abi::ReplyHeader header;
      abi::ConnectionCommandReply head;
      std::byte bytes[abi::kMaxConnectionReply];
    } reply{};
    const ssize_t got = ::recv(socket.get(), &reply, sizeof reply, 0);
    if (got < static_cast<ssize_t>(sizeof reply.header)) return -1;
    if (reply.header.error == 0) std::memcpy(&out, reply.bytes, sizeof out);
    return reply.header.error;
  }

  /// The number of an identifier of rdma_cm.
  static std::uint32_t create_id(const UniqueFd& channel) {
    rdma_ucm_create_id_resp made{};
    const rdma_ucm_create_id create{
        .uid = 77, .response = 0, .ps = RDMA_PS_TCP, .qp_type = 2, .reserved = {}};
    EXPECT_EQ(command(channel, RDMA_USER_CM_CMD_CREATE_ID, create, made), 0);
    return made.id;
  }
  /// Its program is told that the device is removed, and cleans up.
  static void expect_removal(const UniqueFd& channel, std::uint32_t id) {
    rdma_ucm_event_resp event{};
    int error = EAGAIN;
    for (int i = 0; i < 20000 && error == EAGAIN; ++i) {
      error = command(channel, RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_get_event{}, event);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ASSERT_EQ(error, 0);
    EXPECT_EQ(event.event, 11u) << "RDMA_CM_EVENT_DEVICE_REMOVAL";
    EXPECT_EQ(event.uid, 77u);
    rdma_ucm_destroy_id_resp destroyed{};
    rdma_ucm_destroy_id destroy{};
    destroy.id = id;
    ASSERT_EQ(command(channel, RDMA_USER_CM_CMD_DESTROY_ID, destroy, destroyed), 0);
    EXPECT_EQ(destroyed.events_reported, 1u);
  }
  /// A reload without the first tenant, until its socket is gone.
  void remove_first() {
    {
      const std::lock_guard lock(wanted_changing);
      wanted.tenants.erase(wanted.tenants.begin());
    }
    ::kill(::getpid(), SIGHUP);
    const std::string socket = folder.path() + "/a/socket";
    for (int i = 0; i < 20000 && std::filesystem::exists(socket); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_FALSE(std::filesystem::exists(socket));
  }
  /// A reload with it again, until it can be connected to.
  UniqueFd put_first_back() {
    {
      const std::lock_guard lock(wanted_changing);
      wanted.tenants.insert(wanted.tenants.begin(), daemon.config.tenants.front());
    }
    ::kill(::getpid(), SIGHUP);
    UniqueFd socket = new_socket();
    for (int i = 0; i < 20000 && !try_connect(socket, "a"); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return socket;
  }

  Folder folder;
  Daemon daemon{config_in(folder.path())};
  configuration::Config wanted = daemon.config;  ///< by the next reload
  std::mutex wanted_changing;
  Server server{daemon.adapter, *daemon.general_services, *daemon.shared_datagrams};
  Reloader reloader{daemon.adapter, server, {}, {}, {}};
  std::thread thread;
};

/// Lets the process have no descriptor more than it has.
class NoMoreDescriptors {
 public:
  NoMoreDescriptors() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const UniqueFd next(::dup(STDIN_FILENO));  // the lowest that is free
    rlimit limit = before_;
    limit.rlim_cur = static_cast<rlim_t>(next.get());
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  }
  ~NoMoreDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

TEST_F(ServerTest, WithoutDescriptorsConnectionsAreClosedNotLeftWaiting) {
  const UniqueFd early = connected("a");
  EXPECT_EQ(greet(early), 0);
  UniqueFd sockets[3] = {new_socket(), new_socket(), new_socket()};
  {
    const NoMoreDescriptors none;
    for (const UniqueFd& socket : sockets) {
      connect(socket, "a");
      EXPECT_NE(greet(socket), 0) << "closed, or told so";
    }
  }
  EXPECT_EQ(greet(connected("b")), 0) << "as soon as there are descriptors again";
}

TEST_F(ServerTest, ATenantsConnectionsLeaveTheOthersTheirs) {
  configuration::Accounts& a = daemon.adapter.tenants[0]->control.accounts;
  a.set_limit(Kind::kDescriptors, 3 * DeviceSession::kDescriptors);
  std::vector<UniqueFd> mine;
  for (int i = 0; i < 3; ++i) {
    mine.push_back(connected("a"));
    EXPECT_EQ(greet(mine.back()), 0);
  }
  const UniqueFd told = connected("a");
  EXPECT_EQ(greet(told), EMFILE);
  EXPECT_EQ(greet(told), EMFILE);
  EXPECT_EQ(greet(connected("a")), -1) << "one at a time is told so";
  EXPECT_EQ(a.refused(Kind::kDescriptors), 2u);
  EXPECT_EQ(a.in_use(Kind::kDescriptors), 3 * DeviceSession::kDescriptors);
  EXPECT_EQ(greet(connected("b")), 0);
}

TEST_F(ServerTest, AnEventChannelNeedsNoMoreThanItsOwnDescriptors) {
  configuration::Accounts& a = daemon.adapter.tenants[0]->control.accounts;
  a.set_limit(Kind::kDescriptors, 3);
  const UniqueFd first = connected("a");
  EXPECT_EQ(open_channel(first), 0);
  EXPECT_EQ(open_channel(connected("a")), EMFILE);
  EXPECT_EQ(greet(connected("a")), EMFILE);
}

TEST_F(ServerTest, ProgramsBeyondTheSessionsOfTheirTenantAreToldSo) {
  daemon.adapter.tenants[0]->control.accounts.set_limit(Kind::kSessions, 1);
  const UniqueFd first = connected("a");
  EXPECT_EQ(greet(first), 0);
  std::vector<UniqueFd> silent;  // connections that never greet
  EXPECT_EQ(greet(connected("a")), ENOMEM);
  for (int i = 0; i < 40; ++i) silent.push_back(connected("a"));
  EXPECT_EQ(greet(silent.back()), -1) << "not any number of them";
  EXPECT_EQ(greet(connected("b")), 0);
}

TEST_F(ServerTest, AnOrderlyEndIsTheRemovalOfADevice) {
  const UniqueFd program = connected("a");
  ASSERT_EQ(open_channel(program), 0);
  const std::uint32_t id = create_id(program);
  ::kill(::getpid(), SIGTERM);
  expect_removal(program, id);
  thread.join();
}

TEST_F(ServerTest, AProgramWithAnEventChannelAloneIsToldThatItsTenantIsRemoved) {
  const UniqueFd program = connected("a");
  ASSERT_EQ(open_channel(program), 0);
  const std::uint32_t id = create_id(program);
  remove_first();
  expect_removal(program, id);
  char byte;
  EXPECT_EQ(::recv(program.get(), &byte, 1, 0), 0) << "then the tenant goes";
}

TEST_F(ServerTest, RemovedTenantWithManyEventChannels_GoesAfterTheLastOfThem) {
  std::vector<UniqueFd> programs;
  for (int i = 0; i < 30; ++i) {
    programs.push_back(connected("a"));
    ASSERT_EQ(open_channel(programs.back()), 0);
    for (int id = 0; id < 50; ++id) create_id(programs.back());
  }
  remove_first();
  char byte;
  for (const UniqueFd& program : programs) EXPECT_EQ(::recv(program.get(), &byte, 1, 0), 0);
  EXPECT_EQ(greet(put_first_back()), 0);
}

TEST_F(ServerTest, AClientOfDatagramsGoesOnWhenItsTenantIsRemoved) {
  const UniqueFd program = connected("a");
  ASSERT_EQ(open_datagrams(program), 0);
  remove_first();
  EXPECT_EQ(set_buffers(program, 8), 0);
}

TEST_F(ServerTest, ATenantThatComesBackWhileItsProgramRunsIsServedAgain) {
  const UniqueFd program = connected("a");
  ASSERT_EQ(greet(program), 0);
  remove_first();
  EXPECT_EQ(greet(put_first_back()), 0);
}

TEST_F(ServerTest, AnEventChannelOfALevelThatIsNotThere) {
  EXPECT_EQ(open_channel(connected("a"), "nonsense"), EINVAL);
}

/// A runtime directory within a folder in which every user may create folders, such as /tmp.
/// A daemon of three versions, and the provider's own code at the other end of its socket.
class NegotiationTest : public ServerTest {
 protected:
  NegotiationTest() : ServerTest({4, 6}) {}

  /// The version of the session; 0 with the error in `error`: refused.
  std::uint32_t agree(abi::VersionRange versions) {
    provider::ControlChannel channel;
    EXPECT_EQ(channel.connect((folder.path() + "/a/socket").c_str()), 0);
    abi::HelloReply reply{};
    provider::ReceivedFds fds;
    error = provider::greet(channel, 0, reply, fds, versions);
    if (error != 0) return 0;
    EXPECT_EQ(fds.check(3), 0);
    void* memory = ::mmap(nullptr, sizeof(abi::SessionHeader), PROT_READ, MAP_SHARED,
                          UniqueFd(fds.take(0)).get(), 0);
    EXPECT_NE(memory, MAP_FAILED);
    EXPECT_EQ(static_cast<const abi::SessionHeader*>(memory)->version, reply.version);
    ::munmap(memory, sizeof(abi::SessionHeader));
    return reply.version;
  }
  int error = 0;
};

TEST_F(NegotiationTest, ProviderSpeaksSeveral_SessionHasTheNewestCommonVersion) {
  EXPECT_EQ(agree({3, 5}), 5u);
  EXPECT_EQ(agree({4, 4}), 4u);
  EXPECT_EQ(open_channel(connected("a"), "", {4, 0}), 0) << "of before the negotiation";
  EXPECT_EQ(agree({5, 9}), 6u);
}

TEST_F(NegotiationTest, ProviderSpeaksNone_RefusalNamesBothRanges) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(agree({7, 8}), 0u);
  EXPECT_EQ(error, EPROTO);
  EXPECT_EQ(agree({8, 9}), 0u);
  const std::string said = testing::internal::GetCapturedStderr();
  const std::string why = "the provider speaks protocol version 7 to 8, the daemon 4 to 6";
  EXPECT_NE(said.find("softhca: the device cannot be opened: " + why), std::string::npos) << said;
  EXPECT_EQ(said.find("version 8 to 9, the daemon 4 to 6; upgrade the daemon (package softhca)\n"
                      "softhca:"),
            std::string::npos)
      << "once: " << said;
}

TEST_F(NegotiationTest, RangeIsHostile_OnlyTheConnectionIsRefused) {
  constexpr std::uint32_t kMost = ~0u;
  for (const abi::VersionRange range :
       {abi::VersionRange{6, 4}, {0, 0}, {0, kMost}, {kMost, kMost}}) {
    EXPECT_EQ(agree(range), 0u) << range.oldest;
    EXPECT_EQ(error, EPROTO);
    EXPECT_EQ(open_channel(connected("a"), "", range), EPROTO);
    EXPECT_EQ(open_datagrams(connected("a"), range), EPROTO);
  }
  const UniqueFd socket = connected("a");
  EXPECT_EQ(open_channel(socket, "", {7, 8}), EPROTO);
  EXPECT_EQ(open_channel(socket, "", {5, 8}), 0) << "it may state another range";
  EXPECT_EQ(open_datagrams(connected("a"), {1, 4}), 0);
  EXPECT_EQ(agree({1, kMost}), 6u);
}

class RuntimeDirectory : public ::testing::Test {
 protected:
  RuntimeDirectory() { ::chmod(folder.path().c_str(), 01777); }

  int open() const {
    Daemon daemon(config_in(path));
    Server server{daemon.adapter, *daemon.general_services, *daemon.shared_datagrams};
    const auto opened = server.open();
    return opened ? 0 : opened.error().code;
  }

  Folder folder;
  std::string path = folder.path() + "/runtime";
};

TEST_F(RuntimeDirectory, IsMadeOrTheDaemonsOwn) {
  EXPECT_EQ(open(), 0);
  EXPECT_TRUE(std::filesystem::is_directory(path));
  EXPECT_EQ(open(), 0);
}

TEST_F(RuntimeDirectory, IsNoLink) {
  const std::string elsewhere = folder.path() + "/elsewhere";
  std::filesystem::create_directory(elsewhere);
  std::filesystem::create_symlink(elsewhere, path);
  EXPECT_EQ(open(), EPERM);
  path += '/';
  EXPECT_EQ(open(), EPERM);
  EXPECT_TRUE(std::filesystem::is_empty(elsewhere));
}

TEST_F(RuntimeDirectory, IsNotAnotherUsers) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  std::filesystem::create_directory(path);
  ASSERT_EQ(::chown(path.c_str(), 65534, 65534), 0);
  EXPECT_EQ(open(), EPERM);
  EXPECT_TRUE(std::filesystem::is_empty(path));
  ::chmod(folder.path().c_str(), 0755);
  EXPECT_EQ(open(), 0) << "a user with the right to do so made it for the daemon";
}

TEST(DescriptorLimit, IsRaisedToTheHardOne) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit limit = before;
  limit.rlim_cur = 100;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_TRUE(raise_descriptor_limit());
  EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(limit.rlim_cur, before.rlim_max);
  ::setrlimit(RLIMIT_NOFILE, &before);
}

}  // namespace
}  // namespace softhca::control
