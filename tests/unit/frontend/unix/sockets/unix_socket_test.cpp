// SPDX-License-Identifier: Apache-2.0

// Listening sockets and records with descriptors.
#include "daemon/frontend/unix/sockets/unix_socket.hpp"

#include <grp.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "abi/control.hpp"
#include "tests/emulated.hpp"
#include "tests/folder.hpp"
#include "tests/unit/frontend/unix/sockets/lingering.hpp"

namespace softhca::control {
namespace {

UniqueFd connect_to(const std::string& path) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    fd.reset();
  return fd;
}

class Listening : public ::testing::Test {
 protected:
  Folder folder;
  const std::string path = folder.path() + "/socket";
};

TEST_F(Listening, HasTheModeAskedForWhateverTheUmask) {
  const mode_t before = ::umask(077);
  for (const unsigned mode : {0600u, 0660u, 0666u}) {
    const auto socket = listen_at(path, {.owner = "", .group = "", .mode = mode});
    ASSERT_TRUE(socket);
    struct stat status {};
    ASSERT_EQ(::stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777, mode);
    EXPECT_TRUE(S_ISSOCK(status.st_mode));
  }
  ::umask(before);
}

TEST_F(Listening, OwnerAndGroupByNumber) {
  const std::string uid = std::to_string(::getuid());
  const std::string gid = std::to_string(::getgid());
  ASSERT_TRUE(listen_at(path, {.owner = uid, .group = gid}));
}

/// As the service has it: the right to give files away, not that to change those of others.
bool keep_chown_only() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  data[0].effective = data[0].permitted = 1u << CAP_CHOWN;
  return ::syscall(SYS_capset, &header, data) == 0;
}

TEST_F(Listening, IsGivenAwayAndChangedAgainByChownAlone) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs CAP_CHOWN";
  const pid_t child = ::fork();
  if (child == 0) {
    const SocketPermissions first{.owner = "65534", .group = "65534", .mode = 0640};
    const SocketPermissions then{.owner = "65533", .group = "65534", .mode = 0600};
    ::_exit(keep_chown_only() && listen_at(path, first) && set_permissions(path, then) ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  struct stat found {};
  ASSERT_EQ(::stat(path.c_str(), &found), 0);
  EXPECT_EQ(found.st_uid, 65533u);
  EXPECT_EQ(found.st_gid, 65534u);
  EXPECT_EQ(found.st_mode & 07777, 0600u);
}

/// What a user of that number and group may do, tried by one.
bool may_connect(const std::string& path, uid_t user, gid_t group) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgroups(0, nullptr) != 0 || ::setresgid(group, group, group) != 0 ||
        ::setresuid(user, user, user) != 0)
      ::_exit(2);
    ::_exit(connect_to(path) ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_NE(WEXITSTATUS(status), 2);
  return status == 0;
}

