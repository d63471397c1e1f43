// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/neighbour/neighbours.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <deque>
#include <random>
#include <set>

namespace softhca::neighbour {
namespace {

using namespace std::chrono_literals;
using Bytes = std::vector<std::byte>;
using testing::Optional;
using wire::ArpMessage;
using wire::parse_arp;
using wire::parse_neighbour;

constexpr MacAddress kOurMac{{2, 0, 0, 0, 0, 1}};
constexpr MacAddress kPeerMac{{2, 0, 0, 0, 0, 2}};
constexpr MacAddress kOtherMac{{2, 0, 0, 0, 0, 3}};
constexpr Gid kOurs = Gid::from_ipv4(0x0a000001);  // 10.0.0.1/24
constexpr Gid kPeer = Gid::from_ipv4(0x0a000002);
constexpr Gid kGateway = Gid::from_ipv4(0x0a0000fe);
constexpr Gid kFar = Gid::from_ipv4(0x08080808);

/// fd00::n, or fe80::n.
constexpr Gid v6(std::uint8_t n, std::uint8_t first = 0xfd, std::uint8_t second = 0) {
  Gid g;
  g.bytes[0] = first;
  g.bytes[1] = second;
  g.bytes[15] = n;
  return g;
}

/// One of many peers.
constexpr Gid nth(std::uint32_t n) { return Gid::from_ipv4(0x0a000010 + n); }

constexpr TenantId user(std::uint32_t n) { return TenantId(static_cast<std::uint16_t>(n)); }

std::optional<MacAddress> destination_of(const Bytes& frame) {
  if (frame.size() < 6) return std::nullopt;
  MacAddress mac;
  std::memcpy(mac.bytes.data(), frame.data(), 6);
  return mac;
}

/// A table and everything it sends.
struct Host {
  explicit Host(MacAddress own = kOurMac, std::uint32_t capacity = 16,
                std::optional<std::uint16_t> vlan = {})
      : table({own, vlan, capacity},
              [this](std::span<const std::byte> f) { sent.emplace_back(f.begin(), f.end()); }) {}

  Bytes take() {
    if (sent.empty()) return {};
    Bytes frame = std::move(sent.front());
    sent.pop_front();
    return frame;
  }
  std::size_t requests() {
    const std::size_t n = sent.size();
    sent.clear();
    return n;
  }

  std::deque<Bytes> sent;
  Neighbours table;
};

Bytes arp_reply(const Gid& sender, MacAddress mac, MacAddress to = kOurMac,
                std::optional<std::uint16_t> vlan = {}) {
  Bytes out(wire::kMaxResolutionFrame);
  ArpMessage request;
  request.sender_mac = to;
  request.sender = kOurs;
  out.resize(wire::build_arp_reply({mac, vlan, sender}, request,
                                   std::span<std::byte, wire::kMaxResolutionFrame>(out)));
  return out;
}

Bytes arp_request(const Gid& sender, MacAddress mac, const Gid& target) {
  Bytes out(wire::kMaxResolutionFrame);
  out.resize(wire::build_arp_request({mac, {}, sender}, target,
                                     std::span<std::byte, wire::kMaxResolutionFrame>(out)));
  return out;
}

Bytes advertisement(const Gid& from, MacAddress mac, const Gid& to) {
  Bytes out(wire::kMaxResolutionFrame);
  wire::NeighbourMessage question;
  question.source = to;
  question.source_mac = kOurMac;
  out.resize(wire::build_advertisement({mac, {}, from}, question,
                                       std::span<std::byte, wire::kMaxResolutionFrame>(out)));
  return out;
}

Bytes solicitation(const Gid& from, MacAddress mac, const Gid& target) {
  Bytes out(wire::kMaxResolutionFrame);
  out.resize(wire::build_solicitation({mac, {}, from}, target,
                                      std::span<std::byte, wire::kMaxResolutionFrame>(out)));
  return out;
}

class NeighboursTest : public testing::Test {
 protected:
  NeighboursTest() {
    host.table.add_address({kOurs, 24, true});
    host.table.add_address({v6(1), 64, true});
  }
  void advance(Duration d) {
    now += d;
    host.table.run(now);
  }
  void resolve_peer() {
    host.table.resolve(kPeer, now);
    host.sent.clear();
    host.table.receive(arp_reply(kPeer, kPeerMac), now);
    ASSERT_THAT(host.table.resolve(kPeer, now), Optional(kPeerMac));
  }

