// SPDX-License-Identifier: Apache-2.0

// The two ends of a connection disagree about its attributes. The outcome inside one daemon is that
// between two.
#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "tests/unit/engine/fixture/pair.hpp"

namespace softhca::engine {
namespace {

constexpr std::size_t kBufferBytes = 1 << 20;

/// A pair of queue pairs on terms of their own.
class Ends {
 public:
  Ends(Way way, const Connection& near, const Connection& far, QpType type = QpType::kRc)
      : pair(way) {
    pair.qa = &a.make_qp(*pair.ca, *pair.ca, {.type = type});
    pair.qb = &b.make_qp(*pair.cb, *pair.cb, {.type = type});
    bring_up(a, *pair.qa, pair.qb->qp.qpn, address(2), near);
    bring_up(b, *pair.qb, pair.qa->qp.qpn, address(1), far);
  }
  void post(abi::Opcode opcode, std::uint32_t bytes, bool receives = true) {
    if (receives && opcode == abi::Opcode::kSend) b.post_receive(*pair.qb, {to.all()});
    a.post(
        *pair.qa,
        {.opcode = opcode, .sge = {from.part(0, bytes)}, .remote_addr = to.addr(), .rkey = to.key});
  }
  /// Waits for the sender, then for what else is under way. Returns what both ends have seen.
  std::string outcome() {
    std::string text = "sender " + number(pair.wait_status(*pair.ca));
    pair.run_for(std::chrono::milliseconds(1));
    for (const auto& done : pair.ca->poll_all()) text += " " + number(done.status);
    text += " " + std::string(name_of(pair.qa->qp.state)) + ", receiver";
    for (const auto& done : pair.cb->poll_all())
      if (done.status != Status::kFlushError)
        text += " " + number(done.status) + " " + std::to_string(done.byte_len) + " bytes";
    return text + " " + name_of(pair.qb->qp.state);
  }
  /// Sends one message. Returns what both ends have seen.
  std::string sends(std::uint32_t bytes, abi::Opcode opcode = abi::Opcode::kSend) {
    post(opcode, bytes);
    return outcome();
  }

  static std::string number(Status status) { return std::to_string(static_cast<int>(status)); }

