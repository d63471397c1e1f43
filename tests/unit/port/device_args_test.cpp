// SPDX-License-Identifier: Apache-2.0

#include "daemon/port/dpdk/device_args.hpp"

#include <gtest/gtest.h>

namespace softhca::port {
namespace {

std::string text_of(std::string_view device) {
  auto args = parse_device(device);
  return args ? args->text() : "error: " + args.error().message;
}

TEST(DeviceArgs, InterfaceAloneIsAfPacketWithRoomForRoce) {
  EXPECT_EQ(text_of("iface=veth0"),
            "net_af_packet_veth0,iface=veth0,qpairs=1,framesz=4608,blocksz=36864,framecnt=2048");
}

TEST(DeviceArgs, WhatTheOperatorGivesStays) {
  EXPECT_EQ(text_of("net_af_packet0,iface=eth1,framesz=2048,qpairs=1,framecnt=64"),
            "net_af_packet0,iface=eth1,framesz=2048,qpairs=1,framecnt=64,blocksz=16384");
}

TEST(DeviceArgs, MemifGetsBigBuffersAndAFileSocket) {
  EXPECT_EQ(text_of("net_memif0,role=server,socket=/run/x.sock"),
            "net_memif0,role=server,socket=/run/x.sock,bsize=4608,rsize=10,socket-abstract=no");
  EXPECT_EQ(text_of("net_memif0,bsize=8192,rsize=8,socket=/a,socket-abstract=yes"),
            "net_memif0,bsize=8192,rsize=8,socket=/a,socket-abstract=yes");
}

TEST(DeviceArgs, OtherDevicesAreLeftAlone) {
  EXPECT_EQ(text_of("net_null0"), "net_null0");
  EXPECT_EQ(text_of("net_pcap0,rx_pcap=in.pcap"), "net_pcap0,rx_pcap=in.pcap");
  EXPECT_EQ(text_of("net_x0,flag,key=v"), "net_x0,flag,key=v");
}

TEST(DeviceArgs, KnowsPciAddresses) {
  auto full = parse_device("0000:3b:00.1");
  auto brief = parse_device("3b:00.1");
  ASSERT_TRUE(full && brief);
  EXPECT_TRUE(full->is_pci());
  EXPECT_EQ(brief->name, "0000:3b:00.1");
  for (const char* other : {"net_null0", "net_memif0,socket=/a:b.c", "3b.00:1", ":.", "0:0:0:0.0"})
    EXPECT_FALSE(parse_device(other)->is_pci()) << other;
}

TEST(DeviceArgs, FrameRoomFollowsTheDevice) {
  EXPECT_EQ(parse_device("iface=a")->frame_room(), 4608u);
  EXPECT_EQ(parse_device("iface=a,framesz=9216")->frame_room(), 9216u);
  EXPECT_EQ(parse_device("net_memif0,bsize=2048")->frame_room(), 2048u);
  EXPECT_EQ(parse_device("net_null0,size=64")->frame_room(), 4608u);
}

TEST(DeviceArgs, RefusesNonsenseWithTheDeviceInTheMessage) {
  for (const char* wrong :
       {"", ",", "net_null0,", "net_null0,,x=1", "role=server", "net_af_packet0",
        "net_af_packet0,iface=", "iface=a,framesz=", "iface=a,framesz=huge", "iface=a,framesz=64",
        "iface=a,framesz=-1", "net_memif0,bsize=99999999999"}) {
    auto args = parse_device(wrong);
    ASSERT_FALSE(args) << wrong;
    EXPECT_NE(args.error().message.find('"' + std::string(wrong) + '"'), std::string::npos);
    EXPECT_EQ(args.error().code, EINVAL);
  }
}

}  // namespace
}  // namespace softhca::port