  Host host;
  Time now{1h};
};

TEST_F(NeighboursTest, AsksByBroadcastAndLearnsFromTheReply) {
  EXPECT_EQ(host.table.resolve(kPeer, now), std::nullopt);
  const auto question = parse_arp(host.take());
  ASSERT_TRUE(question);
  EXPECT_EQ(question->operation, ArpMessage::Operation::kArpRequest);
  EXPECT_EQ(question->sender, kOurs);
  EXPECT_EQ(question->sender_mac, kOurMac);
  EXPECT_EQ(question->target, kPeer);
  EXPECT_TRUE(host.table.receive(arp_reply(kPeer, kPeerMac), now));
  EXPECT_THAT(host.table.resolve(kPeer, now), Optional(kPeerMac));
  EXPECT_TRUE(host.sent.empty());
}

TEST_F(NeighboursTest, AsksBySolicitationForIpv6) {
  EXPECT_EQ(host.table.resolve(v6(2), now), std::nullopt);
  const auto question = parse_neighbour(host.take());
  ASSERT_TRUE(question);
  EXPECT_FALSE(question->is_advertisement);
  EXPECT_EQ(question->source, v6(1));
  EXPECT_EQ(question->target, v6(2));
  EXPECT_EQ(question->destination, wire::solicited_node_group(v6(2)));
  EXPECT_TRUE(host.table.receive(advertisement(v6(2), kPeerMac, v6(1)), now));
  EXPECT_THAT(host.table.resolve(v6(2), now), Optional(kPeerMac));
}

TEST_F(NeighboursTest, TwoHostsFindEachOther) {
  Host peer(kPeerMac);
  peer.table.add_address({kPeer, 24, true});
  peer.table.add_address({v6(2), 64, true});
  for (const Gid& target : {kPeer, v6(2)}) {
    EXPECT_FALSE(host.table.resolve(target, now));
    EXPECT_TRUE(peer.table.receive(host.take(), now));
    EXPECT_TRUE(host.table.receive(peer.take(), now));
    EXPECT_THAT(host.table.resolve(target, now), Optional(kPeerMac));
  }
  EXPECT_EQ(peer.table.counters().answers.value(), 2u);
  EXPECT_EQ(peer.table.size(), 0u) << "hosts that ask are not remembered";
}

TEST_F(NeighboursTest, GroupsMapWithoutAsking) {
  EXPECT_THAT(host.table.resolve(Gid::from_ipv4(0xe1010203), now),
              Optional(MacAddress{{0x01, 0x00, 0x5e, 0x01, 0x02, 0x03}}));
  EXPECT_THAT(host.table.resolve(v6(9, 0xff, 0x02), now),
              Optional(MacAddress{{0x33, 0x33, 0, 0, 0, 9}}));
  EXPECT_TRUE(host.sent.empty());
  EXPECT_EQ(host.table.size(), 0u);
}

// ---- asking again

TEST_F(NeighboursTest, AsksQuicklyAtFirstThenOnceASecondWhileInUse) {
  host.table.resolve(kPeer, now);
  std::vector<std::int64_t> at;
  const Time start = now;
  for (host.requests(); now < start + 4s;) {
    now = host.table.next_deadline();
    host.table.run(now);
    if (host.requests() > 0) at.push_back((now - start) / 1ms);
    host.table.resolve(kPeer, now);
  }
  EXPECT_THAT(at, testing::ElementsAre(20, 120, 420, 1420, 2420, 3420, 4420));
}

TEST_F(NeighboursTest, DoesNotAskMoreBecauseMorePacketsWait) {
  for (int i = 0; i < 1000; ++i) host.table.resolve(kPeer, now);
  EXPECT_EQ(host.requests(), 1u);
}

TEST_F(NeighboursTest, GivesUpOnWhatNobodyWantsAnyMore) {
  host.table.resolve(kPeer, now);
  for (int i = 0; i < 10; ++i) advance(1s);
  EXPECT_EQ(host.table.size(), 0u);
  EXPECT_EQ(host.table.next_deadline(), kNever);
  host.sent.clear();
  advance(1h);
  EXPECT_TRUE(host.sent.empty());
}

TEST_F(NeighboursTest, AFloodOfTargetsDoesNotFloodTheNetwork) {
  Host big(kOurMac, 4096);
  big.table.add_address({kOurs, 8, true});
  for (std::uint32_t i = 0; i < 2000; ++i)
    big.table.resolve(Gid::from_ipv4(0x0a010000 + i), now + i * 1us);
  EXPECT_LE(big.requests(), 32u);
  EXPECT_EQ(big.table.counters().suppressed.value(), 2000u - 32);
  // Those put off get their turn: all are asked for within their lifetime, 32 in 100 ms at most.
  std::set<Gid> asked;
  for (Time t = now; t < now + 4s; t += 10ms) {
    big.table.run(t);
    EXPECT_LE(big.sent.size(), 64u);
    while (!big.sent.empty()) asked.insert(parse_arp(big.take())->target);
  }
  EXPECT_GT(asked.size(), 400u);
}

TEST_F(NeighboursTest, WithoutAnAddressOfTheFamilyThereIsNobodyToAskFor) {
  Host v4only;
  v4only.table.add_address({kOurs, 24, true});
  EXPECT_FALSE(v4only.table.resolve(v6(2), now));
  EXPECT_TRUE(v4only.sent.empty());
}

// ---- ageing

TEST_F(NeighboursTest, ChecksANeighbourInUseByUnicastWithoutInterruption) {
  resolve_peer();
  now += 29s;
  EXPECT_THAT(host.table.resolve(kPeer, now), Optional(kPeerMac));
  EXPECT_TRUE(host.sent.empty());
  now += 2s;
  EXPECT_THAT(host.table.resolve(kPeer, now), Optional(kPeerMac));
  ASSERT_EQ(host.sent.size(), 1u);
  EXPECT_THAT(destination_of(host.take()), Optional(kPeerMac));
  EXPECT_THAT(host.table.resolve(kPeer, now), Optional(kPeerMac));
  EXPECT_TRUE(host.sent.empty());
  host.table.receive(arp_reply(kPeer, kPeerMac), now);
  now += 29s;
  host.table.run(now);
  EXPECT_THAT(host.table.resolve(kPeer, now), Optional(kPeerMac));
  EXPECT_TRUE(host.sent.empty());
}

TEST_F(NeighboursTest, LosesANeighbourThatNoLongerAnswersAndFindsItAgain) {
  resolve_peer();
  now += 31s;
  EXPECT_TRUE(host.table.resolve(kPeer, now));
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(destination_of(host.take()), Optional(kPeerMac)) << i;
    EXPECT_TRUE(host.table.resolve(kPeer, now));
    advance(1s);
  }
  EXPECT_FALSE(host.table.resolve(kPeer, now));
  EXPECT_EQ(host.table.counters().lost.value(), 1u);
  EXPECT_THAT(destination_of(host.take()), Optional(wire::kBroadcastMac));
  host.table.receive(arp_reply(kPeer, kOtherMac), now);
  EXPECT_THAT(host.table.resolve(kPeer, now), Optional(kOtherMac));
}

TEST_F(NeighboursTest, AnIdleNeighbourIsNotDisturbedAndInTheEndForgotten) {
  resolve_peer();
  advance(9min);
  EXPECT_EQ(host.table.size(), 1u);
  advance(2min);
  EXPECT_EQ(host.table.size(), 0u);
  EXPECT_TRUE(host.sent.empty());
  EXPECT_EQ(host.table.next_deadline(), kNever);
}

// ---- what others say

TEST_F(NeighboursTest, StrangersDoNotEnterTheTable) {
  host.table.receive(arp_reply(kPeer, kPeerMac), now);
  host.table.receive(arp_request(kPeer, kPeerMac, kOurs), now);
  host.table.receive(advertisement(v6(2), kPeerMac, v6(1)), now);
  host.table.receive(solicitation(v6(2), kPeerMac, v6(1)), now);
  EXPECT_EQ(host.table.size(), 0u);
}

TEST_F(NeighboursTest, ANeighbourMayMoveToAnotherLinkAddress) {
  resolve_peer();
  host.table.receive(arp_request(kPeer, kOtherMac, kPeer), now);  // a gratuitous request
  EXPECT_THAT(host.table.resolve(kPeer, now), Optional(kOtherMac));
  EXPECT_THAT(destination_of(host.take()), Optional(kOtherMac)) << "said unasked, so it is checked";
}

TEST_F(NeighboursTest, AQuestionFromANeighbourThatIsBeingAskedForWillDo) {
  host.table.resolve(kPeer, now);
  host.sent.clear();
  host.table.receive(arp_request(kPeer, kPeerMac, kOurs), now);
  EXPECT_EQ(host.sent.size(), 1u) << "the answer";
  EXPECT_THAT(host.table.resolve(kPeer, now), Optional(kPeerMac));
}

TEST_F(NeighboursTest, UnaskedAssertionsDoNotProlongTrust) {
  resolve_peer();
  now += 29s;
  host.table.receive(arp_request(kPeer, kPeerMac, kGateway), now);
  now += 2s;
  EXPECT_TRUE(host.table.resolve(kPeer, now));
  EXPECT_EQ(host.requests(), 1u);
}

TEST_F(NeighboursTest, AnAdvertisementWithoutOverrideDoesNotReplace) {
  host.table.resolve(v6(2), now);
  host.table.receive(advertisement(v6(2), kPeerMac, v6(1)), now);
  host.sent.clear();
  Bytes other = advertisement(v6(2), kOtherMac, v6(1));
  const auto checksum = [](Bytes& f) {  // clears the override flag and mends the sum
    f[14 + 40 + 4] &= ~std::byte{0x20};
    std::uint32_t sum =
        (std::to_integer<std::uint32_t>(f[56]) << 8 | std::to_integer<std::uint32_t>(f[57])) +
        0x2000;
    sum = (sum & 0xffff) + (sum >> 16);
    f[56] = std::byte(sum >> 8);
    f[57] = std::byte(sum);
  };
  checksum(other);
  ASSERT_TRUE(parse_neighbour(other) && !parse_neighbour(other)->overrides);
  host.table.receive(other, now);
  EXPECT_THAT(host.table.resolve(v6(2), now), Optional(kPeerMac));
  EXPECT_THAT(destination_of(host.take()), Optional(kPeerMac)) << "but it raises a doubt";
}

TEST_F(NeighboursTest, SomebodyElseWithOurAddressIsCountedAndNotBelieved) {
  host.table.receive(arp_reply(kOurs, kPeerMac), now);
  host.table.receive(advertisement(v6(1), kPeerMac, v6(2)), now);
  EXPECT_EQ(host.table.counters().conflicts.value(), 2u);
  EXPECT_EQ(host.table.size(), 0u);
}

TEST_F(NeighboursTest, OwnFramesThatComeBackAreNoConflict) {
  host.table.announce();
  while (!host.sent.empty()) EXPECT_TRUE(host.table.receive(host.take(), now));
  EXPECT_EQ(host.table.counters().conflicts.value(), 0u);
  EXPECT_EQ(host.table.counters().answers.value(), 0u);
}

// ---- answering

TEST_F(NeighboursTest, AnswersForItsAddressesOnly) {
  host.table.receive(arp_request(kPeer, kPeerMac, kOurs), now);
  const auto answer = parse_arp(host.take());
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->operation, ArpMessage::Operation::kArpReply);
  EXPECT_EQ(answer->sender, kOurs);
  EXPECT_EQ(answer->sender_mac, kOurMac);
  EXPECT_EQ(answer->target_mac, kPeerMac);
  host.table.receive(solicitation(v6(2), kPeerMac, v6(1)), now);
  const auto advert = parse_neighbour(host.take());
  ASSERT_TRUE(advert);
  EXPECT_TRUE(advert->is_advertisement && advert->solicited);
  EXPECT_EQ(advert->target, v6(1));
  EXPECT_THAT(advert->link, Optional(kOurMac));
  host.table.receive(arp_request(kPeer, kPeerMac, kGateway), now);
  host.table.receive(solicitation(v6(2), kPeerMac, v6(3)), now);
  EXPECT_TRUE(host.sent.empty());
}

