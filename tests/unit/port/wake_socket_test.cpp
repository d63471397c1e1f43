// SPDX-License-Identifier: Apache-2.0

#include "daemon/port/wake_socket.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "tests/emulated.hpp"
#include "tests/unit/port/frames.hpp"
#include "tests/unit/port/namespace.hpp"

namespace softhca::port {
namespace {

using Bytes = std::vector<std::byte>;

bool readable(const WakeSocket& wake, int milliseconds = 0) {
  pollfd p{wake.fd(), POLLIN, 0};
  return poll(&p, 1, milliseconds) == 1;
}

/// Sends raw frames into the other end of a veth pair.
struct Sender {
  explicit Sender(const char* interface) : fd(socket(AF_PACKET, SOCK_RAW, 0)) {
    to.sll_family = AF_PACKET;
    to.sll_ifindex = static_cast<int>(if_nametoindex(interface));
  }
  ~Sender() { close(fd); }
  void send(const Bytes& frame) {
    EXPECT_EQ(
        sendto(fd, frame.data(), frame.size(), 0, reinterpret_cast<sockaddr*>(&to), sizeof to),
        static_cast<ssize_t>(frame.size()));
  }
  int fd;
  sockaddr_ll to{};
};

Bytes of_type(std::uint16_t ether_type) {
  Bytes frame(60);
  store_be(&frame[12], ether_type);
  return frame;
}

Bytes ipv6(std::uint8_t next_header, std::uint16_t port) {
  Bytes frame = of_type(ETHERTYPE_IPV6);
  frame.resize(14 + 40 + 20);
  frame[14] = std::byte{0x60};
  frame[14 + 6] = std::byte{next_header};
  store_be(&frame[14 + 40 + 2], port);
  return frame;
}

Bytes with_ip_options(std::uint16_t port) {
  Bytes frame = udp_frame(1, 64, port);
  frame.insert(frame.begin() + 34, 8, std::byte{1});
  frame[14] = std::byte{0x47};
  return frame;
}

class Wake : public testing::Test {
 protected:
  void SetUp() override {
    if (!kernel_takes_packet_options())
      GTEST_SKIP() << "options of packet sockets do not reach the kernel";
  }
  template <class F>
  void on_veth(F body) {
    bool entered = false;
    std::thread([&] {
      entered = enter_new_namespace() &&
                shell(
                    "echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6; ip link add va type "
                    "veth peer name vb && ip link set va up && ip link set vb up");
      if (!entered) return;
      auto wake = WakeSocket::open(static_cast<int>(if_nametoindex("va")));
      ASSERT_TRUE(wake) << wake.error().message;
      Sender sender("vb");
      body(*wake, sender);
    }).join();
    if (!entered) GTEST_SKIP() << "needs root to make a network namespace";
  }
};

TEST_F(Wake, WakesForTheFramesTheEngineHandles) {
  on_veth([](WakeSocket& wake, Sender& sender) {
    EXPECT_FALSE(readable(wake));
    for (const Bytes& frame : {udp_frame(1), with_ip_options(4791), of_type(ETHERTYPE_ARP),
                               ipv6(17, 4791), ipv6(58, 0)}) {
      sender.send(frame);
      EXPECT_TRUE(readable(wake, 2000));
      wake.drain();
      EXPECT_FALSE(readable(wake));
    }
  });
}

TEST_F(Wake, SleepsThroughTheRest) {
  on_veth([](WakeSocket& wake, Sender& sender) {
    Bytes tcp = udp_frame(1);
    tcp[14 + 9] = std::byte{6};
    for (const Bytes& frame : {udp_frame(1, 64, 53), with_ip_options(53), tcp, of_type(0x88cc),
                               ipv6(17, 53), ipv6(6, 4791)})
      sender.send(frame);
    sender.send(of_type(ETHERTYPE_ARP));  // a marker: what went before has been seen by then
    ASSERT_TRUE(readable(wake, 2000));
    wake.drain();
    EXPECT_FALSE(readable(wake));
  });
}

TEST_F(Wake, DrainsAnyNumberAndPokesItself) {
  on_veth([](WakeSocket& wake, Sender& sender) {
    for (int i = 0; i < 10000; ++i) sender.send(udp_frame(1));
    ASSERT_TRUE(readable(wake, 2000));
    wake.drain();
    EXPECT_FALSE(readable(wake));
    wake.poke();
    wake.poke();
    EXPECT_TRUE(readable(wake));
    wake.drain();
    EXPECT_FALSE(readable(wake));
  });
}

TEST_F(Wake, OutlivesItsInterface) {
  on_veth([](WakeSocket& wake, Sender&) {
    ASSERT_TRUE(shell("ip link set va down"));
    wake.drain();
    ASSERT_TRUE(shell("ip link del va"));
    wake.drain();
    wake.poke();
    EXPECT_TRUE(readable(wake));
  });
}

TEST_F(Wake, RefusesAnInterfaceThatIsNotThere) {
  if (geteuid() != 0) GTEST_SKIP() << "needs CAP_NET_RAW";
  auto wake = WakeSocket::open(0x7ffffff0);
  ASSERT_FALSE(wake);
  EXPECT_EQ(wake.error().code, ENODEV);
}

}  // namespace
}  // namespace softhca::port
