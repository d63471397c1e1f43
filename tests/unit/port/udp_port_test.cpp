// SPDX-License-Identifier: Apache-2.0

// Ports on UDP sockets for real: on loopback addresses, and between network namespaces.
#include "daemon/port/udp/udp_port.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <future>
#include <thread>

#include "daemon/base/address_text.hpp"
#include "daemon/base/kernel_address.hpp"
#include "daemon/port/frame_kind.hpp"
#include "daemon/port/kernel_guard.hpp"
#include "daemon/port/packet/packet_port.hpp"
#include "tests/emulated.hpp"
#include "tests/unit/port/frames.hpp"
#include "tests/unit/port/namespace.hpp"

namespace softhca::port::udp_test {
namespace {

using Bytes = std::vector<std::byte>;
using PortPtr = std::unique_ptr<Port>;
using testing::HasSubstr;

constexpr std::size_t kNetwork = 14;

Gid ipv6(std::uint8_t network, std::uint8_t host) {
  Gid g;
  g.bytes[0] = 0xfd;
  g.bytes[1] = network;
  g.bytes[15] = host;
  return g;
}

const Gid kA = Gid::from_ipv4(0x7f000002), kB = Gid::from_ipv4(0x7f000003);
const Gid kA6 = ipv6(0x10, 2), kB6 = ipv6(0x10, 3);

PortPtr opened(Expected<PortPtr> port) {
  EXPECT_TRUE(port) << port.error().message;
  return port ? std::move(*port) : nullptr;
}

PortPtr open(const Gid& address, std::uint32_t mtu = 0) {
  return opened(UdpPort::open({.address = address, .mtu = mtu}));
}

std::string why_not(const Gid& address) {
  const auto port = UdpPort::open({.address = address});
  return port ? "opened" : port.error().message;
}

/// What stands in the headers of a packet besides addresses and lengths.
struct Marks {
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;
  std::uint16_t flow = 0;
};

/// The headers of a packet or train that `port` may send.
Bytes head_of(const Port& port, const Gid& from, const Gid& to, const Marks& marks = {}) {
  const std::size_t ip_length = from.is_ipv4() ? 20 : 40;
  Bytes head(kNetwork + ip_length + 8);
  std::byte* ip = &head[kNetwork];
  if (from.is_ipv4()) {
    store_be<std::uint16_t>(&head[12], 0x0800);
    ip[0] = std::byte{0x45};
    ip[1] = std::byte{marks.traffic_class};
    store_be<std::uint16_t>(ip + 6, 0x4000);
    ip[8] = std::byte{marks.hop_limit};
    ip[9] = std::byte{17};
    store_be(ip + 12, from.ipv4());
    store_be(ip + 16, to.ipv4());
  } else {
    store_be<std::uint16_t>(&head[12], 0x86dd);
    store_be(ip, std::uint32_t{6} << 28 | std::uint32_t{marks.traffic_class} << 20);
    ip[6] = std::byte{17};
    ip[7] = std::byte{marks.hop_limit};
    std::memcpy(ip + 8, from.bytes.data(), 16);
    std::memcpy(ip + 24, to.bytes.data(), 16);
  }
  store_be(ip + ip_length, port.kernel_headers()->source_port(marks.flow));
  store_be<std::uint16_t>(ip + ip_length + 2, 4791);
  return head;
}

/// Returns a packet with this head, the identification `index` and `bytes` bytes after the head.
Bytes packet(Bytes head, std::size_t bytes, std::size_t index = 0) {
  make_packet_head(head, kNetwork, index, bytes);
  for (std::size_t i = 0; i < bytes; ++i) head.push_back(std::byte(i * 7 + index));
  return head;
}

/// A train, and the packets that it makes.
class TestTrain {
 public:
  TestTrain(const Bytes& head, std::uint32_t packets, std::uint32_t segment, std::uint32_t last)
      : head_(head) {
    for (std::uint32_t i = 0; i < packets; ++i)
      packets_.push_back(packet(head, i + 1 < packets ? segment : last, i));
    for (Bytes& each : packets_) {
      // In two pieces each.
      const std::size_t half = (each.size() - head.size()) / 2;
      pieces_.push_back({each.data() + head.size(), half});
      pieces_.push_back({each.data() + head.size() + half, each.size() - head.size() - half});
      train_.bytes += static_cast<std::uint32_t>(each.size() - head.size());
    }
    make_packet_head(head_, kNetwork, 0, train_.bytes);
    train_.head = head_;
    train_.network = kNetwork;
    train_.pieces = pieces_;
    train_.segment = segment;
    train_.packets = packets;
  }
  const Train& train() const { return train_; }
  const std::vector<Bytes>& packets() const { return packets_; }

