// SPDX-License-Identifier: Apache-2.0

// The packaged librdmacm on event channels that the fake daemon serves.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <rdma/rdma_cma.h>

#include <cstring>

#include "tests/unit/libverbs-provider/device_fixture.hpp"

namespace softhca::provider::test {

/// An identifier, and what the daemon knows it by.
struct TestId {
  rdma_cm_id* cm = nullptr;
  std::uint32_t number = 0;
  std::uint64_t uid = 0;
};

class ConnectionTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string reason;
    world_ = World::instance(reason);
    if (world_ == nullptr) GTEST_SKIP() << reason;
    daemon().reset();
    channel_ = rdma_create_event_channel();
    ASSERT_NE(channel_, nullptr) << std::strerror(errno);
    number_ = daemon().newest_channel();
  }
  void TearDown() override {
    if (channel_ != nullptr) rdma_destroy_event_channel(channel_);
  }

  FakeDaemon& daemon() { return world_->daemon(); }

  TestId make_id(rdma_event_channel* channel) {
    TestId id;
    EXPECT_EQ(rdma_create_id(channel, &id.cm, nullptr, RDMA_PS_TCP), 0) << std::strerror(errno);
    id.number = FakeEventChannel::last_id();
    std::vector<std::byte> body;
    daemon().last_command(kernel::RDMA_USER_CM_CMD_CREATE_ID, body);
    std::memcpy(&id.uid, body.data(), sizeof id.uid);
    return id;
  }

  /// An event that librdmacm passes on as it is.
  static kernel::rdma_ucm_event_resp event_of(const TestId& id, int status) {
    kernel::rdma_ucm_event_resp event{};
    event.uid = id.uid;
    event.id = id.number;
    event.event = RDMA_CM_EVENT_ADDR_ERROR;
    event.status = static_cast<std::uint32_t>(status);
    return event;
  }

  static bool readable(const rdma_event_channel* channel) {
    pollfd state{channel->fd, POLLIN, 0};
    return ::poll(&state, 1, 0) == 1 && (state.revents & POLLIN) != 0;
  }

  /// Status of the next event, which is acknowledged; or -errno.
  static int take_event(rdma_event_channel* channel) {
    rdma_cm_event* event = nullptr;
    if (rdma_get_cm_event(channel, &event) != 0) return -errno;
    const int status = event->status;
    EXPECT_EQ(rdma_ack_cm_event(event), 0);
    return status;
  }

  World* world_ = nullptr;
  rdma_event_channel* channel_ = nullptr;
  std::uint32_t number_ = 0;
};

}  // namespace softhca::provider::test
