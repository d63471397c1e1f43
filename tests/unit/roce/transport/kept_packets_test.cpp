// SPDX-License-Identifier: Apache-2.0

// Which out-of-order packets are buffered, and when they are dropped.
#include "daemon/roce/transport/reliable/kept_packets.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "daemon/roce/wire/opcode.hpp"

namespace softhca::transport {
namespace {

class KeptPacketsTest : public testing::Test {
 protected:
  KeptPacketsTest() {
    store.open(8);
    for (KeptPackets* each : {&a, &b}) each->open(store, tenant);
    c.open(store, other);
  }
  ~KeptPacketsTest() override {
    for (KeptPackets* each : {&a, &b, &c}) each->close();
    EXPECT_EQ(store.held(), 0u);
  }

  static bool keep(KeptPackets& where, std::uint32_t psn, std::size_t bytes = 4) {
    wire::Headers h;
    h.opcode = wire::raw(wire::Opcode::kRcSendOnly);
    h.psn = Psn(psn);
    h.imm = psn + 1;
    const std::vector<std::byte> payload(bytes, std::byte(psn));
    return where.keep({h, payload, wire::opcode_info(h.opcode).mask});
  }
  static bool has(const KeptPackets& where, std::uint32_t psn, std::size_t bytes = 4) {
    KeptPackets::Packet p;
    if (!where.find(Psn(psn), p)) return false;
    EXPECT_EQ(p.h->imm, psn + 1);
    EXPECT_EQ(p.payload.size(), bytes);
    for (const std::byte each : p.payload) EXPECT_EQ(each, std::byte(psn));
    return true;
  }

  KeptStore store;
  KeptAccount tenant;
  KeptAccount other;
  KeptPackets a, b, c;
};

TEST_F(KeptPacketsTest, AreCopiesKnownByConnectionAndNumber) {
  EXPECT_TRUE(keep(a, 5));
  EXPECT_TRUE(keep(b, 6, 4096));
  EXPECT_TRUE(has(a, 5));
  EXPECT_FALSE(has(b, 5));
  EXPECT_TRUE(has(b, 6, 4096));
  EXPECT_FALSE(keep(a, 7, 4097)) << "no packet is that long";
}

TEST_F(KeptPacketsTest, TheSameTwiceIsKeptOnce) {
  EXPECT_TRUE(keep(a, 5));
  EXPECT_TRUE(keep(a, 5));
  EXPECT_EQ(a.size(), 1u);
  EXPECT_EQ(tenant.held.value(), 1u);
  EXPECT_EQ(tenant.kept.value(), 1u);
}

TEST_F(KeptPacketsTest, TheOneFarthestAheadIsKnownOverTheEndOfTheNumbers) {
  keep(a, 0xffffff);
  keep(a, 2);
  keep(a, 1);
  EXPECT_EQ(a.last(), Psn(2));
}

TEST_F(KeptPacketsTest, AreForgottenByNumberOrRange) {
  for (const std::uint32_t psn : {0xfffffeu, 0xffffffu, 0u, 1u, 9u}) keep(a, psn);
  a.forget(Psn(1), Psn(2));
  EXPECT_FALSE(has(a, 1));
  a.forget(Psn(2), Psn(3));  // none
  a.forget(Psn(0xffffff), Psn(5));
  EXPECT_EQ(a.size(), 2u);
  EXPECT_TRUE(has(a, 0xfffffe));
  EXPECT_TRUE(has(a, 9));
  a.clear();
  EXPECT_TRUE(a.empty());
  EXPECT_EQ(tenant.held.value(), 0u);
}

TEST_F(KeptPacketsTest, ATenantAtItsWatermarkGivesUpAllOfIts) {
  tenant.set_watermark(3);
  keep(a, 1);
  keep(a, 2);
  keep(b, 1);
  keep(c, 1);
  EXPECT_TRUE(keep(a, 2)) << "it is there already";
  EXPECT_FALSE(keep(b, 2));
  EXPECT_TRUE(a.empty());
  EXPECT_TRUE(b.empty());
  EXPECT_TRUE(has(c, 1)) << "another tenant's";
  EXPECT_EQ(tenant.given_up.value(), 3u);
  EXPECT_EQ(other.given_up.value(), 0u);
  EXPECT_TRUE(keep(b, 2)) << "it begins anew";
  tenant.set_watermark(0);
  EXPECT_FALSE(keep(a, 9));
}

TEST_F(KeptPacketsTest, WhereAllIsFullTheTenantThatHoldsMostGivesUpAllOfIts) {
  for (std::uint32_t psn = 0; psn < 5; ++psn) keep(c, psn);
  for (std::uint32_t psn = 0; psn < 3; ++psn) keep(a, psn);
  EXPECT_FALSE(keep(a, 3)) << "not this one, which had to wait for room";
  EXPECT_TRUE(c.empty());
  EXPECT_EQ(other.given_up.value(), 5u);
  EXPECT_EQ(a.size(), 3u);
  EXPECT_TRUE(keep(a, 3));
  store.set_watermark(4);
  EXPECT_FALSE(keep(b, 1));
  EXPECT_EQ(store.held(), 0u);
  store.set_watermark(0);
  EXPECT_FALSE(keep(b, 1));
}

TEST_F(KeptPacketsTest, PlacesAreUsedAgain) {
  for (std::uint32_t round = 0; round < 1000; ++round) {
    for (std::uint32_t psn = round; psn < round + 7; ++psn) EXPECT_TRUE(keep(a, psn));
    for (std::uint32_t psn = round; psn < round + 7; ++psn) EXPECT_TRUE(has(a, psn));
    a.forget(Psn(round), Psn(round + 1));
    EXPECT_FALSE(has(a, round));
  }
  EXPECT_EQ(store.held(), 6u);
}

}  // namespace
}  // namespace softhca::transport