 private:
  Bytes head_;
  std::vector<Bytes> packets_;
  std::vector<iovec> pieces_;
  Train train_;
};

/// Polls until `wanted` frames have come, or a generous number of seconds has gone by. Trains are
/// taken apart.
std::vector<Bytes> receive_until(Port& port, std::size_t wanted) {
  std::vector<Bytes> all;
  for (int i = 0; i < 5000 && all.size() < wanted; ++i) {
    std::array<Frame, 64> frames;
    const std::size_t count = port.receive(frames);
    if (count == 0) usleep(1000);
    for (std::size_t k = 0; k < count; ++k) {
      const Frame& frame = frames[k];
      const std::size_t head = roce_offset(frame.bytes());
      const std::size_t segment = frame.segment != 0 ? frame.segment : frame.length - head;
      std::size_t index = 0;
      for (std::size_t at = head; at < frame.length; at += segment, ++index) {
        const std::size_t bytes = std::min(segment, frame.length - at);
        Bytes one(frame.data, frame.data + head);
        make_packet_head(one, kNetwork, index, bytes);
        one.insert(one.end(), frame.data + at, frame.data + at + bytes);
        all.push_back(std::move(one));
      }
    }
    port.release({frames.data(), count});
  }
  return all;
}

void send_packet(Port& port, const Bytes& bytes) {
  ASSERT_TRUE(send_bytes(port, bytes));
  port.flush();
}

void send_train(Port& port, const TestTrain& train) {
  port.trains()->transmit(train.train());
  port.flush();
}

bool readable(int fd, int milliseconds) {
  pollfd p{fd, POLLIN, 0};
  return poll(&p, 1, milliseconds) == 1;
}

/// Runs `body` in a network namespace of its own that has only the loopback interface.
class UdpPorts : public testing::Test {
 protected:
  void SetUp() override {
    if (!kernel_takes_udp_options())
      GTEST_SKIP() << "options of UDP sockets do not reach the kernel";
  }
  template <class Body>
  void on_loopback(Body body) {
    bool entered = false;
    std::thread([&] {
      entered = enter_new_namespace() &&
                shell(
                    "ip link set lo up && ip addr add fd10::2/64 dev lo nodad && "
                    "ip addr add fd10::3/64 dev lo nodad");
      if (entered) body();
    }).join();
    if (!entered) GTEST_SKIP() << "needs root to make a network namespace";
  }
  /// With a port at each of two loopback addresses, of IPv4 and then of IPv6.
  template <class Body>
  void between(Body body) {
    on_loopback([&] {
      for (const auto& [from, to] : {std::pair{kA, kB}, std::pair{kA6, kB6}}) {
        SCOPED_TRACE(address_text(from));
        auto a = open(from), b = open(to);
        ASSERT_TRUE(a && b);
        body(*a, from, *b, to);
      }
    });
  }
};

TEST_F(UdpPorts, CarryFramesOfEverySizeUpToTheLargest) {
  between([](Port& a, const Gid& from, Port& b, const Gid& to) {
    EXPECT_EQ(a.mtu(), 4590u);
    std::vector<Bytes> sent;
    for (std::size_t bytes : {16u, 64u, 1000u, 1500u, 2048u, 3300u, 4096u, 4168u})
      sent.push_back(packet(head_of(a, from, to), bytes));
    for (const auto& frame : sent) ASSERT_TRUE(send_bytes(a, frame));
    a.flush();
    EXPECT_EQ(receive_until(b, sent.size()), sent);
    EXPECT_TRUE(receive_all(a).empty());
    EXPECT_EQ(a.counters().tx_frames, sent.size());
    EXPECT_EQ(b.counters().rx_frames, sent.size());
    EXPECT_EQ(b.counters().rx_bytes, a.counters().tx_bytes);
  });
}

TEST_F(UdpPorts, CarryTrainsInOneTrip) {
  between([](Port& a, const Gid& from, Port& b, const Gid& to) {
    std::size_t all = 0;
    for (auto [packets, segment, last] : {std::array{1u, 64u, 64u},
                                          {2u, 100u, 100u},
                                          {15u, 4112u, 4112u},
                                          {15u, 4112u, 20u},
                                          {64u, 40u, 40u},
                                          {62u, 1040u, 24u},
                                          {3u, 4096u, 1u}}) {
      SCOPED_TRACE(testing::Message() << packets << " of " << segment << ", last " << last);
      const TestTrain train(head_of(a, from, to), packets, segment, last);
      send_train(a, train);
      EXPECT_EQ(receive_until(b, packets), train.packets());
      all += packets;
    }
    EXPECT_EQ(a.counters().tx_frames, all);
    EXPECT_EQ(a.counters().tx_trains, 6u);
    EXPECT_EQ(a.counters().trains_refused, 0u);
    EXPECT_EQ(b.counters().rx_frames, all);
    EXPECT_EQ(b.counters().rx_trains, 6u);
  });
}

TEST_F(UdpPorts, KeptSocket_PacketsWhileNoPortIsOpen_ReceivedByTheNextPort) {
  on_loopback([] {
    for (const auto& [from, to] : {std::pair{kA, kB}, std::pair{kA6, kB6}}) {
      SCOPED_TRACE(address_text(from));
      auto a = open(from), b = open(to);
      ASSERT_TRUE(a && b);
      UniqueFd kept(::dup(b->wait_fd()));
      b.reset();
      const Bytes sent = packet(head_of(*a, from, to), 64);
      send_packet(*a, sent);
      send_packet(*a, sent);
      EXPECT_EQ(a->counters().unreachable, 0u) << "the kernel did not answer";
      b = opened(UdpPort::open({.address = to}, std::move(kept)));
      ASSERT_TRUE(b);
      EXPECT_EQ(receive_until(*b, 2), std::vector({sent, sent}));
    }
  });
}

TEST_F(UdpPorts, KeptSocket_OfAnotherAddress_IsReplaced) {
  on_loopback([] {
    auto a = open(kA), b = open(kB);
    ASSERT_TRUE(a && b);
    UniqueFd kept(::dup(b->wait_fd()));
    b.reset();
    EXPECT_THAT(why_not(kB), HasSubstr("another RoCE implementation")) << "it still has the port";
    auto c = opened(UdpPort::open({.address = Gid::from_ipv4(0x7f000004)}, std::move(kept)));
    ASSERT_TRUE(c);
    const Bytes sent = packet(head_of(*a, kA, Gid::from_ipv4(0x7f000004)), 64);
    send_packet(*a, sent);
    EXPECT_EQ(receive_until(*c, 1), std::vector({sent}));
    EXPECT_TRUE(open(kB)) << "its port is free";
  });
}

TEST_F(UdpPorts, CarryTrafficClassesAndHopLimits) {
  between([](Port& a, const Gid& from, Port& b, const Gid& to) {
    std::vector<Bytes> sent;
    for (const Marks& marks : {Marks{.traffic_class = 0x02},
                               {.traffic_class = 0xb9, .hop_limit = 1},
                               {.traffic_class = 0xff, .hop_limit = 255},
                               {.traffic_class = 0x03, .hop_limit = 7}}) {
      sent.push_back(packet(head_of(a, from, to, marks), 64));
      send_packet(a, sent.back());
    }
    EXPECT_EQ(receive_until(b, sent.size()), sent);
    const TestTrain train(head_of(a, from, to, {.traffic_class = 0x03}), 4, 100, 100);
    send_train(a, train);
    EXPECT_EQ(receive_until(b, 4), train.packets());
  });
}

TEST_F(UdpPorts, KeepTheOrderOfAFlowAmongOthers) {
  between([](Port& a, const Gid& from, Port& b, const Gid& to) {
    std::array<std::vector<Bytes>, KernelHeaders::kFlows> sent, got;
    for (std::uint16_t i = 0; i < 400; ++i) {
      const std::uint16_t flow = i * 5 % 7;
      sent[flow].push_back(packet(head_of(a, from, to, {.flow = flow}), 16 + i));
      ASSERT_TRUE(send_bytes(a, sent[flow].back()));
      if (i % 40 == 39) a.flush();
    }
    const KernelHeaders& headers = *a.kernel_headers();
    const std::size_t source_port = kNetwork + (from.is_ipv4() ? 20 : 40);
    for (Bytes& frame : receive_until(b, 400))
      for (std::size_t flow = 0; flow < got.size(); ++flow)
        if (load_be<std::uint16_t>(&frame[source_port]) == headers.source_ports[flow])
          got[flow].push_back(frame);
    EXPECT_EQ(got, sent);
  });
}

TEST_F(UdpPorts, WakeASleeper) {
  between([](Port& a, const Gid& from, Port& b, const Gid& to) {
    ASSERT_GE(b.wait_fd(), 0);
    b.prepare_sleep();
    EXPECT_FALSE(readable(b.wait_fd(), 0));
    send_packet(a, packet(head_of(a, from, to), 64));
    EXPECT_TRUE(readable(b.wait_fd(), 2000));
    EXPECT_EQ(receive_until(b, 1).size(), 1u);
    EXPECT_FALSE(readable(b.wait_fd(), 0));
  });
}

TEST_F(UdpPorts, DropWhatTheyCannotSend) {
  between([](Port& a, const Gid& from, Port& b, const Gid& to) {
    Bytes foreign = head_of(a, from, to);
    foreign[foreign.size() - 8] = std::byte{0};  // port 0 to 255 is none of ours
    send_packet(a, packet(foreign, 64));
    Bytes other = head_of(a, from, to);
    store_be<std::uint16_t>(&other[other.size() - 6], 53);
    send_packet(a, packet(other, 64));
    send_packet(a, packet(head_of(a, from, to), a.mtu()));
    EXPECT_EQ(a.counters().tx_dropped, 3u);
    send_packet(a, packet(head_of(a, from, to), 64));
    EXPECT_EQ(receive_until(b, 1).size(), 1u);
    EXPECT_EQ(a.counters().tx_frames, 1u);
  });
}

TEST_F(UdpPorts, RunOutOfFramesAndRecover) {
  between([](Port& a, const Gid& from, Port& b, const Gid& to) {
    std::vector<Frame> all;
    while (Frame frame = a.allocate()) all.push_back(frame);
    EXPECT_GT(all.size(), 200u);
    EXPECT_GE(all.front().capacity, 4608u);
    a.release(all);
    send_packet(a, packet(head_of(a, from, to), 64));
    EXPECT_EQ(receive_until(b, 1).size(), 1u);
  });
}

TEST_F(UdpPorts, CountWhatFindsNoRoom) {
  between([](Port& a, const Gid& from, Port& b, const Gid& to) {
    const TestTrain train(head_of(a, from, to), 15, 4112, 4112);
    for (std::uint32_t i = 0; i < 100000 && b.counters().rx_missed == 0; ++i) send_train(a, train);
    EXPECT_GT(b.counters().rx_missed, 0u);
  });
}

/// What ICMP tells of one packet must not take the place of the next.
TEST_F(UdpPorts, CountWhatDoesNotArriveAndLoseNothingElse) {
  between([](Port& a, const Gid& from, Port& b, const Gid& to) {
    (void)shell("ip addr add fd10::9/64 dev lo nodad");
    Gid nobody = to;
    nobody.bytes[15] = 9;  // the host's, too, but no port is open there
    const Bytes lost = packet(head_of(a, from, nobody), 64);
    const Bytes kept = packet(head_of(a, from, to), 64);
    constexpr std::size_t kRounds = 40;
    for (std::size_t i = 0; i < kRounds; ++i) {
      ASSERT_TRUE(send_bytes(a, lost) && send_bytes(a, kept));
      a.flush();
    }
    EXPECT_EQ(receive_until(b, kRounds), std::vector<Bytes>(kRounds, kept));
    send_packet(a, kept);
    EXPECT_GT(a.counters().unreachable, 0u);
    EXPECT_LE(a.counters().unreachable, kRounds);
    EXPECT_EQ(a.counters().path_too_narrow, 0u);
    EXPECT_EQ(a.counters().tx_dropped, 0u);
  });
}

TEST_F(UdpPorts, CountWhatIsTooLongForALinkAndGoOnWithTrains) {
  on_loopback([] {
    ASSERT_TRUE(shell("ip link set lo mtu 1500"));
    for (const auto& [from, to] : {std::pair{kA, kB}, std::pair{kA6, kB6}}) {
      auto a = open(from, 9000), b = open(to);
      ASSERT_TRUE(a && b);
      EXPECT_EQ(b->mtu(), 1500u);
      EXPECT_EQ(a->mtu(), 4590u) << "as if the narrow link were elsewhere";
      const TestTrain wide(head_of(*a, from, to), 4, 2048, 2048);
      send_train(*a, wide);
      send_packet(*a, wide.packets().front());
      EXPECT_EQ(a->counters().tx_dropped, 5u);
      EXPECT_GE(a->counters().path_too_narrow, 2u);
      EXPECT_EQ(a->counters().trains_refused, 0u);
      const TestTrain train(head_of(*a, from, to), 4, 1040, 1040);
      send_train(*a, train);
      EXPECT_EQ(receive_until(*b, 4), train.packets());
      EXPECT_EQ(a->counters().tx_trains, 1u);
    }
  });
}

/// Sends `count` ICMP messages to the sender of `packet`. Each comes from a router with a link MTU
/// of 1400 bytes, and says that such a packet was too long.
void say_too_long(const Bytes& packet, std::size_t count) {
  Bytes icmp(8);
  icmp[0] = std::byte{3};  // destination unreachable,
  icmp[1] = std::byte{4};  // since fragmentation is needed (RFC 1191 4)
  store_be<std::uint16_t>(&icmp[6], 1400);
  icmp.insert(icmp.end(), packet.begin() + kNetwork, packet.begin() + kNetwork + 20 + 8);
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < icmp.size(); i += 2) sum += load_be<std::uint16_t>(&icmp[i]);
  sum = (sum & 0xffff) + (sum >> 16);
  store_be(&icmp[2], static_cast<std::uint16_t>(~(sum + (sum >> 16))));
  const UniqueFd raw(socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP));
  const KernelAddress to =
      kernel_address(Gid::from_ipv4(load_be<std::uint32_t>(&packet[kNetwork + 12])), 0);
  for (std::size_t i = 0; i < count; ++i)
    ASSERT_EQ(sendto(raw.get(), icmp.data(), icmp.size(), 0, to.get(), to.length),
              static_cast<ssize_t>(icmp.size()));
}

