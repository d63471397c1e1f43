// SPDX-License-Identifier: Apache-2.0

// GUIDs of devices: unlike each other, and always the same.
#include "daemon/device/adapter/guid.hpp"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "daemon/device/adapter/device_ports.hpp"
#include "daemon/device/adapter/setup.hpp"

namespace softhca::control {
namespace {

const PortIdentity kUplink{{{2, 0, 0, 0, 0, 1}}, Gid::from_ipv4(0x0a000001)};
const PortIdentity kOtherMac{{{2, 0, 0, 0, 0, 2}}, kUplink.address};
const PortIdentity kOtherAddress{kUplink.mac, Gid::from_ipv4(0x0a000002)};

TEST(Guid, DaemonsThatCanMeetDiffer) {
  std::set<std::uint64_t> seen;
  for (const char* folder : {"/run/softhca", "/tmp/softhca-1000"})
    for (const auto& ports : std::vector<std::vector<PortIdentity>>{
             {}, {kUplink}, {kOtherMac}, {kOtherAddress}, {kUplink, kOtherAddress}})
      EXPECT_TRUE(seen.insert(daemon_identity(folder, ports)).second);
}

TEST(Guid, TenantsDiffer) {
  std::set<std::uint64_t> seen;
  for (const std::uint64_t daemon : {std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0}})
    for (int i = 0; i < 1000; ++i)
      EXPECT_TRUE(seen.insert(node_guid(daemon, "t" + std::to_string(i))).second);
}

TEST(Guid, LinkAddressesAreLocalAndDiffer) {
  std::set<MacAddress> seen;
  for (const char* device : {"net_memif0,role=server", "net_memif0,role=client"})
    for (std::uint32_t i = 0; i < 1000; ++i) {
      const MacAddress mac = link_address(device, Gid::from_ipv4(0x0a000001 + i));
      EXPECT_EQ(mac.bytes[0] & 3, 2);
      EXPECT_TRUE(seen.insert(mac).second);
    }
  EXPECT_EQ(link_address("net_memif0", kUplink.address),
            link_address("net_memif0", kUplink.address));
}

TEST(Guid, IsTheSameAfterARestart) {
  const std::vector<PortIdentity> ports{kUplink};
  EXPECT_EQ(daemon_identity("/run/softhca", ports), daemon_identity("/run/softhca", ports));
  EXPECT_EQ(node_guid(7, "web"), 0x9abb87f226a0d554) << "as ever";
}

TEST(Guid, IsALocalEui64) {
  for (const char* name : {"", "a", "web", "storage"})
    EXPECT_EQ(node_guid(1, name) >> 56 & 0x03, 0x02u);
}

TEST(Interface, IsThePortsOwnOrTheKernelsOrNone) {
  const auto of = [](const char* interface, const char* device,
                     const Gid& address = Gid::from_ipv4(0xc6120001)) {
    configuration::PortConfig port;
    port.interface = interface;
    port.device = device;
    return interface_of(port, address);
  };
  EXPECT_EQ(of("eth1", ""), "eth1");
  EXPECT_EQ(of("", "net_tap0,iface=tap7"), "tap7");
  EXPECT_EQ(of("", "iface=eth2"), "eth2");
  EXPECT_EQ(of("", "net_memif0,role=server,socket=/run/a.sock"), "");
  EXPECT_EQ(of("", "0000:3b:00.0"), "");
  EXPECT_EQ(of("", "0000:3b:00.0", Gid::from_ipv4(0x7f000001)), "lo");
}

TEST(GidTable, FirstFourEntries_RepeatTheFirstIpv4Address) {
  const Gid ipv4 = Gid::from_ipv4(0xc6120001), other = Gid::from_ipv4(0xc6120002);
  Gid ipv6;
  ipv6.bytes = {0xfd};
  const auto table = [](const std::vector<Gid>& gids) {
    GidEntries addresses;
    for (const Gid& gid : gids) addresses.push_back({gid, std::nullopt});
    addresses.push_back({Gid::from_ipv4(0xc6120009), std::nullopt, 1});  // of another device
    std::vector<Gid> entries;
    for (const engine::Tenant::Address& entry : gid_table(addresses, 0, 1))
      entries.push_back(entry.gid);
    return entries;
  };
  using Gids = std::vector<Gid>;
  EXPECT_EQ(table({}), Gids{});
  EXPECT_EQ(table({ipv4}), (Gids{ipv4, ipv4, ipv4, ipv4}));
  EXPECT_EQ(table({ipv6}), (Gids{ipv6, ipv6, ipv6, ipv6}));
  EXPECT_EQ(table({ipv4, ipv6}), (Gids{ipv4, ipv6, ipv4, ipv4}));
  EXPECT_EQ(table({ipv6, ipv4}), (Gids{ipv6, ipv4, ipv4, ipv4}));
  EXPECT_EQ(table({ipv6, ipv6, other, ipv4, ipv4}), (Gids{ipv6, ipv6, other, ipv4, ipv4}));
}

TEST(GidTable, Device_HasAPortForEachNetwork) {
  const std::optional<PortId> none, first = PortId(4), second = PortId(0);
  const auto gid = [](std::uint32_t number) { return Gid::from_ipv4(0xc6120000 + number); };
  GidEntries addresses = {{gid(1), none},     {gid(2), first},  {gid(3), second},
                          {gid(4), first},    {gid(5), none},   {gid(6), second, 1},
                          {gid(7), first, 1}, {gid(8), none, 2}};
  number_ports(addresses, [](PortId port) { return std::to_string(port.value); });
  const auto ports = [&](std::uint8_t device) { return ports_of(addresses, device); };
  EXPECT_EQ(ports(0), 2);
  EXPECT_EQ(ports(1), 2);
  EXPECT_EQ(ports(2), 1);
  EXPECT_EQ(ports(3), 1) << "a device without addresses";
  const auto first_of = [&](std::uint8_t device, std::uint8_t port) {
    return gid_table(addresses, device, port).front().gid;
  };
  EXPECT_EQ(first_of(0, 1), gid(1)) << "addresses without a network are on port 1";
  EXPECT_EQ(gid_table(addresses, 0, 1)[1].gid, gid(2));
  EXPECT_EQ(gid_table(addresses, 0, 1)[2].gid, gid(4));
  EXPECT_EQ(gid_table(addresses, 0, 1)[3].gid, gid(5));
  EXPECT_EQ(first_of(0, 2), gid(3));
  EXPECT_EQ(first_of(1, 1), gid(6)) << "in the order of the device's own addresses";
  EXPECT_EQ(first_of(1, 2), gid(7));
  EXPECT_TRUE(gid_table(addresses, 0, 3).empty());

  for (engine::Tenant::Address& address : addresses) address.device_port = 1;
  number_ports(addresses, [](PortId) { return std::string("one"); });
  EXPECT_EQ(ports(0), 1) << "two ports of the daemon on one network";
  EXPECT_EQ(gid_table(addresses, 0, 1).size(), 5u);
}

}  // namespace
}  // namespace softhca::control
