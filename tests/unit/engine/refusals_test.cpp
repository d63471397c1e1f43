// SPDX-License-Identifier: Apache-2.0

// What the event and the completion say about a check that failed, and to which tenant.
#include "daemon/base/refusal.hpp"
#include "tests/unit/engine/fixture/pair.hpp"

namespace softhca::engine {
namespace {

/// Returns why a queue pair of the process failed, by its event.
Refusal refusal_of(const Process& process, const TestQp& qp) {
  const EventLog& log = process.adapter.engine.event_log();
  for (std::uint64_t i = log.oldest(); i < log.count(); ++i)
    if (log[i].kind == DaemonEventKind::kQueuePairError && log[i].qpn == qp.qp.qpn)
      return log[i].refusal;
  ADD_FAILURE() << "no event";
  return {};
}

/// A peer of another tenant: in this daemon, or on another host.
class Refused : public BothWays {
 protected:
  Refused() : pair(GetParam()) {}

  std::uint32_t failed_completion(TestCq& cq) {
    const auto got = pair.wait(cq);
    if (!got || got->status == Status::kSuccess) {
      ADD_FAILURE() << "no failed completion";
      return 0;
    }
    return got->imm;
  }
  void wait_for_the_peer() {
    EXPECT_TRUE(pair.run_until([&] { return pair.qb->qp.state == QpState::kError; }));
  }