/// Sends more ICMP messages than one flush reads. No packet sent afterwards may be lost, and the
/// port must still send trains.
TEST_F(UdpPorts, GoOnWithTrainsWhateverIcmpTells) {
  on_loopback([] {
    const auto a = open(kA), b = open(kB);
    ASSERT_TRUE(a && b);
    const TestTrain train(head_of(*a, kA, kB), 4, 1040, 1040);
    for (int i = 0; i < 3; ++i) {
      say_too_long(train.packets().front(), 120);
      send_train(*a, train);
      EXPECT_EQ(receive_until(*b, 4), train.packets());
    }
    EXPECT_GT(a->counters().path_too_narrow, 64u);
    EXPECT_EQ(a->counters().tx_trains, 3u);
    EXPECT_EQ(a->counters().trains_refused, 0u);
    EXPECT_EQ(a->counters().tx_dropped, 0u);
  });
}

TEST_F(UdpPorts, SayWhyTheyDoNotOpen) {
  on_loopback([] {
    EXPECT_THAT(why_not(Gid::from_ipv4(0xc0000201)),
                HasSubstr("no interface of this host has the address"));
    EXPECT_THAT(why_not(Gid::from_ipv4(0xc0000201)), HasSubstr("192.0.2.1"));
    EXPECT_THAT(why_not(ipv6(0x11, 1)), HasSubstr("fd11::1"));
    auto first = open(kA);
    EXPECT_THAT(why_not(kA), HasSubstr("UDP port 4791 of 127.0.0.2"));
    EXPECT_THAT(why_not(kA), HasSubstr("another RoCE implementation uses it"));
    EXPECT_TRUE(open(kB)) << "each address has a port 4791 of its own";
    first.reset();
    EXPECT_TRUE(open(kA));
  });
}

