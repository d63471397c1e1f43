// SPDX-License-Identifier: Apache-2.0

#include "daemon/port/kernel_guard.hpp"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "daemon/base/address_text.hpp"
#include "tests/unit/port/namespace.hpp"

namespace softhca::port {
namespace {

const Gid kLoopback = Gid::from_ipv4(0x7f000001);

Gid loopback6() {
  Gid g;
  g.bytes[15] = 1;
  return g;
}

/// What a sender is told that connects to UDP port 4791 of 127.0.0.1 and sends: 0 or ECONNREFUSED
/// (from an ICMP port unreachable). Over loopback the answer comes before send() returns.
int error_after_sending() {
  const int fd = socket(AF_INET, SOCK_DGRAM, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(4791);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  EXPECT_EQ(send(fd, "x", 1, 0), 1);
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
  close(fd);
  return error;
}

/// The kernel tells of a carrier with some delay.
bool wait_until_running(const std::string& interface, bool running) {
  for (int i = 0; i < 5000 && interface_running(interface) != running; ++i) usleep(1000);
  return interface_running(interface) == running;
}

/// Each test in a thread, because a namespace belongs to a thread.
class KernelGuard : public testing::Test {
 protected:
  template <class F>
  void in_namespace(F body) {
    bool entered = false;
    std::thread([&] {
      entered = enter_new_namespace() && shell("ip link set lo up");
      if (entered) body();
    }).join();
    if (!entered) GTEST_SKIP() << "needs root to make a network namespace";
  }
};

TEST_F(KernelGuard, KeepsTheKernelFromAnsweringForUs) {
  in_namespace([] {
    EXPECT_EQ(error_after_sending(), ECONNREFUSED);
    {
      auto guard = guard_roce_port(kLoopback);
      ASSERT_TRUE(guard) << guard.error().message;
      EXPECT_EQ(error_after_sending(), 0);
      char byte;
      EXPECT_LT(recv(guard->fd(), &byte, 1, MSG_DONTWAIT), 0) << "nothing is queued";
    }
    EXPECT_EQ(error_after_sending(), ECONNREFUSED);
  });
}

TEST_F(KernelGuard, KeptSocket_OfTheAddress_GuardsOn) {
  in_namespace([] {
    UniqueFd kept;
    {
      auto guard = guard_roce_port(kLoopback);
      ASSERT_TRUE(guard) << guard.error().message;
      kept = UniqueFd(dup(guard->fd()));
    }
    EXPECT_EQ(error_after_sending(), 0);
    const int number = kept.get();
    auto next = guard_roce_port(kLoopback, "lo", std::move(kept));
    ASSERT_TRUE(next) << next.error().message;
    EXPECT_EQ(next->fd(), number);
    EXPECT_EQ(error_after_sending(), 0);
    auto other = guard_roce_port(Gid::from_ipv4(0x7f000009), "lo", UniqueFd(dup(next->fd())));
    ASSERT_TRUE(other) << other.error().message;
    EXPECT_TRUE(is_bound(other->fd(), Gid::from_ipv4(0x7f000009), 4791, 0));
  });
}

TEST_F(KernelGuard, GuardsIpv6Too) {
  in_namespace([] {
    auto guard = guard_roce_port(loopback6());
    EXPECT_TRUE(guard) << guard.error().message;
  });
}

TEST_F(KernelGuard, SaysWhenThePortIsTakenOrTheAddressIsNotTheKernels) {
  in_namespace([] {
    auto first = guard_roce_port(kLoopback);
    ASSERT_TRUE(first);
    auto second = guard_roce_port(kLoopback);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, EADDRINUSE);
    EXPECT_THAT(second.error().message, testing::HasSubstr("127.0.0.1"));
    auto foreign = guard_roce_port(Gid::from_ipv4(0xc0000201));
    ASSERT_FALSE(foreign);
    EXPECT_EQ(foreign.error().code, EADDRNOTAVAIL);
  });
}

TEST_F(KernelGuard, ReadsAnInterface) {
  in_namespace([] {
    ASSERT_TRUE(
        shell("ip link add va type veth peer name vb && ip link set va address "
              "02:00:00:00:00:0a mtu 4200 up && ip link set vb up"));
    ASSERT_TRUE(
        shell("ip addr add 192.0.2.1/24 dev va && ip addr add 2001:db8::1/64 dev va nodad && "
              "ip addr add 198.51.100.1/25 dev vb"));
    ASSERT_TRUE(wait_until_running("va", true));
    auto state = read_interface("va");
    ASSERT_TRUE(state) << state.error().message;
    EXPECT_GT(state->index, 0);
    EXPECT_EQ(state->mtu, 4200u);
    EXPECT_TRUE(state->running);
    EXPECT_EQ(state->mac, (MacAddress{{2, 0, 0, 0, 0, 10}}));
    std::vector<std::string> texts;
    for (const auto& a : state->addresses)
      if (!a.address.is_link_local())
        texts.push_back(address_text(a.address) + "/" + std::to_string(a.prefix_length));
    EXPECT_THAT(texts, testing::UnorderedElementsAre("192.0.2.1/24", "2001:db8::1/64"));
    ASSERT_TRUE(shell("ip link set vb down"));
    EXPECT_TRUE(wait_until_running("va", false));
  });
}

TEST(ReadInterface, NamesTheOneThatIsMissing) {
  for (const std::string name : {"nosuchif0", "", "a-name-longer-than-any-interface-may-have"}) {
    auto state = read_interface(name);
    ASSERT_FALSE(state);
    EXPECT_EQ(state.error().code, ENODEV);
    EXPECT_THAT(state.error().message, testing::HasSubstr(name));
    EXPECT_FALSE(interface_running(name));
  }
}

}  // namespace
}  // namespace softhca::port
