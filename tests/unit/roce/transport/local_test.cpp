// SPDX-License-Identifier: Apache-2.0

// Local delivery, constructed alone: every state met by every event, for each kind of request, as
// text that is compared with an approved file; and what a table does not show.
#include "daemon/roce/transport/local/local.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "daemon/roce/transport/segment.hpp"
#include "tests/unit/roce/transport/approved.hpp"

namespace softhca::transport {
namespace {

constexpr std::uint32_t kMessageCost = 10;

/// The other end, made of lists: it answers what the test says.
class FakeLink final : public LocalLink {
 public:
  explicit FakeLink(FakeEnvironment& there)
      : peer{there, there, there, expected, 1024, 1, 12}, there_(there) {}

  bool goes_on() const override { return sends; }
  const LocalPeer* find_peer() override { return present ? &peer : nullptr; }
  bool has_drawn() const override { return drawn; }
  bool has_receive() const override { return receives == Draw::kTaken; }
  Draw draw() override {
    drawn = receives == Draw::kTaken;
    return receives;
  }
  bool is_within_rate(const Request&) const override { return within_rate; }
  bool may_go_on() const override { return true; }
  void wait_for_rate(const Request&) override { waits = true; }
  bool waits_for_rate() const override { return waits; }
  std::uint64_t drawn_bytes() const override { return capacity; }
  Moved move(const Request&, std::uint32_t offset, std::uint32_t bytes) override {
    if (fault.verdict() == Verdict::kOk) there_.stored.push_back("copy" + range(offset, bytes));
    return fault;
  }
  Moved run_atomic(const Request&) override {
    if (fault.verdict() == Verdict::kOk) there_.stored.push_back("atomic");
    return fault;
  }
  std::uint64_t charge(std::uint32_t bytes, bool begins) override {
    return (begins ? kMessageCost : 0) + bytes;
  }
  void begins(const Request& request) override { begun.push_back(request.length); }
  void arrived(const Request&) override { drawn = false; }

  Psn expected;
  LocalPeer peer;
  bool sends = true;
  bool present = true;
  Draw receives = Draw::kTaken;
  bool drawn = false;
  std::uint64_t capacity = 4096;
  Moved fault;
  bool within_rate = true;
  bool waits = false;                ///< for its turn at the rate
  std::vector<std::uint32_t> begun;  ///< lengths

 private:
  FakeEnvironment& there_;
};

struct Kind {
  const char* name;
  RequestKind kind;
  std::uint32_t length;
};
constexpr Kind kKinds[] = {
    {"SEND", RequestKind::kSend, 300},
    {"SEND_INV", RequestKind::kSendInvalidate, 300},
    {"WRITE", RequestKind::kWrite, 300},
    {"WRITE_IMM", RequestKind::kWriteImm, 300},
    {"READ", RequestKind::kRead, 300},
    {"FETCH_ADD", RequestKind::kFetchAdd, 8},
    {"ATOMIC_WRITE", RequestKind::kAtomicWrite, 8},
    {"FLUSH", RequestKind::kFlush, 0},
};

class LocalTest : public ScriptTest {
 protected:
  LocalTest() {
    attributes.timeout = 7;  // 4.096 us * 2^7
    attributes.retry_count = 1;
    attributes.rnr_retry = 1;
    begin();
  }
  void begin(bool reliable = true) {
    env = there = FakeEnvironment();
    link.emplace(there);
    now = Time{} + milliseconds(1);
    number = 0;
    local.open(requests, 16);
    local.configure(attributes, reliable);
    local.reset_sender(Psn());
  }
  void post(RequestKind kind, std::uint32_t length) {
    Request r;
    r.kind = kind;
    r.length = length;
    r.pcb = PcbId(number++);
    r.rkey = Rkey(7);
    r.remote_addr = kRemoteAddr;
    r.imm = 0x55;
    if (kind == RequestKind::kFlush) {
      r.compare_add = 300;
      r.swap = kFlushGlobal;
    }
    local.start(r);
  }
  bool run(std::uint32_t budget = 100000) { return local.transmit(*link, env, now, budget); }
  void withdraw() {
    local.withdraw([](PcbId) {});
  }
  /// Both ends, and where that leaves the one that sends.
  std::string result() {
    std::string text = outcome(env);
    if (const std::string far = outcome(there); far != "nothing") text += " | there " + far;
    text += " | ";
    text += local.state() == Local::State::kReady    ? "ready"
            : local.state() == Local::State::kMoving ? "moving"
                                                     : "waiting";
    if (local.is_held()) text += ", sleeps";
    if (local.deadline() != kNever)
      text += ", until +" + std::to_string((local.deadline() - now).count()) + " ns";
    return text;
  }
  void clear() { env = there = FakeEnvironment(); }