/// The identity of a thread, without all others' as setresuid() of the C library.
TEST_F(UdpPorts, NeedNoPrivilege) {
  on_loopback([] {
    ASSERT_EQ(syscall(SYS_setresuid, 65534, 65534, 65534), 0);
    ASSERT_EQ(socket(AF_PACKET, SOCK_RAW, 0), -1);
    auto a = open(kA), b = open(kB);
    ASSERT_TRUE(a && b);
    const TestTrain train(head_of(*a, kA, kB), 15, 4112, 4112);
    send_train(*a, train);
    EXPECT_EQ(receive_until(*b, 15), train.packets());
  });
}

// ---- between hosts

const Gid kNear = Gid::from_ipv4(0x0a4d0001), kFar = Gid::from_ipv4(0x0a4d0002);
const Gid kNear6 = ipv6(0x77, 1), kFar6 = ipv6(0x77, 2);

/// Two network namespaces joined by a pair of interfaces, va here and vb there.
class UdpPortsOfHosts : public testing::Test {
 protected:
  void SetUp() override {
    if (!kernel_takes_udp_options())
      GTEST_SKIP() << "options of UDP sockets do not reach the kernel";
  }
  /// Runs `body(there)` in one of them; `there(work)` runs `work` in the other one.
  template <class Body>
  void on_hosts(Body body) {
    std::promise<pid_t> other;
    std::promise<void> done;
    std::function<void()> work;
    std::atomic<int> state = 0;  // 1: there is work, 2: all is done
    bool entered = false;
    std::thread far([&] {
      const bool in = enter_new_namespace() && shell("ip link set lo up");
      other.set_value(in ? gettid() : 0);
      for (; state != 2; usleep(100))
        if (state == 1) {
          work();
          state = 0;
        }
    });
    const auto there = [&](std::function<void()> what) {
      work = std::move(what);
      for (state = 1; state == 1;) usleep(100);
    };
    std::thread([&] {
      const pid_t tid = other.get_future().get();
      bool set_up = false;
      entered = tid != 0 && enter_new_namespace() &&
                shell(
                    "ip link set lo up && ip link add va mtu 9000 type veth peer name vb mtu 9000 "
                    "&& ip link set vb netns " +
                    std::to_string(tid) +
                    " && ip addr add 10.77.0.1/24 dev va && ip addr add fd77::1/64 dev va nodad "
                    "&& ip link set va up");
      if (entered)
        there([&] {
          set_up = shell(
              "ip addr add 10.77.0.2/24 dev vb && ip addr add fd77::2/64 dev vb nodad "
              "&& ip link set vb up");
        });
      entered = entered && set_up;
      for (int i = 0; entered && i < 5000 && !interface_running("va"); ++i) usleep(1000);
      if (entered) body(there);
    }).join();
    state = 2;
    far.join();
    if (!entered) GTEST_SKIP() << "needs root to make network namespaces";
  }
};

