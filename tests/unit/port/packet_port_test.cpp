// SPDX-License-Identifier: Apache-2.0

// Ports on packet sockets for real: pairs of interfaces in network namespaces of their own.
#include "daemon/port/packet/packet_port.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "daemon/port/failover_port.hpp"
#include "daemon/port/kernel_guard.hpp"
#include "tests/emulated.hpp"
#include "tests/unit/port/frames.hpp"
#include "tests/unit/port/namespace.hpp"
#include "tests/unit/port/train_splitter.hpp"

namespace softhca::port {
namespace {

using Bytes = std::vector<std::byte>;
using PortPtr = std::unique_ptr<Port>;

PortPtr open(const std::string& interface, std::uint32_t mtu = 0) {
  auto port = PacketPort::open({.interface = interface, .mtu = mtu});
  EXPECT_TRUE(port) << port.error().message;
  return port ? std::move(*port) : nullptr;
}

/// Polls until `wanted` frames have come, or a generous number of seconds has gone by.
std::vector<Bytes> receive_until(Port& port, std::size_t wanted) {
  std::vector<Bytes> all;
  for (int i = 0; i < 5000 && all.size() < wanted; ++i) {
    auto some = receive_all(port);
    if (some.empty()) usleep(1000);
    for (auto& frame : some) all.push_back(std::move(frame));
  }
  return all;
}

template <class F>
bool eventually(F&& holds) {
  for (int i = 0; i < 5000 && !holds(); ++i) usleep(1000);
  return holds();
}

bool wait_for_link(const Port& port, bool up) {
  return eventually([&] { return port.link_up() == up; });
}

/// Forwards to a port that it does not own.
struct Through final : Port {
  explicit Through(Port& to) : port(to) {}
  std::size_t receive(std::span<Frame> out) override { return port.receive(out); }
  void release(std::span<const Frame> frames) override { port.release(frames); }
  Frame allocate() override { return port.allocate(); }
  void transmit(const Frame& frame) override { port.transmit(frame); }
  void flush() override { port.flush(); }
  MacAddress mac() const override { return port.mac(); }
  std::uint32_t mtu() const override { return port.mtu(); }
  bool link_up() const override { return port.link_up(); }
  PortCounters counters() const override { return port.counters(); }
  Port& port;
};

bool readable(int fd, int milliseconds) {
  pollfd p{fd, POLLIN, 0};
  return poll(&p, 1, milliseconds) == 1;
}

/// A train of the frames that udp_frame() would make, of which each but the last has `segment`
/// bytes.
class TestTrain {
 public:
  TestTrain(std::uint32_t packets, std::uint32_t segment, std::uint32_t last) {
    for (std::uint32_t i = 0; i < packets; ++i) {
      const std::size_t payload = i + 1 < packets ? segment : last;
      Bytes frame = udp_frame(i, payload);
      for (std::size_t at = 4; at < payload; ++at)
        frame[kTestRoceOffset + at] = std::byte(at * 7 + i);
      store_be(&frame[18], static_cast<std::uint16_t>(kFirst + i));
      make_packet_head({frame.data(), kTestRoceOffset}, 14, 0, payload);
      frames_.push_back(frame);
      // In two pieces each.
      const std::size_t half = payload / 2;
      pieces_.push_back({frames_.back().data() + kTestRoceOffset, half});
      pieces_.push_back({frames_.back().data() + kTestRoceOffset + half, payload - half});
      train_.bytes += static_cast<std::uint32_t>(payload);
    }
    head_.assign(frames_[0].begin(), frames_[0].begin() + kTestRoceOffset);
    make_packet_head(head_, 14, 0, train_.bytes);
    train_.head = head_;
    train_.network = 14;
    train_.pieces = pieces_;
    train_.segment = segment;
    train_.packets = packets;
  }
  const Train& train() const { return train_; }
  const std::vector<Bytes>& frames() const { return frames_; }