  RcAttributes attributes;
  RequestTable requests{kRequests};
  FakeEnvironment there;
  std::optional<FakeLink> link;
  Local local;
  std::uint32_t number = 0;
};

class LocalStates : public LocalTest {
 protected:
  void enter(const std::string& state, const Kind& kind, bool reliable) {
    begin(reliable);
    post(kind.kind, kind.length);
    if (state == "moving") run(kMessageCost + 100);
    if (state == "waits for receive" || state == "sleeps" || state == "withdrawn") {
      link->receives = LocalLink::Draw::kEmpty;
      run();
    }
    if (state == "sleeps" || state == "withdrawn") {
      now += microseconds(60);
      run();
    }
    if (state == "withdrawn") withdraw();
    if (state == "waits for peer") {
      link->present = false;
      run();
    }
    link->receives = LocalLink::Draw::kTaken;
    link->present = true;
    clear();
  }
  void meet(const std::string& event) {
    if (event == "peer gone" || event == "deadline, peer gone") link->present = false;
    if (event == "no receive" || event == "deadline, no receive")
      link->receives = LocalLink::Draw::kEmpty;
    if (event == "hostile receives") link->receives = LocalLink::Draw::kUnusable;
    if (event == "receive too small") link->capacity = 299;
    if (event == "peer's memory") link->fault = LocalLink::Moved(Verdict::kRemoteAccess, true);
    if (event == "own memory") link->fault = LocalLink::Moved(Verdict::kLocalProtection);
    if (event == "no access") there.remote_access = Verdict::kRemoteAccess;
    if (event == "key of no window") there.invalidation = Verdict::kRemoteAccess;
    if (event == "peer reset") link->drawn = false;
    if (event == "expects earlier PSN") link->expected = Psn(0) - 1;
    if (event == "expects PSN far ahead") link->expected = Psn(9);
    if (event == "expects next PSN") link->expected = Psn(1);
    if (event == "smaller path MTU") link->peer.mtu = 256;
    if (event == "about to fail") link->sends = false;
    if (event.starts_with("deadline") && local.deadline() != kNever)
      now = std::max(now, local.deadline());
    if (event == "flush")
      local.flush(env);
    else if (event == "reset")
      local.reset();
    else
      run();
  }
};

/// Each line has the kinds of requests that have this outcome.
TEST_F(LocalStates, AllEvents) {
  std::string text;
  for (const bool reliable : {true, false})
    for (const char* state :
         {"ready", "moving", "waits for receive", "sleeps", "withdrawn", "waits for peer"})
      for (const char* event : {"turn",
                                "deadline",
                                "peer gone",
                                "deadline, peer gone",
                                "no receive",
                                "deadline, no receive",
                                "hostile receives",
                                "receive too small",
                                "peer's memory",
                                "own memory",
                                "no access",
                                "key of no window",
                                "peer reset",
                                "expects earlier PSN",
                                "expects PSN far ahead",
                                "expects next PSN",
                                "smaller path MTU",
                                "about to fail",
                                "flush",
                                "reset"}) {
        std::vector<std::pair<std::string, std::string>> outcomes;
        for (const Kind& kind : kKinds) {
          enter(state, kind, reliable);
          meet(event);
          const std::string outcome = result();
          const auto same =
              std::ranges::find(outcomes, outcome, [](const auto& o) { return o.first; });
          if (same == outcomes.end())
            outcomes.emplace_back(outcome, kind.name);
          else
            same->second += std::string(", ") + kind.name;
        }
        const bool alike = outcomes.size() == 1;
        for (const auto& [outcome, kinds] : outcomes)
          text += std::string(reliable ? "RC" : "UC") + " | " + state + " | " + event + " | " +
                  (alike ? "all" : kinds) + " | " + outcome + "\n";
      }
  compare_with_approved("local_states", text);
}

TEST_F(LocalTest, PsnsOfBothEnds_Messages_MoveByTheirPackets) {
  local.reset_sender(Psn(0xffffff));
  link->expected = Psn(0xffffff);
  for (const std::uint32_t bytes : {0u, 1024u, 1025u}) post(RequestKind::kWrite, bytes);
  run();
  expect_done({"0 ok", "1 ok", "2 ok"});
  EXPECT_EQ(local.position().send, Psn(3));
  EXPECT_EQ(link->expected, Psn(3));
}

/// The writes reach the packet that the peer expects: on the wire, its acknowledgement covers those
/// before it.
TEST_F(LocalTest, PeerExpectsALaterPsn_MessagesUpToItAreQueued_TheySucceedWithoutEffect) {
  link->expected = Psn(3);
  for (int i = 0; i < 4; ++i) post(RequestKind::kWrite, 5);
  run();
  expect_done({"0 ok", "1 ok", "2 ok", "3 ok"});
  EXPECT_EQ(there.stored, Lines{"copy [0,5)"});
  EXPECT_EQ(there.counted(Count::kDuplicateRequests), 3u);
}

TEST_F(LocalTest, PeerTakesFewerReads_OneMoreWaits_ItIsRefusedInItsTurn) {
  attributes.max_rd_atomic = 4;
  begin();
  for (int i = 0; i < 2; ++i) post(RequestKind::kRead, 5);
  run();
  expect_done({"0 ok", "1 remote-invalid-request"});
}

TEST_F(LocalTest, PeerTakesFewerReads_NextHasAFence_ItIsAnswered) {
  attributes.max_rd_atomic = 4;
  begin();
  post(RequestKind::kRead, 5);
  Request fenced;
  fenced.kind = RequestKind::kRead;
  fenced.fence = true;
  fenced.pcb = PcbId(number++);
  local.start(fenced);
  run();
  expect_done({"0 ok", "1 ok"});
}

TEST_F(LocalTest, LongMessagesMoveAPieceATurn) {
  post(RequestKind::kWrite, 250);
  EXPECT_TRUE(run(kMessageCost + 100) || local.state() == Local::State::kMoving);
  EXPECT_TRUE(run(100) || local.state() == Local::State::kMoving);
  expect_done({});
  run(100);
  expect_done({"0 ok"});
}

TEST_F(LocalTest, ManyMessagesFitATurnAndNoMore) {
  for (int i = 0; i < 10; ++i) post(RequestKind::kWrite, 0);
  EXPECT_TRUE(run(3 * kMessageCost));
  expect_done({"0 ok", "1 ok", "2 ok"});
  EXPECT_FALSE(run());
  EXPECT_TRUE(local.idle());
}

TEST_F(LocalTest, TheReceiveOfABrokenMessageServesTheNext) {
  post(RequestKind::kSend, 300);
  run(kMessageCost + 1);
  EXPECT_TRUE(link->drawn);
  local.reset();
  link->receives = LocalLink::Draw::kEmpty;
  post(RequestKind::kSend, 5);
  run();
  expect_done({"1 ok"});
  EXPECT_EQ(there.received, Lines{"0 ok 5 bytes"});
}

/// The sender could try keys for ever.
TEST_F(LocalTest, ManyRefusedWritesOfAnUnreliableOneEndThePeer) {
  begin(false);
  there.remote_access = Verdict::kRemoteAccess;
  for (unsigned i = 1; i < kMostBadAccesses; ++i) {
    post(RequestKind::kWrite, 5);
    run();
  }
  EXPECT_EQ(there.counted(Count::kBadAccess), kMostBadAccesses - 1u);
  EXPECT_EQ(std::count(there.events.begin(), there.events.end(), "error access-error"), 0);
  post(RequestKind::kWrite, 5);
  run();
  EXPECT_EQ(there.events.back(), "error access-error");
  EXPECT_EQ(env.done.size(), kMostBadAccesses);
  EXPECT_EQ(env.done.back(), std::to_string(kMostBadAccesses - 1) + " ok");
}

TEST_F(LocalTest, RetriesOfAReceiverNotReadyEnd) {
  link->receives = LocalLink::Draw::kEmpty;
  post(RequestKind::kSend, 5);
  EXPECT_TRUE(run()) << "looks again in the next poll step";
  now = local.deadline();
  run();
  expect_done({"0 rnr-retry-exceeded"});
  expect_count(Count::kRnrNakReceived, 2);
}

/// A busy engine, or one without the processor, may serve the queue pair only after the wait has
/// ended. Without the sleep, the queue pair would hold its PCBs for ever, and enough such queue
/// pairs would leave no PCB for others.
TEST_F(LocalTest, ItSleepsEvenWhenEachTurnComesAfterTheRnrWait) {
  attributes.rnr_retry = 7;
  begin();
  link->receives = LocalLink::Draw::kEmpty;
  post(RequestKind::kSend, 5);
  run();
  now = local.deadline() + microseconds(1);
  EXPECT_FALSE(run());
  EXPECT_TRUE(local.is_held());
  expect_count(Count::kRnrNakReceived, 2);
}

TEST_F(LocalTest, WithoutALimitItWaitsForAReceiveWithoutItsRequest) {
  attributes.rnr_retry = 7;
  begin();
  link->receives = LocalLink::Draw::kEmpty;
  post(RequestKind::kSend, 5);
  run();
  now += microseconds(60);
  EXPECT_FALSE(run());
  ASSERT_TRUE(local.is_held());
  withdraw();
  for (int i = 0; i < 20; ++i) {
    const Time until = local.deadline();
    EXPECT_FALSE(run());
    EXPECT_EQ(local.deadline(), until) << "not before its time";
    now = until;
    EXPECT_FALSE(run());
    EXPECT_TRUE(local.is_held());
    EXPECT_GT(local.deadline(), now);
  }
  link->receives = LocalLink::Draw::kTaken;
  now = local.deadline();
  run();
  EXPECT_FALSE(local.is_held()) << "its request is wanted";
  post(RequestKind::kSend, 5);
  run();
  expect_done({"1 ok"});
}

TEST_F(LocalTest, APeerThatIsNotThereIsATimeout) {
  link->present = false;
  post(RequestKind::kWrite, 5);
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(run());
    expect_done({});
    EXPECT_TRUE(local.is_held());
    now = local.deadline();
  }
  run();
  expect_done({"0 retry-exceeded"});
  expect_count(Count::kAckTimeouts, 2);
}

TEST_F(LocalTest, WithoutATimeoutItLooksForItsPeerForEver) {
  attributes.timeout = 0;
  begin();
  link->present = false;
  post(RequestKind::kWrite, 5);
  for (int i = 0; i < 50; ++i) {
    EXPECT_FALSE(run());
    now = local.deadline();
  }
  expect_done({});
  expect_count(Count::kAckTimeouts, 0);
  link->present = true;
  run();
  expect_done({"0 ok"});
}

/// What it has used up of its retries, it has not when the message gets on.
TEST_F(LocalTest, ProgressRenewsRetries) {
  for (int i = 0; i < 3; ++i) {
    post(RequestKind::kSend, 5);
    link->receives = LocalLink::Draw::kEmpty;
    run();
    link->receives = LocalLink::Draw::kTaken;
    run();
  }
  expect_done({"0 ok", "1 ok", "2 ok"});
}

// --- the rates of its peer

TEST_F(LocalTest, AMessageAboveThePeersRateWaitsForItsTurnWithoutItsRequest) {
  for (const RequestKind kind :
       {RequestKind::kSend, RequestKind::kWrite, RequestKind::kRead, RequestKind::kFetchAdd}) {
    begin();
    link->within_rate = false;
    post(kind, 8);
    EXPECT_FALSE(run());
    ASSERT_TRUE(local.is_held());
    EXPECT_TRUE(link->waits);
    EXPECT_FALSE(link->drawn);
    EXPECT_EQ(local.progress().obstacle, SendObstacle::kPeerRate);
    EXPECT_EQ(local.deadline(), kNever) << "it is called when its turn has come";
    withdraw();
    for (int i = 0; i < 3; ++i) {
      now += milliseconds(100);
      EXPECT_FALSE(run());
      EXPECT_TRUE(local.is_held()) << "its turn has not come";
    }
    EXPECT_TRUE(link->begun.empty());
    link->waits = false;
    link->within_rate = true;
    EXPECT_FALSE(run());
    EXPECT_FALSE(local.is_held()) << "its request is wanted";
    post(kind, 8);
    run();
    expect_done({"1 ok"});
    EXPECT_EQ(link->begun, std::vector<std::uint32_t>{8});
    clear();
  }
}

TEST_F(LocalTest, OfAnUnreliableConnectionWhatIsAboveTheRateIsLost) {
  begin(false);
  link->within_rate = false;
  post(RequestKind::kWrite, 5);
  run();
  expect_done({"0 ok"});
  EXPECT_TRUE(there.stored.empty());
  EXPECT_EQ(there.counted(Count::kRateDropped), 1u);
  EXPECT_FALSE(link->waits);
}

/// What began within the rate goes on to its end.
TEST_F(LocalTest, AMessageUnderWayDoesNotWaitForTheRate) {
  post(RequestKind::kWrite, 300);
  run(kMessageCost + 100);
  EXPECT_EQ(local.state(), Local::State::kMoving);
  link->within_rate = false;
  run();
  expect_done({"0 ok"});
  EXPECT_EQ(link->begun, std::vector<std::uint32_t>{300}) << "in full, and once";
}

/// Its retries are for a peer that is not there, or has no receive.
TEST_F(LocalTest, WaitingForARateTakesNoRetries) {
  link->within_rate = false;
  post(RequestKind::kSend, 5);
  for (int i = 0; i < 10; ++i) {
    run();
    now += milliseconds(100);
    link->waits = false;
  }
  expect_done({});
  expect_count(Count::kAckTimeouts, 0);
  expect_count(Count::kRnrNakReceived, 0);
  link->present = false;
  run();
  expect_count(Count::kAckTimeouts, 0);
  now = local.deadline();
  run();
  expect_count(Count::kAckTimeouts, 1);
}

TEST_F(LocalTest, AnAtomicRunsOnceHoweverSmallTheBudget) {
  post(RequestKind::kFetchAdd, 8);
  run(1);
  expect_done({"0 ok"});
  EXPECT_EQ(there.stored, Lines{"atomic"});
}

}  // namespace
}  // namespace softhca::transport
