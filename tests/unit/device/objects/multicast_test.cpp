// SPDX-License-Identifier: Apache-2.0

// Members of multicast groups: which queue pairs may become members, and when they leave.
#include "tests/unit/device/session/client.hpp"

namespace softhca::control {
namespace {

constexpr std::uint32_t kUc = 3;
constexpr std::uint32_t kUd = 4;
const Gid kGroup = Gid::from_ipv4(0xe0000109);  // 224.0.1.9

class MulticastTest : public ::testing::Test {
 protected:
  MulticastTest() {
    EXPECT_EQ(client.greet(), 0);
    EXPECT_EQ(stranger.greet(), 0);
  }

  static std::uint32_t make_qp(Client& c, std::uint32_t type) {
    abi::CreateCqReply cq{};
    EXPECT_EQ(c.ask(Operation::kCreateCq, abi::CreateCqRequest{1, 10, abi::kNoHandle}, &cq), 0);
    const abi::CreateQpRequest request{.user_handle = 1,
                                       .pd = c.make(Operation::kAllocPd),
                                       .type = type,
                                       .send_cq = cq.handle,
                                       .receive_cq = cq.handle,
                                       .srq = abi::kNoHandle,
                                       .max_send_wr = 4,
                                       .max_receive_wr = 4};
    abi::CreateQpReply qp{};
    EXPECT_EQ(c.ask(Operation::kCreateQp, request, &qp), 0);
    return qp.qpn;
  }
  static int change(Client& c, Operation operation, std::uint32_t qpn, const Gid& group) {
    abi::MulticastRequest request{qpn, 0, {}};
    std::memcpy(request.group, group.bytes.data(), sizeof request.group);
    return c.ask(operation, request);
  }
  static int attach(Client& c, std::uint32_t qpn, const Gid& group = kGroup) {
    return change(c, Operation::kAttachMulticast, qpn, group);
  }
  static int detach(Client& c, std::uint32_t qpn, const Gid& group = kGroup) {
    return change(c, Operation::kDetachMulticast, qpn, group);
  }
  static int destroy(Client& c, std::uint32_t qpn) {
    return c.ask(Operation::kDestroyQp, abi::HandleBody{qpn, 0});
  }

  Daemon daemon;
  Client client{daemon};
  Client stranger{daemon, 1};
};

TEST_F(MulticastTest, DatagramQueuePairsOfTheProcessJoinGroups) {
  const std::uint32_t qpn = make_qp(client, kUd);
  EXPECT_EQ(attach(client, make_qp(client, kUc)), EINVAL);
  EXPECT_EQ(attach(client, qpn + 1000), EINVAL);
  EXPECT_EQ(attach(stranger, qpn), EINVAL);
  EXPECT_EQ(attach(client, qpn, Gid::from_ipv4(0x0a000001)), EINVAL);
  EXPECT_EQ(attach(client, qpn, Gid::from_ipv4(0xdfffffff)), EINVAL);
  EXPECT_EQ(attach(client, qpn, Gid::from_ipv4(0xf0000000)), EINVAL);
  EXPECT_EQ(attach(client, qpn, Gid{{0xfe, 0x80}}), EINVAL);
  EXPECT_EQ(attach(client, qpn, Gid{{0xff, 0x0e}}), 0);
  EXPECT_EQ(attach(client, qpn), 0);
  EXPECT_EQ(attach(client, qpn), 0) << "once more";
  EXPECT_EQ(detach(stranger, qpn), EINVAL);
  EXPECT_EQ(detach(client, qpn), 0);
  EXPECT_EQ(detach(client, qpn), EINVAL);
}

TEST_F(MulticastTest, MembersAreNotDestroyed) {
  const std::uint32_t qpn = make_qp(client, kUd);
  EXPECT_EQ(attach(client, qpn), 0);
  EXPECT_EQ(destroy(client, qpn), EBUSY);
  EXPECT_EQ(detach(client, qpn), 0);
  EXPECT_EQ(destroy(client, qpn), 0);
}

TEST_F(MulticastTest, TooManyGroupsAreRefused) {
  const std::uint32_t qpn = make_qp(client, kUd);
  const auto group = [](std::uint32_t i) { return Gid::from_ipv4(0xe0000200 + i); };
  for (std::uint32_t i = 0; i < abi::kMaxMulticastGroups; ++i)
    EXPECT_EQ(attach(client, qpn, group(i)), 0);
  EXPECT_EQ(attach(client, qpn), ENOMEM);
  EXPECT_EQ(detach(client, qpn, group(3)), 0);
  EXPECT_EQ(attach(client, qpn), 0);
}

TEST_F(MulticastTest, EndOfAProcessEndsItsMemberships) {
  for (std::uint32_t i = 0; i <= abi::kMaxMulticastMembers; ++i) {
    Client ending(daemon);
    EXPECT_EQ(ending.greet(), 0);
    EXPECT_EQ(attach(ending, make_qp(ending, kUd)), 0) << "process " << i;
    ending.end();
  }
}

}  // namespace
}  // namespace softhca::control