TEST_F(Listening, OthersMayComeWithoutTheRightToGiveAway) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs to become others";
  constexpr uid_t kServer = 65001, kGuest = 65002, kOther = 65003;
  constexpr gid_t kGuests = 65004, kOwn = 65005;
  ASSERT_EQ(::chown(folder.path().c_str(), kServer, kOwn), 0);
  ASSERT_EQ(::chmod(folder.path().c_str(), 0755), 0);
  int ready[2], end[2];
  ASSERT_EQ(::pipe2(ready, O_CLOEXEC) | ::pipe2(end, O_CLOEXEC), 0);
  const pid_t daemon = ::fork();
  if (daemon == 0) {
    const SocketPermissions permissions{
        .owner = std::to_string(kGuest), .group = std::to_string(kGuests), .mode = 0660};
    if (::setgroups(0, nullptr) != 0 || ::setresgid(kOwn, kOwn, kOwn) != 0 ||
        ::setresuid(kServer, kServer, kServer) != 0)
      ::_exit(2);
    const auto socket = listen_at(path, permissions);
    char byte = socket ? 'y' : 'n';
    if (::write(ready[1], &byte, 1) != 1 || ::read(end[0], &byte, 1) != 1) ::_exit(1);
    // Changed while the socket exists: only the daemon may connect.
    byte = set_permissions(path, {.owner = "", .group = "", .mode = 0600}) ? 'y' : 'n';
    if (::write(ready[1], &byte, 1) != 1) ::_exit(1);
    ::_exit(::read(end[0], &byte, 1) == 1 ? 0 : 1);
  }
  char said = 0;
  ASSERT_EQ(::read(ready[0], &said, 1), 1);
  if (said == 'n') {
    ::kill(daemon, SIGKILL);
    ::waitpid(daemon, nullptr, 0);
    GTEST_SKIP() << "a file system without access control lists";
  }
  EXPECT_TRUE(may_connect(path, kGuest, kOther));
  EXPECT_TRUE(may_connect(path, kOther, kGuests));
  EXPECT_FALSE(may_connect(path, kOther, kOwn)) << "as if it had been given away";
  EXPECT_FALSE(may_connect(path, kOther, kOther));
  ASSERT_EQ(::write(end[1], "x", 1), 1);
  ASSERT_EQ(::read(ready[0], &said, 1), 1);
  EXPECT_EQ(said, 'y');
  EXPECT_FALSE(may_connect(path, kGuest, kOther));
  EXPECT_FALSE(may_connect(path, kOther, kGuests));
  ASSERT_EQ(::write(end[1], "x", 1), 1);
  int status = -1;
  ASSERT_EQ(::waitpid(daemon, &status, 0), daemon);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(::chown(folder.path().c_str(), 0, 0), 0);
}