  Pair pair;
  Process& a = *pair.a;
  Process& b = *pair.b;
};

TEST_P(Refused, WriteOutOfBounds_OwnerSeesBoundsPeerSeesTheNak) {
  pair.connect_pair();
  Buffer& near = a.make_buffer(8);
  Buffer& far = b.make_buffer(64);
  a.post(*pair.qa, {.opcode = abi::Opcode::kRdmaWrite,
                    .sge = {near.all()},
                    .remote_addr = far.addr() + 57,
                    .rkey = far.key});
  EXPECT_EQ(failed_completion(*pair.ca), 0x351u);
  wait_for_the_peer();
  const Refusal there = refusal_of(b, *pair.qb);
  EXPECT_EQ(there.cause, RefusalCause::kOutOfBounds);
  EXPECT_EQ(there.side, RefusalSide::kServed);
  EXPECT_EQ(there.key, far.key);
  EXPECT_EQ(there.address, far.addr() + 57);
  EXPECT_EQ(there.length, 8u);
  EXPECT_EQ(there.region.address, far.addr());
  EXPECT_EQ(there.region.length, 64u);
  EXPECT_EQ(there.region.domain, b.pd.value);
  EXPECT_EQ(there.needed, std::uint32_t{memory::kRemoteWrite});
  const Refusal here = refusal_of(a, *pair.qa);
  EXPECT_EQ(here.cause, RefusalCause::kAccessNak);
  EXPECT_FALSE(here.has_region);
  EXPECT_EQ(here.length, 8u) << "of its own command";
}

TEST_P(Refused, RegionOfAnotherTenant_IsUnknown) {
  if (!local()) return;  // keys of two daemons have nothing in common
  pair.connect_pair();
  Buffer& near = a.make_buffer(8);
  a.post(*pair.qa, {.opcode = abi::Opcode::kRdmaWrite,
                    .sge = {near.all()},
                    .remote_addr = near.addr(),
                    .rkey = near.key});
  EXPECT_EQ(failed_completion(*pair.ca), 0x351u);
  const Refusal there = refusal_of(b, *pair.qb);
  EXPECT_EQ(there.cause, RefusalCause::kNoRegion);
  EXPECT_FALSE(there.has_region);
}

TEST_P(Refused, DeregisteredKey_SaysWhen) {
  pair.connect_pair();
  Buffer& near = a.make_buffer(8);
  Buffer& far = b.make_buffer(64);
  pair.steps(1);
  memory::KeyTable& keys = b.adapter.engine.keys();
  EXPECT_NE(keys.remove(far.key, b.adapter.engine.clock().now), nullptr);
  pair.run_for(std::chrono::milliseconds(3));
  a.post(*pair.qa, {.opcode = abi::Opcode::kRdmaRead,
                    .sge = {near.all()},
                    .remote_addr = far.addr(),
                    .rkey = far.key});
  failed_completion(*pair.ca);
  wait_for_the_peer();
  const Refusal there = refusal_of(b, *pair.qb);
  EXPECT_EQ(there.cause, RefusalCause::kRegionEnded);
  EXPECT_GE(there.ms, 2u);
  EXPECT_LE(there.ms, 10u);
}

TEST_P(Refused, ReceiveTooShort_ReceiverSeesBothLengths) {
  pair.connect_pair();
  Buffer& near = a.make_buffer(64);
  Buffer& far = b.make_buffer(32);
  b.post_receive(*pair.qb, {far.all()});
  a.post(*pair.qa, {.sge = {near.all()}});
  EXPECT_EQ(failed_completion(*pair.ca), 0x350u);
  EXPECT_EQ(failed_completion(*pair.cb), 0x120u);
  wait_for_the_peer();
  const Refusal there = refusal_of(b, *pair.qb);
  EXPECT_EQ(there.cause, RefusalCause::kReceiveTooShort);
  EXPECT_EQ(there.length, 64u);
  EXPECT_EQ(there.limit, 32u);
}

TEST_P(Refused, LongMessageForAShortReceive_MayBeLongerOnTheWire) {
  pair.connect_pair();
  Buffer& near = a.make_buffer(16384);
  Buffer& far = b.make_buffer(32);
  b.post_receive(*pair.qb, {far.all()});
  a.post(*pair.qa, {.sge = {near.all()}});
  EXPECT_EQ(failed_completion(*pair.ca), 0x350u);
  wait_for_the_peer();
  const Refusal there = refusal_of(b, *pair.qb);
  EXPECT_EQ(there.cause, RefusalCause::kReceiveTooShort);
  EXPECT_EQ(there.more_follows, !local()) << "only packets leave the length open";
  EXPECT_EQ(there.length, local() ? 16384 : pair.qb->qp.rc.mtu);
  EXPECT_EQ(there.limit, 32u);
}

TEST_P(Refused, FlushedCompletions_SayWhyTheQueuePairFailed) {
  pair.connect_pair();
  Buffer& near = a.make_buffer(8);
  Buffer& far = b.make_buffer(64);
  a.post_receive(*pair.qa, {near.all()});
  b.post_receive(*pair.qb, {far.all()});
  a.post(*pair.qa, {.opcode = abi::Opcode::kRdmaWrite,
                    .sge = {near.all()},
                    .remote_addr = far.addr(),
                    .rkey = far.key ^ 1u << 20});
  a.post(*pair.qa, {.sge = {near.all()}});
  EXPECT_EQ(failed_completion(*pair.ca), 0x351u);
  for (int i = 0; i < 2; ++i)  // the send and the receive
    EXPECT_EQ(failed_completion(*pair.ca), flush_error(QpFailure::kRemoteAccess));
  EXPECT_EQ(failed_completion(*pair.cb), flush_error(QpFailure::kPeerAccess));
}

TEST_P(Refused, EntryOfAReceive_IsNamed) {
  pair.connect_pair();
  Buffer& near = a.make_buffer(64);
  Buffer& far = b.make_buffer(64);
  abi::ScatterGather wrong = far.part(32, 32);
  wrong.lkey ^= 1u << 20;
  b.post_receive(*pair.qb, {far.part(0, 32), wrong});
  a.post(*pair.qa, {.sge = {near.all()}});
  EXPECT_EQ(failed_completion(*pair.ca), 0x352u);
  EXPECT_EQ(failed_completion(*pair.cb), 0x110u);
  wait_for_the_peer();
  const Refusal there = refusal_of(b, *pair.qb);
  EXPECT_EQ(there.entry, 1u);
  EXPECT_EQ(there.entries, 2u);
  EXPECT_EQ(there.key, wrong.lkey);
}

TEST_P(Refused, EntryOfACommand_IsNamed) {
  pair.connect_pair();
  Buffer& near = a.make_buffer(16);
  abi::ScatterGather wrong = near.part(8, 8);
  wrong.length = 9;
  a.post(*pair.qa, {.sge = {near.part(0, 8), wrong}});
  EXPECT_EQ(failed_completion(*pair.ca), 0x013u);
  const Refusal here = refusal_of(a, *pair.qa);
  EXPECT_EQ(here.entry, 1u);
  EXPECT_EQ(here.region.length, 16u);
  EXPECT_EQ(here.needed, std::uint32_t{memory::kLocalRead});
}

INSTANTIATE_TEST_SUITE_P(Ways, Refused, ::testing::Values(Way::kLocal, Way::kWire), way_name);

/// Peers inside the daemon that do not answer.
class Silent : public ::testing::Test {
 protected:
  Refusal explain_write(Process& process, TestQp& qp, TestCq& cq, std::uint32_t vendor_err) {
    process.post(qp, {});
    const auto got = pair.wait(cq);
    EXPECT_TRUE(got && got->status == Status::kRetryExceededError);
    EXPECT_EQ(got ? got->imm : 0, vendor_err);
    return refusal_of(process, qp);
  }

