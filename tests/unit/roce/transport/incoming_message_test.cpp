// SPDX-License-Identifier: Apache-2.0

// The message that a responder is in the middle of, and its receive work request.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "daemon/roce/transport/incoming_message.hpp"
#include "daemon/roce/transport/segment.hpp"
#include "tests/unit/roce/transport/fake_environment.hpp"

namespace softhca::transport {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using wire::Opcode;

class IncomingMessageTest : public testing::Test {
 protected:
  /// A packet with so many bytes of payload.
  RequestPacket packet(Opcode opcode, std::size_t bytes) {
    headers.opcode = wire::raw(opcode);
    bytes_.resize(bytes);
    return {headers, bytes_, wire::opcode_info(headers.opcode).mask};
  }

  wire::Headers headers;
  FakeEnvironment env;
  IncomingMessage message;

 private:
  std::vector<std::byte> bytes_;
};

TEST_F(IncomingMessageTest, OnlyTheLastPacketIsShort) {
  EXPECT_TRUE(packet(Opcode::kRcSendFirst, 256).fits_opcode(256));
  EXPECT_FALSE(packet(Opcode::kRcSendFirst, 255).fits_opcode(256));
  EXPECT_FALSE(packet(Opcode::kRcSendMiddle, 257).fits_opcode(256));
  EXPECT_TRUE(packet(Opcode::kRcSendLast, 1).fits_opcode(256));
  EXPECT_FALSE(packet(Opcode::kRcSendLast, 0).fits_opcode(256));
  EXPECT_FALSE(packet(Opcode::kRcSendLast, 257).fits_opcode(256));
  EXPECT_TRUE(packet(Opcode::kRcSendOnly, 0).fits_opcode(256));
  EXPECT_FALSE(packet(Opcode::kRcReadRequest, 1).fits_opcode(256));
  EXPECT_TRUE(packet(Opcode::kRcReadRequest, 0).fits_opcode(256));
}

TEST_F(IncomingMessageTest, GoesOnWithItsOwnKindOnly) {
  EXPECT_FALSE(message.in_progress());
  EXPECT_FALSE(message.goes_on_with(packet(Opcode::kRcSendMiddle, 0)));
  message.begin_send();
  EXPECT_TRUE(message.in_progress());
  EXPECT_TRUE(message.goes_on_with(packet(Opcode::kRcSendLastImm, 0)));
  EXPECT_FALSE(message.goes_on_with(packet(Opcode::kRcWriteMiddle, 0)));
  EXPECT_FALSE(message.goes_on_with(packet(Opcode::kRcReadRequest, 0)));
  message.begin_write(headers);
  EXPECT_TRUE(message.goes_on_with(packet(Opcode::kRcWriteLast, 0)));
  EXPECT_FALSE(message.goes_on_with(packet(Opcode::kRcSendMiddle, 0)));
  message.end();
  EXPECT_FALSE(message.in_progress());
}

TEST_F(IncomingMessageTest, AWriteHasTheLengthAnnounced) {
  headers.dma_length = 600;
  EXPECT_TRUE(message.fits_announcement(packet(Opcode::kRcWriteFirst, 256)));
  EXPECT_FALSE(message.fits_announcement(packet(Opcode::kRcWriteOnly, 256)));
  EXPECT_FALSE(message.fits_announcement(packet(Opcode::kRcWriteFirst, 600)));
  message.begin_write(headers);
  const RequestPacket first = packet(Opcode::kRcWriteFirst, 256);
  ASSERT_EQ(message.write(env, first.payload), Verdict::kOk);
  EXPECT_FALSE(message.fits_announcement(packet(Opcode::kRcWriteLast, 256)));
  EXPECT_TRUE(message.fits_announcement(packet(Opcode::kRcWriteLast, 344)));
  EXPECT_FALSE(message.fits_announcement(packet(Opcode::kRcWriteMiddle, 344)));
  EXPECT_TRUE(message.fits_announcement(packet(Opcode::kRcWriteMiddle, 256)));
}

TEST_F(IncomingMessageTest, NoMessageIsLongerThanTwoGiB) {
  headers.dma_length = kMaxMessageBytes;
  EXPECT_TRUE(message.fits_announcement(packet(Opcode::kRcWriteFirst, 256)));
  headers.dma_length = kMaxMessageBytes + 1;
  EXPECT_FALSE(message.fits_announcement(packet(Opcode::kRcWriteFirst, 256)));
  env.receives = {std::uint64_t{1} << 40};
  ASSERT_TRUE(message.draw(env));
  message.begin_send();
  EXPECT_TRUE(message.has_room(kMaxMessageBytes));
  EXPECT_FALSE(message.has_room(std::size_t{kMaxMessageBytes} + 1));
}

TEST_F(IncomingMessageTest, EachPacketIsWrittenBehindTheOneBefore) {
  headers.remote_addr = 0x1000;
  headers.dma_length = 600;
  message.begin_write(headers);
  for (const std::size_t size : {256, 256, 88})
    ASSERT_EQ(message.write(env, packet(Opcode::kRcWriteMiddle, size).payload), Verdict::kOk);
  EXPECT_THAT(env.stored, ElementsAre("write 1000+256", "write 1100+256", "write 1200+88"));
}

TEST_F(IncomingMessageTest, WhatIsNotWrittenDoesNotCount) {
  headers.dma_length = 600;
  message.begin_write(headers);
  env.write_access = Verdict::kRemoteAccess;
  EXPECT_EQ(message.write(env, packet(Opcode::kRcWriteFirst, 256).payload), Verdict::kRemoteAccess);
  EXPECT_TRUE(message.fits_announcement(packet(Opcode::kRcWriteLast, 600)));
}

TEST_F(IncomingMessageTest, DrawsOneReceiveUntilThatIsComplete) {
  EXPECT_FALSE(message.draw(env));
  env.receives = {100, 200};
  EXPECT_TRUE(message.draw(env));
  EXPECT_TRUE(message.draw(env));
  EXPECT_EQ(env.receives.size(), 1u);
  message.begin_send();
  EXPECT_FALSE(message.has_room(101));
  ASSERT_EQ(message.store(env, packet(Opcode::kRcSendOnly, 60).payload), Verdict::kOk);
  EXPECT_FALSE(message.has_room(41));
  EXPECT_TRUE(message.has_room(40));
  message.complete_receive(env, packet(Opcode::kRcSendOnly, 60));
  EXPECT_TRUE(message.draw(env));
  EXPECT_THAT(env.receives, IsEmpty());
}

TEST_F(IncomingMessageTest, TheReceiveOfAMessageThatEndedServesTheNext) {
  env.receives = {100};
  ASSERT_TRUE(message.draw(env));
  message.begin_send();
  ASSERT_EQ(message.store(env, packet(Opcode::kRcSendFirst, 60).payload), Verdict::kOk);
  message.end();
  EXPECT_TRUE(message.draw(env));
  message.begin_send();
  EXPECT_TRUE(message.has_room(100));
}

TEST_F(IncomingMessageTest, CompletesWithWhatTheLastPacketSays) {
  env.receives = {100, 100, 100};
  ASSERT_TRUE(message.draw(env));
  message.begin_send();
  headers.invalidate = Rkey(0x77);
  message.complete_receive(env, packet(Opcode::kRcSendOnlyInvalidate, 0));
  ASSERT_TRUE(message.draw(env));
  headers.imm = 5;
  message.begin_write(headers);
  message.complete_receive(env, packet(Opcode::kRcWriteOnlyImm, 0));
  ReceiveCompletion invalidated;
  invalidated.imm = 0x77;
  invalidated.invalidated = true;
  ReceiveCompletion written;
  written.imm = 5;
  written.has_imm = written.from_write = true;
  EXPECT_THAT(env.received, ElementsAre("0 " + to_text(invalidated), "1 " + to_text(written)));
}

TEST_F(IncomingMessageTest, FailsAReceiveOnceAndOnlyOneThatWasDrawn) {
  message.fail_receive(env, Verdict::kFlushed);
  EXPECT_THAT(env.received, IsEmpty());
  env.receives = {100};
  ASSERT_TRUE(message.draw(env));
  message.fail_receive(env, Verdict::kFlushed);
  message.fail_receive(env, Verdict::kFlushed);
  EXPECT_EQ(env.received.size(), 1u);
}

TEST_F(IncomingMessageTest, ResetForgetsTheReceive) {
  env.receives = {100};
  ASSERT_TRUE(message.draw(env));
  message.begin_send();
  message.reset();
  EXPECT_FALSE(message.in_progress());
  EXPECT_FALSE(message.draw(env));
}

}  // namespace
}  // namespace softhca::transport