TEST_F(NeighboursTest, LeavesTheKernelsAddressesToTheKernel) {
  Host quiet;
  quiet.table.add_address({kOurs, 24, false});
  quiet.table.add_address({v6(1), 64, false});
  quiet.table.receive(arp_request(kPeer, kPeerMac, kOurs), now);
  quiet.table.receive(solicitation(v6(2), kPeerMac, v6(1)), now);
  quiet.table.announce();
  EXPECT_TRUE(quiet.sent.empty());
  quiet.table.resolve(kPeer, now);
  EXPECT_EQ(quiet.requests(), 1u) << "but asks on their behalf";
}

TEST_F(NeighboursTest, AnnouncesWhatItAnswersFor) {
  host.table.announce();
  const auto arp = parse_arp(host.take());
  ASSERT_TRUE(arp);
  EXPECT_EQ(arp->sender, kOurs);
  EXPECT_EQ(arp->target, kOurs);
  const auto advert = parse_neighbour(host.take());
  ASSERT_TRUE(advert);
  EXPECT_EQ(advert->target, v6(1));
  EXPECT_EQ(advert->destination, wire::kAllNodes);
  EXPECT_TRUE(advert->overrides && !advert->solicited);
}

TEST_F(NeighboursTest, StopsAnsweringForAnAddressThatWasRemoved) {
  host.table.remove_address(kOurs);
  host.table.receive(arp_request(kPeer, kPeerMac, kOurs), now);
  EXPECT_TRUE(host.sent.empty());
}

