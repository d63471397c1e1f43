// SPDX-License-Identifier: Apache-2.0

// Authentication: which packets the engine accepts from which peers, and how it reports the others.
#include "daemon/engine/packets/peer_authentication.hpp"

#include <gtest/gtest.h>

namespace softhca::engine {
namespace {

using Bytes = std::vector<std::byte>;
using std::chrono::milliseconds;
using wire::DropReason;

const Gid kHere = Gid::from_ipv4(0x0a000001);

Gid address_of(std::uint32_t number) { return Gid::from_ipv4(0x0a000000 + number); }

PeerSecret secret_of(unsigned seed) {
  PeerSecret s;
  for (std::size_t i = 0; i < s.size(); ++i) s[i] = std::byte(seed + 11 * i);
  return s;
}

PeerConfig peer_with(const char* name, std::vector<AddressPrefix> addresses,
                     std::vector<PeerSecret> secrets, PlainPackets plain = PlainPackets::kRefuse) {
  return {.name = name,
          .addresses = std::move(addresses),
          .key_file = "",
          .plain = plain,
          .secrets = std::move(secrets)};
}

std::unique_ptr<PeerTable> table_of(std::vector<PeerConfig> peers) {
  auto table = PeerTable::make(peers);
  EXPECT_TRUE(table);
  return std::move(*table);
}

TEST(PeerTable, TheLongestPrefixDecides) {
  const Gid six = {{0xfd, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9}};
  Gid network = six;
  network.bytes[15] = 0;
  const auto table = table_of({peer_with("all", {{Gid::from_ipv4(0), 0}}, {}),
                               peer_with("net", {{address_of(0), 24}, {network, 64}}, {}),
                               peer_with("host", {{address_of(7), 32}}, {}),
                               peer_with("half", {{address_of(200), 25}}, {})});
  const auto name = [&](const Gid& gid) {
    const AuthenticatedPeer* found = table->find(gid);
    return found == nullptr ? "" : found->name();
  };
  for (int again = 0; again < 2; ++again) {  // what was looked up is remembered
    EXPECT_EQ(name(address_of(7)), "host");
    EXPECT_EQ(name(address_of(8)), "net");
    EXPECT_EQ(name(address_of(127)), "net");
    EXPECT_EQ(name(address_of(128)), "half") << "the prefix's other bits do not count";
    EXPECT_EQ(name(address_of(256)), "all");
    EXPECT_EQ(name(six), "net");
    EXPECT_EQ(name(Gid{{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9}}), "");
  }
}

/// Any mixture of addresses is found as by a search of all prefixes.
TEST(PeerTable, IsASearchOfAllPrefixes) {
  std::vector<PeerConfig> configs;
  std::uint32_t state = 1;
  const auto random = [&] { return state = state * 1664525 + 1013904223; };
  for (unsigned i = 0; i < 40; ++i) {
    const auto length = static_cast<std::uint8_t>(i % 33);
    configs.push_back(peer_with("p", {{Gid::from_ipv4(random() & 0xff0000ff), length}}, {}));
  }
  const auto table = table_of(configs);
  for (unsigned i = 0; i < 2000; ++i) {
    const Gid gid = Gid::from_ipv4(random() & 0xff0000ff);
    std::size_t best = configs.size();
    for (std::size_t k = 0; k < configs.size(); ++k) {
      const AddressPrefix& prefix = configs[k].addresses[0];
      if (prefix.contains(gid) &&
          (best == configs.size() || prefix.length > configs[best].addresses[0].length))
        best = k;
    }
    const AuthenticatedPeer* const wanted =
        best == configs.size() ? nullptr : table->peers()[best].get();
    EXPECT_EQ(table->find(gid), wanted) << i;
  }
}

TEST(PeerTable, OfNobodyIsNone) { EXPECT_EQ(table_of({}), nullptr); }

class Authentication : public testing::Test {
 protected:
  void set(std::vector<PeerConfig> peers) {
    auto table = table_of(std::move(peers));
    authentication.exchange(table);
  }
  /// What becomes of a packet from `source` that ends with a tag of `key`, or (none) a plain ICRC.
  DropReason check(const Gid& source, std::optional<unsigned> key, bool damaged = false,
                   Gid destination = kHere) {
    std::unique_ptr<wire::PacketKey> made;
    if (key) made = std::move(*wire::PacketKey::make(secret_of(*key)));
    const wire::FrameTemplate path(
        {.source = source, .destination = destination, .key = made.get()});
    wire::Headers h;
    h.opcode = wire::raw(wire::Opcode::kRcSendOnly);
    Bytes bytes(path.frame_length(h.opcode, 64));
    wire::FrameBuilder builder(bytes, path, h, 64, 0);
    std::ranges::fill(builder.payload(), std::byte{5});
    builder.finish();
    if (damaged) bytes[bytes.size() - 20] ^= std::byte{1};
    wire::ParsedFrame parsed;
    EXPECT_EQ(wire::parse_frame(bytes, parsed), DropReason::kNone);
    return authentication.check(parsed, [&] { return wire::check_icrc(parsed); });
  }