TEST_F(UdpPortsOfHosts, SpeakToEachOther) {
  on_hosts([](const auto& there) {
    for (const auto& [near, far] : {std::pair{kNear, kFar}, std::pair{kNear6, kFar6}}) {
      SCOPED_TRACE(address_text(near));
      PortPtr a = open(near), b;
      there([&, peer = far] { b = open(peer); });
      ASSERT_TRUE(a && b);
      EXPECT_TRUE(a->link_up());
      EXPECT_EQ(a->mac(), read_interface("va")->mac);
      const Bytes first = packet(head_of(*a, near, far), 64);
      send_packet(*a, first);
      EXPECT_EQ(receive_until(*b, 1), std::vector<Bytes>{first});
      const TestTrain train(head_of(*b, far, near), 15, 4112, 4112);
      send_train(*b, train);
      EXPECT_EQ(receive_until(*a, 15), train.packets());
      EXPECT_EQ(a->counters().rx_trains, 1u);
    }
    ASSERT_TRUE(shell("ip link set va down"));
  });
}

/// What the ICRC covers is what the kernel writes: the frames as a packet socket sees them.
TEST_F(UdpPortsOfHosts, HaveTheKernelWriteTheHeadersThatTheySay) {
  if (!shell("ethtool --version")) GTEST_SKIP() << "ethtool is not installed";
  on_hosts([](const auto& there) {
    // The kernel cuts trains before the link; they would cross it whole.
    ASSERT_TRUE(shell("ethtool -K va tx-udp-segmentation off"));
    PortPtr seen;
    there([&] { seen = opened(PacketPort::open({.interface = "vb"})); });
    ASSERT_TRUE(seen);
    // RoCE alone, without link addresses and flow labels.
    const auto next = [&](std::size_t count) {
      std::vector<Bytes> all;
      for (int i = 0; i < 5000 && all.size() < count; ++i) {
        for (Bytes& frame : receive_all(*seen)) {
          const std::size_t at = roce_offset(frame);
          if (at == 0) continue;
          std::fill(frame.begin(), frame.begin() + 12, std::byte{0});
          store_be(&frame[at - 2], std::uint16_t{0});  // UDP checksum
          if ((frame[kNetwork] >> 4) == std::byte{6})
            store_be(&frame[kNetwork], load_be<std::uint32_t>(&frame[kNetwork]) & 0xfff00000);
          all.push_back(std::move(frame));
        }
        usleep(1000);
      }
      return all;
    };
    for (const auto& [near, far] : {std::pair{kNear, kFar}, std::pair{kNear6, kFar6}}) {
      SCOPED_TRACE(address_text(near));
      const PortPtr a = open(near);
      ASSERT_TRUE(a);
      for (int i = 0; i < 3; ++i) {
        const Marks marks{.traffic_class = 0x60, .hop_limit = 33, .flow = 3};
        const Bytes one = packet(head_of(*a, near, far, marks), 64);
        send_packet(*a, one);
        const TestTrain train(head_of(*a, near, far, marks), 20, 1040, 500);
        send_train(*a, train);
        std::vector<Bytes> wanted = train.packets();
        wanted.insert(wanted.begin(), one);
        EXPECT_EQ(next(21), wanted) << "identification from 0, don't fragment, no other header";
      }
    }
  });
}

