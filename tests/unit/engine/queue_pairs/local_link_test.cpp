// SPDX-License-Identifier: Apache-2.0

// What joins two queue pairs of one daemon, without an engine.
#include "daemon/engine/queue_pairs/local_link.hpp"

#include "daemon/engine/records/costs.hpp"
#include "tests/unit/engine/fixture/qp_parts.hpp"

namespace softhca::engine {
namespace {

using transport::LocalLink;
using transport::Request;
using transport::RequestKind;

class Link : public QpParts {
 protected:
  Link() {
    connect(near, peer);
    from.fill(1);
  }
  bool finds_peer() { return link.find_peer() != nullptr; }
  /// Has a turn of its own, since only the state of a peer may change within one.
  bool turn_finds_peer() { return QpLocalLink(transport_parts, near.qp).find_peer() != nullptr; }
  /// A command with the memory of `from`, as the transport has it.
  Request request(RequestKind kind, std::uint32_t bytes = 64) {
    Request out;
    out.kind = kind;
    out.length = bytes;
    out.pcb = post(near, {.opcode = abi::Opcode::kSend, .sge = {from.part(0, bytes)}});
    out.rkey = Rkey(to.key);
    out.remote_addr = to.addr();
    return out;
  }
  void draw() {
    post_receive(peer, to);
    ASSERT_TRUE(finds_peer());
    ASSERT_EQ(link.draw(), LocalLink::Draw::kTaken);
  }
  void expect_moved(const LocalLink::Moved& moved, Verdict verdict, bool peer_at_fault = false) {
    EXPECT_EQ(moved.verdict(), verdict);
    EXPECT_TRUE(verdict == Verdict::kOk || moved.peer_at_fault() == peer_at_fault);
  }

