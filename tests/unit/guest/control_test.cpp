// SPDX-License-Identifier: Apache-2.0

// The control socket of the tenant, to programs of the guest.
#include <poll.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "guest/channel/local_socket.hpp"
#include "tests/unit/guest/guest_fixture.hpp"

namespace softhca::guest::test {
namespace {

namespace fs = std::filesystem;

class ControlOfGuest : public GuestTest {
 protected:
  ControlOfGuest()
      : path_(host_.path() + "/vm1/control.sock"),
        control_(std::move(*listen_on(path_, SOCK_STREAM, 0600))) {}

  /// Connects a program to the control socket of the guest.
  UniqueFd connect() {
    auto program = connect_to(guest_.path() + "/vm1/control.sock", SOCK_STREAM);
    EXPECT_TRUE(program);
    return program ? std::move(*program) : UniqueFd();
  }
  UniqueFd accept_control() {
    pollfd state{control_.get(), POLLIN, 0};
    if (!run_until([&] { return ::poll(&state, 1, 0) == 1; })) return {};
    return UniqueFd(::accept4(control_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  }
  /// Receives so many bytes, or those before the end.
  std::string receive_text(const UniqueFd& socket, std::size_t bytes) {
    std::string text;
    run_until([&] {
      std::array<char, 4096> part;
      const std::size_t most = std::min(part.size(), bytes - text.size());
      const ssize_t got = ::recv(socket.get(), part.data(), most, MSG_DONTWAIT);
      if (got > 0) text.append(part.data(), static_cast<std::size_t>(got));
      return text.size() == bytes || got == 0;
    });
    return text;
  }
  static void send_text(const UniqueFd& socket, const std::string& text) {
    ASSERT_EQ(::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }

  std::string path_;
  UniqueFd control_;
};

TEST_F(ControlOfGuest, BytesPassInBothDirections) {
  start();
  UniqueFd program = connect(), daemon = accept_control();
  ASSERT_TRUE(daemon);
  send_text(program, "a line\nthe begin");
  EXPECT_EQ(receive_text(daemon, 16), "a line\nthe begin");
  const std::string large(50'000, 'x');  // more than a frame has room for
  send_text(daemon, large);
  EXPECT_EQ(receive_text(program, large.size()), large);
  program.reset();
  EXPECT_TRUE(is_closed(daemon));
  EXPECT_TRUE(run_until([&] { return agent_->streams() == 0 && relay_->streams() == 0; }));
}

TEST_F(ControlOfGuest, DaemonCloses_ProgramSeesItAfterTheBytes) {
  start();
  const UniqueFd program = connect();
  UniqueFd daemon = accept_control();
  send_text(daemon, "last");
  daemon.reset();
  EXPECT_EQ(receive_text(program, 5), "last");
  EXPECT_TRUE(run_until([&] { return agent_->streams() == 0 && relay_->streams() == 0; }));
}

TEST_F(ControlOfGuest, OnlyRootMayConnect) {
  start();
  struct stat info;
  ASSERT_EQ(::stat((guest_.path() + "/vm1/control.sock").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600U);
  ASSERT_EQ(::stat((guest_.path() + "/vm1/socket").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0666U);
}

TEST_F(ControlOfGuest, RelayMayNotConnect_ProgramGetsTheReason) {
  start();
  ASSERT_EQ(::chmod(path_.c_str(), 0), 0);
  UniqueFd program = connect();
  ASSERT_EQ(::chmod(host_.path().c_str(), 0755), 0);
  const int before = ::setfsuid(65534);  // takes root's rights to files from this thread
  send_text(program, R"({"jsonrpc":"2.0","id":1,"method":"levels"})"
                     "\n");
  const std::string refusal = receive_text(program, 64);
  ::setfsuid(static_cast<uid_t>(before));
  EXPECT_TRUE(refusal.starts_with(R"({"jsonrpc":"2.0","id":null,"error":{"code":6,)")) << refusal;
  // What the program sends is dropped, so it never waits in the relay.
  send_text(program, std::string(100'000, 'x'));
  settle();
  program.reset();
  EXPECT_TRUE(run_until([&] { return agent_->streams() == 0 && relay_->streams() == 0; }));
}

TEST_F(ControlOfGuest, GoesOnTheHost_GoesInTheGuest) {
  start();
  fs::remove(path_);
  EXPECT_TRUE(run_until([&] { return !fs::exists(guest_.path() + "/vm1/control.sock"); }));
}

}  // namespace
}  // namespace softhca::guest::test
