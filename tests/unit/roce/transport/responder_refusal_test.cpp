// SPDX-License-Identifier: Apache-2.0

// What a responder refuses, and how that ends.
#include "tests/unit/roce/transport/script.hpp"

namespace softhca::transport {
namespace {

TEST_F(ResponderTest, FatalNakEndsTheQueuePairOnceItHasGone) {
  feed(Opcode::kRcSendMiddle, 0, 256);
  expect_events({});
  env.port_buffers = 0;
  EXPECT_TRUE(run());
  expect_events({});
  env.port_buffers = 10;
  expect_answer({"NAK 61 0 msn 0"});
  expect_events({"error invalid-request"});
  expect_count(Count::kInvalidNakSent, 1);
  feed(Opcode::kRcWriteOnly, 0, 1, 1);
  expect_count(Count::kBadState, 1);
  expect_answer({});
}

TEST_F(ResponderTest, InvalidSequences) {
  const std::pair<Opcode, std::size_t> first[] = {{Opcode::kRcSendFirst, 256},
                                                  {Opcode::kRcWriteFirst, 256}};
  for (const auto& [opcode, size] : first) {
    const bool send = opcode == Opcode::kRcSendFirst;
    for (const auto& row : wire::detail::kOpcodeRows) {
      const wire::OpcodeInfo& info = wire::opcode_info(row.opcode);
      if (info.transport != wire::Transport::kRc || !info.mask.has_all(wire::kRequest)) continue;
      const bool fits =
          !info.mask.has_all(wire::kStart) && info.mask.has_all(send ? wire::kSend : wire::kWrite);
      SCOPED_TRACE(std::string(row.name) + (send ? " in a send" : " in a write"));
      env = FakeEnvironment();
      env.receives = {100000, 100000};
      start_at(0);
      feed(opcode, 0, size, 100000);
      feed(row.opcode, 1, info.mask.has_all(wire::kPayload) ? 256 : 0, 512);
      if (fits && info.mask.has_all(send ? wire::kSend : wire::kMiddle)) {
        EXPECT_EQ(env.counted(Count::kBadLength), 0u);
        continue;
      }
      expect_answer({"NAK 61 1 msn 0"});
      expect_received(send ? Lines{"0 remote-invalid-request"} : Lines{});
    }
  }
}

TEST_F(ResponderTest, MiddleAndLastNeedAFirst) {
  for (const Opcode opcode :
       {Opcode::kRcSendMiddle, Opcode::kRcSendLast, Opcode::kRcSendLastImm, Opcode::kRcWriteMiddle,
        Opcode::kRcWriteLast, Opcode::kRcWriteLastImm, Opcode::kRcSendLastInvalidate}) {
    env = FakeEnvironment();
    env.receives = {1000};
    start_at(0);
    feed(opcode, 0, 256);
    expect_answer({"NAK 61 0 msn 0"});
    expect_received({});
  }
}

TEST_F(ResponderTest, WrongLengthsAreInvalid) {
  struct Case {
    Opcode opcode;
    std::size_t payload;
    std::uint32_t announced;
  };
  const Case cases[] = {
      {Opcode::kRcSendFirst, 255, 0},     {Opcode::kRcSendFirst, 257, 0},
      {Opcode::kRcSendFirst, 0, 0},       {Opcode::kRcSendOnly, 257, 0},
      {Opcode::kRcWriteFirst, 256, 256},  {Opcode::kRcWriteFirst, 256, 100},
      {Opcode::kRcWriteFirst, 255, 1000}, {Opcode::kRcWriteOnly, 10, 11},
      {Opcode::kRcWriteOnly, 10, 9},      {Opcode::kRcWriteOnly, 0, 1},
      {Opcode::kRcReadRequest, 1, 10},    {Opcode::kRcReadRequest, 0, 0x80000001},
      {Opcode::kRcFetchAdd, 8, 0},        {Opcode::kRcWriteFirst, 256, 0x80000001},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(std::string(wire::opcode_info(c.opcode).name) + " " + std::to_string(c.payload));
    env = FakeEnvironment();
    env.receives = {1000};
    start_at(0);
    feed(c.opcode, 0, c.payload, c.announced);
    expect_answer({"NAK 61 0 msn 0"});
    expect_count(Count::kBadLength, 1);
    expect_stored({});
  }
}

TEST_F(ResponderTest, WrongLengthsInsideAWriteAreInvalid) {
  struct Case {
    Opcode opcode;
    std::size_t payload;
  };
  for (const Case& c : {Case{Opcode::kRcWriteLast, 43}, Case{Opcode::kRcWriteLast, 45},
                        Case{Opcode::kRcWriteLast, 0}, Case{Opcode::kRcWriteMiddle, 256}}) {
    env = FakeEnvironment();
    start_at(0);
    feed(Opcode::kRcWriteFirst, 0, 256, 300);
    feed(c.opcode, 1, c.payload);
    expect_answer({"NAK 61 1 msn 0"});
    expect_stored({"write 1000+256"});
  }
}

TEST_F(ResponderTest, LastOfASendIsNotEmpty) {
  env.receives = {1000};
  feed(Opcode::kRcSendFirst, 0, 256);
  feed(Opcode::kRcSendLast, 1, 0);
  expect_answer({"NAK 61 1 msn 0"});
}

TEST_F(ResponderTest, ReceiveTooSmall) {
  env.receives = {300};
  feed(Opcode::kRcSendFirst, 0, 256);
  feed(Opcode::kRcSendLast, 1, 45);
  expect_received({"0 local-length"});
  expect_answer({"NAK 61 1 msn 0"});
  expect_events({"established", "error invalid-request"});
}

TEST_F(ResponderTest, ReceiveNotAccessible) {
  env.receives = {300};
  env.local_access = Verdict::kLocalProtection;
  feed(Opcode::kRcSendOnly, 0, 1);
  expect_received({"0 local-protection"});
  expect_answer({"NAK 63 0 msn 0"});
  expect_events({"error"});
  expect_count(Count::kOperationNakSent, 1);
}

TEST_F(ResponderTest, RemoteAccessIsRefused) {
  for (const Opcode opcode : {Opcode::kRcWriteOnly, Opcode::kRcReadRequest, Opcode::kRcFetchAdd,
                              Opcode::kRcCompareSwap}) {
    env = FakeEnvironment();
    env.remote_access = Verdict::kRemoteAccess;
    start_at(0);
    feed(opcode, 0, opcode == Opcode::kRcWriteOnly ? 1 : 0, 1);
    expect_answer({"NAK 62 0 msn 0"});
    expect_events({"error access-error"});
    expect_count(Count::kAccessNakSent, 1);
    EXPECT_EQ(env.counter, 0u);
    expect_stored({});
  }
}

TEST_F(ResponderTest, EmptyAccessNeedsNoKey) {
  env.remote_access = Verdict::kRemoteAccess;
  feed(Opcode::kRcWriteOnly, 0, 0, 0);
  feed_read(1, 0);
  expect_answer({"READ_RESP_ONLY 1 msn 2"});
}

TEST_F(ResponderTest, RegionGoneDuringAWrite) {
  feed(Opcode::kRcWriteFirst, 0, 256, 300);
  env.write_access = Verdict::kRemoteAccess;
  feed(Opcode::kRcWriteLast, 1, 44);
  expect_answer({"NAK 62 1 msn 0"});
}

TEST_F(ResponderTest, RegionGoneDuringAReadIsRefusedWhereItStands) {
  feed_read(0, 600);
  feed(Opcode::kRcWriteOnly, 3, 1, 1);
  run(1);
  env.payload_accessible = false;
  env.sent.clear();
  expect_answer({"NAK 62 1 msn 2"});
  expect_events({"established", "error access-error"});
}

TEST_F(ResponderTest, MisalignedAtomicIsInvalid) {
  wire::Headers h = make(Opcode::kRcFetchAdd, 0);
  h.remote_addr = 0x1004;
  feed(h);
  expect_answer({"NAK 61 0 msn 0"});
}

// --- rates of what the peer sends and reads

TEST_F(ResponderTest, WhatComesTooFastIsPutOffAndComesAgain) {
  env.receives = {1000};
  feed(Opcode::kRcSendFirst, 0, 256);
  env.wait = microseconds(700);
  feed(Opcode::kRcSendMiddle, 1, 256);
  feed(Opcode::kRcSendLast, 2, 10);
  expect_answer({"RNR 13 1 msn 0"});  // 960 us
  expect_count(Count::kRateNakSent, 1);
  expect_count(Count::kRnrNakSent, 0);
  expect_count(Count::kOutOfSequence, 0);
  feed(Opcode::kRcSendMiddle, 1, 256);
  expect_answer({"RNR 13 1 msn 0"});
  env.wait = {};
  feed(Opcode::kRcSendMiddle, 1, 256);
  feed(Opcode::kRcSendLast, 2, 10);
  expect_answer({"ACK 2 msn 1"});
  expect_received({"0 ok 522 bytes"});
  expect_stored({"receive 0 [0,256)", "receive 0 [256,512)", "receive 0 [512,522)"});
  EXPECT_EQ(env.brought, (Lines{"256 begin", "256", "10"})) << "once each";
}

TEST_F(ResponderTest, WhatIsRefusedForAnotherReasonIsNotCharged) {
  feed(Opcode::kRcSendOnly, 0, 10);  // no receive is posted
  expect_count(Count::kRateNakSent, 0);
  run();
  expect_count(Count::kRnrNakSent, 1);
  env.wait = microseconds(10);
  feed(Opcode::kRcSendMiddle, 0, 256);  // and this one is wrong whenever it comes
  run();
  expect_count(Count::kInvalidNakSent, 1);
  EXPECT_TRUE(env.brought.empty());
}

TEST_F(ResponderTest, AnAtomicBringsItsOperandsAndAReadNothing) {
  feed(Opcode::kRcFetchAdd, 0);
  env.wait = microseconds(10);
  feed_read(1, 100);
  run();
  expect_count(Count::kRateNakSent, 0);
  EXPECT_EQ(env.brought, Lines{"8 begin"});
  EXPECT_EQ(env.served, Lines{"100 begin"});
  feed(Opcode::kRcFetchAdd, 2);
  run();
  expect_count(Count::kRateNakSent, 1);
  EXPECT_EQ(env.counter, 0u) << "it added nothing, and will be executed once";
}

TEST_F(ResponderTest, ResponsesWaitForTheirRateAndNothingOvertakesThem) {
  feed_read(0, 600);
  feed(Opcode::kRcWriteOnly, 3, 1, 1);
  env.responses_left = 1;
  EXPECT_FALSE(run()) << "to be called when it may go on";
  expect_sent({"READ_RESP_FIRST 0 1000+256 msn 2"});
  EXPECT_FALSE(run());
  expect_nothing_sent();
  EXPECT_TRUE(responder.pending());
  env.responses_left = 10;
  run();
  expect_sent({"READ_RESP_MIDDLE 1 1100+256", "READ_RESP_LAST 2 1200+88 msn 2", "ACK 3 msn 2"});
  EXPECT_EQ(env.served, (Lines{"256 begin", "256", "88"}));
}

/// The responder acknowledges executed requests again, so that its peer does not infer that it is
/// gone. It never acknowledges a read in this way, since the response may be lost.
TEST_F(ResponderTest, WhoAsksAgainForAReadThatWaitsIsHeard) {
  feed(Opcode::kRcWriteOnly, 0, 1, 1);
  expect_answer({"ACK 0 msn 1"});
  feed_read(1, 100);
  expect_answer({"READ_RESP_ONLY 1 1000+100 msn 2"});
  env.responses_left = 0;
  feed_read(2, 600);
  expect_answer({});
  feed_read(2, 600);
  expect_answer({"ACK 0 msn 3"});
  expect_answer({});
  env.port_buffers = 0;
  feed_read(2, 600);
  EXPECT_TRUE(run()) << "when the port takes it";
  env.port_buffers = 100;
  expect_answer({"ACK 0 msn 3"});
  env.responses_left = 1;
  feed_read(2, 600);
  expect_answer({"READ_RESP_FIRST 2 1000+256 msn 3"});
  env.responses_left = 10;
  expect_answer({"READ_RESP_MIDDLE 3 1100+256", "READ_RESP_LAST 4 1200+88 msn 3"});
  expect_count(Count::kAcksSent, 3);
}

/// A read is a message once, however often its peer asks for what it still waits for. What it has
/// had already is one more.
TEST_F(ResponderTest, AReadThatIsAskedForAgainFromWhereItWaitsIsOneMessage) {
  feed_read(0, 600);
  env.responses_left = 1;
  expect_answer({"READ_RESP_FIRST 0 1000+256 msn 1"});
  feed_read(1, 344, 256);
  feed_read(1, 344, 256);
  env.responses_left = 1;
  expect_answer({"READ_RESP_FIRST 1 1100+256 msn 1"});
  feed_read(2, 88, 512);
  env.responses_left = 10;
  expect_answer({"READ_RESP_ONLY 2 1200+88 msn 1"});
  EXPECT_EQ(env.served, (Lines{"256 begin", "256", "88"}));
  feed_read(1, 344, 256);
  run();
  EXPECT_EQ(env.served, (Lines{"256 begin", "256", "88", "256 begin", "88"}));
}

TEST_F(ResponderTest, AnswersWithoutDataDoNotWaitForTheRate) {
  env.responses_left = 0;
  feed(Opcode::kRcFetchAdd, 0);
  feed_read(1, 0);
  run();
  EXPECT_EQ(env.sent.size(), 2u);
}

TEST_F(ResponderTest, ForeignOpcodesAreDropped) {
  for (const Opcode opcode : {Opcode::kRcAck, Opcode::kRcReadResponseOnly, Opcode::kUcSendOnly,
                              Opcode::kUdSendOnly, Opcode::kXrcSendOnly, Opcode::kCnp})
    feed(opcode, 0, 0);
  feed(static_cast<Opcode>(0x1f), 0, 0);
  expect_count(Count::kBadOpcode, 7);
  expect_answer({});
  expect_events({});
}

TEST_F(ResponderTest, FlushReturnsTheReceive) {
  env.receives = {300};
  feed(Opcode::kRcSendFirst, 0, 256);
  feed(Opcode::kRcWriteOnly, 9, 1, 1);
  responder.flush(env);
  expect_received({"0 flushed"});
  EXPECT_FALSE(responder.pending());
  expect_answer({});
  start_at(5);
  feed(Opcode::kRcWriteOnly, 5, 1, 1);
  expect_answer({"ACK 5 msn 1"});
}

}  // namespace
}  // namespace softhca::transport
