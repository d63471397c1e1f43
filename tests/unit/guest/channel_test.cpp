// SPDX-License-Identifier: Apache-2.0

// Connections of programs, and the descriptors that come in replies.
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/passed_descriptors.hpp"
#include "tests/unit/guest/guest_fixture.hpp"

namespace softhca::guest::test {
namespace {

/// Receives a record with its length; -1: none comes.
ssize_t receive_bytes_of(int socket, Bytes& bytes) {
  bytes.resize(abi::kMaxRecord);
  const ssize_t got = ::recv(socket, bytes.data(), bytes.size(), MSG_DONTWAIT);
  bytes.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
  return got;
}

TEST_F(GuestTest, Records_PassInBothDirections) {
  start();
  const Pair pair = connect_pair();
  for (const std::size_t length : {std::size_t{1}, std::size_t{8}, std::size_t{abi::kMaxRecord}}) {
    const Bytes sent(length, std::byte{7});
    Bytes got;
    send_record(pair.program.get(), sent);
    ASSERT_TRUE(run_until([&] { return receive_bytes_of(pair.daemon.get(), got) >= 0; }));
    EXPECT_EQ(got, sent);
    send_record(pair.daemon.get(), sent);
    ASSERT_TRUE(run_until([&] { return receive_bytes_of(pair.program.get(), got) >= 0; }));
    EXPECT_EQ(got, sent);
  }
}

TEST_F(GuestTest, EmptyRecord_IsNotTheEnd) {
  start();
  const Pair pair = connect_pair();
  Bytes got;
  for (const auto& [from, to] :
       {std::pair(&pair.program, &pair.daemon), std::pair(&pair.daemon, &pair.program)}) {
    send_record(from->get(), {});
    send_record(from->get(), Bytes(3));
    ASSERT_TRUE(run_until([&] { return receive_bytes_of(to->get(), got) >= 0; }));
    EXPECT_TRUE(got.empty());
    ASSERT_TRUE(run_until([&] { return receive_bytes_of(to->get(), got) >= 0; }));
    EXPECT_EQ(got.size(), 3U);
  }
}

TEST_F(GuestTest, ProgramCloses_DaemonSeesItAfterTheRecords) {
  start();
  Pair pair = connect_pair();
  for (int i = 0; i < 3; ++i) send_record(pair.program.get(), Bytes(100));
  pair.program.reset();
  Bytes got;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(run_until([&] { return receive_bytes_of(pair.daemon.get(), got) >= 0; }));
    EXPECT_EQ(got.size(), 100U);
  }
  EXPECT_TRUE(is_closed(pair.daemon));
  EXPECT_EQ(agent_->streams(), 1U) << "until the daemon has ended the session";
  pair.daemon.reset();
  EXPECT_TRUE(run_until([&] { return agent_->streams() == 0 && relay_->streams() == 0; }));
}

TEST_F(GuestTest, DaemonCloses_ProgramSeesItAfterTheRecords) {
  start();
  Pair pair = connect_pair();
  for (int i = 0; i < 3; ++i) send_record(pair.daemon.get(), Bytes(100));
  pair.daemon.reset();
  Bytes got;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(run_until([&] { return receive_bytes_of(pair.program.get(), got) >= 0; }));
    EXPECT_EQ(got.size(), 100U);
  }
  EXPECT_TRUE(is_closed(pair.program));
  EXPECT_TRUE(run_until([&] { return agent_->streams() == 0 && relay_->streams() == 0; }));
}

TEST_F(GuestTest, DaemonDoesNotListen_ConnectionIsClosed) {
  start();
  listener_.reset();
  const auto program = connect_to(guest_.path() + "/vm1/socket", SOCK_SEQPACKET);
  ASSERT_TRUE(program);
  EXPECT_TRUE(is_closed(*program));
  EXPECT_TRUE(run_until([&] { return agent_->streams() == 0 && relay_->streams() == 0; }));
}

TEST_F(GuestTest, Region_BecomesThatOfTheGuest) {
  start();
  const Pair pair = connect_pair();
  const UniqueFd got = pass(pair, region_.get());
  struct stat ours, theirs;
  ASSERT_EQ(::fstat(got.get(), &theirs), 0);
  ASSERT_EQ(::fstat(region_.get(), &ours), 0);
  EXPECT_EQ(ours.st_ino, theirs.st_ino);
  EXPECT_NE(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, got.get(), 0), MAP_FAILED);
}

TEST_F(GuestTest, Eventfd_WakesTheDaemonAndEndsWithTheConnection) {
  start();
  Pair pair = connect_pair();
  const UniqueFd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  const UniqueFd got = pass(pair, event.get());
  const std::uint64_t once = 1;
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(::write(got.get(), &once, sizeof once), static_cast<ssize_t>(sizeof once));
    std::uint64_t times = 0;
    EXPECT_TRUE(
        run_until([&] { return ::read(event.get(), &times, sizeof times) == sizeof times; }));
  }
  EXPECT_EQ(agent_->streams(), 2U);
  pair.program.reset();
  pair.daemon.reset();
  EXPECT_TRUE(run_until([&] { return agent_->streams() == 0 && relay_->streams() == 0; }));
}