  StepClock clock{Time(milliseconds(5000))};
  EventLog log{clock, 1};
  PeerAuthentication authentication{clock, log};
};

TEST_F(Authentication, ThereMayBeNone) {
  EXPECT_FALSE(authentication.is_on());
  EXPECT_EQ(authentication.sending_key(address_of(2)), nullptr);
}

TEST_F(Authentication, AHostWithKeysHasToUseOne) {
  set({peer_with("r", {{address_of(2), 32}}, {secret_of(1), secret_of(2)})});
  EXPECT_EQ(check(address_of(2), 1), DropReason::kNone);
  EXPECT_EQ(check(address_of(2), 2), DropReason::kNone);
  EXPECT_EQ(check(address_of(2), 3), DropReason::kWrongKey);
  EXPECT_EQ(check(address_of(2), 1, true), DropReason::kWrongKey)
      << "damaged or forged: not distinguishable";
  EXPECT_EQ(check(address_of(2), {}), DropReason::kUnauthenticated);
  EXPECT_EQ(check(address_of(2), {}, true), DropReason::kWrongKey);
  const AuthenticatedPeer& r = *authentication.table()->peers()[0];
  EXPECT_EQ(r.taken_with(0), 1u);
  EXPECT_EQ(r.taken_with(1), 1u);
  EXPECT_EQ(r.taken_plain(), 0u);
  EXPECT_NE(authentication.sending_key(address_of(2)), nullptr);
}

TEST_F(Authentication, OthersSendPlainPackets) {
  set({peer_with("r", {{address_of(2), 32}}, {secret_of(1)})});
  EXPECT_EQ(check(address_of(3), {}), DropReason::kNone);
  EXPECT_EQ(check(address_of(3), {}, true), DropReason::kBadIcrc);
  EXPECT_EQ(check(address_of(3), 1), DropReason::kBadIcrc) << "the key of another";
  EXPECT_EQ(authentication.sending_key(address_of(3)), nullptr);
}

TEST_F(Authentication, PlainPacketsMayBeAllowedOrSent) {
  set({peer_with("a", {{address_of(2), 32}}, {secret_of(1)}, PlainPackets::kAllow),
       peer_with("s", {{address_of(3), 32}}, {secret_of(1)}, PlainPackets::kSend)});
  for (const std::uint32_t number : {2u, 3u}) {
    EXPECT_EQ(check(address_of(number), 1), DropReason::kNone);
    EXPECT_EQ(check(address_of(number), {}), DropReason::kNone);
    EXPECT_EQ(check(address_of(number), {}, true), DropReason::kWrongKey);
    EXPECT_EQ(authentication.table()->peers()[number - 2]->taken_plain(), 1u);
  }
  EXPECT_NE(authentication.sending_key(address_of(2)), nullptr);
  EXPECT_EQ(authentication.sending_key(address_of(3)), nullptr);
}

TEST_F(Authentication, AllMayBeRefusedThatHaveNoKey) {
  set({peer_with("all", {{Gid::from_ipv4(0), 0}}, {}),
       peer_with("r", {{address_of(2), 32}}, {secret_of(1)}),
       peer_with("printer", {{address_of(9), 32}}, {}, PlainPackets::kAllow)});
  EXPECT_EQ(check(address_of(3), {}), DropReason::kUnauthenticated);
  EXPECT_EQ(check(address_of(3), {}, true), DropReason::kBadIcrc);
  EXPECT_EQ(check(address_of(2), 1), DropReason::kNone);
  EXPECT_EQ(check(address_of(9), {}), DropReason::kNone);
}

TEST_F(Authentication, GroupsHaveKeysOfTheirOwn) {
  const Gid group = Gid::from_ipv4(0xe0000105);
  set({peer_with("g", {{group, 32}}, {secret_of(1)}),
       peer_with("r", {{address_of(2), 32}}, {secret_of(2)})});
  EXPECT_EQ(check(address_of(2), 1, false, group), DropReason::kNone);
  EXPECT_EQ(check(address_of(2), 2, false, group), DropReason::kWrongKey);
  EXPECT_EQ(check(address_of(3), {}, false, group), DropReason::kUnauthenticated);
  EXPECT_NE(authentication.sending_key(group), nullptr);
}

TEST_F(Authentication, ManyRefusedPacketsAreAnEvent) {
  set({peer_with("r", {{address_of(2), 32}}, {secret_of(1)})});
  const auto forge = [&](unsigned count) {
    for (unsigned i = 0; i < count; ++i) EXPECT_NE(check(address_of(2), 7), DropReason::kNone);
  };
  for (int second = 0; second < 5; ++second) {
    forge(PeerAuthentication::kAlarming - 1);
    clock.now += milliseconds(1000);
  }
  EXPECT_EQ(log.count(), 0u) << "few at a time";
  forge(PeerAuthentication::kAlarming);
  ASSERT_EQ(log.count(), 1u);
  EXPECT_EQ(log[0].kind, DaemonEventKind::kForgedPackets);
  EXPECT_EQ(log[0].peer, address_of(2));
  EXPECT_EQ(log[0].amount, PeerAuthentication::kAlarming);
  EXPECT_STREQ(log[0].cause, "with a tag that matches no key");
  forge(1000);
  clock.now += milliseconds(5000);
  forge(1000);
  EXPECT_EQ(log.count(), 1u) << "once in ten seconds";
  clock.now += milliseconds(5000);
  for (unsigned i = 0; i < PeerAuthentication::kAlarming; ++i) check(address_of(2), {});
  ASSERT_EQ(log.count(), 2u);
  EXPECT_STREQ(log[1].cause, "without a tag, from a host that must send one");
}

}  // namespace
}  // namespace softhca::engine