TEST_F(NeighboursTest, KeepsToItsVlan) {
  Host tagged(kOurMac, 16, 7);
  tagged.table.add_address({kOurs, 24, true});
  tagged.table.resolve(kPeer, now);
  EXPECT_EQ(parse_arp(tagged.take())->vlan, 7);
  EXPECT_TRUE(tagged.table.receive(arp_reply(kPeer, kPeerMac, kOurMac), now));
  EXPECT_TRUE(tagged.table.receive(arp_reply(kPeer, kPeerMac, kOurMac, 8), now));
  EXPECT_FALSE(tagged.table.resolve(kPeer, now));
  EXPECT_TRUE(tagged.table.receive(arp_reply(kPeer, kPeerMac, kOurMac, 7), now));
  EXPECT_TRUE(tagged.table.resolve(kPeer, now));
}

// ---- routes

TEST_F(NeighboursTest, SendsBeyondItsNetworksToTheGatewayOfTheFamily) {
  EXPECT_THAT(host.table.next_hop(kPeer), Optional(kPeer));
  EXPECT_THAT(host.table.next_hop(v6(77)), Optional(v6(77)));
  EXPECT_EQ(host.table.next_hop(kFar), std::nullopt);
  host.table.set_gateway(kGateway, {});
  EXPECT_THAT(host.table.next_hop(kFar), Optional(kGateway));
  EXPECT_THAT(host.table.next_hop(kPeer), Optional(kPeer));
  EXPECT_EQ(host.table.next_hop(v6(1, 0x20, 0x01)), std::nullopt);
  host.table.set_gateway(kGateway, v6(0xfe, 0xfe, 0x80));
  EXPECT_THAT(host.table.next_hop(v6(1, 0x20, 0x01)), Optional(v6(0xfe, 0xfe, 0x80)));
}