TEST_F(UdpPortsOfHosts, SpeakToPacketSockets) {
  on_hosts([](const auto& there) {
    const PortPtr a = open(kNear);
    PortPtr b;
    there([&] { b = opened(PacketPort::open({.interface = "vb"})); });
    ASSERT_TRUE(a && b);
    const MacAddress va = read_interface("va")->mac;
    const auto from_b = [&](Bytes frame) {
      std::memcpy(frame.data(), va.bytes.data(), 6);
      std::memcpy(frame.data() + 6, b->mac().bytes.data(), 6);
      return frame;
    };
    // No socket has this source port; any port works.
    Bytes head = head_of(*a, kFar, kNear, {.traffic_class = 0x02, .hop_limit = 9});
    store_be<std::uint16_t>(&head[head.size() - 8], 0xc123);
    ASSERT_TRUE(send_bytes(*b, from_b(packet(head, 64))));
    b->flush();
    EXPECT_EQ(receive_until(*a, 1), std::vector<Bytes>{packet(head, 64)});
    TestTrain train(from_b(head), 14, 4112, 300);
    b->trains()->transmit(train.train());
    b->flush();
    std::vector<Bytes> wanted = train.packets();
    for (Bytes& each : wanted) std::fill(each.begin(), each.begin() + 12, std::byte{0});
    EXPECT_EQ(receive_until(*a, 14), wanted);
    EXPECT_EQ(a->counters().rx_trains, 1u);
  });
}

/// RoCE packets of other senders have no UDP checksum, over IPv6 either.
TEST_F(UdpPortsOfHosts, TakePacketsOfIpv6WithoutChecksum) {
  on_hosts([](const auto& there) {
    const PortPtr a = open(kNear6);
    PortPtr b;
    there([&] { b = opened(PacketPort::open({.interface = "vb"})); });
    ASSERT_TRUE(a && b);
    Bytes frame = packet(head_of(*a, kFar6, kNear6), 64);
    const Bytes wanted = frame;
    std::memcpy(frame.data(), read_interface("va")->mac.bytes.data(), 6);
    ASSERT_TRUE(send_bytes(*b, frame));
    b->flush();
    EXPECT_EQ(receive_until(*a, 1), std::vector<Bytes>{wanted});
  });
}

}  // namespace
}  // namespace softhca::port::udp_test
