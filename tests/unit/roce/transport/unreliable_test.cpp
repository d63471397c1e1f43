// SPDX-License-Identifier: Apache-2.0

// Unreliable connection and datagrams.
#include "daemon/roce/transport/uc.hpp"
#include "daemon/roce/transport/ud.hpp"
#include "tests/unit/roce/transport/script.hpp"

namespace softhca::transport {
namespace {

class UcTest : public ScriptTest {
 protected:
  UcTest() {
    requester.open(requests, 4);
    requester.configure({.mtu = 256});
    requester.reset(Psn(0xffffff));
    responder.configure({.mtu = 256});
    responder.reset(Psn(0));
  }
  void post(RequestKind kind, std::uint32_t length) {
    Request r;
    r.kind = kind;
    r.length = length;
    r.pcb = PcbId(number++);
    r.remote_addr = kRemoteAddr;
    r.imm = 0x55;
    requester.start(r);
  }
  void feed(Opcode opcode, std::uint32_t psn, std::size_t payload, std::uint32_t length = 0) {
    wire::Headers h;
    h.opcode = wire::raw(opcode);
    h.psn = Psn(psn);
    h.remote_addr = kRemoteAddr;
    h.dma_length = length;
    h.imm = 0x55;
    responder.receive(env, h, bytes(payload));
  }