TEST_F(NeighboursTest, LinkLocalAddressesAndGroupsAreOnTheLink) {
  host.table.set_gateway(kGateway, v6(0xfe));
  EXPECT_THAT(host.table.next_hop(v6(5, 0xfe, 0x80)), Optional(v6(5, 0xfe, 0x80)));
  EXPECT_THAT(host.table.next_hop(v6(5, 0xff, 0x05)), Optional(v6(5, 0xff, 0x05)));
  EXPECT_THAT(host.table.next_hop(Gid::from_ipv4(0xe0000005)),
              Optional(Gid::from_ipv4(0xe0000005)));
}

TEST_F(NeighboursTest, PrefixesOfAnyLengthHold) {
  Host h;
  h.table.add_address({Gid::from_ipv4(0x0a0000fe), 31, true});
  EXPECT_TRUE(h.table.next_hop(Gid::from_ipv4(0x0a0000ff)));
  EXPECT_FALSE(h.table.next_hop(Gid::from_ipv4(0x0a0000fd)));
  h.table.add_address({Gid::from_ipv4(0xc0000201), 32, true});
  EXPECT_TRUE(h.table.next_hop(Gid::from_ipv4(0xc0000201)));
  EXPECT_FALSE(h.table.next_hop(Gid::from_ipv4(0xc0000202)));
  h.table.add_address({Gid::from_ipv4(0x01020304), 0, true});
  EXPECT_TRUE(h.table.next_hop(kFar));
  EXPECT_FALSE(h.table.next_hop(v6(1))) << "0.0.0.0/0 is IPv4's alone";
}

