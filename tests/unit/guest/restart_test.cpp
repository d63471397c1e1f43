// SPDX-License-Identifier: Apache-2.0

// Starts, ends and what breaks the protocol.
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>

#include "tests/unit/guest/guest_fixture.hpp"

namespace softhca::guest::test {
namespace {

Bytes frame(FrameKind kind, std::uint32_t stream, std::span<const std::byte> payload) {
  Outbox outbox;
  outbox.add(kind, stream, {payload});
  const auto front = outbox.front();
  return {front.begin(), front.end()};
}

Bytes start_bytes(std::uint64_t nonce, std::uint64_t begin, std::uint64_t bytes = 4096) {
  Outbox outbox;
  outbox.add_raw(Bytes(kMaxFrame));
  outbox.add_raw(std::as_bytes(std::span(kMagic)));
  const StartBody body{nonce, begin, bytes, kChannelVersion, 0};
  outbox.add(FrameKind::kStart, 0, {bytes_of(body)});
  const auto front = outbox.front();
  return {front.begin(), front.end()};
}

/// A guest that the test plays, against the relay alone.
class RawGuest : public GuestTest {
 protected:
  RawGuest() {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    relay_->connect(UniqueFd(ends[0]));
    guest_end_ = UniqueFd(ends[1]);
  }
  void send(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(guest_end_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent > 0) bytes = bytes.subspan(static_cast<std::size_t>(sent));
      settle_once();
    }
  }
  void settle_once() {
    relay_->flush();
    EXPECT_TRUE(loop_.step(0));
  }
  /// Waits for a kStarted with the nonce. Returns its error.
  int started(std::uint64_t nonce) {
    int error = -1;
    EXPECT_TRUE(run_until([&] {
      Frame frame;
      while (next(frame)) {
        StartedBody body;
        if (frame.kind != FrameKind::kStarted || !frame.take(body) || body.nonce != nonce) continue;
        error = body.error;
        return true;
      }
      return false;
    }));
    return error;
  }
  bool next(Frame& frame) {
    const auto room = reader_.room();
    const ssize_t got = ::recv(guest_end_.get(), room.data(), room.size(), 0);
    if (got > 0) reader_.filled(static_cast<std::size_t>(got));
    return reader_.next(frame) == FrameReader::Result::kFrame;
  }
  UniqueFd open(std::uint32_t stream) {
    send(frame(FrameKind::kOpen, stream, bytes_of_text("socket")));
    settle();
    return accept_daemon();
  }