  Pair pair{Way::kLocal};
  Connection quick{.timeout = 8, .retry_count = 1};
};

TEST_F(Silent, QueuePairOfAnotherTenant_IsOnlyAbsent) {
  pair.connect_pair(quick);
  pair.b->end();
  const Refusal here = explain_write(*pair.a, *pair.qa, *pair.ca, 0x340);
  EXPECT_EQ(here.cause, RefusalCause::kNoQueuePair);
  EXPECT_TRUE(here.has_tenant);
  EXPECT_EQ(here.tenant, pair.b->tenant.id);
  EXPECT_EQ(here.process, 0u);
}

TEST_F(Silent, QueuePairOfTheTenant_WasDestroyed) {
  Process other(pair.a->adapter, pair.a->tenant);
  other.session->process = 9687;
  TestCq& cq = other.make_cq();
  TestQp& near = pair.a->make_qp(*pair.ca, *pair.ca);
  TestQp& far = other.make_qp(cq, cq);
  connect(*pair.a, near, other, far, quick);
  other.destroy(far);
  pair.run_for(std::chrono::milliseconds(70));
  const Refusal here = explain_write(*pair.a, near, *pair.ca, 0x342);
  EXPECT_EQ(here.cause, RefusalCause::kQueuePairDestroyed);
  EXPECT_EQ(here.process, 9687u);
  EXPECT_GE(here.ms, 69u);
}

TEST_F(Silent, QueuePairOfTheTenant_IsNotReady) {
  Process other(pair.a->adapter, pair.a->tenant);
  TestCq& cq = other.make_cq();
  TestQp& near = pair.a->make_qp(*pair.ca, *pair.ca);
  TestQp& far = other.make_qp(cq, cq);
  connect(*pair.a, near, other, far, quick);
  other.reset(far);
  const Refusal here = explain_write(*pair.a, near, *pair.ca, 0x344);
  EXPECT_EQ(here.cause, RefusalCause::kPeerNotReady);
  EXPECT_EQ(static_cast<QpState>(here.state), QpState::kReset);
}

TEST_F(Silent, PeerOfTheTenantRefuses_BothEndsSeeTheReason) {
  Process other(pair.a->adapter, pair.a->tenant);
  TestCq& cq = other.make_cq();
  TestQp& near = pair.a->make_qp(*pair.ca, *pair.ca);
  TestQp& far = other.make_qp(cq, cq);
  connect(*pair.a, near, other, far, quick);
  Buffer& from = pair.a->make_buffer(8);
  Buffer& to = other.make_buffer(64, memory::kLocalWrite);
  pair.a->post(near, {.opcode = abi::Opcode::kRdmaWrite,
                      .sge = {from.all()},
                      .remote_addr = to.addr(),
                      .rkey = to.key});
  const auto got = pair.wait(*pair.ca);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->imm, 0x314u);
  const Refusal here = refusal_of(*pair.a, near);
  EXPECT_EQ(here.cause, RefusalCause::kNoRight);
  EXPECT_EQ(here.side, RefusalSide::kPeer);
  EXPECT_EQ(here.granted, std::uint32_t{memory::kLocalWrite});
}

TEST(EventLogLimit, TenantWithManyEvents_LeavesRoomForOthers) {
  StepClock clock;
  EventLog log(clock, 2);
  log.add({.tenant = TenantId(1)});
  for (std::size_t i = 0; i < 4 * EventLog::kKept; ++i) log.add({.tenant = TenantId(0)});
  EXPECT_EQ(log.oldest(), 0u);
  EXPECT_EQ(log[0].tenant, TenantId(1));
  EXPECT_EQ(log.count(), 1u + EventLog::kPerSecond);
  clock.now += std::chrono::seconds(1);
  log.add({.tenant = TenantId(0)});
  EXPECT_EQ(log.count(), 2u + EventLog::kPerSecond);
  log.add({.tenant = TenantId(0xffff)});  // of the daemon, of no tenant
  EXPECT_EQ(log.count(), 3u + EventLog::kPerSecond);
}

}  // namespace
}  // namespace softhca::engine
