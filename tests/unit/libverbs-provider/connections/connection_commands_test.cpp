// SPDX-License-Identifier: Apache-2.0

// Commands written to an event channel by a program that gets them wrong, or leaves less room than
// the daemon fills.
#include "libverbs-provider/connections/cm_requests.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "libverbs-provider/connections/open_channels.hpp"
#include "tests/unit/libverbs-provider/fake_daemon.hpp"

namespace softhca::provider::test {
namespace {

using kernel::rdma_ucm_cmd_hdr;

class ConnectionCommands : public testing::Test {
 protected:
  ConnectionCommands() {
    char folder[] = "/tmp/softhca-commands-test-XXXXXX";
    root_ = ::mkdtemp(folder);
    daemon_ = std::make_unique<FakeDaemon>(root_ + "/socket");
    EXPECT_EQ(open_channel((root_ + "/socket").c_str(), fd_), 0);
  }
  ~ConnectionCommands() override {
    close_channel(fd_);
    daemon_.reset();
    std::filesystem::remove_all(root_);
  }

  static void close_channel(int fd) {
    forget_channel(fd);
    ::close(fd);
  }

  /// 0 or the errno value. `out`: what the header says of the room for the response.
  template <class Body>
  int write(std::uint32_t command, Body body, std::uint16_t out, int fd) {
    struct {
      rdma_ucm_cmd_hdr header;
      Body body;
    } whole{{command, sizeof body, out}, body};
    const ssize_t written = write_command(fd, &whole, sizeof whole);
    if (written < 0) return errno;
    EXPECT_EQ(written, static_cast<ssize_t>(sizeof whole));
    return 0;
  }

  kernel::rdma_ucm_create_id create_request() {
    kernel::rdma_ucm_create_id request{};
    request.response = reinterpret_cast<std::uint64_t>(response_.data());
    request.ps = kernel::RDMA_PS_TCP;
    return request;
  }
  int create_id(std::uint16_t out) {
    return write(kernel::RDMA_USER_CM_CMD_CREATE_ID, create_request(), out, fd_);
  }
  /// Bytes of the response that were written to.
  std::size_t written() const {
    std::size_t last = response_.size();
    while (last != 0 && response_[last - 1] == std::byte{0x77}) --last;
    return last;
  }
  std::size_t requests() { return daemon_->count(abi::Operation::kConnectionCommand); }

