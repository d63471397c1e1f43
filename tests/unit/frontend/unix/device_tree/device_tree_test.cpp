// SPDX-License-Identifier: Apache-2.0

// The files by which libibverbs finds a device.
#include "daemon/frontend/unix/device_tree/device_tree.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "daemon/frontend/unix/sockets/unix_socket.hpp"
#include "tests/folder.hpp"

namespace softhca::control {
namespace {

class DeviceTree : public ::testing::Test {
 protected:
  DeviceTree() {
    device.name = "softhca0";
    device.firmware = "1.2.3";
    device.board = "softhca";
    device.hardware_version = 1;
    device.node_guid = 0x0211223344556677;
    device.socket_path = "/run/softhca/a/socket";
    device.protocol = {4, 6};
    Gid ipv6;
    ipv6.bytes = {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xab, 1};
    device.ports[0].gids = {{Gid::from_ipv4(0xc6120001), ""}, {ipv6, "eth7"}};
  }
  std::string read(const std::string& name) const { return first_line(root + "/" + name); }
  Folder folder;
  const std::string root = folder.path() + "/sysfs";
  const std::string port = "class/infiniband/softhca0/ports/1/";
  DeviceDescription device;
};

TEST_F(DeviceTree, HoldsWhatTheLibrariesRead) {
  ASSERT_TRUE(write_device_tree(root, {device}));
  EXPECT_EQ(read("class/infiniband_verbs/abi_version"), "6");
  EXPECT_EQ(read("class/infiniband_verbs/softhca0/ibdev"), "softhca0");
  EXPECT_EQ(read("class/infiniband_verbs/softhca0/abi_version"), "1");
  EXPECT_EQ(read("class/infiniband/softhca0/softhca_protocol"), "4 6");
  EXPECT_EQ(read("class/infiniband/softhca0/node_type"), "1: CA");
  EXPECT_EQ(read("class/infiniband/softhca0/node_guid"), "0211:2233:4455:6677");
  EXPECT_EQ(read("class/infiniband/softhca0/fw_ver"), "1.2.3");
  EXPECT_EQ(read("class/infiniband/softhca0/softhca_socket"), "/run/softhca/a/socket");
  EXPECT_EQ(read("class/infiniband/softhca0/hca_type"), "softhca");
  EXPECT_EQ(read("class/infiniband/softhca0/hw_rev"), "1");
  EXPECT_EQ(read(port + "link_layer"), "Ethernet");
  EXPECT_EQ(read(port + "lid_mask_count"), "0");
  EXPECT_EQ(read(port + "sm_sl"), "0");
  EXPECT_EQ(read(port + "state"), "4: ACTIVE");
  EXPECT_EQ(read(port + "gids/0"), "0000:0000:0000:0000:0000:ffff:c612:0001");
  EXPECT_EQ(read(port + "gids/1"), "fd00:0000:0000:0000:0000:0000:0000:ab01");
  EXPECT_EQ(read(port + "gid_attrs/types/1"), "RoCE v2");
  EXPECT_EQ(read(port + "gid_attrs/ndevs/1"), "eth7");
  EXPECT_EQ(read(port + "gids/2"), "missing");
}

TEST_F(DeviceTree, DeviceWithTwoPorts_HasTheSecondsOwnStateAndAddresses) {
  device.ports.push_back({.active = false, .gids = {{Gid::from_ipv4(0xc6120002), "eth8"}}});
  ASSERT_TRUE(write_device_tree(root, {device}));
  const std::string second = "class/infiniband/softhca0/ports/2/";
  EXPECT_EQ(read(port + "state"), "4: ACTIVE");
  EXPECT_EQ(read(second + "state"), "1: DOWN");
  EXPECT_EQ(read(second + "link_layer"), "Ethernet");
  EXPECT_EQ(read(second + "gids/0"), "0000:0000:0000:0000:0000:ffff:c612:0002");
  EXPECT_EQ(read(second + "gid_attrs/ndevs/0"), "eth8");
  EXPECT_EQ(read(second + "gids/1"), "missing");
  fs::create_directories(root + "/" + port + "counters");
  EXPECT_TRUE(fs::equivalent(root + "/" + port + "counters", root + "/" + second + "counters"));
  ASSERT_TRUE(write_port_state(root, "softhca0", 2, true));
  EXPECT_EQ(read(second + "state"), "4: ACTIVE");
}

TEST_F(DeviceTree, UpdateThatIsNotApplied_LeavesNoPort) {
  ASSERT_TRUE(write_device_tree(root, {device}));
  device.ports.push_back({.active = true, .gids = {{Gid::from_ipv4(0xc6120002), "eth8"}}});
  { ASSERT_TRUE(AddressUpdate::prepare(root, {device})); }
  EXPECT_FALSE(fs::exists(root + "/class/infiniband/softhca0/ports/2"));
}

TEST_F(DeviceTree, TreeOfAnEarlierAdapter_LosesPortsAndAddressesThatItHasNoMore) {
  device.ports.push_back({.active = true, .gids = {{Gid::from_ipv4(0xc6120002), "eth8"}}});
  ASSERT_TRUE(write_device_tree(root, {device}));
  EXPECT_EQ(read_port_state(root, "softhca0", 2), std::optional(true));
  device.ports.pop_back();
  device.ports[0].gids.pop_back();
  device.ports[0].active = false;
  ASSERT_TRUE(write_device_tree(root, {device}, true));
  EXPECT_EQ(read_port_state(root, "softhca0", 1), std::optional(false));
  EXPECT_EQ(read_port_state(root, "softhca0", 2), std::nullopt);
  EXPECT_FALSE(fs::exists(root + "/class/infiniband/softhca0/ports/2"));
  EXPECT_EQ(read(port + "gids/0"), "0000:0000:0000:0000:0000:ffff:c612:0001");
  EXPECT_EQ(read(port + "gids/1"), "missing");
}

TEST_F(DeviceTree, UpdateOfAddresses_AddsAndRemovesPorts) {
  ASSERT_TRUE(write_device_tree(root, {device}));
  const std::string second = "class/infiniband/softhca0/ports/2/";
  const auto update = [&] {
    auto prepared = AddressUpdate::prepare(root, {device});
    ASSERT_TRUE(prepared);
    ASSERT_TRUE(prepared->apply());
  };
  device.ports.push_back({.active = true, .gids = {{Gid::from_ipv4(0xc6120002), "eth8"}}});
  update();
  EXPECT_EQ(read(second + "state"), "4: ACTIVE");
  EXPECT_EQ(read(second + "rate"), read(port + "rate"));
  EXPECT_EQ(read(second + "gids/0"), "0000:0000:0000:0000:0000:ffff:c612:0002");
  EXPECT_TRUE(fs::is_symlink(root + "/" + second + "hw_counters"));
  device.ports.pop_back();
  update();
  EXPECT_FALSE(fs::exists(root + "/class/infiniband/softhca0/ports/2"));
  EXPECT_EQ(read(port + "gids/1"), "fd00:0000:0000:0000:0000:0000:0000:ab01");
}

TEST_F(DeviceTree, LeadsToTheNetworkInterfaces) {
  namespace fs = std::filesystem;
  device.ports[0].gids.push_back({Gid::from_ipv4(0xc6120002), "eth7"});
  ASSERT_TRUE(write_device_tree(root, {device}));
  const fs::path net = root + "/class/infiniband/softhca0/device/net";
  EXPECT_EQ(std::distance(fs::directory_iterator(net), {}), 2);
  EXPECT_EQ(fs::read_symlink(net / "eth7"), "/sys/class/net/eth7");
}

TEST_F(DeviceTree, AddressOnNoInterface_HasOneNamedAfterTheDevice) {
  namespace fs = std::filesystem;
  ASSERT_TRUE(write_device_tree(root, {device}));
  EXPECT_EQ(read(port + "gid_attrs/ndevs/0"), "softhca0");
  for (const std::string net : {"class/net/", "class/infiniband/softhca0/device/net/"}) {
    EXPECT_EQ(read(net + "softhca0/ifindex"), "61440");
    EXPECT_EQ(read(net + "softhca0/address"), "02:11:22:55:66:77");
  }
  device.name = "a-device-with-a-long-name";
  ASSERT_TRUE(write_device_tree(root, {device}));
  EXPECT_EQ(read("class/infiniband/a-device-with-a-long-name/ports/1/gid_attrs/ndevs/0"),
            "a-device-with-a");
  // The kernel may have one of this name.
  device.ports[0].gids[0].interface = "a-device-with-a";
  EXPECT_TRUE(write_device_tree(root, {device}));
}

TEST_F(DeviceTree, HasTheLinksOfAKernel) {
  namespace fs = std::filesystem;
  ASSERT_TRUE(write_device_tree(root, {device}));
  for (const std::string kind : {"infiniband", "infiniband_verbs"}) {
    const fs::path entry = fs::path(root) / "class" / kind / "softhca0";
    EXPECT_EQ(fs::read_symlink(entry), "../../devices/softhca/softhca0/" + kind + "/softhca0");
    EXPECT_EQ(fs::canonical(entry / "device"),
              fs::canonical(fs::path(root) / "devices/softhca/softhca0"));
  }
  EXPECT_EQ(read("class/infiniband/softhca0/device/numa_node"), "-1");
  EXPECT_EQ(read("class/infiniband/softhca0/device/local_cpulist"),
            first_line("/sys/devices/system/cpu/online"));
}

TEST_F(DeviceTree, SeveralDevices_EachHasItsOwn) {
  namespace fs = std::filesystem;
  device.name = "mlx5_0";
  device.rate = "100 Gb/sec (4X EDR)";
  DeviceDescription other = device;
  other.name = "mlx5_1";
  other.index = 1;
  other.rate = "400 Gb/sec (4X NDR)";
  other.node_guid = 0x0211223344556678;
  other.ports[0].gids = {{Gid::from_ipv4(0xc6120009), ""}};
  ASSERT_TRUE(write_device_tree(root, {device, other}));
  EXPECT_EQ(read("class/infiniband/mlx5_0/ports/1/rate"), "100 Gb/sec (4X EDR)");
  EXPECT_EQ(read("class/infiniband/mlx5_1/ports/1/rate"), "400 Gb/sec (4X NDR)");
  EXPECT_EQ(read("class/infiniband/mlx5_1/node_guid"), "0211:2233:4455:6678");
  EXPECT_EQ(read("class/infiniband/mlx5_1/softhca_device"), "1 /run/softhca/a/socket");
  EXPECT_FALSE(fs::exists(root + "/class/infiniband/mlx5_1/softhca_socket"))
      << "an older provider would open the first device by it";
  EXPECT_EQ(read("class/infiniband_verbs/mlx5_0/dev"), "1:3");
  EXPECT_EQ(read("class/infiniband_verbs/mlx5_1/dev"), "127:1");
  EXPECT_EQ(read("class/net/mlx5_1/ifindex"), "61439");
  const fs::path first = root + "/class/infiniband/mlx5_0/ports/1/counters";
  fs::create_directories(first);
  EXPECT_TRUE(fs::equivalent(first, root + "/class/infiniband/mlx5_1/ports/1/counters"));

  other.ports[0].gids = {{Gid::from_ipv4(0xc612000a), ""}};
  auto update = AddressUpdate::prepare(root, {device, other});
  ASSERT_TRUE(update);
  ASSERT_TRUE(update->apply());
  EXPECT_EQ(read("class/infiniband/mlx5_1/ports/1/gids/0"),
            "0000:0000:0000:0000:0000:ffff:c612:000a");
  EXPECT_EQ(read("class/infiniband/mlx5_0/ports/1/gids/0"),
            "0000:0000:0000:0000:0000:ffff:c612:0001");
}

TEST_F(DeviceTree, DeviceOnThePciBus_IsWhereProgramsLookForIt) {
  namespace fs = std::filesystem;
  device.pci = "fffe:3b:00.0";
  device.numa = 1023;
  device.vendor = 0x02c5f0;
  device.part = 0x5ca1;
  ASSERT_TRUE(write_device_tree(root, {device}));
  const fs::path link = root + "/class/infiniband/softhca0/device";
  const fs::path parent = fs::canonical(root) / "devices/pcifffe:3b/fffe:3b:00.0";
  EXPECT_EQ(fs::read_symlink(link), "../../../fffe:3b:00.0");
  EXPECT_EQ(fs::canonical(link), parent);
  EXPECT_EQ(fs::canonical(root + "/bus/pci/devices/fffe:3b:00.0"), parent);
  EXPECT_EQ(fs::canonical(root + "/devices/softhca/softhca0"), parent)
      << "where the preload library of release 0.1 looks";
  EXPECT_EQ(fs::canonical(root + "/class/pci_bus/fffe:3b/../../fffe:3b:00.0"), parent);
  EXPECT_EQ(first_line((parent / "numa_node").string()), "1023");
  EXPECT_EQ(first_line((parent / "local_cpulist").string()),
            first_line("/sys/devices/system/cpu/online"))
      << "the machine has no such node";
  EXPECT_EQ(first_line((parent / "class").string()), "0x020000");
  EXPECT_EQ(first_line((parent / "vendor").string()), "0xc5f0");
  EXPECT_EQ(first_line((parent / "max_link_width").string()), "16");
  std::ifstream config(parent / "config", std::ios::binary);
  const std::string header{std::istreambuf_iterator<char>(config), {}};
  ASSERT_EQ(header.size(), 64u);
  EXPECT_EQ(header.substr(0, 4), "\xf0\xc5\xa1\x5c") << "vendor and device, little endian";
  EXPECT_EQ(header.substr(8, 4), std::string("\1\0\0\2", 4)) << "revision and class";
}

TEST_F(DeviceTree, ReplacesWhatWasThere) {
  ASSERT_TRUE(write_device_tree(root, {device}));
  device.ports[0].gids.pop_back();
  device.name = "other0";
  device.ports[0].active = false;
  ASSERT_TRUE(write_device_tree(root, {device}));
  EXPECT_EQ(read(port + "gids/0"), "missing");
  EXPECT_EQ(read("class/infiniband/other0/ports/1/state"), "1: DOWN");
  EXPECT_EQ(read("class/infiniband/other0/ports/1/gids/1"), "missing");
}

TEST_F(DeviceTree, PortStateFollows) {
  ASSERT_TRUE(write_device_tree(root, {device}));
  ASSERT_TRUE(write_port_state(root, "softhca0", 1, false));
  EXPECT_EQ(read(port + "state"), "1: DOWN");
  ASSERT_TRUE(write_port_state(root, "softhca0", 1, true));
  EXPECT_EQ(read(port + "state"), "4: ACTIVE");
}

TEST_F(DeviceTree, FollowsTheAdaptersOfTheKernel) {
  namespace fs = std::filesystem;
  const std::string real = folder.path() + "/real";
  const auto make = [&](const std::string& name) {
    fs::create_directories(real + "/class/infiniband/" + name);
    std::ofstream(real + "/class/infiniband/" + name + "/node_type") << "1: CA\n";
  };
  ASSERT_TRUE(write_device_tree(root, {device}));
  EXPECT_TRUE(real_devices(real).empty());
  make("rxe0");
  make("softhca0");
  fs::create_directories(real + "/class/infiniband_verbs/uverbs0");
  EXPECT_EQ(real_devices(real).size(), 3u);
  link_real_devices(root, real);
  EXPECT_EQ(read("class/infiniband/rxe0/node_type"), "1: CA");
  EXPECT_TRUE(fs::exists(root + "/class/infiniband_verbs/uverbs0"));
  EXPECT_EQ(read("class/infiniband/softhca0/fw_ver"), "1.2.3") << "ours comes first";
  fs::remove_all(real + "/class/infiniband/rxe0");
  make("rxe1");
  link_real_devices(root, real);
  EXPECT_FALSE(fs::is_symlink(root + "/class/infiniband/rxe0"));
  EXPECT_EQ(read("class/infiniband/rxe1/node_type"), "1: CA");
  EXPECT_EQ(read(port + "state"), "4: ACTIVE") << "ours is left alone";
}

TEST_F(DeviceTree, OtherAddressesAreThereAtOnceOrNotAtAll) {
  namespace fs = std::filesystem;
  ASSERT_TRUE(write_device_tree(root, {device}));
  DeviceDescription other = device;
  other.ports[0].gids = {{Gid::from_ipv4(0xc6120009), "eth0"}};
  const fs::path interfaces = root + "/class/infiniband/softhca0/device/net";
  const auto files = [&] { return std::distance(fs::recursive_directory_iterator(root), {}); };
  const auto before = files();
  {
    auto update = AddressUpdate::prepare(root, {other});
    ASSERT_TRUE(update);
    EXPECT_EQ(read(port + "gids/0"), "0000:0000:0000:0000:0000:ffff:c612:0001");
    EXPECT_TRUE(fs::is_symlink(interfaces / "eth7"));
  }
  EXPECT_EQ(files(), before) << "what was prepared and not wanted is left";
  {
    auto update = AddressUpdate::prepare(root, {other});
    ASSERT_TRUE(update);
    ASSERT_TRUE(update->apply());
  }
  EXPECT_EQ(read(port + "gids/0"), "0000:0000:0000:0000:0000:ffff:c612:0009");
  EXPECT_EQ(read(port + "gid_attrs/ndevs/0"), "eth0");
  EXPECT_TRUE(fs::is_symlink(interfaces / "eth0"));
  EXPECT_FALSE(fs::is_symlink(interfaces / "eth7"));
  EXPECT_TRUE(fs::is_directory(interfaces / "softhca0"));
  EXPECT_EQ(read(port + "gids/1"), "missing");
  EXPECT_EQ(files(), before - 3) << "the files of one address";
}

TEST_F(DeviceTree, SaysWhatCannotBeWritten) {
  std::ofstream(folder.path() + "/file") << "in the way";
  const auto written = write_device_tree(folder.path() + "/file/below", {device});
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, ENOTDIR);
  EXPECT_NE(written.error().message.find("/file/below"), std::string::npos);
  EXPECT_NE(written.error().message.find(std::strerror(ENOTDIR)), std::string::npos);
}

TEST_F(DeviceTree, FoldersOfADaemonThatWasKilledAreTakenAway) {
  namespace fs = std::filesystem;
  const auto make = [&](const std::string& tenant) {
    device.socket_path = folder.path() + "/" + tenant + "/socket";
    ASSERT_TRUE(write_device_tree(folder.path() + "/" + tenant + "/sysfs", {device}));
  };
  make("kept");
  make("stale");
  std::ofstream(folder.path() + "/stale/socket") << "dead";
  make("alive");
  const auto alive = listen_at(folder.path() + "/alive/socket", {});
  ASSERT_TRUE(alive);
  make("used");
  std::ofstream(folder.path() + "/used/other") << "somebody's";
  fs::create_directories(folder.path() + "/foreign/sysfs/class/infiniband/rxe0");
  fs::create_directories(folder.path() + "/elsewhere");
  fs::create_symlink(folder.path() + "/kept", folder.path() + "/link");

  remove_stale_tenants(folder.path(), {"kept"});
  EXPECT_TRUE(fs::exists(folder.path() + "/kept/sysfs/class"));
  EXPECT_FALSE(fs::exists(folder.path() + "/stale"));
  EXPECT_TRUE(fs::exists(folder.path() + "/alive/sysfs/class"));
  EXPECT_FALSE(fs::exists(folder.path() + "/used/sysfs"));
  EXPECT_TRUE(fs::exists(folder.path() + "/used/other"));
  EXPECT_TRUE(fs::exists(folder.path() + "/foreign/sysfs/class/infiniband/rxe0"));
  EXPECT_TRUE(fs::exists(folder.path() + "/elsewhere"));
  EXPECT_TRUE(fs::exists(folder.path() + "/link"));
}

}  // namespace
}  // namespace softhca::control