  UniqueFd guest_end_;
  FrameReader reader_;
};

TEST_F(RawGuest, StartAfterGarbage_Answered) {
  Bytes garbage(50'000);
  for (std::size_t i = 0; i < garbage.size(); ++i) garbage[i] = static_cast<std::byte>(i * 7);
  send(garbage);
  send(start_bytes(1, 0));
  EXPECT_EQ(started(1), 0);
  ASSERT_EQ(starts_.size(), 1U);
  EXPECT_EQ(starts_[0].seal, 0U);
}

TEST_F(RawGuest, StartInTheMiddleOfAFrame_EndsTheEarlierStreams) {
  send(start_bytes(1, 0));
  ASSERT_EQ(started(1), 0);
  UniqueFd daemon = open(1);
  Bytes cut = frame(FrameKind::kRecord, 1, Bytes(1000));
  cut.resize(500);
  send(cut);
  send(start_bytes(2, 0));
  EXPECT_TRUE(is_closed(daemon));
  settle();
  Frame frame;
  while (next(frame)) EXPECT_NE(frame.kind, FrameKind::kStarted) << "before the session has ended";
  daemon.reset();
  EXPECT_EQ(started(2), 0);
  EXPECT_EQ(starts_.size(), 1U) << "the machine starts once";
  EXPECT_TRUE(open(1));
}

TEST_F(RawGuest, LaterStartAtAnotherByte_Refused) {
  send(start_bytes(1, 0));
  ASSERT_EQ(started(1), 0);
  send(start_bytes(2, 4096));
  EXPECT_EQ(started(2), EINVAL);
  send(start_bytes(3, 0));
  EXPECT_EQ(started(3), 0);
}

TEST_F(RawGuest, DeviceThatIsNotInTheRegion_Refused) {
  send(start_bytes(1, 100));
  EXPECT_EQ(started(1), EINVAL);
  send(start_bytes(2, 4096, kRegionBytes));
  EXPECT_EQ(started(2), EINVAL);
  send(start_bytes(3, UINT64_MAX - 4095, 8192));
  EXPECT_EQ(started(3), EINVAL);
  EXPECT_TRUE(starts_.empty());
}

TEST_F(RawGuest, DaemonRefusesTheMachine_GuestIsTold) {
  start_error_ = EACCES;
  send(start_bytes(1, 0));
  EXPECT_EQ(started(1), EACCES);
  start_error_ = 0;
  send(start_bytes(2, 0));
  EXPECT_EQ(started(2), 0);
}

TEST_F(RawGuest, BadFrames_EndAllStreamsUntilTheNextStart) {
  const RecordHead one{1, 0}, many{1000, 0};
  const CreditBody credit{1, 0};
  Bytes large = bytes_of_text(std::string(kWindow + 1, 'x'));
  const std::vector<Bytes> bad = {
      frame(FrameKind::kStarted, 0, {}),
      frame(FrameKind::kFile, 0, Bytes(100)),
      frame(FrameKind::kOpen, 1, bytes_of_text("socket")),
      frame(FrameKind::kOpen, 0, bytes_of_text("socket")),
      frame(FrameKind::kOpen, kFirstOfRelay + 5, bytes_of_text("socket")),
      frame(FrameKind::kOpen, 2, bytes_of_text("../other/socket")),
      frame(FrameKind::kOpen, 2, bytes_of_text(".socket")),
      frame(FrameKind::kOpen, 2, bytes_of_text("admin.sock")),
      frame(FrameKind::kRecord, 1, {}),
      frame(FrameKind::kRecord, 1, bytes_of(one)),
      frame(FrameKind::kRecord, 1, bytes_of(many)),
      frame(FrameKind::kData, 1, Bytes(10)),
      frame(FrameKind::kWake, 1, {}),
      frame(FrameKind::kCredit, 1, {}),
      frame(FrameKind::kCredit, 1, bytes_of(credit)),
      bytes_of_text(std::string(64, '\xee')),
  };
  std::uint64_t nonce = 0;
  for (const Bytes& bytes : bad) {
    send(start_bytes(++nonce, 0));
    ASSERT_EQ(started(nonce), 0);
    UniqueFd daemon = open(1);
    ASSERT_TRUE(daemon);
    EXPECT_EQ(relay_->streams(), 1U);
    send(bytes);
    EXPECT_TRUE(run_until([&] { return relay_->streams() == 0; })) << "case " << nonce;
    EXPECT_TRUE(is_closed(daemon));
  }
}

TEST_F(RawGuest, MoreThanTheCredit_EndsAllStreams) {
  send(start_bytes(1, 0));
  ASSERT_EQ(started(1), 0);
  const UniqueFd daemon = open(1);
  const RecordHead head{0, 0};
  Bytes payload(sizeof head + abi::kMaxRecord);
  std::memcpy(payload.data(), &head, sizeof head);
  // The daemon reads nothing, so its socket is full after a while.
  for (int i = 0; i < 200 && relay_->streams() != 0; ++i) {
    send(frame(FrameKind::kRecord, 1, payload));
    settle_once();
  }
  EXPECT_EQ(relay_->streams(), 0U);
}

TEST_F(RawGuest, FramesForStreamsThatAreOver_Dropped) {
  send(start_bytes(1, 0));
  ASSERT_EQ(started(1), 0);
  const RecordHead head{0, 0};
  send(frame(FrameKind::kRecord, 9, bytes_of(head)));
  send(frame(FrameKind::kClose, 9, {}));
  send(frame(FrameKind::kWake, 9, {}));
  EXPECT_TRUE(open(1));
}

TEST_F(RawGuest, MoreConnectionsThanAllowed_EndsAllStreams) {
  send(start_bytes(1, 0));
  ASSERT_EQ(started(1), 0);
  listener_.reset();
  for (std::uint32_t i = 1; i <= kMaxConnections; ++i)
    send(frame(FrameKind::kOpen, i, bytes_of_text("socket")));
  settle();
  EXPECT_EQ(relay_->streams(), kMaxConnections);
  send(frame(FrameKind::kOpen, kMaxConnections + 1, bytes_of_text("socket")));
  EXPECT_TRUE(run_until([&] { return relay_->streams() == 0; }));
}

TEST_F(GuestTest, ChannelIsLost_AgentClosesConnectionsAndStartsAnew) {
  int relay_end = -1;
  tap_ = [&](int fd) { relay_end = fd; };
  start();
  Pair pair = connect_pair();
  ::shutdown(relay_end, SHUT_RDWR);
  EXPECT_TRUE(is_closed(pair.program));
  EXPECT_TRUE(is_closed(pair.daemon));
  pair.daemon.reset();
  EXPECT_TRUE(run_until([&] { return served_ == 2; }));
  EXPECT_TRUE(connect_pair().daemon);
}

TEST_F(GuestTest, DaemonEndsTheMachine_ConnectionsAreClosed) {
  start();
  Pair pair = connect_pair();
  monitor_.reset();
  EXPECT_TRUE(is_closed(pair.program));
  EXPECT_TRUE(is_closed(pair.daemon));
  EXPECT_TRUE(run_until([&] { return agent_->streams() == 0 && relay_->streams() == 0; }));
}

TEST_F(GuestTest, ProxyWithoutADescriptor_MachineDoesNotStart) {
  start_reply_.proxy = {kShared.offset + kShared.bytes, 4096};
  agent_->begin();
  EXPECT_TRUE(run_until([&] { return !starts_.empty(); }));
  settle();
  EXPECT_FALSE(agent_->is_started());
}

}  // namespace
}  // namespace softhca::guest::test