  RequestTable requests{kRequests};
  UcRequester requester;
  UcResponder responder;
  std::uint32_t number = 0;  ///< of the next request
};

TEST_F(UcTest, CompletesWhenTheLastPacketHasGone) {
  post(RequestKind::kSendImm, 300);
  post(RequestKind::kWrite, 1);
  EXPECT_TRUE(requester.transmit(env, 1));
  expect_done({});
  EXPECT_FALSE(requester.transmit(env, 10));
  expect_sent({"SEND_FIRST 16777215 [0,256)", "SEND_LAST_IMM 0 [256,300) imm 55",
               "WRITE_ONLY 1 1000+1 [0,1)"});
  expect_done({"0 ok", "1 ok"});
  EXPECT_TRUE(requester.idle());
}

TEST_F(UcTest, FullPortIsTriedAgain) {
  post(RequestKind::kSend, 1);
  env.port_buffers = 0;
  EXPECT_TRUE(requester.transmit(env, 10));
  env.port_buffers = 1;
  EXPECT_FALSE(requester.transmit(env, 10));
  expect_done({"0 ok"});
}

TEST_F(UcTest, ImpossibleRequestsFail) {
  for (const RequestKind kind : {RequestKind::kRead, RequestKind::kFetchAdd,
                                 RequestKind::kCompareSwap, RequestKind::kSendInvalidate}) {
    requester.reset(Psn(0));
    number = 0;
    post(kind, 8);
    post(RequestKind::kSend, 1);
    EXPECT_FALSE(requester.transmit(env, 10));
    expect_done({"0 local-qp-operation"});
    expect_events({"error"});
    requester.flush(env);
    expect_done({"1 flushed"});
  }
  expect_nothing_sent();
}

TEST_F(UcTest, ReceivesMessages) {
  env.receives = {1000, 0};
  feed(Opcode::kUcSendFirst, 0, 256);
  feed(Opcode::kUcSendLast, 1, 44);
  feed(Opcode::kUcWriteFirst, 2, 256, 300);
  feed(Opcode::kUcWriteLastImm, 3, 44);
  feed(Opcode::kUcWriteOnly, 4, 0, 0);
  expect_received({"0 ok 300 bytes", "1 ok 300 bytes written imm 55"});
  expect_stored({"receive 0 [0,256)", "receive 0 [256,300)", "write 1000+256", "write 1100+44"});
  expect_count(Count::kWriteRequests, 2);
}

TEST_F(UcTest, GapDropsTheMessageAndKeepsItsReceive) {
  env.receives = {1000};
  feed(Opcode::kUcSendFirst, 0, 256);
  feed(Opcode::kUcSendLast, 2, 44);
  expect_received({});
  feed(Opcode::kUcSendOnly, 3, 9);
  expect_received({"0 ok 9 bytes"});
  EXPECT_GE(env.counted(Count::kOutOfSequence), 1u);
}

TEST_F(UcTest, LatePacketsAreNotExecutedAgain) {
  env.receives = {1000, 1000};
  feed(Opcode::kUcSendOnly, 0, 1);
  feed(Opcode::kUcSendOnly, 0, 1);
  expect_received({"0 ok 1 bytes"});
  expect_count(Count::kDuplicateRequests, 1);
}

TEST_F(UcTest, FirstPacketFromFarStartsAnew) {
  env.receives = {1000};
  feed(Opcode::kUcSendOnly, 0x800001, 1);
  expect_received({"0 ok 1 bytes"});
}

TEST_F(UcTest, FirstInsideAMessageDropsThatOne) {
  env.receives = {1000};
  feed(Opcode::kUcSendFirst, 0, 256);
  feed(Opcode::kUcSendOnly, 1, 5);
  expect_received({"0 ok 5 bytes"});
}

TEST_F(UcTest, BadPacketsAreDropped) {
  env.receives = {300};
  feed(Opcode::kUcSendMiddle, 0, 256);  // no message
  feed(Opcode::kUcSendFirst, 1, 255);   // short
  feed(Opcode::kUcSendOnly, 2, 257);    // long
  feed(Opcode::kUcWriteOnly, 3, 5, 6);  // not as announced
  feed(Opcode::kUcWriteFirst, 4, 256, 1000);
  feed(Opcode::kUcSendLast, 5, 1);  // of another kind
  feed(Opcode::kUcSendFirst, 6, 256);
  feed(Opcode::kUcSendLast, 7, 100);  // more than the receive holds
  feed(Opcode::kRcSendOnly, 8, 1);
  expect_received({});
  expect_events({});
  expect_count(Count::kBadLength, 4);
  expect_count(Count::kBadOpcode, 1);
  feed(Opcode::kUcSendOnly, 8, 5);
  expect_received({"0 ok 5 bytes"});
}

TEST_F(UcTest, NoReceiveDropsAndCounts) {
  feed(Opcode::kUcSendFirst, 0, 256);
  feed(Opcode::kUcSendLast, 1, 1);
  feed(Opcode::kUcWriteOnlyImm, 2, 1, 1);
  expect_count(Count::kReceiveDropped, 2);
  expect_stored({});
}

TEST_F(UcTest, RefusedWriteIsDropped) {
  env.remote_access = Verdict::kRemoteAccess;
  feed(Opcode::kUcWriteFirst, 0, 256, 300);
  feed(Opcode::kUcWriteLast, 1, 44);
  expect_stored({});
  expect_events({});
}

/// A peer could try keys for ever.
TEST_F(UcTest, ManyRefusedWritesEndTheQueuePair) {
  env.remote_access = Verdict::kRemoteAccess;
  for (std::uint32_t i = 0; i < kMostBadAccesses - 1u; ++i) {
    feed(Opcode::kUcWriteOnly, i, 8, 8);
    expect_events({});
  }
  expect_count(Count::kBadAccess, kMostBadAccesses - 1);
  env.remote_access = Verdict::kOk;
  feed(Opcode::kUcWriteOnly, kMostBadAccesses - 1, 8, 8);
  expect_count(Count::kWriteRequests, 1);
  env.remote_access = Verdict::kRemoteAccess;
  feed(Opcode::kUcWriteOnly, kMostBadAccesses, 8, 8);
  expect_events({"error access-error"});
  env.remote_access = Verdict::kOk;
  feed(Opcode::kUcWriteOnly, kMostBadAccesses + 1, 8, 8);
  expect_count(Count::kWriteRequests, 1);
  expect_count(Count::kBadState, 1);
}

TEST_F(UcTest, InaccessibleReceiveEndsTheQueuePair) {
  env.receives = {300};
  env.local_access = Verdict::kLocalProtection;
  feed(Opcode::kUcSendOnly, 0, 1);
  expect_received({"0 local-protection"});
  expect_events({"error"});
  feed(Opcode::kUcSendOnly, 1, 1);
  expect_count(Count::kBadState, 1);
}

TEST_F(UcTest, FlushReturnsTheReceive) {
  env.receives = {300};
  feed(Opcode::kUcSendFirst, 0, 256);
  responder.flush(env);
  expect_received({"0 flushed"});
}

class UdTest : public ScriptTest {
 protected:
  UdTest() {
    const UdAttributes attributes{.mtu = 256, .self = Qpn(7), .qkey = 0x1234};
    requester.configure(attributes);
    requester.reset(Psn(0xffffff));
    responder.configure(attributes);
    responder.reset();
  }
  Verdict send(RequestKind kind, std::uint32_t length, std::uint32_t qkey = 0x99) {
    Request r;
    r.kind = kind;
    r.length = length;
    r.pcb = PcbId(3);
    r.imm = 0x55;
    return requester.transmit(env, r, Qpn(9), qkey);
  }
  void feed(std::size_t payload, std::uint32_t qkey = 0x1234, Opcode opcode = Opcode::kUdSendOnly) {
    wire::Headers h;
    h.opcode = wire::raw(opcode);
    h.qkey = qkey;
    h.source = Qpn(9);
    h.imm = 0x66;
    responder.receive(env, h, bytes(payload));
  }