TEST_F(Listening, UnknownOwnerOrGroupIsNamed) {
  const auto owner = listen_at(path, {.owner = "no-such-user-here", .group = ""});
  ASSERT_FALSE(owner);
  EXPECT_NE(owner.error().message.find("no-such-user-here"), std::string::npos);
  const auto group = listen_at(path, {.owner = "", .group = "no-such-group-here"});
  ASSERT_FALSE(group);
  EXPECT_NE(group.error().message.find("no-such-group-here"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(Listening, ReplacesWhatADeadDaemonLeft) {
  ASSERT_TRUE(listen_at(path, {}));  // closed at once: the file stays
  ASSERT_TRUE(std::filesystem::exists(path));
  const auto again = listen_at(path, {});
  ASSERT_TRUE(again);
  EXPECT_TRUE(connect_to(path));
}

TEST_F(Listening, LeavesALivingDaemonAlone) {
  const auto living = listen_at(path, {});
  ASSERT_TRUE(living);
  const auto second = listen_at(path, {});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, EADDRINUSE);
  EXPECT_TRUE(connect_to(path)) << "still reachable";
}

TEST_F(Listening, PathsThatDoNotFitOrDoNotExist) {
  const auto longest = listen_at(folder.path() + "/" + std::string(120, 'x'), {});
  ASSERT_FALSE(longest);
  EXPECT_EQ(longest.error().code, ENAMETOOLONG);
  const auto nowhere = listen_at(folder.path() + "/none/socket", {});
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().code, ENOENT);
}

TEST_F(Listening, KnowsItsPeer) {
  const auto listener = listen_at(path, {});
  ASSERT_TRUE(listener);
  const UniqueFd client = connect_to(path);
  ASSERT_TRUE(client);
  const UniqueFd served(::accept(listener->get(), nullptr, nullptr));
  const auto peer = peer_identity(served.get());
  ASSERT_TRUE(peer);
  EXPECT_EQ(peer->pid, ::getpid());
  EXPECT_EQ(peer->uid, ::getuid());
  EXPECT_EQ(peer->gid, ::getgid());
}

class Records : public ::testing::Test {
 protected:
  Records() {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    left = UniqueFd(ends[0]);
    right = UniqueFd(ends[1]);
  }
  ReceiveResult receive(std::size_t room) {
    buffer.resize(room);
    const ReceiveResult result = peek_record(right.get(), buffer, length);
    if (result == ReceiveResult::kRecord) take_record(right.get());
    return result;
  }
  UniqueFd left, right;
  std::vector<std::byte> buffer;
  std::size_t length = 0;
};

TEST_F(Records, ArriveWhole) {
  const std::array<std::byte, 3> record{std::byte{1}, std::byte{2}, std::byte{3}};
  EXPECT_EQ(receive(16), ReceiveResult::kNothing);
  ASSERT_TRUE(send_record(left.get(), record, {}));
  ASSERT_EQ(receive(3), ReceiveResult::kRecord);
  EXPECT_EQ(length, 3u);
  EXPECT_EQ(std::memcmp(buffer.data(), record.data(), 3), 0);
  EXPECT_EQ(receive(16), ReceiveResult::kNothing);
}

TEST_F(Records, LongerThanTheLimitEndTheSession) {
  const std::vector<std::byte> record(17);
  ASSERT_TRUE(send_record(left.get(), record, {}));
  EXPECT_EQ(receive(16), ReceiveResult::kClosed);
}

TEST_F(Records, WithDescriptorsAreRefusedAndLeakNone) {
  const std::array<std::byte, 1> record{};
  const std::array<int, 2> fds{left.get(), right.get()};
  ASSERT_TRUE(send_record(left.get(), record, fds));
  const int before = ::dup(0);
  ::close(before);
  EXPECT_EQ(receive(16), ReceiveResult::kClosed);
  const int after = ::dup(0);
  ::close(after);
  EXPECT_EQ(before, after);
}

TEST_F(Records, DescriptorsStayUnreadSoThatNoneIsClosedHere) {
  Lingering lingering(60);
  const std::array<std::byte, 1> record{};
  ASSERT_TRUE(send_record(left.get(), record, std::array{lingering.get()}));
  lingering.let_go();
  // Taken out of the queue, the socket would linger in this call for a minute.
  EXPECT_EQ(receive(16), ReceiveResult::kClosed);
  std::byte byte;
  EXPECT_EQ(peek(right.get(), {&byte, 1}), -1);
  EXPECT_EQ(errno, EBADMSG);
  lingering.end();
}

TEST_F(Listening, DescriptorsAreRefusedWhereTheKernelCan) {
  const auto listener = listen_at(path, {});
  ASSERT_TRUE(listener);
  const UniqueFd client = connect_to(path);
  const UniqueFd served(::accept(listener->get(), nullptr, nullptr));
  constexpr int kPassRights = 83;  // SO_PASSRIGHTS
  if (!kernel_takes_option(AF_UNIX, SOCK_STREAM, SOL_SOCKET, kPassRights))
    GTEST_SKIP() << "this kernel has no SO_PASSRIGHTS";
  int on = 1;
  socklen_t length = sizeof on;
  ASSERT_EQ(::getsockopt(served.get(), SOL_SOCKET, kPassRights, &on, &length), 0);
  EXPECT_EQ(on, 0);
  EXPECT_FALSE(send_record(client.get(), std::array<std::byte, 1>{}, std::array{client.get()}));
}

TEST_F(Records, EmptyOnesAndClosedPeers) {
  EXPECT_EQ(::send(left.get(), nullptr, 0, 0), 0);
  EXPECT_EQ(receive(16), ReceiveResult::kClosed);
  left.reset();
  EXPECT_EQ(receive(16), ReceiveResult::kClosed);
  EXPECT_FALSE(send_record(right.get(), std::array<std::byte, 1>{}, {}));
}

TEST_F(Records, PeerThatDoesNotReadIsNoticed) {
  const std::vector<std::byte> record(1000);
  bool sent = true;
  for (int i = 0; i < 10000 && sent; ++i) sent = send_record(left.get(), record, {});
  EXPECT_FALSE(sent);
}

}  // namespace
}  // namespace softhca::control