  Pair pair;
  Process& a = *pair.a;
  Process& b = *pair.b;
  Buffer& from = a.make_buffer(kBufferBytes);
  Buffer& to = b.make_buffer(kBufferBytes);
};

class Disagreement : public BothWays {
 protected:
  static constexpr Psn kPsn{0xfffff0};
};

TEST_P(Disagreement, OverThePsnAhead_NoAnswer) {
  Ends ends(GetParam(), {.sq_psn = kPsn + 1}, {});
  EXPECT_EQ(ends.sends(8), "sender 12 ERR, receiver RTS");
}

TEST_P(Disagreement, OverThePsnFarBehind_NoAnswer) {
  Ends ends(GetParam(), {}, {.rq_psn = kPsn + 100});
  EXPECT_EQ(ends.sends(8), "sender 12 ERR, receiver RTS");
}

TEST_P(Disagreement, OverThePsnByTheFirstMessage_MessageLostUnnoticed) {
  Ends ends(GetParam(), {}, {.rq_psn = kPsn + 2});
  EXPECT_EQ(ends.sends(2000), "sender 0 RTS, receiver RTS");
  EXPECT_EQ(ends.sends(8), "sender 0 RTS, receiver 0 8 bytes RTS");
}

TEST_P(Disagreement, OverThePsnBehindWithReads_NoAnswer) {
  Ends ends(GetParam(), {}, {.rq_psn = kPsn + 1});
  EXPECT_EQ(ends.sends(8, abi::Opcode::kRdmaRead), "sender 12 ERR, receiver RTS");
}

TEST_P(Disagreement, AfterOneEndWasReset_NoAnswer) {
  Ends ends(GetParam(), {}, {});
  EXPECT_EQ(ends.sends(8), "sender 0 RTS, receiver 0 8 bytes RTS");
  Pair& pair = ends.pair;
  pair.b->adapter.engine.queue_pairs().reset(pair.qb->qp, 0);
  bring_up(ends.b, *pair.qb, pair.qa->qp.qpn, address(1), {});
  EXPECT_EQ(ends.sends(8, abi::Opcode::kRdmaWrite), "sender 12 ERR, receiver RTS");
}

TEST_P(Disagreement, OverThePathMtu_LongMessagesRefused) {
  for (const auto& [near, far] : {std::pair(2048u, 1024u), std::pair(1024u, 2048u)}) {
    Ends ends(GetParam(), {.mtu = near}, {.mtu = far});
    EXPECT_EQ(ends.sends(1024), "sender 0 RTS, receiver 0 1024 bytes RTS");
    EXPECT_EQ(ends.sends(1025), "sender 9 ERR, receiver ERR");
    Ends reader(GetParam(), {.mtu = near}, {.mtu = far});
    EXPECT_EQ(reader.sends(1025, abi::Opcode::kRdmaRead), "sender 7 ERR, receiver RTS");
  }
}

TEST_P(Disagreement, OverReadsAtOnce_OneTooManyIsRefused) {
  Ends ends(GetParam(), {.max_rd_atomic = 4}, {.max_rd_atomic = 2});
  for (int i = 0; i < 4; ++i) ends.post(abi::Opcode::kRdmaRead, 4096);
  EXPECT_EQ(ends.outcome(), "sender 0 0 9 5 ERR, receiver ERR");
}

TEST_P(Disagreement, OverReadsAtOnce_FewerAreAnswered) {
  Ends ends(GetParam(), {.max_rd_atomic = 4}, {.max_rd_atomic = 2});
  for (int i = 0; i < 6; ++i) {
    ends.post(abi::Opcode::kRdmaRead, 8);
    ends.post(abi::Opcode::kRdmaRead, 4096);
    ends.pair.wait_status(*ends.pair.ca);
    EXPECT_EQ(ends.outcome(), "sender 0 RTS, receiver RTS");
  }
}

TEST_P(Disagreement, UnreliableOverThePsnBehind_MessagesLostUntilItFits) {
  Ends ends(GetParam(), {}, {.rq_psn = kPsn + 2}, QpType::kUc);
  EXPECT_EQ(ends.sends(8), "sender 0 RTS, receiver RTS");
  EXPECT_EQ(ends.sends(8), "sender 0 RTS, receiver RTS");
  EXPECT_EQ(ends.sends(8), "sender 0 RTS, receiver 0 8 bytes RTS");
}

TEST_P(Disagreement, UnreliableOverThePsnAhead_GapIsALoss) {
  Ends ends(GetParam(), {.sq_psn = kPsn + 7}, {}, QpType::kUc);
  EXPECT_EQ(ends.sends(5000), "sender 0 RTS, receiver 0 5000 bytes RTS");
}

TEST_P(Disagreement, UnreliableOverThePathMtu_LongMessagesLost) {
  Ends ends(GetParam(), {.mtu = 2048}, {.mtu = 1024}, QpType::kUc);
  EXPECT_EQ(ends.sends(1500), "sender 0 RTS, receiver RTS");
  EXPECT_EQ(ends.sends(1000), "sender 0 RTS, receiver 0 1000 bytes RTS");
}

INSTANTIATE_TEST_SUITE_P(Engine, Disagreement, ::testing::Values(Way::kLocal, Way::kWire),
                         way_name);

/// Any connections, with messages one after the other.
TEST(DisagreementAtRandom, OutcomeIsThatOfTheWire) {
  for (unsigned seed = 0; seed < 120; ++seed) {
    std::mt19937 random(seed);
    const auto pick = [&](std::uint32_t from, std::uint32_t to) {
      return std::uniform_int_distribution<std::uint32_t>(from, to)(random);
    };
    const auto terms = [&] {
      Connection c{.mtu = 256u << pick(0, 2), .timeout = 6, .retry_count = 1};
      c.max_rd_atomic = static_cast<std::uint8_t>(pick(0, 2));
      if (pick(0, 2) == 0) c.sq_psn = Psn(0xfffff0) + pick(0, 6);
      if (pick(0, 2) == 0) c.rq_psn = Psn(0xfffff0) + pick(0, 6);
      return c;
    };
    const QpType type = pick(0, 2) == 0 ? QpType::kUc : QpType::kRc;
    const Connection near = terms(), far = terms();
    std::vector<std::pair<abi::Opcode, std::uint32_t>> messages;
    for (int i = 0; i < 5; ++i) {
      const bool may_read = type == QpType::kRc && pick(0, 3) == 0;
      messages.emplace_back(may_read          ? abi::Opcode::kRdmaRead
                            : pick(0, 1) == 0 ? abi::Opcode::kSend
                                              : abi::Opcode::kRdmaWrite,
                            pick(0, 1500));
    }
    Ends inside(Way::kLocal, near, far, type), between(Way::kWire, near, far, type);
    for (const auto& [opcode, bytes] : messages) {
      const std::string expected = between.sends(bytes, opcode);
      EXPECT_EQ(inside.sends(bytes, opcode), expected)
          << "seed " << seed << ", " << bytes << " bytes by opcode " << static_cast<int>(opcode)
          << ", MTU " << near.mtu << " to " << far.mtu << ", PSN " << near.sq_psn.value() << " to "
          << far.rq_psn.value();
      if (!expected.starts_with("sender 0 RTS")) break;
    }
  }
}

}  // namespace
}  // namespace softhca::engine
