// SPDX-License-Identifier: Apache-2.0

// DPDK ports for real: software devices, in processes and network namespaces of their own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <thread>

#include "daemon/port/dpdk/eal.hpp"
#include "daemon/port/dpdk/open.hpp"
#include "daemon/port/kernel_guard.hpp"
#include "tests/emulated.hpp"
#include "tests/unit/port/child.hpp"
#include "tests/unit/port/frames.hpp"
#include "tests/unit/port/namespace.hpp"

// A child process cannot fail the test, so a failed check ends the body with its text.
#define REQUIRE(what)                                                                      \
  do {                                                                                     \
    if (!(what)) return std::string(__FILE__ ":") + std::to_string(__LINE__) + ": " #what; \
  } while (false)

namespace softhca::port {
namespace {

using Bytes = std::vector<std::byte>;
using PortPtr = std::unique_ptr<Port>;

/// For devices without a link address of their own.
constexpr MacAddress kMac{{2, 0, 0, 0, 0, 7}};

/// Starts DPDK and opens the devices. Returns no ports if one of them fails; `why` says why.
std::vector<PortPtr> open_all(const std::vector<std::string>& devices, std::string& why) {
  std::vector<PortPtr> ports;
  auto eal = start_eal({.memory_mib = 128, .log = [](std::string_view) {}});
  if (!eal) why = eal.error().message;
  for (const auto& device : devices) {
    auto port = open_dpdk_port({.device = device, .buffers = 2048, .mac = kMac});
    if (!port) {
      why = port.error().message;
      return {};
    }
    ports.push_back(std::move(*port));
  }
  return ports;
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

bool wait_for_link(const Port& port, bool up) {
  for (int i = 0; i < 5000 && port.link_up() != up; ++i) usleep(1000);
  return port.link_up() == up;
}

bool readable(int fd, int milliseconds) {
  pollfd p{fd, POLLIN, 0};
  return poll(&p, 1, milliseconds) == 1;
}

/// Transmits a frame as a packet in pieces of these sizes behind the headers, and one with the
/// rest. They lie in `frame` until flush().
void send_pieces(Port& port, const Bytes& frame, std::initializer_list<std::size_t> sizes) {
  auto* at = const_cast<std::byte*>(frame.data()) + kTestRoceOffset;
  std::size_t left = frame.size() - kTestRoceOffset;
  std::vector<iovec> pieces;
  for (const std::size_t size : sizes) {
    if (size >= left) break;
    pieces.push_back({at, size});
    at += size;
    left -= size;
  }
  pieces.push_back({at, left});
  const auto bytes = static_cast<std::uint32_t>(frame.size() - kTestRoceOffset);
  port.trains()->transmit({.head = {frame.data(), kTestRoceOffset},
                           .network = 14,
                           .pieces = pieces,
                           .bytes = bytes,
                           .segment = bytes,
                           .packets = 1});
}

// ---- the EAL

TEST(Eal, StartsOnceAndLeavesTheThreadItsProcessors) {
  EXPECT_EQ(run_in_child([]() -> std::string {
              cpu_set_t before, after;
              sched_getaffinity(0, sizeof before, &before);
              const bool early = static_cast<bool>(open_dpdk_port({.device = "net_null0"}));
              REQUIRE(!early);
              REQUIRE(start_eal({.memory_mib = 64}));
              REQUIRE(eal_started());
              sched_getaffinity(0, sizeof after, &after);
              REQUIRE(CPU_EQUAL(&before, &after));
              auto again = start_eal({});
              REQUIRE(!again && again.error().code == EALREADY);
              return {};
            }),
            "");
}

TEST(Eal, NeedsNoPrivilegeNorLeavesFilesBehind) {
  const std::string home = testing::TempDir() + "eal-" + std::to_string(getpid());
  std::filesystem::create_directory(home);
  std::filesystem::permissions(home, std::filesystem::perms::all);
  EXPECT_EQ(run_in_child([&]() -> std::string {
              setenv("RUNTIME_DIRECTORY", home.c_str(), 1);
              if (geteuid() == 0) REQUIRE(setgid(65534) == 0 && setuid(65534) == 0);
              std::string why;
              auto ports = open_all({"net_null0"}, why);
              if (ports.empty()) return why;
              REQUIRE(send_bytes(*ports[0], udp_frame(1)));
              ports[0]->flush();
              REQUIRE(ports[0]->counters().tx_frames == 1);
              for (const auto& file : std::filesystem::recursive_directory_iterator(home))
                REQUIRE(file.is_directory());
              return {};
            }),
            "");
  std::filesystem::remove_all(home);
}

TEST(Eal, LogsGoWhereTheyAreSent) {
  EXPECT_EQ(run_in_child([]() -> std::string {
              static std::vector<std::string> lines;
              REQUIRE(start_eal(
                  {.memory_mib = 64, .log = [](std::string_view l) { lines.emplace_back(l); }}));
              REQUIRE(!open_dpdk_port({.device = "net_nonsense0"}));
              REQUIRE(!lines.empty());
              for (const auto& line : lines) REQUIRE(line.find('\n') == line.npos && !line.empty());
              return {};
            }),
            "");
}

// ---- any device

TEST(DpdkPort, SaysWhichDeviceDoesNotStart) {
  EXPECT_EQ(run_in_child([]() -> std::string {
              REQUIRE(start_eal({.memory_mib = 128, .log = [](std::string_view) {}}));
              for (const char* wrong :
                   {"net_nonsense0", "iface=nosuchif0", "0000:ff:1f.7", "net_null0,bad=1",
                    "net_memif0,role=server,socket=/nonexistent/x.sock"}) {
                auto port = open_dpdk_port({.device = wrong});
                if (port) return std::string("opened ") + wrong;
                if (port.error().message.find(wrong) == std::string::npos)
                  return port.error().message;
              }
              auto small = open_dpdk_port({.device = "net_null1", .buffers = 1000000});
              REQUIRE(!small && small.error().message.find("memory") != std::string::npos);
              auto one = open_dpdk_port({.device = "net_null1", .buffers = 1024});
              REQUIRE(one);
              auto same = open_dpdk_port({.device = "net_null1", .buffers = 1024});
              REQUIRE(!same && same.error().code == EEXIST);
              one->reset();
              REQUIRE(open_dpdk_port({.device = "net_null1", .buffers = 1024}));
              return {};
            }),
            "");
}

TEST(DpdkPort, OpensAndClosesManyTimesWithoutLosingMemory) {
  EXPECT_EQ(run_in_child([]() -> std::string {
              REQUIRE(start_eal({.memory_mib = 64}));
              for (int i = 0; i < 20; ++i) {
                auto port = open_dpdk_port({.device = "net_null0", .buffers = 4096});
                if (!port) return std::to_string(i) + ": " + port.error().message;
              }
              return {};
            }),
            "");
}

TEST(DpdkPort, RunsOutOfBuffersAndRecovers) {
  EXPECT_EQ(run_in_child([]() -> std::string {
              std::string why;
              auto ports = open_all({"net_null0"}, why);
              if (ports.empty()) return why;
              Port& port = *ports[0];
              std::vector<Frame> all;
              while (Frame frame = port.allocate()) all.push_back(frame);
              REQUIRE(all.size() > 500);
              REQUIRE(all.front().capacity >= 4608);
              port.release(all);
              REQUIRE(send_bytes(port, udp_frame(1)));
              return {};
            }),
            "");
}

TEST(DpdkPort, WorksFromAnotherThreadThanTheOneThatOpenedIt) {
  EXPECT_EQ(run_in_child([]() -> std::string {
              std::string why;
              auto ports = open_all({"net_null0,size=128"}, why);
              if (ports.empty()) return why;
              std::size_t got = 0;
              std::thread([&] { got = receive_all(*ports[0]).size(); }).join();
              REQUIRE(got == 64);
              return {};
            }),
            "");
}

// ---- af_packet on a veth pair

class AfPacket : public testing::Test {
 protected:
  void SetUp() override {
    if (!kernel_takes_packet_options())
      GTEST_SKIP() << "options of packet sockets do not reach the kernel";
  }
  /// Runs `body` with a port on each end of a veth pair with an MTU of 9000.
  static std::string on_veth(const std::function<std::string(Port&, Port&)>& body) {
    return run_in_child([&]() -> std::string {
      if (!enter_new_namespace()) return kUnprivileged;
      REQUIRE(
          shell("echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6; ip link add va mtu 9000 "
                "type veth peer name vb mtu 9000 && ip link set va up && ip link set vb up"));
      std::string why;
      auto ports = open_all({"iface=va", "iface=vb"}, why);
      return ports.empty() ? why : body(*ports[0], *ports[1]);
    });
  }
  static constexpr const char* kUnprivileged = "unprivileged";
};

#define EXPECT_OK(result)                                                         \
  do {                                                                            \
    const std::string r = (result);                                               \
    if (r == kUnprivileged) GTEST_SKIP() << "needs root for a network namespace"; \
    EXPECT_EQ(r, "");                                                             \
  } while (false)

TEST_F(AfPacket, CarriesFramesOfEverySizeUpToTheLargest) {
  EXPECT_OK(on_veth([](Port& a, Port& b) -> std::string {
    std::vector<Bytes> sent;
    for (std::size_t payload : {18u, 64u, 1000u, 1500u, 2048u, 3300u, 4096u, 4168u})
      sent.push_back(udp_frame(static_cast<std::uint32_t>(sent.size()), payload));
    for (const auto& frame : sent) REQUIRE(send_bytes(a, frame));
    a.flush();
    REQUIRE(receive_until(b, sent.size()) == sent);
    REQUIRE(receive_all(a).empty());
    REQUIRE(a.counters().tx_frames == sent.size() && b.counters().rx_frames >= sent.size());
    return {};
  }));
}

TEST_F(AfPacket, GathersPacketsFromPieces) {
  EXPECT_OK(on_veth([](Port& a, Port& b) -> std::string {
    REQUIRE(a.trains() != nullptr && a.trains()->limits().packets == 1);
    std::vector<Bytes> sent;
    for (std::size_t payload : {18u, 511u, 513u, 2048u, 4168u}) {
      for (int shape = 0; shape < 4; ++shape) {
        Bytes frame = udp_frame(static_cast<std::uint32_t>(sent.size()), payload);
        for (std::size_t i = kTestRoceOffset + 4; i < frame.size(); ++i)
          frame[i] = std::byte(i * 7 + sent.size());
        sent.push_back(frame);
      }
    }
    for (std::size_t i = 0; i < sent.size(); i += 4) {
      send_pieces(a, sent[i], {});
      send_pieces(a, sent[i + 1], {28, 1024});
      send_pieces(a, sent[i + 2], {600, 600, 4, 700, 512, 513});
      send_pieces(a, sent[i + 3], {28, 2000, 2000, 1});
    }
    a.flush();
    REQUIRE(receive_until(b, sent.size()) == sent);
    send_pieces(a, udp_frame(0, 5000), {28});
    a.flush();
    REQUIRE(a.counters().tx_dropped == 1);
    return {};
  }));
}

TEST_F(AfPacket, CarriesManyFramesBothWays) {
  EXPECT_OK(on_veth([](Port& a, Port& b) -> std::string {
    std::uint32_t at_a = 0, at_b = 0;
    for (std::uint32_t i = 0; i < 20000; ++i) {
      REQUIRE(send_bytes(a, udp_frame(i, 256)) && send_bytes(b, udp_frame(i, 256)));
      if (i % 32 != 31) continue;
      a.flush();
      b.flush();
      for (auto [port, next] : {std::pair{&a, &at_a}, std::pair{&b, &at_b}})
        for (const auto& frame : receive_until(*port, 32))
          REQUIRE(load_be<std::uint32_t>(&frame[kTestRoceOffset]) == (*next)++);
    }
    REQUIRE(at_a == 20000 && at_b == 20000);
    return {};
  }));
}

TEST_F(AfPacket, ReadsTheInterfaceAndLeavesItAsItWas) {
  EXPECT_OK(on_veth([](Port& a, Port& b) -> std::string {
    auto va = read_interface("va");
    REQUIRE(va && va->mtu == 9000 && va->mac == a.mac() && !a.mac().is_zero());
    REQUIRE(a.mtu() >= 4096 + 80 && a.mtu() <= 4608);
    REQUIRE(wait_for_link(a, true) && wait_for_link(b, true));
    REQUIRE(shell("ip link set vb down"));
    REQUIRE(wait_for_link(a, false) && wait_for_link(b, false));
    return {};
  }));
}

TEST_F(AfPacket, TakesTheMtuOfASmallInterface) {
  EXPECT_OK(run_in_child([]() -> std::string {
    if (!enter_new_namespace()) return kUnprivileged;
    REQUIRE(
        shell("ip link add va type veth peer name vb && ip link set va up && ip link set vb up"));
    std::string why;
    auto ports = open_all({"net_af_packet0,iface=va"}, why);
    if (ports.empty()) return why;
    REQUIRE(ports[0]->mtu() == 1500);
    REQUIRE(read_interface("va")->mtu == 1500);
    return {};
  }));
}

TEST_F(AfPacket, DropsAndCountsFramesThatAreTooLong) {
  EXPECT_OK(on_veth([](Port& a, Port& b) -> std::string {
    REQUIRE(send_bytes(a, udp_frame(1, a.mtu() - 28)));
    REQUIRE(send_bytes(a, udp_frame(2, a.mtu() - 28 + 5)));
    REQUIRE(send_bytes(a, udp_frame(3)));
    a.flush();
    REQUIRE(receive_until(b, 2).size() == 2);
    REQUIRE(a.counters().tx_dropped == 1);
    return {};
  }));
}

TEST_F(AfPacket, WakesASleeperAndOnlyWhenThereIsAReason) {
  EXPECT_OK(on_veth([](Port& a, Port& b) -> std::string {
    REQUIRE(b.wait_fd() >= 0);
    b.prepare_sleep();
    REQUIRE(!readable(b.wait_fd(), 0));
    REQUIRE(send_bytes(a, udp_frame(1)));
    a.flush();
    REQUIRE(readable(b.wait_fd(), 2000));
    REQUIRE(receive_until(b, 1).size() == 1);
    b.prepare_sleep();
    REQUIRE(!readable(b.wait_fd(), 0));
    return {};
  }));
}

TEST_F(AfPacket, AFrameThatComesJustBeforeSleepIsNotSleptOver) {
  EXPECT_OK(on_veth([](Port& a, Port& b) -> std::string {
    for (std::uint32_t i = 0; i < 5; ++i) REQUIRE(send_bytes(a, udp_frame(i)));
    a.flush();
    REQUIRE(readable(b.wait_fd(), 2000));
    usleep(10000);  // the veth delivers in its own time; all five are to be there
    b.prepare_sleep();
    REQUIRE(readable(b.wait_fd(), 0));
    REQUIRE(receive_all(b, 2).size() == 2);
    auto rest = receive_until(b, 3);
    REQUIRE(rest.size() == 3 && rest[2] == udp_frame(4));
    b.prepare_sleep();
    REQUIRE(!readable(b.wait_fd(), 0));
    return {};
  }));
}

TEST_F(AfPacket, SendsOnThoughTheInterfaceIsDown) {
  EXPECT_OK(on_veth([](Port& a, Port& b) -> std::string {
    REQUIRE(shell("ip link set va down"));
    for (std::uint32_t i = 0; i < 5000; ++i) {
      (void)send_bytes(a, udp_frame(i));
      a.flush();
      receive_all(a);
    }
    REQUIRE(shell("ip link set va up"));
    REQUIRE(wait_for_link(a, true));
    Bytes last = udp_frame(77777);
    bool arrived = false;
    for (int i = 0; i < 200 && !arrived; ++i) {
      (void)send_bytes(a, last);
      a.flush();
      usleep(1000);
      for (const auto& frame : receive_all(b)) arrived |= frame == last;
    }
    REQUIRE(arrived);
    return {};
  }));
}

TEST_F(AfPacket, SurvivesTheRemovalOfItsInterface) {
  EXPECT_OK(on_veth([](Port& a, Port& b) -> std::string {
    REQUIRE(shell("ip link del va"));
    for (std::uint32_t i = 0; i < 3000; ++i) {
      (void)send_bytes(a, udp_frame(i));
      a.flush();
      receive_all(a);
      receive_all(b);
    }
    a.prepare_sleep();
    REQUIRE(wait_for_link(a, false) && wait_for_link(b, false));
    return {};
  }));
}

// ---- memif between two processes

class Memif : public testing::Test {
 protected:
  Memif() { std::filesystem::create_directory(dir_); }
  ~Memif() override { std::filesystem::remove_all(dir_); }

  std::string device(const std::string& role) const {
    return "net_memif0,role=" + role + ",socket=" + dir_ + "/m.sock";
  }
  /// Sends numbered frames to the peer and back, `count` times.
  std::string echo_client(std::uint32_t count, std::atomic<int>* echoed = nullptr) const {
    std::string why;
    auto ports = open_all({device("client")}, why);
    if (ports.empty()) return why;
    Port& port = *ports[0];
    REQUIRE(wait_for_link(port, true));
    REQUIRE(port.mtu() >= 4096 + 80 && port.wait_fd() == -1 && port.mac() == kMac);
    for (std::uint32_t i = 0; i < count; ++i) {
      const Bytes frame = udp_frame(i, i % 64 == 0 ? 4168 : 64);
      REQUIRE(send_bytes(port, frame));
      port.flush();
      const auto back = receive_until(port, 1);
      REQUIRE(back.size() == 1 && back[0] == frame);
      if (echoed) ++*echoed;
    }
    return {};
  }
  /// Sends every frame back, for ever.
  std::string echo_server() const {
    std::string why;
    auto ports = open_all({device("server")}, why);
    if (ports.empty()) return why;
    for (;;) {
      for (const auto& frame : receive_all(*ports[0])) (void)send_bytes(*ports[0], frame);
      ports[0]->flush();
    }
  }

  /// Counts what happens in a child process.
  static std::atomic<int>& shared_count() {
    return *static_cast<std::atomic<int>*>(
        mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  }
  static int wait_for(const std::atomic<int>& count, int wanted) {
    for (int i = 0; i < 10000 && count < wanted; ++i) usleep(1000);
    return count;
  }

  /// docs/ports.md, "Limits".
#ifdef SOFTHCA_WRAP_MEMIF
  static constexpr bool kOutlivesItsPeer = true;
#else
  static constexpr bool kOutlivesItsPeer = false;
#endif
  std::string dir_ = testing::TempDir() + "memif-" + std::to_string(getpid());
};

TEST_F(Memif, CarriesFramesBetweenTwoProcesses) {
  Child server([this] { return echo_server(); });
  EXPECT_EQ(run_in_child([this] { return echo_client(2000); }), "");
  EXPECT_TRUE(server.is_running());
}

TEST_F(Memif, PacketsThatWaitAtAFlushKeepTheirBytes) {
  auto& tearing = shared_count();
  Child server([&]() -> std::string {
    std::string why;
    auto ports = open_all({device("server")}, why);
    if (ports.empty()) return why;
    while (tearing == 0) usleep(1000);  // its ring fills
    for (;;) {
      for (const auto& frame : receive_all(*ports[0])) {
        const bool torn = std::any_of(frame.begin() + kTestRoceOffset, frame.end(),
                                      [&](std::byte b) { return b != frame.back(); });
        tearing += torn ? 1'000'000 : 1;
      }
    }
  });
  EXPECT_EQ(run_in_child([&]() -> std::string {
              std::string why;
              auto ports = open_all({device("client")}, why);
              if (ports.empty()) return why;
              Port& port = *ports[0];
              REQUIRE(wait_for_link(port, true));
              Bytes frame = udp_frame(0, 4096);
              int sent = 0;
              for (; port.trains()->limits().packets != 0; ++sent) {
                REQUIRE(sent < 5000);
                std::fill(frame.begin() + kTestRoceOffset, frame.end(), std::byte(sent));
                send_pieces(port, frame, {28, 3000});
                port.flush();
              }
              std::fill(frame.begin() + kTestRoceOffset, frame.end(), std::byte{0xff});
              tearing = 1;
              for (int i = 0; i < 5000 && tearing <= sent; ++i) {
                port.flush();
                usleep(1000);
              }
              REQUIRE(tearing == sent + 1);
              return {};
            }),
            "");
}

TEST_F(Memif, AServerServesTheNextPeerAfterOneIsKilled) {
  if (!kOutlivesItsPeer) GTEST_SKIP() << "needs the drivers linked statically";
  Child server([this] { return echo_server(); });
  for (int i = 0; i < 2; ++i) {
    auto& echoed = shared_count();
    Child victim([&] { return echo_client(UINT32_MAX, &echoed); });
    EXPECT_GE(wait_for(echoed, 100), 100);
    victim.kill();
  }
  EXPECT_EQ(run_in_child([this] { return echo_client(100); }), "");
  EXPECT_TRUE(server.is_running());
}

TEST_F(Memif, AServerStartsOverTheSocketOfOneThatWasKilled) {
  {
    Child victim([this] { return echo_server(); });
    for (int i = 0; i < 5000 && !std::filesystem::exists(dir_ + "/m.sock"); ++i) usleep(1000);
    victim.kill();
  }
  ASSERT_TRUE(std::filesystem::exists(dir_ + "/m.sock"));
  Child server([this] { return echo_server(); });
  EXPECT_EQ(run_in_child([this] { return echo_client(10); }), "");
}

TEST_F(Memif, AClientWaitsForItsServerAndFindsTheNextOne) {
  if (!kOutlivesItsPeer) GTEST_SKIP() << "needs the drivers linked statically";
  auto& changes = shared_count();
  Child client([&]() -> std::string {
    std::string why;
    auto ports = open_all({device("client")}, why);
    if (ports.empty()) return why;
    for (;; ++changes)
      while (ports[0]->link_up() == (changes % 2 != 0)) receive_all(*ports[0]);
  });
  for (int round = 0; round < 2; ++round) {
    Child server([this] { return echo_server(); });
    ASSERT_EQ(wait_for(changes, 2 * round + 1), 2 * round + 1);
    server.kill();
    ASSERT_EQ(wait_for(changes, 2 * round + 2), 2 * round + 2);
  }
  EXPECT_TRUE(client.is_running());
}

TEST_F(Memif, DropsAndCountsWhileNobodyIsThere) {
  EXPECT_EQ(run_in_child([this]() -> std::string {
              std::string why;
              auto ports = open_all({device("server")}, why);
              if (ports.empty()) return why;
              for (std::uint32_t i = 0; i < 5000; ++i) {
                REQUIRE(send_bytes(*ports[0], udp_frame(i)));
                ports[0]->flush();
                REQUIRE(receive_all(*ports[0]).empty());
              }
              REQUIRE(!ports[0]->link_up());
              REQUIRE(ports[0]->counters().tx_dropped == 5000);
              return {};
            }),
            "");
}

}  // namespace
}  // namespace softhca::port