 private:
  static constexpr std::uint32_t kFirst = 65530;  // wraps
  std::vector<Bytes> frames_;
  std::vector<iovec> pieces_;
  Bytes head_;
  Train train_;
};

/// The same frames, whatever their UDP checksum: devices fill it in.
void expect_same(const std::vector<Bytes>& got, const std::vector<Bytes>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    Bytes frame = got[i];
    ASSERT_GE(frame.size(), kTestRoceOffset);
    store_be(&frame[kTestRoceOffset - 2], std::uint16_t{0});
    EXPECT_EQ(frame, wanted[i]) << i;
  }
}

class PacketPorts : public testing::Test {
 protected:
  void SetUp() override {
    if (!kernel_takes_packet_options())
      GTEST_SKIP() << "options of packet sockets do not reach the kernel";
  }
  /// Runs `body` in a namespace with a pair of interfaces va and vb.
  template <class Body>
  void on_veth(Body body, const std::string& set_up = "true", const std::string& mtu = "9000") {
    bool entered = false;
    std::thread([&] {
      entered = enter_new_namespace() &&
                shell("echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6; ip link add va mtu " +
                      mtu + " type veth peer name vb mtu " + mtu +
                      " && ip link set va up && ip link set vb up && " + set_up);
      if (entered) body();
    }).join();
    if (!entered) GTEST_SKIP() << "needs root to make a network namespace";
  }
  template <class Body>
  void between(Body body, const std::string& set_up = "true") {
    on_veth(
        [&] {
          auto a = open("va"), b = open("vb");
          ASSERT_TRUE(a && b && wait_for_link(*a, true) && wait_for_link(*b, true));
          body(*a, *b);
        },
        set_up);
  }
};

TEST_F(PacketPorts, CarryFramesOfEverySizeUpToTheLargest) {
  between([](Port& a, Port& b) {
    std::vector<Bytes> sent;
    for (std::size_t payload : {18u, 64u, 1000u, 1500u, 2048u, 3300u, 4096u, 4168u})
      sent.push_back(udp_frame(static_cast<std::uint32_t>(sent.size()), payload));
    for (const auto& frame : sent) ASSERT_TRUE(send_bytes(a, frame));
    a.flush();
    EXPECT_EQ(receive_until(b, sent.size()), sent);
    EXPECT_TRUE(receive_all(a).empty());
    EXPECT_EQ(a.counters().tx_frames, sent.size());
    EXPECT_EQ(b.counters().rx_frames, sent.size());
    EXPECT_EQ(b.counters().rx_bytes, a.counters().tx_bytes);
  });
}

TEST_F(PacketPorts, WithABackupGoOnByItWithoutACarrier) {
  on_veth(
      [&] {
        auto joined = FailoverPort::join({open("va"), open("vc")});
        auto first = open("vb"), second = open("vd");
        ASSERT_TRUE(joined && first && second);
        Port& port = **joined;
        ASSERT_TRUE(wait_for_link(*first, true) && wait_for_link(*second, true));
        const MacAddress mac = port.mac();
        const auto arrives_at = [&](Port& far) {
          const TestTrain train(3, 100, 50);
          port.trains()->transmit(train.train());
          port.flush();
          TrainSplitter apart((PortPtr(new Through(far))));
          expect_same(receive_until(apart, 3), train.frames());
        };
        EXPECT_FALSE(port.should_fail_over());
        arrives_at(*first);

        ASSERT_TRUE(send_bytes(*first, udp_frame(1)));
        first->flush();
        ASSERT_TRUE(readable(port.wait_fd(), 1000));
        ASSERT_TRUE(shell("ip link set vb down"));
        ASSERT_TRUE(eventually([&] { return port.should_fail_over(); }));
        EXPECT_TRUE(port.link_up());
        port.fail_over();
        EXPECT_EQ(port.link_in_use(), 1u);
        EXPECT_NE(port.mac(), mac);
        EXPECT_FALSE(port.should_fail_over());
        EXPECT_TRUE(receive_all(port).empty()) << "a frame of the first link";
        arrives_at(*second);

        // The first stays unused when it is back, and does not wake the engine.
        ASSERT_TRUE(shell("ip link set vb up") && wait_for_link(*first, true));
        EXPECT_FALSE(port.should_fail_over());
        ASSERT_TRUE(send_bytes(*first, udp_frame(2)));
        first->flush();
        EXPECT_TRUE(eventually([&] {
          port.prepare_sleep();
          return !readable(port.wait_fd(), 0);
        }));
        EXPECT_TRUE(receive_all(port).empty());

        ASSERT_TRUE(shell("ip link set vd down"));
        ASSERT_TRUE(eventually([&] { return port.should_fail_over(); }));
        port.fail_over();
        EXPECT_EQ(port.mac(), mac);
        arrives_at(*first);
        EXPECT_EQ(port.counters().tx_frames, 9u);
        EXPECT_EQ(port.counters().tx_trains, 3u);

        ASSERT_TRUE(shell("ip link set vb down"));
        EXPECT_TRUE(eventually([&] { return !port.link_up(); }));
        EXPECT_FALSE(port.should_fail_over());
      },
      "ip link add vc mtu 9000 type veth peer name vd mtu 9000 && ip link set vc up && "
      "ip link set vd up");
}

TEST_F(PacketPorts, HaveNoLinkOnceTheirInterfaceIsRemoved) {
  between([](Port& a, Port&) {
    ASSERT_TRUE(wait_for_link(a, true));
    ASSERT_TRUE(
        shell("ip link del va && ip link add va type veth peer name vb && "
              "ip link set va up && ip link set vb up"));
    ASSERT_TRUE(eventually([] { return interface_running("va"); }));
    EXPECT_FALSE(a.link_up());
  });
}

TEST_F(PacketPorts, CarryManyFramesBothWays) {
  between([](Port& a, Port& b) {
    std::uint32_t at_a = 0, at_b = 0;
    for (std::uint32_t i = 0; i < 20000; ++i) {
      ASSERT_TRUE(send_bytes(a, udp_frame(i, 256)) && send_bytes(b, udp_frame(i, 256)));
      if (i % 32 != 31) continue;
      a.flush();
      b.flush();
      for (auto [port, next] : {std::pair{&a, &at_a}, std::pair{&b, &at_b}})
        for (const auto& frame : receive_until(*port, 32))
          ASSERT_EQ(load_be<std::uint32_t>(&frame[kTestRoceOffset]), (*next)++);
    }
    EXPECT_EQ(at_a, 20000u);
    EXPECT_EQ(at_b, 20000u);
  });
}

TEST_F(PacketPorts, KeptSocket_FramesWhileNoPortIsOpen_ReceivedByTheNextPort) {
  on_veth([] {
    auto a = open("va"), b = open("vb");
    ASSERT_TRUE(a && b && wait_for_link(*a, true) && wait_for_link(*b, true));
    UniqueFd kept(::dup(b->wait_fd()));
    b.reset();
    const auto sent = udp_frame(1, 256);
    ASSERT_TRUE(send_bytes(*a, sent));
    a->flush();
    auto next = PacketPort::open({.interface = "vb"}, std::move(kept));
    ASSERT_TRUE(next) << next.error().message;
    EXPECT_EQ(receive_until(**next, 1), std::vector({sent}));
    ASSERT_TRUE(send_bytes(**next, sent));
    (*next)->flush();
    EXPECT_EQ(receive_until(*a, 1), std::vector({sent}));
  });
}

TEST_F(PacketPorts, KeptSocket_OfAnotherInterface_IsReplaced) {
  between([](Port& a, Port& b) {
    auto next = PacketPort::open({.interface = "vb"}, UniqueFd(::dup(a.wait_fd())));
    ASSERT_TRUE(next) << next.error().message;
    const auto sent = udp_frame(1, 256);
    ASSERT_TRUE(send_bytes(a, sent));
    a.flush();
    EXPECT_EQ(receive_until(**next, 1), std::vector({sent}));
    EXPECT_EQ(receive_until(b, 1), std::vector({sent}));
  });
}

TEST_F(PacketPorts, ReadTheInterfaceAndLeaveItAsItWas) {
  between([](Port& a, Port& b) {
    auto va = read_interface("va");
    ASSERT_TRUE(va);
    EXPECT_EQ(va->mtu, 9000u);
    EXPECT_EQ(va->mac, a.mac());
    EXPECT_FALSE(a.mac().is_zero());
    EXPECT_GE(a.mtu(), 4096u + 80);
    ASSERT_TRUE(shell("ip link set vb down"));
    EXPECT_TRUE(wait_for_link(a, false) && wait_for_link(b, false));
  });
}

TEST_F(PacketPorts, TakeTheMtuOfASmallInterfaceOrWhatIsAskedFor) {
  on_veth(
      [] {
        EXPECT_EQ(open("va")->mtu(), 1500u);
        EXPECT_EQ(open("va", 1200)->mtu(), 1200u);
      },
      "true", "1500");
}

TEST_F(PacketPorts, DropAndCountFramesThatAreTooLong) {
  between([](Port& a, Port& b) {
    ASSERT_TRUE(send_bytes(a, udp_frame(1, a.mtu() - 28)));
    ASSERT_TRUE(send_bytes(a, udp_frame(2, a.mtu() - 28 + 5)));
    ASSERT_TRUE(send_bytes(a, udp_frame(3)));
    a.flush();
    EXPECT_EQ(receive_until(b, 2).size(), 2u);
    EXPECT_EQ(a.counters().tx_dropped, 1u);
  });
}

TEST_F(PacketPorts, WakeASleeperAndOnlyWhenThereIsAReason) {
  between([](Port& a, Port& b) {
    ASSERT_GE(b.wait_fd(), 0);
    b.prepare_sleep();
    EXPECT_FALSE(readable(b.wait_fd(), 0));
    ASSERT_TRUE(send_bytes(a, udp_frame(0, 64, 53)));  // no RoCE
    ASSERT_TRUE(send_bytes(a, udp_frame(1)));
    a.flush();
    ASSERT_TRUE(readable(b.wait_fd(), 2000));
    EXPECT_EQ(receive_until(b, 1), std::vector<Bytes>{udp_frame(1)});
    EXPECT_FALSE(readable(b.wait_fd(), 0));
  });
}

TEST_F(PacketPorts, GoOnWhenTheInterfaceComesBack) {
  between([](Port& a, Port& b) {
    ASSERT_TRUE(shell("ip link set va down"));
    for (std::uint32_t i = 0; i < 500; ++i) {
      (void)send_bytes(a, udp_frame(i));
      a.flush();
      receive_all(a);
    }
    EXPECT_GT(a.counters().tx_dropped, 0u);
    ASSERT_TRUE(shell("ip link set va up"));
    ASSERT_TRUE(wait_for_link(a, true));
    const Bytes last = udp_frame(77777);
    bool arrived = false;
    for (int i = 0; i < 5000 && !arrived; ++i) {
      (void)send_bytes(a, last);
      a.flush();
      usleep(1000);
      for (const auto& frame : receive_all(b)) arrived |= frame == last;
    }
    EXPECT_TRUE(arrived);
  });
}

TEST_F(PacketPorts, SurviveTheRemovalOfTheirInterface) {
  between([](Port& a, Port& b) {
    ASSERT_TRUE(shell("ip link del va"));
    const TestTrain train(3, 100, 50);
    for (std::uint32_t i = 0; i < 300; ++i) {
      (void)send_bytes(a, udp_frame(i));
      a.trains()->transmit(train.train());
      a.flush();
      receive_all(a);
      receive_all(b);
    }
    EXPECT_TRUE(wait_for_link(a, false) && wait_for_link(b, false));
  });
}

TEST_F(PacketPorts, RunOutOfFramesAndRecover) {
  between([](Port& a, Port& b) {
    std::vector<Frame> all;
    while (Frame frame = a.allocate()) all.push_back(frame);
    EXPECT_GT(all.size(), 200u);
    EXPECT_GE(all.front().capacity, 4608u);
    a.release(all);
    ASSERT_TRUE(send_bytes(a, udp_frame(1)));
    a.flush();
    EXPECT_EQ(receive_until(b, 1).size(), 1u);
  });
}

TEST_F(PacketPorts, CountWhatFindsNoRoom) {
  between([](Port& a, Port& b) {
    const TestTrain train(15, 4112, 4112);
    for (std::uint32_t i = 0; i < 100000 && b.counters().rx_missed == 0; ++i) {
      a.trains()->transmit(train.train());
      a.flush();
    }
    EXPECT_GT(b.counters().rx_missed, 0u);
  });
}

TEST_F(PacketPorts, SayWhichInterfaceDoesNotOpen) {
  on_veth([] {
    const auto missing = PacketPort::open({.interface = "nosuchif0"});
    ASSERT_FALSE(missing);
    EXPECT_NE(missing.error().message.find("nosuchif0"), std::string::npos);
    const auto loopback = PacketPort::open({.interface = "lo"});
    ASSERT_FALSE(loopback);
    EXPECT_NE(loopback.error().message.find("Ethernet"), std::string::npos);
  });
}

// ---- VLAN

TEST_F(PacketPorts, LeaveVlanTagsInFrames) {
  between([](Port& a, Port& b) {
    Bytes tagged = udp_frame(5);
    tagged.insert(tagged.begin() + 12,
                  {std::byte{0x81}, std::byte{0}, std::byte{0x60}, std::byte{7}});
    ASSERT_TRUE(send_bytes(a, tagged));
    ASSERT_TRUE(send_bytes(a, udp_frame(6)));
    a.flush();
    EXPECT_EQ(receive_until(b, 2), (std::vector<Bytes>{tagged, udp_frame(6)}));
  });
}

// ---- trains

class Trains : public PacketPorts {
 protected:
  /// Sends trains of many shapes from va and expects their packets at vb.
  static void expect_carried(Port& a, Port& b) {
    TrainSplitter apart((PortPtr(new Through(b))));
    for (auto [packets, segment, last] : {std::array{1u, 64u, 64u},
                                          {2u, 100u, 100u},
                                          {15u, 4112u, 4112u},
                                          {15u, 4112u, 20u},
                                          {64u, 40u, 40u},
                                          {62u, 1040u, 24u},
                                          {3u, 4096u, 1u}}) {
      SCOPED_TRACE(testing::Message() << packets << " of " << segment << ", last " << last);
      const TestTrain train(packets, segment, last);
      a.trains()->transmit(train.train());
      a.flush();
      expect_same(receive_until(apart, packets), train.frames());
    }
  }
};

TEST_F(Trains, CrossAPairOfInterfacesInOneTrip) {
  between([](Port& a, Port& b) {
    expect_carried(a, b);
    EXPECT_EQ(a.counters().tx_trains, 6u);
    EXPECT_EQ(a.counters().trains_refused, 0u);
    EXPECT_EQ(a.counters().tx_frames, b.counters().rx_frames);
    EXPECT_EQ(b.counters().rx_trains, 6u);
  });
}

TEST_F(Trains, AreCutByTheKernelWhereADeviceTakesNone) {
  between(
      [](Port& a, Port& b) {
        expect_carried(a, b);
        EXPECT_EQ(b.counters().rx_trains, 0u);
        EXPECT_EQ(a.counters().trains_refused, 0u);
      },
      "ethtool -K va tx-udp-segmentation off");
}

TEST_F(Trains, AreSentWithoutChecksumOffload) {
  between([](Port& a, Port& b) { expect_carried(a, b); }, "ethtool -K va tx off");
}

TEST_F(Trains, CarryVlanTags) {
  between([](Port& a, Port& b) {
    const TestTrain plain(15, 1040, 24);
    Bytes head(plain.train().head.begin(), plain.train().head.end());
    const std::array tag{std::byte{0x81}, std::byte{0}, std::byte{0x60}, std::byte{7}};
    head.insert(head.begin() + 12, tag.begin(), tag.end());
    Train train = plain.train();
    train.head = head;
    train.network = 18;
    a.trains()->transmit(train);
    a.flush();
    std::vector<Bytes> wanted = plain.frames();
    TrainSplitter apart((PortPtr(new Through(b))));
    std::vector<Bytes> got = receive_until(apart, wanted.size());
    for (Bytes& frame : got) {
      ASSERT_TRUE(std::equal(tag.begin(), tag.end(), frame.begin() + 12));
      frame.erase(frame.begin() + 12, frame.begin() + 16);
    }
    expect_same(got, wanted);
  });
}

TEST_F(Trains, KeepTheirPlaceAmongFrames) {
  between([](Port& a, Port& b) {
    TrainSplitter apart((PortPtr(new Through(b))));
    const TestTrain train(3, 64, 64);
    ASSERT_TRUE(send_bytes(a, udp_frame(100)));
    a.trains()->transmit(train.train());
    ASSERT_TRUE(send_bytes(a, udp_frame(200)));
    a.flush();
    std::vector<Bytes> wanted = train.frames();
    wanted.insert(wanted.begin(), udp_frame(100));
    wanted.push_back(udp_frame(200));
    expect_same(receive_until(apart, 5), wanted);
  });
}

/// A socket that refuses what is longer than its buffer stands for a kernel that takes no trains.
TEST(RefusedTrains, GoPacketByPacket) {
  int ends[2];
  // It blocks: a packet that finds no room waits for the reader instead of being lost.
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends), 0);
  const UniqueFd near(ends[0]), far(ends[1]);
  const int least = 1;  // the kernel raises it to its minimum
  ASSERT_EQ(setsockopt(near.get(), SOL_SOCKET, SO_SNDBUF, &least, sizeof least), 0);
  TransmitQueue queue(near.get());
  EXPECT_GT(queue.limits().packets, 1u);
  const auto expect_frames = [&](const TestTrain& train) {
    queue.add(train.train());
    std::vector<Bytes> got;
    std::thread reader([&] {
      while (got.size() < train.frames().size()) {
        Bytes frame(65536);
        pollfd p{far.get(), POLLIN, 0};
        ASSERT_EQ(poll(&p, 1, 5000), 1);
        const ssize_t n = recv(far.get(), frame.data(), frame.size(), 0);
        ASSERT_GT(n, static_cast<ssize_t>(sizeof(Offload)));
        EXPECT_TRUE(std::all_of(frame.begin(), frame.begin() + sizeof(Offload),
                                [](std::byte b) { return b == std::byte{0}; }));
        got.emplace_back(frame.begin() + sizeof(Offload), frame.begin() + n);
      }
    });
    queue.flush();
    reader.join();
    expect_same(got, train.frames());
  };
  expect_frames(TestTrain(3, 2200, 600));
  EXPECT_EQ(queue.counters().refused.value(), 1u);
  EXPECT_EQ(queue.counters().trains.value(), 0u);
  EXPECT_EQ(queue.counters().frames.value(), 3u);
  EXPECT_EQ(queue.limits().packets, 1u) << "the caller makes no trains from now on";
  expect_frames(TestTrain(1, 100, 100));
  EXPECT_EQ(queue.counters().refused.value(), 1u);
}

}  // namespace
}  // namespace softhca::port
