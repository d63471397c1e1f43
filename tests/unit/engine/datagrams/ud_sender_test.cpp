// SPDX-License-Identifier: Apache-2.0

// Datagrams on their ways, without an engine.
#include "daemon/engine/datagrams/ud_sender.hpp"

#include "tests/unit/engine/fixture/datagram_parts.hpp"

namespace softhca::engine {
namespace {

using transport::Count;
using transport::kRoutingHeaderBytes;

const Gid kGroup = Gid::from_ipv4(0xe0000109);  // 224.0.1.9
constexpr std::uint32_t kDatagramBytes = 200;

class DatagramsTest : public DatagramParts {
 protected:
  DatagramsTest() { from.fill(1); }

  Work to(const TestQp& remote, std::uint32_t qkey = kQkey) {
    return {.sge = {from.part(0, kDatagramBytes)},
            .remote_qpn = remote.qp.qpn.value,
            .remote_qkey = qkey,
            .address_handle = inside};
  }
  Work to_group(std::uint32_t qkey = kQkey) {
    return {.sge = {from.part(0, kDatagramBytes)},
            .remote_qpn = kMulticastQpn.value,
            .remote_qkey = qkey,
            .address_handle = group};
  }
  /// What its queue pair has goes, as in a turn of it.
  bool transmit() {
    const bool more = datagrams.transmit(sender.qp, std::get<transport::Ud>(sender.qp.transport));
    packets.finish_batch();
    return more;
  }
  void send(const Work& work) {
    post(sender, work);
    transmit();
  }
  /// It went, as far as its sender knows.
  void expect_sent() {
    const auto done = cq.poll();
    ASSERT_TRUE(done);
    EXPECT_FALSE(done->is_receive);
    EXPECT_EQ(done->status, Status::kSuccess);
  }
  /// A copy came to `at`.
  void expect_copy(const TestQp& at) {
    const auto done = cq.poll();
    ASSERT_TRUE(done);
    EXPECT_TRUE(done->is_receive);
    EXPECT_EQ(done->status, Status::kSuccess);
    EXPECT_EQ(done->qpn, at.qp.qpn.value);
    EXPECT_EQ(done->byte_len, kDatagramBytes + kRoutingHeaderBytes);
    EXPECT_EQ(done->source, sender.qp.qpn.value);
    EXPECT_EQ(done->flags & abi::kCompletionGrh, abi::kCompletionGrh);
    EXPECT_EQ(std::memcmp(into.data() + kRoutingHeaderBytes, from.data(), kDatagramBytes), 0);
  }

