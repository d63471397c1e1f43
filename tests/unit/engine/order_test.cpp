// SPDX-License-Identifier: Apache-2.0

// The ways of a command: VCBs, doorbells, send queue mode, pieces; order whichever way is taken.
#include "tests/unit/engine/fixture/pair.hpp"

namespace softhca::engine {
namespace {

using Post = Process::Way;

class Order : public BothWays {
 protected:
  explicit Order(const TenantOptions& options = {}) : pair(GetParam(), options) {}
  ~Order() { pair.expect_idle(); }

  Work write(std::uint32_t value) {
    Work work{.opcode = abi::Opcode::kRdmaWriteWithImm,
              .flags = abi::kCommandSignaled | abi::kCommandInline,
              .bytes = std::vector<std::byte>(8),
              .imm = value,
              .remote_addr = far->addr(),
              .rkey = far->key};
    return work;
  }
  void start(const QpOptions& options = {}) {
    pair.connect_pair({}, options);
    far = &b.make_buffer(8);
  }
  /// `count` writes with immediate data 0, 1, .. arrive and complete in order.
  void expect_in_order(std::uint32_t count) {
    std::uint32_t sent = 0;
    std::uint32_t received = 0;
    EXPECT_TRUE(pair.run_until([&] {
      while (const auto c = pair.ca->poll()) {
        EXPECT_EQ(c->status, Status::kSuccess);
        EXPECT_EQ(c->index, sent++);
      }
      while (const auto c = pair.cb->poll()) EXPECT_EQ(c->imm, received++);
      return sent == count && received == count;
    }));
  }

