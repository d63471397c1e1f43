// SPDX-License-Identifier: Apache-2.0

// Event channels of a daemon that goes, or does not keep to the contract.
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "tests/unit/libverbs-provider/connections/connection_fixture.hpp"

namespace softhca::provider::test {
namespace {

using LostChannel = ConnectionTest;

std::size_t open_descriptors() {
  namespace fs = std::filesystem;
  const fs::directory_iterator folder("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(folder), end(folder)));
}

TEST_F(LostChannel, DaemonGoneIsAnErrorAndNoHang) {
  const TestId id = make_id(channel_);
  daemon().hang_up();
  pollfd state{channel_->fd, POLLIN, 0};
  EXPECT_EQ(::poll(&state, 1, -1), 1);
  EXPECT_NE(state.revents & POLLIN, 0);
  EXPECT_NE(state.revents & POLLHUP, 0);
  EXPECT_EQ(take_event(channel_), -EIO);
  EXPECT_EQ(rdma_listen(id.cm, 1), -1);
  EXPECT_EQ(errno, EIO);
  rdma_cm_id* another = nullptr;
  EXPECT_EQ(rdma_create_id(channel_, &another, nullptr, RDMA_PS_TCP), -1);
  EXPECT_EQ(errno, EIO);
  EXPECT_EQ(rdma_destroy_id(id.cm), 0);  // programs clean up
}

TEST_F(LostChannel, EventsLeftUnreadDoNotKeepItBusy) {
  const TestId id = make_id(channel_);
  daemon().post_event(number_, event_of(id, 1));
  daemon().hang_up();
  EXPECT_EQ(take_event(channel_), -EIO);
  EXPECT_EQ(rdma_destroy_id(id.cm), 0);
}

TEST_F(LostChannel, WaitingThreadIsToldToo) {
  int result = 0;
  const std::size_t before = daemon().count(abi::Operation::kConnectionCommand);
  std::thread waiter([&] { result = take_event(channel_); });
  while (daemon().count(abi::Operation::kConnectionCommand) == before) std::this_thread::yield();
  daemon().hang_up();
  waiter.join();
  EXPECT_EQ(result, -EIO);
}

TEST_F(LostChannel, NewChannelsReachANewDaemon) {
  daemon().reset();
  rdma_event_channel* next = rdma_create_event_channel();
  ASSERT_NE(next, nullptr);
  EXPECT_EQ(rdma_destroy_id(make_id(next).cm), 0);
  rdma_destroy_event_channel(next);
}

class HostileReply : public LostChannel {
 protected:
  void spoil(abi::Operation operation, FakeDaemon::Spoil spoil) {
    daemon().spoil_next(operation, std::move(spoil));
  }
  void expect_command_fails(int error) {
    rdma_cm_id* id = nullptr;
    EXPECT_EQ(rdma_create_id(channel_, &id, nullptr, RDMA_PS_TCP), -1);
    EXPECT_EQ(errno, error);
  }
  static void set_head(std::vector<std::byte>& body, const abi::ConnectionCommandReply& head) {
    std::memcpy(body.data(), &head, sizeof head);
  }
};

TEST_F(HostileReply, OutOfContractEndsTheChannel) {
  using Bytes = std::vector<std::byte>;
  const FakeDaemon::Spoil kinds[] = {
      [](abi::ReplyHeader&, Bytes& body, auto&) { body.resize(8000); },
      [](abi::ReplyHeader&, Bytes& body, auto&) {
        body.resize(sizeof(abi::ConnectionCommandReply) + 4000);
        set_head(body, {4000, 0});
      },
      [](abi::ReplyHeader&, Bytes& body, auto&) {
        set_head(body, {0xffffffff, 0});
      },
      [](abi::ReplyHeader&, Bytes& body, auto&) {
        set_head(body, {3, 0});
      },
      [](abi::ReplyHeader&, Bytes& body, auto&) {  // whole, but too short for the command
        body.resize(sizeof(abi::ConnectionCommandReply) + 3);
        set_head(body, {3, 0});
      },
      [](abi::ReplyHeader&, Bytes& body, auto&) { body.resize(3); },
      [](abi::ReplyHeader&, Bytes& body, auto&) { body.clear(); },
      [](abi::ReplyHeader& header, Bytes&, auto&) { ++header.tag; },
      [](abi::ReplyHeader& header, Bytes&, auto&) { header.error = -5; },
  };
  for (const FakeDaemon::Spoil& kind : kinds) {
    spoil(abi::Operation::kConnectionCommand, kind);
    expect_command_fails(EPROTO);
    expect_command_fails(EIO);
    EXPECT_EQ(take_event(channel_), -EIO);
    rdma_destroy_event_channel(channel_);
    channel_ = rdma_create_event_channel();
    ASSERT_NE(channel_, nullptr);
  }
  EXPECT_EQ(rdma_destroy_id(make_id(channel_).cm), 0);
}

TEST_F(HostileReply, LongerThanTheProgramHasRoomFor) {
  spoil(abi::Operation::kConnectionCommand, [](abi::ReplyHeader&, auto& body, auto&) {
    body.resize(sizeof(abi::ConnectionCommandReply) + abi::kMaxConnectionReply, std::byte{0x5a});
    set_head(body, {abi::kMaxConnectionReply, 0});
  });
  rdma_cm_id* id = nullptr;  // of the 336 bytes it gets 4
  EXPECT_EQ(rdma_create_id(channel_, &id, nullptr, RDMA_PS_TCP), 0);
  EXPECT_EQ(rdma_destroy_id(id), 0);
}

TEST_F(HostileReply, DrainedWithoutASignal) {
  spoil(abi::Operation::kConnectionCommand, [](abi::ReplyHeader&, auto& body, auto&) {
    set_head(body, {sizeof(kernel::rdma_ucm_create_id_resp), 1});
  });
  EXPECT_EQ(rdma_destroy_id(make_id(channel_).cm), 0);
}

TEST_F(HostileReply, OpeningWithoutTheRightDescriptors) {
  const std::size_t before = open_descriptors();
  const FakeDaemon::Spoil kinds[] = {
      [](abi::ReplyHeader&, auto&, std::vector<int>& fds) {
        ::close(fds[0]);
        fds.clear();
      },
      [](abi::ReplyHeader&, auto&, std::vector<int>& fds) { fds.push_back(::dup(0)); },
      [](abi::ReplyHeader&, auto& body, auto&) { body.clear(); },
      [](abi::ReplyHeader&, auto& body, auto&) { body.resize(100); },
      [](abi::ReplyHeader& header, auto&, auto&) { ++header.tag; },
      [](abi::ReplyHeader& header, auto&, auto&) { header.error = -1; },
  };
  for (const FakeDaemon::Spoil& kind : kinds) {
    spoil(abi::Operation::kOpenEventChannel, kind);
    EXPECT_EQ(rdma_create_event_channel(), nullptr);
    EXPECT_EQ(errno, EPROTO);
  }
  while (daemon().session_count() != 1) std::this_thread::yield();
  EXPECT_EQ(open_descriptors(), before);
}

}  // namespace
}  // namespace softhca::provider::test