TEST_F(NeighboursTest, AsksInTheNameOfTheAddressOnTheSameNetwork) {
  const Gid second = Gid::from_ipv4(0xc0a80101);
  host.table.add_address({second, 24, true});
  host.table.add_address({v6(1, 0xfe, 0x80), 64, true});
  host.table.resolve(Gid::from_ipv4(0xc0a80105), now);
  EXPECT_EQ(parse_arp(host.take())->sender, second);
  host.table.resolve(kPeer, now);
  EXPECT_EQ(parse_arp(host.take())->sender, kOurs);
  host.table.resolve(v6(9, 0xfe, 0x80), now);
  EXPECT_EQ(parse_neighbour(host.take())->source, v6(1, 0xfe, 0x80));
}

// ---- bounds

TEST_F(NeighboursTest, ForgetsTheUnansweredBeforeTheUsefulWhenFull) {
  resolve_peer();
  for (std::uint32_t i = 0; i < 1000; ++i)
    host.table.resolve(nth(i % 200), now += 1ms, user(1 + i % 8));
  EXPECT_EQ(host.table.size(), 16u);
  EXPECT_GT(host.table.counters().evicted.value(), 0u);
  EXPECT_THAT(host.table.resolve(kPeer, now), Optional(kPeerMac));
}

TEST_F(NeighboursTest, WhoMakesUpNeighboursMakesRoomForOthersOnly) {
  Host big(kOurMac, 1024);
  big.table.add_address({kOurs, 8, true});
  const auto flood = [&] {
    for (std::uint32_t i = 0; i < 3000; ++i) big.table.resolve(nth(i), now, user(1));
    EXPECT_EQ(big.table.size(), 1024u);
  };
  flood();
  EXPECT_EQ(big.table.counters().evicted.value(), 0u);
  for (std::uint32_t i = 0; i < 500; ++i) {
    const Gid peer = nth(10'000 + i);
    big.table.resolve(peer, now, user(2));
    flood();
    big.table.receive(arp_reply(peer, kPeerMac), now);
  }
  for (std::uint32_t i = 0; i < 500; ++i)
    EXPECT_TRUE(big.table.known(nth(10'000 + i))) << i << ": what works stays";
}

/// As for a network where others may send any ARP message.
TEST_F(NeighboursTest, StaticNeighboursAreNotAskedForAndStayWhatTheyAre) {
  Host big(kOurMac, 1024);
  big.table.add_address({kOurs, 8, true});
  constexpr MacAddress kGiven{{2, 0, 0, 0, 0, 0x77}}, kOther{{2, 0, 0, 0, 0, 0x78}};
  const Gid peer = nth(1);
  big.table.resolve(peer, now);
  EXPECT_EQ(big.table.counters().requests.value(), 1u);
  big.table.set_static({{peer, kGiven}});
  EXPECT_EQ(big.table.resolve(peer, now), kGiven) << "although an answer is awaited";
  EXPECT_EQ(big.table.known(peer), kGiven);
  big.table.receive(arp_reply(peer, kOther), now);
  EXPECT_EQ(big.table.resolve(peer, now), kGiven);
  const std::uint32_t before = big.table.size();
  big.table.set_static({{nth(2), kGiven}});
  EXPECT_EQ(big.table.resolve(nth(2), now), kGiven);
  EXPECT_EQ(big.table.size(), before);
  EXPECT_EQ(big.table.resolve(peer, now), kOther) << "it is given no more";
}

TEST_F(NeighboursTest, WhoMakesUpNeighboursKeepsNobodyFromAsking) {
  Host big(kOurMac, 1024);
  big.table.add_address({kOurs, 8, true});
  std::uint32_t made_up = 0;
  const auto flood = [&] {
    for (int i = 0; i < 1000; ++i) big.table.resolve(nth(made_up++ % 100'000), now, user(1));
    big.sent.clear();
  };
  for (std::uint32_t n = 0; n < 20; ++n) {
    flood();
    const Gid peer = Gid::from_ipv4(0x0b000000 + n);
    big.table.add_address({kOurs, 7, true});
    EXPECT_FALSE(big.table.resolve(peer, now, user(2)));
    ASSERT_EQ(big.sent.size(), 1u) << "asked at once";
    big.sent.clear();
    flood();
    now += 1ms;
    big.table.receive(arp_reply(peer, kPeerMac), now);
    flood();
    EXPECT_THAT(big.table.resolve(peer, now, user(2)), Optional(kPeerMac));
    now += 99ms;
    big.table.run(now);
  }
  EXPECT_EQ(big.table.size(), 1024u);
}

TEST_F(NeighboursTest, WhoIsAskedForByTwoIsAskedForInTheNameOfWhoMay) {
  Host big(kOurMac, 1024);
  big.table.add_address({kOurs, 8, true});
  const Gid wanted = nth(500);
  for (std::uint32_t n = 0; n < 501; ++n) big.table.resolve(nth(n), now, user(1));
  const std::size_t asked = big.sent.size();
  EXPECT_LT(asked, 501u) << "too many at once";
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(big.table.resolve(wanted, now, user(2)));
  EXPECT_EQ(big.sent.size(), asked + 1) << "once";
  big.table.receive(arp_reply(wanted, kPeerMac), now);
  EXPECT_THAT(big.table.resolve(wanted, now, user(2)), Optional(kPeerMac));
}

/// An accomplice on the network answers for all that is made up.
TEST_F(NeighboursTest, WhoseNeighboursAllAnswerTakesTheRoomOfNobodyWithFew) {
  Host big(kOurMac, 64);
  big.table.add_address({kOurs, 8, true});
  const auto learn = [&](std::uint32_t n, TenantId whose) {
    big.table.resolve(nth(n), now += 10ms, whose);
    big.table.receive(arp_reply(nth(n), kPeerMac), now);
    big.sent.clear();
  };
  for (std::uint32_t n = 0; n < 10; ++n) learn(n, user(2));
  for (std::uint32_t n = 10; n < 1000; ++n) learn(n, user(1));
  EXPECT_EQ(big.table.size(), 64u);
  for (std::uint32_t n = 0; n < 10; ++n) EXPECT_TRUE(big.table.known(nth(n))) << n;
  for (std::uint32_t n = 1000; n < 1040; ++n) learn(n, user(2));
  for (std::uint32_t n = 1010; n < 1040; ++n) EXPECT_TRUE(big.table.known(nth(n))) << n;
}

TEST_F(NeighboursTest, WhoHasManyNeighboursFindsThemAllBesideSomeThatAreNotThere) {
  Host big(kOurMac, 1024);
  big.table.add_address({kOurs, 8, true});
  constexpr std::uint32_t kThere = 500, kAll = 700;
  std::uint32_t found = 0;
  const Time end = now + 10s;
  for (; now < end && found < kThere; now += 1ms) {
    found = 0;
    for (std::uint32_t n = kAll; n-- > 0;)
      found += big.table.resolve(nth(n), now, user(1)).has_value();
    if (now >= big.table.next_deadline()) big.table.run(now);
    for (; !big.sent.empty(); big.sent.pop_front())
      if (const Gid target = parse_arp(big.sent.front())->target; target < nth(kThere))
        big.table.receive(arp_reply(target, kPeerMac), now);
  }
  EXPECT_EQ(found, kThere);
}

TEST_F(NeighboursTest, ForgetsTheLongestUnusedOfTheUseful) {
  Host small(kOurMac, 2);
  small.table.add_address({kOurs, 24, true});
  for (std::uint32_t n : {0u, 1u}) {
    small.table.resolve(nth(n), now += 1s);
    small.table.receive(arp_reply(nth(n), kPeerMac), now);
  }
  small.table.resolve(nth(0), now += 1s);
  small.table.resolve(nth(2), now += 1s);
  EXPECT_TRUE(small.table.resolve(nth(0), now));
  EXPECT_EQ(small.table.size(), 2u);
}

TEST(NeighboursByKernel, AreAllKnownAndNobodyIsAsked) {
  Neighbours table({.mac = kOurMac, .by_kernel = true},
                   [](std::span<const std::byte>) { ADD_FAILURE() << "it sends nothing"; });
  table.add_address({kOurs, 0, false});
  table.announce();
  const Gid group = Gid::from_ipv4(0xe0000001);
  for (const Gid& to : {kPeer, kFar, group}) {
    EXPECT_THAT(table.next_hop(to), Optional(to));
    EXPECT_TRUE(table.known(to));
    EXPECT_THAT(table.resolve(to, Time(1s)), Optional(MacAddress{}));
  }
  EXPECT_EQ(table.next_hop(v6(1)), std::nullopt) << "of the other family";
  EXPECT_EQ(table.size(), 0u);
  table.run(Time(100s));
}

TEST_F(NeighboursTest, OtherFramesAreNotItsBusiness) {
  EXPECT_FALSE(host.table.receive({}, now));
  EXPECT_FALSE(host.table.receive(Bytes(13), now));
  EXPECT_FALSE(host.table.receive(Bytes(64, std::byte{0xff}), now));
}

TEST_F(NeighboursTest, SurvivesMutatedAndTruncatedFrames) {
  std::mt19937 random(1);
  const std::vector<Bytes> seeds = {arp_request(kPeer, kPeerMac, kOurs), arp_reply(kPeer, kPeerMac),
                                    solicitation(v6(2), kPeerMac, v6(1)),
                                    advertisement(v6(2), kPeerMac, v6(1))};
  for (int i = 0; i < 100000; ++i) {
    Bytes frame = seeds[random() % seeds.size()];
    for (auto n = random() % 4; n > 0; --n) frame[random() % frame.size()] = std::byte(random());
    frame.resize(random() % (frame.size() + 1));
    host.table.receive(frame, now);
    if (i % 64 == 0) host.table.resolve(Gid::from_ipv4(0x0a000000 + random() % 256), now);
    if (i % 16 == 0) advance(50ms);
    host.sent.clear();
  }
  EXPECT_LE(host.table.size(), 16u);
}

/// The table against a plain map, through many random steps.
TEST_F(NeighboursTest, KeepsEveryEntryApart) {
  Host big(kOurMac, 256);
  big.table.add_address({kOurs, 8, true});
  std::mt19937 random(7);
  const auto nth = [](std::uint32_t n) { return Gid::from_ipv4(0x0a000100 + n); };
  const auto mac_of = [](std::uint32_t n) {
    return MacAddress{
        {2, 1, 0, 0, static_cast<std::uint8_t>(n >> 8), static_cast<std::uint8_t>(n)}};
  };
  for (int i = 0; i < 200000; ++i) {
    const std::uint32_t n = random() % 1000;
    now += 10ms;
    const std::uint64_t refused = big.table.counters().refused.value();
    if (const auto mac = big.table.resolve(nth(n), now)) {
      ASSERT_EQ(*mac, mac_of(n));
    } else if (random() % 2 == 0) {
      const bool asked = big.table.counters().refused.value() == refused;
      big.table.receive(arp_reply(nth(n), mac_of(n)), now);
      if (asked) {
        ASSERT_THAT(big.table.resolve(nth(n), now), Optional(mac_of(n)));
      }
    }
    if (i % 32 == 0) big.table.run(now);
    big.sent.clear();
  }
  EXPECT_LE(big.table.size(), 256u);
}

}  // namespace
}  // namespace softhca::neighbour
