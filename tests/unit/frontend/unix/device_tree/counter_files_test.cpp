// SPDX-License-Identifier: Apache-2.0

// The counters of a port as files of the device tree.
#include "daemon/frontend/unix/device_tree/counter_files.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "daemon/base/unique_fd.hpp"
#include "daemon/frontend/unix/device_tree/device_tree.hpp"
#include "tests/folder.hpp"

namespace softhca::control {
namespace {

namespace fs = std::filesystem;

class CounterFilesTest : public ::testing::Test {
 protected:
  Outcome update() { return files.update(tenant, {}); }
  std::string counter(const std::string& name) const {
    return first_line(port + "counters/" + name);
  }
  std::string hardware(const std::string& name) const {
    return first_line(port + "hw_counters/" + name);
  }
  void expect_regular_files() const {
    for (const char* name : {"counters", "hw_counters"})
      for (const auto& entry : fs::directory_iterator(port + name)) {
        struct stat found {};
        EXPECT_EQ(::lstat(entry.path().c_str(), &found), 0);
        EXPECT_TRUE(S_ISREG(found.st_mode)) << entry.path();
        EXPECT_EQ(found.st_mode & 0444, 0444u) << entry.path();
      }
  }

  Folder folder;
  const std::string root = folder.path() + "/sysfs";
  const std::string port = root + "/class/infiniband/softhca0/ports/1/";
  const std::string staged = CounterFiles::staged_in(folder.path());
  CounterFiles files{root, "softhca0"};
  engine::Tenant tenant;
};

TEST_F(CounterFilesTest, AreAllThereFromTheStart) {
  ASSERT_TRUE(update());
  for (const char* name : {"port_xmit_data",
                           "port_rcv_data",
                           "port_xmit_packets",
                           "port_rcv_packets",
                           "unicast_xmit_packets",
                           "unicast_rcv_packets",
                           "multicast_xmit_packets",
                           "multicast_rcv_packets",
                           "port_rcv_errors",
                           "port_xmit_discards",
                           "link_downed",
                           "symbol_error",
                           "link_error_recovery",
                           "local_link_integrity_errors",
                           "excessive_buffer_overrun_errors",
                           "VL15_dropped",
                           "port_rcv_remote_physical_errors",
                           "port_rcv_switch_relay_errors",
                           "port_rcv_constraint_errors",
                           "port_xmit_constraint_errors"})
    EXPECT_EQ(counter(name), "0") << name;
  EXPECT_EQ(counter("port_xmit_wait"), "missing") << "of it nothing is kept";
  for (const char* name :
       {"out_of_sequence", "packet_seq_err", "local_ack_timeout_err", "rnr_nak_retry_err",
        "duplicate_request", "out_of_buffer", "implied_nak_seq_err", "np_cnp_sent",
        "np_ecn_marked_roce_packets", "rp_cnp_handled", "rx_icrc_encapsulated",
        "req_remote_access_errors", "rx_write_requests", "rx_read_requests", "rx_atomic_requests"})
    EXPECT_EQ(hardware(name), "0") << name;
  EXPECT_EQ(hardware("lifespan"), "1000");
  expect_regular_files();
}

TEST_F(CounterFilesTest, HoldWhatTheEngineCounts) {
  tenant.counters.wire.count_transmitted(4001, 3900, false);
  tenant.counters.wire.count_transmitted(4001, 3900, true);
  tenant.counters.wire.rx_octets.set(~std::uint64_t{0});
  tenant.counters.wire.unresolved.add(3);
  tenant.control.link_downed.add(2);
  const auto count = [&](transport::Count what, std::uint64_t n) {
    tenant.counters.transport[static_cast<std::size_t>(what)].add(n);
  };
  count(transport::Count::kReceiveDropped, 5);
  count(transport::Count::kRnrNakSent, 6);
  count(transport::Count::kAckTimeouts, 7);
  ASSERT_TRUE(update());
  EXPECT_EQ(counter("port_xmit_data"), "2000") << "of 4 bytes each";
  EXPECT_EQ(counter("port_rcv_data"), "4611686018427387903");
  EXPECT_EQ(counter("port_xmit_packets"), "2");
  EXPECT_EQ(counter("unicast_xmit_packets"), "1");
  EXPECT_EQ(counter("multicast_xmit_packets"), "1");
  EXPECT_EQ(counter("port_xmit_discards"), "3");
  EXPECT_EQ(counter("link_downed"), "2");
  EXPECT_EQ(hardware("out_of_buffer"), "11");
  EXPECT_EQ(hardware("local_ack_timeout_err"), "7");
}

TEST_F(CounterFilesTest, AreLeftAloneUntilOneChanges) {
  ASSERT_TRUE(update());
  const auto folder_of = [&](const char* name) {
    struct stat found {};
    EXPECT_EQ(::stat((port + name).c_str(), &found), 0);
    return found.st_ino;
  };
  const auto counters = folder_of("counters"), hardware = folder_of("hw_counters");
  ASSERT_TRUE(update());
  EXPECT_EQ(folder_of("counters"), counters);
  tenant.counters.wire.count_transmitted(100, 40, false);
  ASSERT_TRUE(update());
  EXPECT_NE(folder_of("counters"), counters);
  EXPECT_EQ(folder_of("hw_counters"), hardware);
}

TEST_F(CounterFilesTest, FollowOneAnotherForLong) {
  for (std::uint64_t i = 1; i <= 1200; i += i < 1000 ? 97 : 1) {
    tenant.counters.wire.rx_packets.set(i);
    if (i % 2 == 0) tenant.counters.wire.rx_multicast.add();
    ASSERT_TRUE(update());
    ASSERT_EQ(counter("port_rcv_packets"), std::to_string(i));
    ASSERT_EQ(counter("multicast_rcv_packets"),
              std::to_string(tenant.counters.wire.rx_multicast.value()));
  }
  tenant.control.link_downed.set(12345);
  ASSERT_TRUE(update());
  tenant.control.link_downed.set(7);  // as when the tenant leaves a port that had errors
  for (int i = 0; i < 3; ++i, tenant.counters.wire.rx_packets.add()) {
    ASSERT_TRUE(update());
    EXPECT_EQ(fs::file_size(port + "counters/link_downed"), 2u);
    EXPECT_EQ(counter("link_downed"), "7");
  }
}

TEST_F(CounterFilesTest, AReaderSeesFiguresOfOneMoment) {
  tenant.counters.wire.rx_packets.set(999);
  ASSERT_TRUE(update());
  std::ifstream opened(port + "counters/port_rcv_packets");
  const UniqueFd listed(::open((port + "counters").c_str(), O_RDONLY | O_DIRECTORY));
  tenant.counters.wire.rx_packets.set(1000);
  ASSERT_TRUE(update());
  std::string line;
  ASSERT_TRUE(std::getline(opened, line));
  EXPECT_EQ(line, "999");
  char text[32] = {};
  const UniqueFd other(::openat(listed.get(), "unicast_rcv_packets", O_RDONLY));
  EXPECT_EQ(::read(other.get(), text, sizeof text), 4);
  EXPECT_STREQ(text, "999\n");
  EXPECT_EQ(counter("port_rcv_packets"), "1000");
  EXPECT_EQ(counter("unicast_rcv_packets"), "1000");
}

TEST_F(CounterFilesTest, NothingInTheWayIsFollowedOrWaitedFor) {
  ASSERT_TRUE(update());
  const std::string other = folder.path() + "/other";
  const std::string figure = staged + "/counters/port_rcv_packets";
  std::ofstream(other) << "somebody's\n";
  const auto plant = [&](auto&& make) {
    fs::remove(figure);
    make();
    tenant.counters.wire.rx_packets.add();
  };
  plant([&] { fs::create_symlink(other, figure); });
  EXPECT_TRUE(update());
  EXPECT_EQ(counter("port_rcv_packets"), "1");
  tenant.counters.wire.rx_packets.add();
  ASSERT_TRUE(update());
  plant([&] { ASSERT_EQ(::mkfifo(figure.c_str(), 0666), 0); });
  EXPECT_FALSE(update());
  EXPECT_TRUE(update()) << "by a new file";
  EXPECT_EQ(counter("port_rcv_packets"), "3");
  EXPECT_EQ(first_line(other), "somebody's");
  expect_regular_files();
}

TEST_F(CounterFilesTest, WhatCouldNotBeWrittenIsLater) {
  ASSERT_TRUE(update());
  fs::rename(port + "counters", port + "away");
  tenant.counters.wire.rx_packets.add();
  const auto failed = update();
  ASSERT_FALSE(failed);
  EXPECT_NE(failed.error().message.find("/counters"), std::string::npos);
  fs::create_directories(port + "counters");
  ASSERT_TRUE(update());
  EXPECT_EQ(counter("port_rcv_packets"), "1");
}

TEST_F(CounterFilesTest, AreWrittenInTheirPlacesWhereFoldersCannotChangePlaces) {
  std::string elsewhere = "/dev/shm/softhca-control-XXXXXX";
  struct stat here {
  }, there{};
  if (::mkdtemp(elsewhere.data()) == nullptr || ::stat(elsewhere.c_str(), &there) != 0 ||
      ::stat(port.c_str(), &here) != 0 || here.st_dev == there.st_dev)
    GTEST_SKIP() << "/dev/shm is no other file system";
  fs::remove_all(staged);
  fs::create_symlink(elsewhere, staged);
  for (const char* name : {"/counters", "/hw_counters"}) fs::create_directories(elsewhere + name);
  for (const std::uint64_t figure : {0, 9, 10, 3}) {
    tenant.counters.wire.rx_packets.set(figure);
    EXPECT_TRUE(update());
    EXPECT_EQ(counter("port_rcv_packets"), std::to_string(figure));
    EXPECT_EQ(hardware("lifespan"), "1000");
  }
  expect_regular_files();
  fs::remove_all(elsewhere);
}

TEST_F(CounterFilesTest, GoWithTheTenantsFolder) {
  ASSERT_TRUE(update());
  ASSERT_TRUE(fs::exists(staged));
  remove_tenant_folder(folder.path());
  EXPECT_FALSE(fs::exists(folder.path()));
}

}  // namespace
}  // namespace softhca::control
