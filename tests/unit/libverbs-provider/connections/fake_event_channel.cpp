// SPDX-License-Identifier: Apache-2.0

#include "tests/unit/libverbs-provider/connections/fake_event_channel.hpp"

#include <endian.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

namespace softhca::provider::test {
namespace {

template <class T>
void write_as(std::vector<std::byte>& response, const T& body) {
  response.resize(sizeof body);
  std::memcpy(response.data(), &body, sizeof body);
}

template <class T>
T read_as(std::span<const std::byte> bytes) {
  T body{};
  EXPECT_EQ(bytes.size(), sizeof body);
  std::memcpy(&body, bytes.data(), std::min(sizeof body, bytes.size()));
  return body;
}

std::atomic<std::uint32_t> ids{0};

}  // namespace

FakeEventChannel::FakeEventChannel(std::uint32_t number) : number_(number) {
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends_), 0);
}

FakeEventChannel::~FakeEventChannel() {
  for (const int end : ends_)
    if (end >= 0) ::close(end);
}

std::uint32_t FakeEventChannel::last_id() { return ids; }

int FakeEventChannel::take_program_end() { return std::exchange(ends_[1], -1); }

void FakeEventChannel::hang_up() { ::close(std::exchange(ends_[0], -1)); }

void FakeEventChannel::post(const kernel::rdma_ucm_event_resp& event) {
  if (events_.empty()) {
    EXPECT_EQ(::send(ends_[0], "!", 1, MSG_NOSIGNAL), 1);
  }
  events_.push_back(event);
}

int FakeEventChannel::next_event(std::vector<std::byte>& response, bool& emptied) {
  if (events_.empty()) return EAGAIN;
  write_as(response, events_.front());
  ++reported_[events_.front().id];
  events_.pop_front();
  emptied = events_.empty();
  return 0;
}

/// True when nothing is left there.
bool FakeEventChannel::take_over(std::uint32_t id, FakeEventChannel& from) {
  std::deque<kernel::rdma_ucm_event_resp> left;
  for (const auto& event : from.events_) {
    if (event.id == id)
      post(event);
    else
      left.push_back(event);
  }
  const bool emptied = left.empty() && !from.events_.empty();
  from.events_ = left;
  reported_[id] = from.reported_[id];
  return emptied;
}

int FakeEventChannel::carry_out(std::uint32_t command, std::span<const std::byte> body,
                                FakeEventChannel* from, std::vector<std::byte>& response,
                                bool& emptied) {
  switch (command) {
    case kernel::RDMA_USER_CM_CMD_CREATE_ID:
      if (read_as<kernel::rdma_ucm_create_id>(body).ps == kernel::RDMA_PS_IB) return EINVAL;
      write_as(response, kernel::rdma_ucm_create_id_resp{++ids});
      return 0;
    case kernel::RDMA_USER_CM_CMD_DESTROY_ID:
      write_as(response, kernel::rdma_ucm_destroy_id_resp{
                             reported_[read_as<kernel::rdma_ucm_destroy_id>(body).id]});
      return 0;
    case kernel::RDMA_USER_CM_CMD_QUERY_ROUTE: {
      kernel::rdma_ucm_query_route_resp route{};
      route.node_guid = htobe64(0x1122334455667788);
      route.port_num = 1;
      write_as(response, route);
      return 0;
    }
    case kernel::RDMA_USER_CM_CMD_GET_EVENT:
      return next_event(response, emptied);
    case kernel::RDMA_USER_CM_CMD_MIGRATE_ID: {
      if (from == nullptr) return EINVAL;
      const std::uint32_t id = read_as<kernel::rdma_ucm_migrate_id>(body).id;
      emptied = take_over(id, *from);
      write_as(response, kernel::rdma_ucm_migrate_resp{reported_[id]});
      return 0;
    }
    default:
      return 0;
  }
}

}  // namespace softhca::provider::test