  std::string root_;
  std::unique_ptr<FakeDaemon> daemon_;
  int fd_ = -1;
  std::array<std::byte, 4096> response_ = [] {
    std::array<std::byte, 4096> filled;
    filled.fill(std::byte{0x77});
    return filled;
  }();
};

TEST_F(ConnectionCommands, ResponseIsWrittenWhereTheCommandSays) {
  EXPECT_EQ(create_id(sizeof(kernel::rdma_ucm_create_id_resp)), 0);
  EXPECT_EQ(written(), sizeof(kernel::rdma_ucm_create_id_resp));
}

TEST_F(ConnectionCommands, NoMoreIsWrittenThanThereIsRoomFor) {
  for (const std::uint16_t out : {4, 5, 100, 336, 4096}) {
    response_.fill(std::byte{0x77});
    daemon_->spoil_next(abi::Operation::kConnectionCommand, [](auto&, auto& body, auto&) {
      constexpr abi::ConnectionCommandReply kHead{abi::kMaxConnectionReply, 0};
      body.assign(sizeof kHead + kHead.bytes, std::byte{0x5a});
      std::memcpy(body.data(), &kHead, sizeof kHead);
    });
    EXPECT_EQ(create_id(out), 0);
    EXPECT_EQ(written(), std::min<std::size_t>(out, abi::kMaxConnectionReply));
  }
}

TEST_F(ConnectionCommands, TooLittleRoomIsToldBeforeTheDaemonActs) {
  EXPECT_EQ(create_id(3), ENOSPC);
  EXPECT_EQ(create_id(0), ENOSPC);
  const kernel::rdma_ucm_get_event get{reinterpret_cast<std::uint64_t>(response_.data())};
  EXPECT_EQ(write(kernel::RDMA_USER_CM_CMD_GET_EVENT, get, 320, fd_), ENOSPC);
  EXPECT_EQ(requests(), 0u);
  EXPECT_EQ(written(), 0u);
}

TEST_F(ConnectionCommands, LengthsThatContradictEachOther) {
  std::byte buffer[4096] = {};
  const auto write_header = [&](rdma_ucm_cmd_hdr header, std::size_t bytes) {
    std::memcpy(buffer, &header, sizeof header);
    errno = 0;
    return write_command(fd_, buffer, bytes) < 0 ? errno : 0;
  };
  const std::uint32_t listen = kernel::RDMA_USER_CM_CMD_LISTEN;
  for (std::size_t bytes = 0; bytes < sizeof(rdma_ucm_cmd_hdr); ++bytes)
    EXPECT_EQ(write_header({listen, 0, 0}, bytes), EINVAL);
  EXPECT_EQ(write_header({listen, 8, 0}, 15), EINVAL);
  EXPECT_EQ(write_header({listen, 0xffff, 0}, 16), EINVAL);
  EXPECT_EQ(write_header({listen, abi::kMaxConnectionCommand + 1, 0}, sizeof buffer), EINVAL);
  // No room in it for the address of the response, or for what else is looked at here.
  EXPECT_EQ(write_header({kernel::RDMA_USER_CM_CMD_CREATE_ID, 15, 4}, sizeof buffer), EINVAL);
  EXPECT_EQ(write_header({kernel::RDMA_USER_CM_CMD_GET_EVENT, 7, 336}, sizeof buffer), EINVAL);
  EXPECT_EQ(write_header({kernel::RDMA_USER_CM_CMD_MIGRATE_ID, 15, 4}, sizeof buffer), EINVAL);
  EXPECT_EQ(write_header({kernel::RDMA_USER_CM_CMD_SET_OPTION, 23, 0}, sizeof buffer), EINVAL);
  EXPECT_EQ(requests(), 0u);
  // What the library wrote beyond the body it announced is not the command's.
  EXPECT_EQ(write_header({listen, 8, 0}, 100), 0);
  EXPECT_EQ(daemon_->last_body(abi::Operation::kConnectionCommand).size(),
            sizeof(abi::ConnectionCommandRequest) + 8);
}

TEST_F(ConnectionCommands, UnknownCommandsAreTheDaemonsToRefuse) {
  daemon_->fail_next(abi::Operation::kConnectionCommand, EOPNOTSUPP);
  EXPECT_EQ(write(77, std::uint64_t{1}, 0, fd_), EOPNOTSUPP);
  EXPECT_EQ(create_id(4), 0);
}

TEST_F(ConnectionCommands, OptionsTooLong) {
  kernel::rdma_ucm_set_option option{};
  option.optval = 8;  // nothing is there
  for (const std::uint32_t length : {297u, 4096u, 0xffffffffu}) {
    option.optlen = length;
    EXPECT_EQ(write(kernel::RDMA_USER_CM_CMD_SET_OPTION, option, 0, fd_), EINVAL);
  }
  std::byte value[296] = {};
  option.optval = reinterpret_cast<std::uint64_t>(value);
  option.optlen = sizeof value;
  EXPECT_EQ(write(kernel::RDMA_USER_CM_CMD_SET_OPTION, option, 0, fd_), 0);
}

TEST_F(ConnectionCommands, MigrationFromWhatIsNoChannel) {
  kernel::rdma_ucm_migrate_id request{};
  request.response = reinterpret_cast<std::uint64_t>(response_.data());
  for (const int from : {-1, 0, 1 << 30}) {
    request.fd = static_cast<std::uint32_t>(from);
    EXPECT_EQ(write(kernel::RDMA_USER_CM_CMD_MIGRATE_ID, request, 4, fd_), EINVAL);
  }
  EXPECT_EQ(requests(), 0u);
}

TEST_F(ConnectionCommands, OtherDescriptorsAreNoChannels) {
  for (const int fd : {-1, 0, 1 << 30}) EXPECT_EQ(channel_file(fd), ChannelFile::kForeign) << fd;
  EXPECT_EQ(channel_file(fd_), ChannelFile::kChannel);
  EXPECT_EQ(write(kernel::RDMA_USER_CM_CMD_LISTEN, std::uint64_t{1}, 0, 0), EBADF);
}

TEST_F(ConnectionCommands, NumberReusedByTheProgram_IsNotUsed) {
  const int copy = ::dup(fd_);
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  ASSERT_EQ(::dup2(ends[0], fd_), fd_);
  EXPECT_EQ(channel_file(fd_), ChannelFile::kReused);
  EXPECT_EQ(write(kernel::RDMA_USER_CM_CMD_LISTEN, std::uint64_t{1}, 0, fd_), EBADF);
  EXPECT_EQ(requests(), 0u);
  ASSERT_EQ(::dup2(copy, fd_), fd_);
  EXPECT_EQ(channel_file(fd_), ChannelFile::kChannel);
  for (const int fd : {copy, ends[0], ends[1]}) ::close(fd);
}

TEST_F(ConnectionCommands, ChildThatClosesDescriptors_ParentsChannelGoesOn) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    for (int fd = 3; fd < 1000; ++fd)
      if (fd != fd_) ::close(fd);
    ::_exit(create_id(sizeof(kernel::rdma_ucm_create_id_resp)) == EBADF ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(create_id(sizeof(kernel::rdma_ucm_create_id_resp)), 0);
}

}  // namespace
}  // namespace softhca::provider::test
