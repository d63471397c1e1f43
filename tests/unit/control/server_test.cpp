// The control thread with its sockets: connections that cannot be served.
#include "daemon/control/server.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/un.h>

#include <thread>

#include "tests/unit/control/client.hpp"
#include "tests/unit/control/folder.hpp"

namespace softhca::control {
namespace {

using resource::Kind;

resource::Config config_in(const std::string& folder) {
  resource::Config config = small_config();
  config.daemon.runtime_dir = folder;
  return config;
}

class ServerTest : public ::testing::Test {
 protected:
  ServerTest() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
    const auto opened = server.open();
    EXPECT_TRUE(opened) << opened.error().message;
    thread = std::thread([this] { EXPECT_TRUE(server.run()); });
  }
  ~ServerTest() {
    ::kill(::getpid(), SIGTERM);
    thread.join();
    for (const auto& tenant : daemon.adapter.tenants)
      resource::for_each_kind([&](Kind kind) {
        EXPECT_EQ(tenant->accounts.in_use(kind), 0u) << resource::name_of(kind);
      });
  }

  UniqueFd new_socket() const {
    UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    const timeval limit{.tv_sec = 20, .tv_usec = 0};
    EXPECT_EQ(::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    return socket;
  }
  void connect(const UniqueFd& socket, const std::string& tenant) const {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = folder.path() + "/" + tenant + "/socket";
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    ASSERT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
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
    } request{{1, 9}, {abi::kSessionMagic, abi::kAbiVersion, 0}};
    if (::send(socket.get(), &request, sizeof request, MSG_NOSIGNAL) < 0) return -1;
    struct {
      abi::ReplyHeader header;
      abi::HelloReply body;
    } reply{};
    const ssize_t got = ::recv(socket.get(), &reply, sizeof reply, 0);
    if (got < 0) return errno == ECONNRESET ? -1 : -2;
    return got == 0 ? -1 : reply.header.error;
  }

  Folder folder;
  Daemon daemon{config_in(folder.path())};
  Server server{daemon.adapter, *daemon.general_services};
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
  resource::Accounts& a = daemon.adapter.tenants[0]->accounts;
  a.set_limit(Kind::kDescriptors, 3 * Session::kDescriptors);
  std::vector<UniqueFd> mine;
  for (int i = 0; i < 3; ++i) {
    mine.push_back(connected("a"));
    EXPECT_EQ(greet(mine.back()), 0);
  }
  EXPECT_EQ(greet(connected("a")), -1);
  EXPECT_EQ(a.refused(Kind::kDescriptors), 1u);
  EXPECT_EQ(greet(connected("b")), 0);
}

TEST_F(ServerTest, ProgramsBeyondTheSessionsOfTheirTenantAreToldSo) {
  daemon.adapter.tenants[0]->accounts.set_limit(Kind::kSessions, 1);
  const UniqueFd first = connected("a");
  EXPECT_EQ(greet(first), 0);
  std::vector<UniqueFd> silent;  // connections that never greet
  EXPECT_EQ(greet(connected("a")), ENOMEM);
  for (int i = 0; i < 40; ++i) silent.push_back(connected("a"));
  EXPECT_EQ(greet(silent.back()), -1) << "not any number of them";
  EXPECT_EQ(greet(connected("b")), 0);
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