TEST_F(GuestTest, SocketsInReplies_CarryBothDirectionsAndTheEnd) {
  start();
  const Pair pair = connect_pair();
  for (const int type : {SOCK_SEQPACKET, SOCK_STREAM}) {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends), 0);
    UniqueFd daemon(ends[0]);
    UniqueFd other(ends[1]);
    UniqueFd program = pass(pair, other.get());
    other.reset();
    int got_type = 0;
    socklen_t length = sizeof got_type;
    ASSERT_EQ(::getsockopt(program.get(), SOL_SOCKET, SO_TYPE, &got_type, &length), 0);
    EXPECT_EQ(got_type, type);
    Bytes got;
    send_record(daemon.get(), Bytes(16));
    ASSERT_TRUE(run_until([&] { return receive_bytes_of(program.get(), got) >= 0; }));
    EXPECT_EQ(got.size(), 16U);
    send_record(program.get(), Bytes(5));
    ASSERT_TRUE(run_until([&] { return receive_bytes_of(daemon.get(), got) >= 0; }));
    EXPECT_EQ(got.size(), 5U);
    if (type == SOCK_STREAM) {
      daemon.reset();
      EXPECT_TRUE(is_closed(program));
      program.reset();
    } else {
      program.reset();
      EXPECT_TRUE(is_closed(daemon));
    }
    EXPECT_TRUE(run_until([&] { return agent_->streams() == 1 && relay_->streams() == 1; }));
  }
}

TEST_F(GuestTest, SeveralDescriptorsInOneReply_KeepTheirOrder) {
  start();
  const Pair pair = connect_pair();
  const UniqueFd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd ours(ends[0]), theirs(ends[1]);
  const abi::ReplyHeader header{1, 0};
  send_record(pair.daemon.get(), bytes_of(header), {region_.get(), event.get(), theirs.get()});
  const auto reply = receive(pair.program);
  ASSERT_TRUE(reply);
  ASSERT_EQ(reply->fds.size(), 3U);
  struct stat region, wake, socket;
  ASSERT_EQ(::fstat(reply->fds[0].get(), &region), 0);
  ASSERT_EQ(::fstat(reply->fds[1].get(), &wake), 0);
  ASSERT_EQ(::fstat(reply->fds[2].get(), &socket), 0);
  EXPECT_TRUE(S_ISREG(region.st_mode));
  EXPECT_EQ(wake.st_mode & S_IFMT, 0U);
  EXPECT_TRUE(S_ISSOCK(socket.st_mode));
}

TEST_F(GuestTest, OtherDescriptorOfTheDaemon_ConnectionIsClosed) {
  start();
  const Pair pair = connect_pair();
  const UniqueFd other(::memfd_create("other", MFD_CLOEXEC));
  const abi::ReplyHeader header{1, 0};
  send_record(pair.daemon.get(), bytes_of(header), {other.get()});
  EXPECT_TRUE(is_closed(pair.program));
  EXPECT_TRUE(is_closed(pair.daemon));
}

TEST_F(GuestTest, ProgramSendsADescriptor_ConnectionIsClosed) {
  start();
  const Pair pair = connect_pair();
  const abi::RequestHeader header{1, 1};
  if (send_with_descriptors(pair.program.get(), bytes_of(header), std::array{region_.get()}) < 0)
    GTEST_SKIP() << "the kernel refuses it";
  EXPECT_TRUE(is_closed(pair.program));
  EXPECT_TRUE(is_closed(pair.daemon));
}

TEST_F(GuestTest, ProgramDoesNotRead_DaemonCannotSendMoreThanTheCredit) {
  start();
  const Pair pair = connect_pair();
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd daemon(ends[0]);
  UniqueFd other(ends[1]);
  const UniqueFd program = pass(pair, other.get());
  other.reset();
  std::size_t sent = 0, received = 0;
  for (int quiet = 0; quiet < 50;) {
    const Bytes record(8192, static_cast<std::byte>(sent));
    if (send_with_descriptors(daemon.get(), record, {}) > 0) {
      ++sent;
      quiet = 0;
    } else {
      ++quiet;
      settle();
    }
  }
  EXPECT_LT(sent * 8192, std::size_t{4} << 20);
  // Another connection is served meanwhile.
  send_record(pair.program.get(), Bytes(12));
  EXPECT_TRUE(receive(pair.daemon));
  Bytes got;
  while (received < sent && run_until([&] { return receive_bytes_of(program.get(), got) >= 0; })) {
    EXPECT_EQ(got.front(), static_cast<std::byte>(received));
    ++received;
  }
  EXPECT_EQ(received, sent);
}

TEST_F(GuestTest, DaemonDoesNotRead_ProgramCannotSendMoreThanTheCredit) {
  start();
  const Pair pair = connect_pair();
  std::size_t sent = 0, received = 0;
  for (int quiet = 0; quiet < 20;) {
    if (send_with_descriptors(pair.program.get(), Bytes(4096), {}) > 0) {
      ++sent;
      quiet = 0;
    } else {
      ++quiet;
      settle();
    }
  }
  EXPECT_LT(sent * 4096, std::size_t{4} << 20);
  Bytes got;
  const abi::ReplyHeader reply{1, 0};
  while (received < sent &&
         run_until([&] { return receive_bytes_of(pair.daemon.get(), got) >= 0; })) {
    ++received;
    send_record(pair.daemon.get(), bytes_of(reply));
    EXPECT_TRUE(receive(pair.program));
  }
  EXPECT_EQ(received, sent);
}

}  // namespace
}  // namespace softhca::guest::test