  Pair pair;
  Process& a = *pair.a;
  Process& b = *pair.b;
  Buffer* far = nullptr;
};

TEST_P(Order, VcbsAndDoorbellsMixed) {
  start({.send_entries = 64, .receive_entries = 64});
  for (std::uint32_t i = 0; i < 64; ++i) {
    b.post_receive(*pair.qb, {});
    a.post(*pair.qa, write(i), i % 3 == 0 || i % 7 == 2 ? Post::kDoorbell : Post::kVcb);
    if (i % 5 == 0) pair.step();
  }
  expect_in_order(64);
  EXPECT_GT(a.tenant.counters.commands_vcb.value(), 0u);
  EXPECT_GT(a.tenant.counters.commands_doorbell.value(), 0u);
  EXPECT_EQ(a.tenant.counters.commands_vcb.value() + a.tenant.counters.commands_doorbell.value(),
            64u);
}

/// The engine meets the VCBs of a queue pair in the order of their bits, not of their posting.
TEST_P(Order, VcbsHandedOverOutOfOrder) {
  start();
  for (std::uint32_t i = 0; i < 3; ++i) {
    b.post_receive(*pair.qb, {});
    a.write_command(*pair.qa, write(i));
    a.fill_vcb(2 - i, *pair.qa, i);
  }
  for (std::uint32_t vcb = 0; vcb < 3; ++vcb) a.hand_over(vcb);
  expect_in_order(3);
}

TEST_P(Order, CommandInPiecesWaitsForTheLast) {
  start();
  b.post_receive(*pair.qb, {});
  a.write_command(*pair.qa, write(0));
  const std::uint64_t all = abi::kAllSegments & ~abi::unused_segments(8);
  const std::uint64_t missing = std::uint64_t{1} << 3;
  a.fill_vcb(0, *pair.qa, 0, all & ~missing);
  a.hand_over(0);
  pair.steps(10);
  EXPECT_FALSE(a.vcb_free(0));
  EXPECT_TRUE(pair.ca->poll_all().empty());
  EXPECT_EQ(a.adapter.engine.pcbs().group(a.tenant.qos_class).pcbs.in_use.value(), 1u);
  a.fill_vcb(0, *pair.qa, 0, missing);
  for (int i = 0; i < 100 && !a.vcb_free(0); ++i) pair.step();  // looked at ever later
  EXPECT_TRUE(a.vcb_free(0));
  expect_in_order(1);
}

TEST_P(Order, DoorbellOverManyCommands) {
  start({.send_entries = 64, .receive_entries = 64});
  for (std::uint32_t i = 0; i < 50; ++i) {
    b.post_receive(*pair.qb, {});
    a.write_command(*pair.qa, write(i));
  }
  a.ring(pair.qa->qp.qpn.value, 50);
  a.ring(pair.qa->qp.qpn.value, 20);  // says nothing new
  expect_in_order(50);
}

INSTANTIATE_TEST_SUITE_P(Engine, Order, ::testing::Values(Way::kLocal, Way::kWire), way_name);

/// All PCBs are in use: commands take the doorbell path, without a visible difference (A5).
class SendQueueMode : public Order {
 protected:
  SendQueueMode() : Order({.pcbs = 1, .shared = false}) {}
};

TEST_P(SendQueueMode, TakesTheDoorbellsWay) {
  start({.send_entries = 64, .receive_entries = 64});
  collect::PcbPool& pcbs = a.adapter.engine.pcbs();
  ASSERT_TRUE(pcbs.set_may_share(a.tenant.qos_class, true));
  std::vector<PcbId> taken;
  while (const auto pcb = pcbs.allocate(a.tenant.qos_class)) taken.push_back(*pcb);
  for (std::uint32_t i = 0; i < 64; ++i) {
    b.post_receive(*pair.qb, {});
    a.post(*pair.qa, write(i));
    pair.step();
  }
  expect_in_order(64);
  EXPECT_EQ(a.tenant.counters.send_queue_mode.value(), 64u);
  EXPECT_EQ(a.tenant.counters.commands_vcb.value(), 0u);
  for (const PcbId pcb : taken) pcbs.free(pcb);
}

TEST_P(SendQueueMode, ComesAndGoes) {
  start({.send_entries = 64, .receive_entries = 64});
  for (std::uint32_t i = 0; i < 64; ++i) {
    b.post_receive(*pair.qb, {});
    a.post(*pair.qa, write(i));
    if (i % 4 == 3) pair.steps(i % 8);
  }
  expect_in_order(64);
}

INSTANTIATE_TEST_SUITE_P(Engine, SendQueueMode, ::testing::Values(Way::kLocal, Way::kWire),
                         way_name);

/// A destroyed queue pair leaves room in the kick list to those that wait for it.
TEST(KickList, RoomComesBackWithADestroyedQueuePair) {
  Pair pair(Way::kLocal, {.pcbs = 32, .shared = false, .kick_list = 2, .dedicated_kick_list = 2});
  Process& a = *pair.a;
  pair.connect_pair({}, {.send_entries = 64, .receive_entries = 64});
  TestQp& other = a.make_qp(*pair.ca, *pair.ca);
  TestQp& far = pair.b->make_qp(*pair.cb, *pair.cb);
  connect(a, other, *pair.b, far);
  TestQp& second = a.make_qp(*pair.ca, *pair.ca, {.send_entries = 64});
  connect(a, second, *pair.b, pair.b->make_qp(*pair.cb, *pair.cb));
  // Without receives 8 commands take all completion credits, 2 more the kick list; those of the
  // second queue pair do so with the dedicated ones.
  for (TestQp* qp : {pair.qa, &second}) {
    for (int i = 0; i < 20; ++i) a.write_command(*qp, {});
    a.ring(qp->qp.qpn.value, 20);
    pair.steps(4);
  }
  a.write_command(other, {.opcode = abi::Opcode::kRdmaWrite});
  a.ring(other.qp.qpn.value, 1);
  pair.steps(4);
  for (const TvlId tvl : {other.qp.sq.tvl, other.qp.sq.dedicated_tvl})
    EXPECT_EQ(a.adapter.engine.arbitrator().counters(tvl).waiting.value(), 2u);
  EXPECT_TRUE(pair.ca->poll_all().empty());
  a.destroy(second);
  const auto done = pair.wait(*pair.ca);
  ASSERT_TRUE(done);
  EXPECT_EQ(done->qpn, other.qp.qpn.value);
  EXPECT_EQ(done->status, Status::kSuccess);
}

}  // namespace
}  // namespace softhca::engine