  UdRequester requester;
  UdResponder responder;
};

TEST_F(UdTest, SendsOnePacket) {
  EXPECT_EQ(send(RequestKind::kSend, 256), Verdict::kOk);
  EXPECT_EQ(send(RequestKind::kSendImm, 0), Verdict::kOk);
  expect_sent(
      {"SEND_ONLY 16777215 [0,256) from 7 qkey 99", "SEND_ONLY_IMM 0 imm 55 from 7 qkey 99"});
  expect_done({"3 ok", "3 ok"});
}

TEST_F(UdTest, HighBitMeansItsOwnKey) {
  send(RequestKind::kSend, 1, 0x80000000);
  expect_sent({"SEND_ONLY 16777215 [0,1) from 7 qkey 1234"});
}

TEST_F(UdTest, BadRequestsEndTheQueuePair) {
  EXPECT_EQ(send(RequestKind::kSend, 257), Verdict::kLocalLength);
  EXPECT_EQ(send(RequestKind::kWrite, 1), Verdict::kLocalQpOperation);
  env.payload_accessible = false;
  EXPECT_EQ(send(RequestKind::kSend, 1), Verdict::kLocalProtection);
  expect_done({"3 local-length", "3 local-qp-operation", "3 local-protection"});
  expect_events({"error", "error", "error"});
  expect_nothing_sent();
}

TEST_F(UdTest, FullPortLeavesTheRequest) {
  env.port_buffers = 0;
  EXPECT_EQ(send(RequestKind::kSend, 1), Verdict::kBusy);
  expect_done({});
}

TEST_F(UdTest, ReceivesBehindTheRoutingHeader) {
  env.receives = {296, 40};
  feed(256);
  feed(0, 0x1234, Opcode::kUdSendOnlyImm);
  expect_received({"0 ok 296 bytes grh from 9", "1 ok 40 bytes imm 66 grh from 9"});
  expect_stored({"grh 0", "receive 0 [40,296)", "grh 1"});
}

TEST_F(UdTest, WhatComesTooFastIsDropped) {
  env.receives = {1000};
  env.drops = true;
  feed(1);
  expect_count(Count::kRateDropped, 1);
  EXPECT_EQ(env.receives.size(), 1u);
  EXPECT_TRUE(env.brought.empty());
  env.drops = false;
  feed(100);
  EXPECT_EQ(env.brought, Lines{"100 begin"});
}

TEST_F(UcTest, AMessageOfWhichAPacketComesTooFastIsDropped) {
  feed(Opcode::kUcWriteFirst, 0, 256, 600);
  env.drops = true;
  feed(Opcode::kUcWriteMiddle, 1, 256);
  env.drops = false;
  feed(Opcode::kUcWriteLast, 2, 88);
  expect_count(Count::kRateDropped, 1);
  expect_count(Count::kWriteRequests, 0);
  feed(Opcode::kUcWriteOnly, 3, 10, 10);
  expect_count(Count::kWriteRequests, 1);
  EXPECT_EQ(env.brought, (Lines{"256 begin", "10 begin"}));
}

TEST_F(UdTest, WrongKeyIsDropped) {
  env.receives = {1000};
  feed(1, 0x1235);
  expect_count(Count::kBadQkey, 1);
  EXPECT_EQ(env.receives.size(), 1u);
}

TEST_F(UdTest, DropsWithoutReceiveAndWhatDoesNotFit) {
  feed(1);
  expect_count(Count::kReceiveDropped, 1);
  env.receives = {50};
  feed(257);
  feed(11);
  expect_count(Count::kBadLength, 2);
  expect_received({});
  feed(10);  // the receive kept back serves the next
  expect_received({"0 ok 50 bytes grh from 9"});
  feed(0, 0x1234, Opcode::kUcSendOnly);
  expect_count(Count::kBadOpcode, 1);
}

TEST_F(UdTest, InaccessibleReceiveEndsTheQueuePair) {
  env.receives = {100};
  env.local_access = Verdict::kLocalProtection;
  feed(1);
  expect_received({"0 local-protection"});
  expect_events({"error"});
}

TEST_F(UdTest, FlushReturnsTheReceive) {
  env.receives = {50};
  feed(100);
  responder.flush(env);
  expect_received({"0 flushed"});
}

}  // namespace
}  // namespace softhca::transport