  Buffer& from = make_buffer(64);
  Buffer& to = make_buffer(64);
  TestQp& near = make_qp();
  TestQp& peer = make_qp();
  QpLocalLink link{transport_parts, near.qp};
};

TEST_F(Link, JoinsThoseConnectedToEachOther) {
  EXPECT_TRUE(turn_finds_peer());
  peer.qp.connection.destination = Qpn(0x999);
  EXPECT_FALSE(turn_finds_peer()) << "connected to another";
  peer.qp.connection.destination = near.qp.qpn;
  near.qp.connection.destination = Qpn(0x999);
  EXPECT_FALSE(turn_finds_peer()) << "there is none";
}

TEST_F(Link, JoinsOnlyWhoCanReceive) {
  EXPECT_TRUE(finds_peer());
  cpu.fail_later(peer.qp, QpFailure::kFatal);
  EXPECT_FALSE(finds_peer());
  lifecycle.enter_error(peer.qp);
  EXPECT_FALSE(finds_peer());
  lifecycle.reset(peer.qp, 0);
  EXPECT_FALSE(finds_peer());
  bring_up(lifecycle, peer, near.qp.qpn, kNear, {}, false);
  EXPECT_TRUE(finds_peer());
}

TEST_F(Link, JoinsOneTypeWithItsCounterpart) {
  near.qp.type = QpType::kUc;
  EXPECT_FALSE(finds_peer());
  near.qp.type = QpType::kXrcSend;
  EXPECT_FALSE(finds_peer());
  near.qp.type = QpType::kRc;
}

TEST_F(Link, JoinsByTheAddressesThatBothEndsName) {
  peer.qp.connection.route.path.destination = kFar;
  EXPECT_FALSE(turn_finds_peer());
  // An address that was this end's until a moment ago.
  addresses.set(tenant, tenant.addresses, {{kFar, PortId(0)}});
  EXPECT_TRUE(turn_finds_peer());
  peer.qp.connection.route.path.destination = kNear;
  near.qp.connection.route.path.destination = address(9);
  EXPECT_FALSE(turn_finds_peer());
}

TEST_F(Link, GoesOnWhileItsEndSends) {
  EXPECT_TRUE(link.goes_on());
  near.qp.state = QpState::kSqd;
  EXPECT_TRUE(link.goes_on());
  near.qp.state = QpState::kRtr;
  EXPECT_FALSE(link.goes_on());
  near.qp.state = QpState::kRts;
  cpu.fail_later(near.qp, QpFailure::kFatal);
  EXPECT_FALSE(link.goes_on());
}

TEST_F(Link, DrawsReceivesOfThePeer) {
  ASSERT_TRUE(finds_peer());
  EXPECT_FALSE(link.has_receive());
  EXPECT_EQ(link.draw(), LocalLink::Draw::kEmpty);
  EXPECT_FALSE(link.has_drawn());
  post_receive(peer, to);
  EXPECT_TRUE(link.has_receive());
  EXPECT_EQ(link.draw(), LocalLink::Draw::kTaken);
  EXPECT_TRUE(link.has_drawn());
  EXPECT_EQ(link.drawn_bytes(), 64u);
}

TEST_F(Link, AHostileReceiveQueueIsThePeersOwnDoing) {
  ASSERT_TRUE(finds_peer());
  peer.receives.producer().store(1000);
  EXPECT_EQ(link.draw(), LocalLink::Draw::kUnusable);
  EXPECT_TRUE(about_to_fail(peer));
  EXPECT_FALSE(about_to_fail(near));
}

TEST_F(Link, MovesPiecesOfSendsWritesAndReads) {
  draw();
  const Request send = request(RequestKind::kSend);
  expect_moved(link.move(send, 0, 40), Verdict::kOk);
  expect_moved(link.move(send, 40, 24), Verdict::kOk);
  EXPECT_TRUE(to.equals(from));
  from.fill(2);
  expect_moved(link.move(request(RequestKind::kWrite), 0, 64), Verdict::kOk);
  EXPECT_TRUE(to.equals(from));
  to.fill(3);
  expect_moved(link.move(request(RequestKind::kRead), 0, 64), Verdict::kOk);
  EXPECT_TRUE(to.equals(from));
}

TEST_F(Link, MemoryThatIsGoneIsTheFaultOfItsOwner) {
  draw();
  const Request send = request(RequestKind::kSend), write = request(RequestKind::kWrite);
  region_access.keys().erase(to.key);
  expect_moved(link.move(send, 0, 64), Verdict::kLocalProtection, true);
  expect_moved(link.move(write, 0, 64), Verdict::kRemoteAccess, true);
  to.enter(region_access.keys(), tenant.id, kPd, kFull);
  Request again = write;
  again.rkey = Rkey(to.key);
  region_access.keys().erase(from.key);
  expect_moved(link.move(again, 0, 64), Verdict::kLocalProtection, false);
}

TEST_F(Link, AccessIsAsThePeerGrantsIt) {
  ASSERT_TRUE(finds_peer());
  peer.qp.access = memory::kRemoteRead;
  expect_moved(link.move(request(RequestKind::kRead), 0, 8), Verdict::kOk);
  expect_moved(link.move(request(RequestKind::kWrite), 0, 8), Verdict::kRemoteAccess, true);
  expect_moved(link.run_atomic(request(RequestKind::kFetchAdd, 8)), Verdict::kRemoteAccess, true);
}

TEST_F(Link, AtomicsGiveBackWhatWasThere) {
  ASSERT_TRUE(finds_peer());
  to.words[0] = 40;
  Request add = request(RequestKind::kFetchAdd, 8);
  add.compare_add = 2;
  expect_moved(link.run_atomic(add), Verdict::kOk);
  EXPECT_EQ(to.words[0], 42u);
  EXPECT_EQ(from.words[0], 40u);
  from.words[0] = 7;
  expect_moved(link.run_atomic(request(RequestKind::kAtomicWrite, 8)), Verdict::kOk);
  EXPECT_EQ(to.words[0], 7u);
  add.remote_addr += 4;
  expect_moved(link.run_atomic(add), Verdict::kRemoteInvalidRequest, true);
}

TEST_F(Link, EveryByteCostsAndEveryMessageOnce) {
  ASSERT_TRUE(finds_peer());
  EXPECT_EQ(cost_of([&] { EXPECT_EQ(link.charge(100, true), kLocalMessageCost + 100); }),
            kLocalMessageCost + 100);
  EXPECT_EQ(link.charge(100, false), 100u);
  Request sent;
  sent.length = 200;
  link.arrived(sent);
  EXPECT_EQ(tenant.counters.local_messages.value(), 1u);
  EXPECT_EQ(tenant.counters.local_bytes.value(), 200u);
}

}  // namespace
}  // namespace softhca::engine
