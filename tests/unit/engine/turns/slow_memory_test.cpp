// SPDX-License-Identifier: Apache-2.0

// Memory of a tenant is so slow that the engine has waited too long for it. The messages of that
// tenant wait; those of other tenants do not.
#include "daemon/engine/turns/slow_memory.hpp"

#include "tests/unit/engine/fixture/pair.hpp"

namespace softhca::engine {
namespace {

using std::chrono::milliseconds;
using transport::Count;

constexpr abi::Opcode kBoth[] = {abi::Opcode::kRdmaWrite, abi::Opcode::kRdmaRead};

class SlowMemoryTest : public BothWays {
 protected:
  SlowMemoryTest() : pair(GetParam()) {
    // Retries are few, and reads that were under way when it got slow wait for them.
    pair.connect_pair({.timeout = 20});
    pair.run_for(milliseconds(1));
    from = &a.make_buffer(kBytes);
    to = &b.make_buffer(kBytes);
    from->fill(7);
  }
  ~SlowMemoryTest() { pair.expect_idle(); }

  /// Reports to the tenant's engine a wait of `time` for the memory of the process.
  static void wait_for(Process& process, Duration time) {
    process.adapter.engine.slow_memory().waited(process.tenant, time);
  }
  Work work(abi::Opcode opcode) {
    return {.opcode = opcode, .sge = {from->all()}, .remote_addr = to->addr(), .rkey = to->key};
  }
  /// Returns how long the message takes. Expects that it succeeds.
  Duration take(abi::Opcode opcode) {
    const Time began = pair.now;
    a.post(*pair.qa, work(opcode));
    EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
    return pair.now - began;
  }

  /// Expects a delay of about 4 s: 60 ms of waiting, less the tolerated 20 ms, are 1 % of that.
  void expect_waits_for(Process& slow) {
    for (const abi::Opcode opcode : kBoth) {
      wait_for(slow, milliseconds(60));
      const Duration took = take(opcode);
      EXPECT_GE(took, milliseconds(3900));
      EXPECT_LT(took, kMost);
      EXPECT_TRUE(to->equals(*from));
      pair.run_for(milliseconds(2000));  // it has paid for it all
    }
  }

