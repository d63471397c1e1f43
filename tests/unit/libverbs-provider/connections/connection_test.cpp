// SPDX-License-Identifier: Apache-2.0

// What an unmodified librdmacm does with its device file, by the provider.
#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "tests/unit/libverbs-provider/connections/connection_fixture.hpp"

namespace softhca::provider::test {
namespace {

using Connections = ConnectionTest;

void set_nonblocking(const rdma_event_channel* channel) {
  ASSERT_EQ(::fcntl(channel->fd, F_SETFL, ::fcntl(channel->fd, F_GETFL) | O_NONBLOCK), 0);
}

TEST_F(Connections, DescriptorIsFinalFromOpenOn) {
  EXPECT_FALSE(readable(channel_));
  EXPECT_EQ(::fcntl(channel_->fd, F_GETFL) & O_NONBLOCK, 0);
  EXPECT_NE(::fcntl(channel_->fd, F_GETFD) & FD_CLOEXEC, 0);
}

TEST_F(Connections, InfinibandAddressesAreRefused) {
  rdma_cm_id* id = nullptr;
  EXPECT_EQ(rdma_create_id(channel_, &id, nullptr, RDMA_PS_IB), -1);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(Connections, CommandsAndResponses) {
  const TestId id = make_id(channel_);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(7471);
  ::inet_pton(AF_INET, "10.0.0.1", &address.sin_addr);
  ASSERT_EQ(rdma_bind_addr(id.cm, reinterpret_cast<sockaddr*>(&address)), 0)
      << std::strerror(errno);
  std::vector<std::byte> body;
  daemon().last_command(kernel::RDMA_USER_CM_CMD_BIND_IP, body);
  ASSERT_EQ(body.size(), sizeof(kernel::rdma_ucm_bind_ip));
  kernel::rdma_ucm_bind_ip bind;
  std::memcpy(&bind, body.data(), sizeof bind);
  EXPECT_EQ(bind.id, id.number);
  EXPECT_EQ(std::memcmp(&bind.addr, &address, sizeof address), 0);
  // The daemon's answer named the device by its node GUID; the library opened it.
  ASSERT_NE(id.cm->verbs, nullptr);
  EXPECT_EQ(world_->name(), ibv_get_device_name(id.cm->verbs->device));
  EXPECT_EQ(rdma_destroy_id(id.cm), 0);
}

TEST_F(Connections, ValueOfAnOptionFollowsItsBody) {
  const TestId id = make_id(channel_);
  std::uint8_t tos = 0x68;
  ASSERT_EQ(rdma_set_option(id.cm, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof tos), 0);
  std::vector<std::byte> body;
  daemon().last_command(kernel::RDMA_USER_CM_CMD_SET_OPTION, body);
  ASSERT_EQ(body.size(), sizeof(kernel::rdma_ucm_set_option) + 1);
  EXPECT_EQ(std::to_integer<int>(body.back()), 0x68);
  std::vector<char> large(1000);
  EXPECT_EQ(rdma_set_option(id.cm, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, large.data(), 1000), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(rdma_destroy_id(id.cm), 0);
}

TEST_F(Connections, NonBlockingEvents) {
  const TestId id = make_id(channel_);
  set_nonblocking(channel_);
  EXPECT_EQ(take_event(channel_), -EAGAIN);
  for (int status = 1; status <= 3; ++status) daemon().post_event(number_, event_of(id, status));
  for (int status = 1; status <= 3; ++status) {
    EXPECT_TRUE(readable(channel_));
    EXPECT_EQ(take_event(channel_), status);
  }
  EXPECT_FALSE(readable(channel_));
  EXPECT_EQ(take_event(channel_), -EAGAIN);
  EXPECT_EQ(rdma_destroy_id(id.cm), 0);
}

TEST_F(Connections, EpollTellsOfEachFirstEvent) {
  const TestId id = make_id(channel_);
  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  epoll_event wanted{EPOLLIN | EPOLLET, {}};
  ASSERT_EQ(::epoll_ctl(epoll, EPOLL_CTL_ADD, channel_->fd, &wanted), 0);
  epoll_event found;
  for (int status = 1; status <= 3; ++status) {
    EXPECT_EQ(::epoll_wait(epoll, &found, 1, 0), 0);
    daemon().post_event(number_, event_of(id, status));
    EXPECT_EQ(::epoll_wait(epoll, &found, 1, 0), 1);
    EXPECT_EQ(take_event(channel_), status);
  }
  ::close(epoll);
  EXPECT_EQ(rdma_destroy_id(id.cm), 0);
}

TEST_F(Connections, MigratedIdTakesItsEventsAlong) {
  rdma_event_channel* other = rdma_create_event_channel();
  ASSERT_NE(other, nullptr);
  const std::uint32_t others_number = daemon().newest_channel();
  const TestId moved = make_id(channel_);
  const TestId stays = make_id(channel_);
  daemon().post_event(number_, event_of(moved, 1));
  daemon().post_event(number_, event_of(stays, 2));
  daemon().post_event(number_, event_of(moved, 3));
  ASSERT_EQ(rdma_migrate_id(moved.cm, other), 0) << std::strerror(errno);
  std::vector<std::byte> body;
  EXPECT_EQ(daemon().last_command(kernel::RDMA_USER_CM_CMD_MIGRATE_ID, body).channel, number_);
  EXPECT_TRUE(readable(channel_));
  EXPECT_EQ(take_event(channel_), 2);
  EXPECT_FALSE(readable(channel_));
  EXPECT_EQ(take_event(other), 1);
  EXPECT_TRUE(readable(other));
  EXPECT_EQ(take_event(other), 3);
  EXPECT_FALSE(readable(other));
  // The last events leave the old channel's descriptor unreadable.
  daemon().post_event(others_number, event_of(moved, 4));
  ASSERT_EQ(rdma_migrate_id(moved.cm, channel_), 0);
  EXPECT_FALSE(readable(other));
  EXPECT_EQ(take_event(channel_), 4);
  EXPECT_EQ(rdma_destroy_id(moved.cm), 0);
  EXPECT_EQ(rdma_destroy_id(stays.cm), 0);
  rdma_destroy_event_channel(other);
}

TEST_F(Connections, IdentifiersWithoutAChannel) {
  const TestId id = make_id(nullptr);
  ASSERT_NE(id.cm->channel, nullptr);
  ASSERT_EQ(rdma_migrate_id(id.cm, channel_), 0) << std::strerror(errno);
  EXPECT_EQ(id.cm->channel, channel_);
  while (daemon().session_count() != 1) std::this_thread::yield();  // its own one is closed
  EXPECT_EQ(rdma_destroy_id(id.cm), 0);
}

TEST_F(Connections, ClosingEndsTheConnection) {
  const std::size_t others = daemon().session_count();
  const int fd = channel_->fd;
  rdma_event_channel* second = rdma_create_event_channel();
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(daemon().session_count(), others + 1);
  rdma_destroy_event_channel(second);
  while (daemon().session_count() != others) std::this_thread::yield();
  EXPECT_EQ(::fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);  // the first is still there
  rdma_destroy_event_channel(channel_);
  while (daemon().session_count() != others - 1) std::this_thread::yield();
  channel_ = rdma_create_event_channel();
  ASSERT_NE(channel_, nullptr);
  EXPECT_EQ(rdma_destroy_id(make_id(channel_).cm), 0);
}

TEST_F(Connections, OpeningTellsTheDaemonsError) {
  daemon().fail_next(abi::Operation::kOpenEventChannel, EMFILE);
  EXPECT_EQ(rdma_create_event_channel(), nullptr);
  EXPECT_EQ(errno, EMFILE);
}

TEST_F(Connections, DescriptorClosedBehindOurBackIsForgotten) {
  const int fd = channel_->fd;
  ::close(fd);
  rdma_event_channel* next = rdma_create_event_channel();
  ASSERT_NE(next, nullptr);
  EXPECT_EQ(rdma_destroy_id(make_id(next).cm), 0);
  if (next->fd == fd) {
    while (daemon().session_count() != 1) std::this_thread::yield();
  }
  std::free(channel_);
  channel_ = next;
}

}  // namespace
}  // namespace softhca::provider::test
