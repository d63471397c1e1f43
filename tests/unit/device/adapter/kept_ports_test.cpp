// SPDX-License-Identifier: Apache-2.0

// Ports and guards of an adapter that retires, and of the adapter that follows.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <thread>

#include "daemon/base/kernel_address.hpp"
#include "daemon/device/adapter/setup.hpp"
#include "daemon/engine/engine.hpp"
#include "daemon/engine/worker.hpp"
#include "daemon/frontend/unix/sockets/event_sender.hpp"
#include "tests/emulated.hpp"
#include "tests/fake_keeper.hpp"
#include "tests/unit/port/namespace.hpp"

namespace softhca::control {
namespace {

/// The ports and guards of one adapter.
struct Ports {
  Ports(FakeKeeper& keeper, const configuration::Config& config) : keeping(keeper) {
    EXPECT_TRUE(records.adopt());
    auto left = records.take_adopted();
    EXPECT_TRUE(kept.adopt(left));
    auto opened = open_ports(config, worker, kept);
    EXPECT_TRUE(opened) << opened.error().message;
    if (opened) ports = std::move(*opened);
    auto guarded = guard_addresses(config, kept);
    EXPECT_TRUE(guarded) << guarded.error().message;
    if (guarded) guards = std::move(*guarded);
  }

  /// As when the process ends: what is kept stays, and its records do.
  void end_process() {
    static auto* const left = new std::vector<KeptDescriptor>;
    keeping.retire();
    for (KeptDescriptor& port : ports) left->push_back(std::move(port));
    for (auto& [address, guard] : guards) left->push_back(std::move(guard.kept));
  }

  FakeKeeping keeping;
  records::RecordStore records{&keeping};
  KeptDescriptors kept{&keeping, records};
  EventSender events;
  engine::Engine engine{limits_of(configuration::default_config()), events};
  engine::Worker worker{engine, {}};
  std::vector<KeptDescriptor> ports;
  KernelGuards guards;
};

/// Sends a datagram to UDP port 4791. Returns the error that the kernel answers, or 0.
int send_to(const Gid& address) {
  const UniqueFd socket(::socket(family_of(address), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const KernelAddress to = kernel_address(address, 4791);
  EXPECT_EQ(::connect(socket.get(), to.get(), to.length), 0);
  EXPECT_EQ(::send(socket.get(), "datagram", 8, 0), 8);
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

TEST(KeptPorts, PacketsWhileNoAdapterRuns_ReachTheNextOne) {
  if (!kernel_takes_udp_options()) GTEST_SKIP() << "options of UDP sockets do not reach the kernel";
  const Gid of_port = Gid::from_ipv4(0x7f000002), guarded = Gid::from_ipv4(0x7f000003);
  configuration::Config config = configuration::default_config();
  configuration::PortConfig& port = config.ports.emplace_back();
  port.name = "p";
  port.socket = of_port;
  port.addresses = {{of_port, 8}};
  configuration::PortConfig guard = port;
  guard.name = "g";
  guard.interface = "lo";
  guard.addresses = {{guarded, 8}};
  bool entered = false;
  std::thread([&] {
    entered = port::enter_new_namespace() &&
              port::shell("ip link set lo up && ip addr add 127.0.0.3/8 dev lo");
    if (!entered) return;
    FakeKeeper keeper;
    {
      Ports first(keeper, config);
      ASSERT_TRUE(guard_addresses(guard, guard.addresses, first.kept, first.guards));
      EXPECT_EQ(first.guards.size(), 1u);
      EXPECT_EQ(keeper.objects(), 2u);
      first.end_process();
    }
    EXPECT_EQ(send_to(of_port), 0) << "the kernel does not answer";
    EXPECT_EQ(send_to(guarded), 0);
    Ports next(keeper, config);
    ASSERT_TRUE(guard_addresses(guard, guard.addresses, next.kept, next.guards));
    EXPECT_EQ(keeper.objects(), 2u) << "each is kept once";
    std::array<port::Frame, 8> frames;
    port::Port& opened = *next.engine.ports()[0]->port;
    const std::size_t count = opened.receive(frames);
    EXPECT_EQ(count, 1u);
    opened.release({frames.data(), count});
    next.ports.clear();
    next.guards.clear();
    EXPECT_EQ(keeper.objects(), 0u);
  }).join();
  if (!entered) GTEST_SKIP() << "needs root to make a network namespace";
}

}  // namespace
}  // namespace softhca::control