  static constexpr Duration kMost = std::chrono::seconds(9);
  static constexpr std::size_t kBytes = 4'000'000;
  Pair pair;
  Process& a = *pair.a;
  Process& b = *pair.b;
  Buffer* from;
  Buffer* to;
};

TEST_P(SlowMemoryTest, ALittleIsBorne) {
  wait_for(a, milliseconds(19));
  wait_for(b, milliseconds(19));
  for (const abi::Opcode opcode : kBoth) EXPECT_LT(take(opcode), milliseconds(500));
}

TEST_P(SlowMemoryTest, MessagesOfItsPeersWait) {
  expect_waits_for(b);
  EXPECT_EQ(b.tenant.counters.memory.held.value(), 2u);
  EXPECT_EQ(b.tenant.counters.value(Count::kRateNakSent) != 0, !local());
}

TEST_P(SlowMemoryTest, ItsOwnMessagesWait) { expect_waits_for(a); }

/// What it serves is not told apart from a peer that is gone, but what it sends is: retries and
/// timeout are those of most programs.
TEST_P(SlowMemoryTest, RetriesAreKept) {
  TestQp& near = a.make_qp(*pair.ca, *pair.ca);
  TestQp& far = b.make_qp(*pair.cb, *pair.cb);
  connect(a, near, b, far, {.timeout = 14, .retry_count = 1});
  Work write = work(abi::Opcode::kRdmaWrite);
  for (Process* slow : {&a, &b}) {
    std::memset(to->data(), 0, 1);
    a.post(near, write);
    ASSERT_TRUE(pair.run_until([&] { return std::memcmp(to->data(), "\0", 1) != 0; }));
    wait_for(*slow, milliseconds(60));
    EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
    pair.run_for(milliseconds(2000));
  }
  wait_for(a, milliseconds(60));
  a.post(near, work(abi::Opcode::kRdmaRead));
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
}

/// A message that has begun waits, too.
TEST_P(SlowMemoryTest, InTheMiddleOfAMessage) {
  for (const abi::Opcode opcode : kBoth)
    for (Process* slow : {&a, &b}) {
      to->fill(1);
      from->fill(2);
      Buffer& into = opcode == abi::Opcode::kRdmaRead ? *from : *to;
      const auto written = [&] { return std::memcmp(into.data(), "\0", 1) != 0; };
      std::memset(into.data(), 0, 1);
      a.post(*pair.qa, work(opcode));
      ASSERT_TRUE(pair.run_until(written));
      wait_for(*slow, milliseconds(60));
      const Time began = pair.now;
      pair.run_for(milliseconds(3800));
      EXPECT_FALSE(pair.ca->poll()) << "it is over already";
      EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
      EXPECT_LT(pair.now - began, kMost);
      EXPECT_TRUE(to->equals(*from));
      pair.run_for(milliseconds(2000));
    }
}

TEST_P(SlowMemoryTest, OthersDoNotWait) {
  TestCq& cq = a.make_cq();
  TestQp& near = a.make_qp(cq, cq);
  TestQp& far = a.make_qp(cq, cq);
  connect(a, near, a, far);
  Buffer& into = a.make_buffer(kBytes);
  wait_for(b, milliseconds(60));
  a.post(*pair.qa, work(abi::Opcode::kRdmaWrite));
  for (int i = 0; i < 20; ++i) {
    a.post(near, {.opcode = abi::Opcode::kRdmaWrite,
                  .sge = {from->all()},
                  .remote_addr = into.addr(),
                  .rkey = into.key});
    const Time began = pair.now;
    EXPECT_EQ(pair.wait_status(cq), Status::kSuccess);
    EXPECT_LT(pair.now - began, milliseconds(500));
  }
  EXPECT_FALSE(pair.ca->poll());
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
}

/// However many of a tenant's messages wait for the memory of its peer, its others have what they
/// need.
TEST_P(SlowMemoryTest, MessagesThatWaitHoldNothing) {
  TestCq& cq = a.make_cq(256);
  TestQp& held = a.make_qp(cq, cq, {.send_entries = 128});
  TestQp& there = b.make_qp(*pair.cb, *pair.cb);
  connect(a, held, b, there, {.timeout = 20});
  wait_for(b, milliseconds(60));
  Work small = work(abi::Opcode::kRdmaWrite);
  small.sge = {from->part(0, 64)};
  for (int i = 0; i < 100; ++i) a.post(held, small, Process::Way::kDoorbell);
  EXPECT_TRUE(pair.run_until([&] { return held.qp.sq.commands == 0; }, milliseconds(500)));
  EXPECT_EQ(cq.poll_all().size(), 0u);
  std::size_t done = 0;
  EXPECT_TRUE(pair.run_until([&] { return (done += cq.poll_all().size()) == 100; }));
  pair.run_for(std::chrono::seconds(3));
}

TEST(SlowMemoryOfATenantThatGoes, KeepsNobodyWaiting) {
  Pair pair(Way::kLocal);
  pair.connect_pair({.timeout = 14, .retry_count = 1});
  pair.run_for(milliseconds(1));
  Buffer& from = pair.a->make_buffer(64);
  Buffer& to = pair.b->make_buffer(64);
  Engine& engine = pair.a->adapter.engine;
  engine.slow_memory().waited(pair.b->tenant, std::chrono::seconds(10));
  pair.a->post(*pair.qa, {.opcode = abi::Opcode::kRdmaWrite,
                          .sge = {from.all()},
                          .remote_addr = to.addr(),
                          .rkey = to.key});
  pair.run_for(milliseconds(1));
  ASSERT_TRUE(engine.slow_memory().waits(pair.qa->qp));
  pair.b->end();
  engine.remove_tenant(pair.b->tenant);
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kRetryExceededError);
  engine.add_tenant(pair.b->tenant);
}

TEST_P(SlowMemoryTest, AQueuePairThatIsResetWaitsNoMore) {
  wait_for(a, milliseconds(60));
  a.post(*pair.qa, work(abi::Opcode::kRdmaWrite));
  pair.run_for(milliseconds(1));
  EXPECT_TRUE(a.adapter.engine.slow_memory().waits(pair.qa->qp));
  a.reset(*pair.qa);
  EXPECT_FALSE(a.adapter.engine.slow_memory().waits(pair.qa->qp));
  pair.run_for(std::chrono::seconds(5));
  EXPECT_FALSE(pair.ca->poll());
}

INSTANTIATE_TEST_SUITE_P(Engine, SlowMemoryTest, ::testing::Values(Way::kLocal, Way::kWire),
                         way_name);

}  // namespace
}  // namespace softhca::engine
