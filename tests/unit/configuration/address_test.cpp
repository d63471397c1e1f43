// SPDX-License-Identifier: Apache-2.0

#include "daemon/configuration/address.hpp"

#include <gtest/gtest.h>

namespace softhca::configuration {
namespace {

TEST(Address, Ipv4IsMappedIntoAGid) {
  const auto gid = parse_address("10.0.0.1");
  ASSERT_TRUE(gid);
  EXPECT_EQ(*gid, Gid::from_ipv4(0x0a000001));
  EXPECT_EQ(to_string(*gid), "10.0.0.1");
}

TEST(Address, Ipv6IsItself) {
  const auto gid = parse_address("fe80::1");
  ASSERT_TRUE(gid);
  EXPECT_TRUE(gid->is_link_local());
  EXPECT_EQ(gid->bytes[15], 1);
  EXPECT_EQ(to_string(*gid), "fe80::1");
}

TEST(Address, MappedSpellingIsTheIpv4Address) {
  EXPECT_EQ(parse_address("::ffff:10.0.0.1"), parse_address("10.0.0.1"));
}

TEST(Address, WithAPortToListenOn) {
  const auto v4 = parse_listen_address("127.0.0.1:9465");
  ASSERT_TRUE(v4);
  EXPECT_EQ(to_string(v4->gid), "127.0.0.1");
  EXPECT_EQ(v4->port, 9465);
  const auto v6 = parse_listen_address("[2001:db8::1]:80");
  ASSERT_TRUE(v6);
  EXPECT_EQ(to_string(v6->gid), "2001:db8::1");
  EXPECT_EQ(v6->port, 80);
  EXPECT_TRUE(parse_listen_address("[::]:1"));
  EXPECT_TRUE(parse_listen_address("0.0.0.0:65535"));
  for (const char* text :
       {"", "9465", "127.0.0.1", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:65536", "127.0.0.1:1x",
        "::1:9465", "[127.0.0.1]:9465", "[::1]", "[]:9465", ":9465", "localhost:9465",
        "[::ffff:127.0.0.1]:9465", "[fe80::1]:9465", "[fe80::1%lo]:9465"})
    EXPECT_FALSE(parse_listen_address(text)) << text;
}

TEST(Address, RefusesWhatIsNoAddress) {
  for (const char* text : {"", "10.0.0", "10.0.0.256", "host", "fe80::1::2", "10.0.0.1 ", "1"})
    EXPECT_FALSE(parse_address(text)) << text;
  EXPECT_FALSE(parse_address(std::string_view("10.0.0.1\0x", 10))) << "embedded zero";
}

TEST(StaticNeighbour, IsAHostAndAStation) {
  const auto neighbour = parse_static_neighbour("10.0.0.2=02:00:5e:10:Af:fe");
  ASSERT_TRUE(neighbour);
  EXPECT_EQ(neighbour->gid, parse_address("10.0.0.2"));
  EXPECT_EQ(neighbour->mac, (MacAddress{{0x02, 0, 0x5e, 0x10, 0xaf, 0xfe}}));
  EXPECT_TRUE(parse_static_neighbour("fe80::2=02:00:00:00:00:01"));
  for (const char* text :
       {"", "=", "10.0.0.2", "10.0.0.2=", "=02:00:00:00:00:01", "224.0.0.1=02:00:00:00:00:01",
        "10.0.0.2=03:00:00:00:00:01", "10.0.0.2=00:00:00:00:00:00", "10.0.0.2=02:00:00:00:00",
        "10.0.0.2=02:00:00:00:00:1", "10.0.0.2=02-00-00-00-00-01", "10.0.0.2=02:00:00:00:00:0g",
        "10.0.0.2=02:00:00:00:00:01:02", "10.0.0.2=+2:00:00:00:00:01"})
    EXPECT_FALSE(parse_static_neighbour(text)) << text;
}

TEST(InterfaceAddress, TakesThePrefixLength) {
  const auto v4 = parse_interface_address("10.0.0.1/24");
  ASSERT_TRUE(v4);
  EXPECT_EQ(v4->prefix, 24);
  const auto v6 = parse_interface_address("fe80::1/64");
  ASSERT_TRUE(v6);
  EXPECT_EQ(v6->prefix, 64);
}

TEST(InterfaceAddress, WithoutPrefixLengthIsAHost) {
  EXPECT_EQ(parse_interface_address("10.0.0.1")->prefix, 32);
  EXPECT_EQ(parse_interface_address("fe80::1")->prefix, 128);
}

TEST(Address, Range_HasAllFromFirstToLast) {
  const auto texts = [](std::string_view range) {
    std::vector<std::string> out;
    for (const Gid& gid : parse_addresses(range)) out.push_back(to_string(gid));
    return out;
  };
  EXPECT_EQ(texts("10.0.0.1"), std::vector<std::string>{"10.0.0.1"});
  EXPECT_EQ(texts("10.0.0.7-10.0.0.7"), std::vector<std::string>{"10.0.0.7"});
  EXPECT_EQ(texts("10.0.0.254-10.0.1.1"),
            (std::vector<std::string>{"10.0.0.254", "10.0.0.255", "10.0.1.0", "10.0.1.1"}));
  EXPECT_EQ(texts("fd00::ffff-fd00::1:1"),
            (std::vector<std::string>{"fd00::ffff", "fd00::1:0", "fd00::1:1"}));
  EXPECT_EQ(parse_addresses("10.0.0.0-10.0.0.255").size(), kMostOfRange);
  EXPECT_EQ(parse_interface_addresses("10.0.0.1-10.0.0.3/24").back(),
            (InterfaceAddress{*parse_address("10.0.0.3"), 24}));
}

TEST(Address, WhatIsNoRange_IsEmpty) {
  for (const char* text :
       {"", "-", "10.0.0.1-", "-10.0.0.1", "10.0.0.2-10.0.0.1", "10.0.0.1-fd00::1", "10.0.0.1-9",
        "10.0.0.0-10.0.1.0", "::-ffff::", "223.255.255.255-224.0.0.1", "10.0.0.1-10.0.0.2-10.0.0.3",
        "0.0.0.0-0.0.0.1", "fd00::-fdff::"})
    EXPECT_TRUE(parse_addresses(text).empty()) << text;
  EXPECT_TRUE(parse_interface_addresses("10.0.0.1-10.0.0.3/33").empty());
  EXPECT_TRUE(parse_interface_addresses("10.0.0.1/24-10.0.0.3/24").empty());
}

TEST(InterfaceAddress, RefusesBadPrefixLengths) {
  for (const char* text : {"10.0.0.1/33", "10.0.0.1/", "10.0.0.1/-1", "10.0.0.1/8x", "fe80::1/129",
                           "10.0.0.1/256", "10.0.0.1/8/8", "/8"})
    EXPECT_FALSE(parse_interface_address(text)) << text;
}

TEST(HostAddress, IsNotUnspecifiedMulticastOrBroadcast) {
  EXPECT_TRUE(parse_address("10.0.0.1")->is_unicast());
  EXPECT_TRUE(parse_address("fe80::1")->is_unicast());
  for (const char* text : {"0.0.0.0", "255.255.255.255", "224.0.0.1", "::", "ff02::1"})
    EXPECT_FALSE(parse_address(text)->is_unicast()) << text;
}

}  // namespace
}  // namespace softhca::configuration