  Buffer& from = make_buffer(1024);
  Buffer& into = make_buffer(1024);
  TestQp& sender = make_ud();
  TestQp& peer = make_ud();
  const std::uint32_t inside = make_ah(kNear), outside = make_ah(kFar), group = make_ah(kGroup);
};

TEST_F(DatagramsTest, InsideTheyGoInOneCopyWithTheWayTheyCame) {
  post_receive(peer, into);
  send(to(peer));
  expect_copy(peer);
  expect_sent();
  const std::uint8_t addresses_of_it[] = {10, 0, 0, 1, 10, 0, 0, 1};
  EXPECT_EQ(std::memcmp(into.data() + 32, addresses_of_it, sizeof addresses_of_it), 0);
  EXPECT_EQ(tenant.counters.local_bytes.value(), kDatagramBytes);
}

TEST_F(DatagramsTest, ToTheWireTheyCarryQkeyAndSource) {
  far.introduce();
  Work work = to(peer, 0x222);
  work.address_handle = outside;
  send(work);
  expect_sent();
  const wire::Headers sent = next_sent();
  EXPECT_EQ(sent.destination, peer.qp.qpn);
  EXPECT_EQ(sent.qkey, 0x222u);
  EXPECT_EQ(sent.source, sender.qp.qpn);
}

TEST_F(DatagramsTest, TheyWaitForAnUnknownNeighbour) {
  Work work = to(peer);
  work.address_handle = outside;
  send(work);
  expect_nothing();
  EXPECT_EQ(under_way(sender), 1u);
  far.introduce();
  transmit();
  expect_sent();
}

TEST_F(DatagramsTest, AnotherQkeyIsNotForThePeer) {
  post_receive(peer, into);
  send(to(peer, kQkey + 1));
  expect_sent();
  expect_nothing();
  EXPECT_EQ(counted(Count::kBadQkey), 1u);
}

/// IBA 10.2.5.
TEST_F(DatagramsTest, AQkeyWithTheHighBitStandsForTheSendersOwn) {
  post_receive(peer, into);
  send(to(peer, 0x80000000));
  expect_copy(peer);
}

TEST_F(DatagramsTest, ToNobodyTheyAreLost) {
  Work nobody = to(peer);
  nobody.remote_qpn = 0x777;
  send(nobody);
  expect_sent();
  TestQp& connection = make_connected();
  send(to(connection));
  expect_sent();
  lifecycle.enter_error(peer.qp);
  send(to(peer));
  expect_sent();
  expect_nothing();
  EXPECT_EQ(counted(Count::kBadState), 3u);
}

TEST_F(DatagramsTest, WithoutAReceiveTheyAreDropped) {
  send(to(peer));
  expect_sent();
  expect_nothing();
  EXPECT_EQ(counted(Count::kReceiveDropped), 1u);
}

/// IBA 9.8.3.2.2.
TEST_F(DatagramsTest, AReceiveTooShortForOneServesTheNext) {
  peer.receives.post(peer.next_receive++, {into.part(0, kRoutingHeaderBytes + kDatagramBytes)});
  Work longer = to(peer);
  longer.sge = {from.part(0, kDatagramBytes + 1)};
  send(longer);
  expect_sent();
  expect_nothing();
  EXPECT_EQ(counted(Count::kBadLength), 1u);
  send(to(peer));
  expect_copy(peer);
}

TEST_F(DatagramsTest, OnlyAddressHandlesOfTheQueuePairsDomainAreGood) {
  post_receive(peer, into);
  Work stale = to(peer);
  handles.remove(inside);
  send(stale);
  expect_completion(0, Status::kLocalQpOperationError);
  EXPECT_TRUE(about_to_fail(sender));
  for (const bool own_session : {true, false}) {
    TestQp& other = make_ud();
    Work foreign = to(peer);
    foreign.address_handle = make_ah(kNear);
    if (own_session)
      ahs.back()->pd = memory::PdId(99);
    else
      ahs.back()->session = nullptr;
    post(other, foreign);
    datagrams.transmit(other.qp, std::get<transport::Ud>(other.qp.transport));
    expect_completion(0, Status::kLocalQpOperationError);
    EXPECT_TRUE(about_to_fail(other));
  }
  expect_nothing();
}

TEST_F(DatagramsTest, MemoryOfTheSenderThatIsGoneCostsThePeerNoReceive) {
  post_receive(peer, into);
  post(sender, to(peer));
  region_access.keys().erase(from.key);
  transmit();
  expect_completion(0, Status::kLocalProtectionError);
  expect_nothing();
  EXPECT_TRUE(about_to_fail(sender));
  from.enter(region_access.keys(), tenant.id, kPd, kFull);
  Work work = to(peer);
  TestQp& other = make_ud();
  post(other, work);
  datagrams.transmit(other.qp, std::get<transport::Ud>(other.qp.transport));
  const auto came = cq.poll();
  ASSERT_TRUE(came);
  EXPECT_EQ(came->status, Status::kSuccess);
  EXPECT_EQ(came->qpn, peer.qp.qpn.value);
}

TEST_F(DatagramsTest, MemoryOfThePeerThatIsGoneEndsThePeer) {
  post_receive(peer, into);
  region_access.keys().erase(into.key);
  send(to(peer));
  expect_completion(0, Status::kLocalProtectionError);
  EXPECT_TRUE(about_to_fail(peer));
  expect_sent();
  EXPECT_FALSE(about_to_fail(sender));
}

TEST_F(DatagramsTest, OnlyWhoIsReadyToSendSends) {
  post(sender, to(peer));
  sender.qp.state = QpState::kRtr;
  EXPECT_FALSE(transmit());
  expect_nothing();
  sender.qp.state = QpState::kSqd;
  transmit();
  expect_sent();
}

// --- to groups

TEST_F(DatagramsTest, EveryMemberGetsACopyTheSenderIncludedAndSoDoesTheWire) {
  for (TestQp* member : {&sender, &peer}) {
    multicast.attach(member->qp, kGroup);
    post_receive(*member, into);
  }
  send(to_group());
  expect_copy(sender);
  expect_copy(peer);
  expect_sent();
  EXPECT_EQ(next_sent().destination, kMulticastQpn);
}

TEST_F(DatagramsTest, MembersThatDoNotTakeItKeepNobodyFromTheirs) {
  TestQp& other_key = make_ud(kQkey + 1);
  TestQp& failed = make_ud();
  TestQp& slow = make_ud();
  for (TestQp* member : {&other_key, &failed, &slow, &peer}) multicast.attach(member->qp, kGroup);
  lifecycle.enter_error(failed.qp);
  post_receive(peer, into);
  send(to_group());
  expect_copy(peer);
  expect_sent();
  EXPECT_EQ(counted(Count::kBadQkey), 1u);
  EXPECT_EQ(counted(Count::kBadState), 1u);
  EXPECT_EQ(counted(Count::kReceiveDropped), 1u);
}

TEST_F(DatagramsTest, AGroupsAddressIsNobodysQueuePair) {
  post_receive(peer, into);
  Work work = to(peer);
  work.address_handle = group;
  send(work);
  expect_sent();
  expect_nothing();
}

TEST_F(DatagramsTest, MemoryOfTheSenderThatIsGoneEndsItAndNoMember) {
  multicast.attach(peer.qp, kGroup);
  post_receive(peer, into);
  post(sender, to_group());
  region_access.keys().erase(from.key);
  transmit();
  expect_completion(0, Status::kLocalProtectionError);
  EXPECT_TRUE(about_to_fail(sender));
  EXPECT_FALSE(about_to_fail(peer));
  expect_nothing();
}

}  // namespace
}  // namespace softhca::engine
