// SPDX-License-Identifier: Apache-2.0

// Tenants that write what no correct provider writes: their own queue pairs fail, another tenant's
// traffic goes on, and nothing stays behind.
#include <random>

#include "abi/checksum.hpp"
#include "tests/unit/engine/fixture/pair.hpp"

namespace softhca::engine {
namespace {

/// Two honest processes, joined both ways, and a hostile one, also connected.
class Hostile : public BothWays {
 protected:
  Hostile()
      : pair(GetParam()),
        evil(pair.a->adapter, pair.a->adapter.add_tenant("evil", address(3))),
        cq(&evil.make_cq()) {
    pair.connect_pair();
    qp = &evil.make_qp(*cq, *cq, {.send_entries = 4, .receive_entries = 4});
    far = &pair.a->make_qp(*pair.ca, *pair.ca);
    connect(evil, *qp, *pair.a, *far);
    target = &pair.b->make_buffer(64);
    source = &pair.a->make_buffer(64);
  }
  ~Hostile() {
    expect_others_work();
    evil.end();
    pair.run_for(std::chrono::milliseconds(10));
  }

  void expect_others_work() {
    source->fill(++round);
    pair.a->post(*pair.qa, {.opcode = abi::Opcode::kRdmaWrite,
                            .sge = {source->all()},
                            .remote_addr = target->addr(),
                            .rkey = target->key});
    std::optional<Completed> done;
    EXPECT_TRUE(pair.run_until([&] {
      while (const auto c = pair.ca->poll())
        if (c->qpn == pair.qa->qp.qpn.value) done = c;
      return done.has_value();
    }));
    EXPECT_EQ(done->status, Status::kSuccess);
    EXPECT_TRUE(source->equals(*target));
  }
  std::uint64_t hostile_words() { return evil.tenant.counters.refused.hostile_memory.value(); }
  bool fails() {
    return pair.run_until([&] { return qp->qp.state == QpState::kError; },
                          std::chrono::milliseconds(10));
  }

  /// Puts the checksum into command `number` of the send queue.
  abi::CommandHeader& sign(std::uint32_t number) {
    auto& header = *reinterpret_cast<abi::CommandHeader*>(qp->slot(number));
    header.checksum = abi::command_checksum(header, qp->slot(number) + sizeof header);
    return header;
  }

  Pair pair;
  Process evil;
  TestCq* cq;
  TestQp* qp = nullptr;
  TestQp* far = nullptr;
  Buffer* target = nullptr;
  Buffer* source = nullptr;
  unsigned round = 0;
};

TEST_P(Hostile, DoorbellProducerBeyondTheRing) {
  evil.header().doorbell_producer = abi::kDoorbellEntries + 1;
  EXPECT_TRUE(fails());
  EXPECT_TRUE(evil.session->failed);
  EXPECT_EQ(hostile_words(), 1u);
  EXPECT_EQ(evil.adapter.sink.count(EventType::kQpFatal, qp->qp.user_handle), 1u);
  evil.post(*qp, {});
  EXPECT_TRUE(evil.adapter.engine.intake().park(*evil.session));
  evil.adapter.engine.intake().unpark(*evil.session);
  pair.steps(10);
  EXPECT_TRUE(cq->poll_all().empty());
}

TEST_P(Hostile, DoorbellFurtherThanTheSendQueue) {
  evil.ring(qp->qp.qpn.value, 5);
  EXPECT_TRUE(fails());
  EXPECT_EQ(hostile_words(), 1u);
}

/// What its process posted before the queue pair was reset or destroyed is taken in afterwards.
TEST_P(Hostile, QueuePairResetOrDestroyedMeanwhile_WhatWasPostedIsNotMalformed) {
  const Counter& malformed = evil.tenant.counters.refused.malformed_commands;
  for (const Process::Way way : {Process::Way::kVcb, Process::Way::kDoorbell}) {
    TestQp& brief = evil.make_qp(*cq, *cq);
    connect(evil, brief, *pair.a, pair.a->make_qp(*pair.ca, *pair.ca));
    evil.post(brief, {}, way);
    evil.reset(brief);
    pair.steps(5);
    connect(evil, brief, *pair.a, pair.a->make_qp(*pair.ca, *pair.ca));
    evil.post(brief, {}, way);
    const Qpn qpn = brief.qp.qpn;
    evil.destroy(brief);
    pair.steps(5);
    EXPECT_EQ(malformed.value(), 0u);
    pair.a->ring(qpn.value, 1);
    pair.steps(5);
    EXPECT_EQ(pair.a->tenant.counters.refused.malformed_commands.value(),
              way == Process::Way::kVcb ? 1u : 2u)
        << "it was never that process's";
  }
  evil.reset(*qp);
  evil.ring(qp->qp.qpn.value, qp->sequence + 1);
  pair.steps(5);
  EXPECT_EQ(malformed.value(), 1u) << "nothing was posted";
}

TEST_P(Hostile, DoorbellForSomebodyElse) {
  evil.ring(pair.qa->qp.qpn.value, 1);
  evil.ring(0xffffffff, 1);
  evil.ring(0, 0);
  pair.steps(10);
  EXPECT_EQ(pair.qa->qp.state, QpState::kRts);
  EXPECT_EQ(evil.tenant.counters.refused.malformed_commands.value(), 3u);
}

TEST_P(Hostile, VcbCommandForSomebodyElse) {
  evil.write_command(*qp, {});
  reinterpret_cast<abi::CommandHeader*>(qp->slot(0))->qpn = pair.qa->qp.qpn.value;
  evil.fill_vcb(0, *qp, 0);
  evil.hand_over(0);
  pair.steps(10);
  EXPECT_TRUE(evil.vcb_free(0));
  EXPECT_EQ(pair.qa->qp.sq.commands, 0u);
  EXPECT_EQ(evil.tenant.counters.refused.malformed_commands.value(), 1u);
}

TEST_P(Hostile, CommandWithItsChecksumPasses) {
  evil.write_command(*qp, {.opcode = abi::Opcode::kRdmaWrite});
  sign(0);
  evil.fill_vcb(0, *qp, 0);
  evil.hand_over(0);
  pair.run_until([&] { return qp->qp.sq.started == 0 && qp->sequence == 1; });
  EXPECT_EQ(pair.wait_status(*cq), Status::kSuccess);
  EXPECT_EQ(evil.tenant.counters.refused.bad_checksums.value(), 0u);
}

TEST_P(Hostile, TornCommandFailsItsQueuePair) {
  evil.write_command(*qp, {.opcode = abi::Opcode::kRdmaWrite});
  sign(0).imm ^= 1;
  evil.fill_vcb(0, *qp, 0);
  evil.hand_over(0);
  EXPECT_EQ(pair.wait_status(*cq), Status::kLocalQpOperationError);
  EXPECT_TRUE(fails());
  EXPECT_EQ(evil.tenant.counters.refused.bad_checksums.value(), 1u);
}

TEST_P(Hostile, TornCommandInTheSendQueueFailsItsQueuePair) {
  evil.write_command(*qp, {.opcode = abi::Opcode::kRdmaWrite});
  reinterpret_cast<abi::CommandHeader*>(qp->slot(0))->sequence = 4;  // of another round
  sign(0);
  evil.ring(qp->qp.qpn.value, 1);
  EXPECT_EQ(pair.wait_status(*cq), Status::kLocalQpOperationError);
  EXPECT_TRUE(fails());
  EXPECT_EQ(evil.tenant.counters.refused.bad_checksums.value(), 1u);
}

TEST_P(Hostile, SequenceNumberOutOfThinAir) {
  evil.write_command(*qp, {});
  reinterpret_cast<abi::CommandHeader*>(qp->slot(0))->sequence = 1000;
  evil.fill_vcb(0, *qp, 0);
  evil.hand_over(0);
  EXPECT_TRUE(fails());
  EXPECT_EQ(hostile_words(), 1u);
}

/// The send queue holds 4: more at once are refused, wherever the peer is.
TEST_P(Hostile, MoreCommandsThanTheSendQueueHolds) {
  for (std::uint32_t i = 0; i < 20; ++i) {
    evil.post(*qp, {});  // sends that wait for a receive
    pair.step();
  }
  EXPECT_TRUE(fails());
  EXPECT_GE(hostile_words(), 1u);
  EXPECT_TRUE(pair.run_until([&] { return qp->qp.sq.commands == 0; }));
}

TEST_P(Hostile, MoreDatagramsThanTheSendQueueHolds) {
  TestQp& ud = evil.make_qp(*cq, *cq, {.type = QpType::kUd, .send_entries = 1});
  bring_up_datagram(evil, ud, 1);
  const std::uint32_t ah = evil.make_ah(address(1));
  for (int i = 0; i < 4; ++i) evil.post(ud, {.address_handle = ah});
  pair.steps(10);
  EXPECT_EQ(ud.qp.state, QpState::kError);
  EXPECT_EQ(ud.qp.sq.commands, 0u);
}

TEST_P(Hostile, WorkRequestsThatMakeNoSense) {
  const auto spoil = [&](auto&& change) {
    TestQp& bad = evil.make_qp(*cq, *cq);
    TestQp& peer = pair.a->make_qp(*pair.ca, *pair.ca);
    connect(evil, bad, *pair.a, peer);
    evil.write_command(bad, {.sge = {evil.make_buffer(8).all()}});
    change(*reinterpret_cast<abi::CommandHeader*>(bad.slot(0)));
    evil.ring(bad.qp.qpn.value, 1);
    std::optional<Completed> done;
    EXPECT_TRUE(pair.run_until([&] { return (done = cq->poll()).has_value(); }));
    EXPECT_EQ(bad.qp.state, QpState::kError);
    EXPECT_EQ(peer.qp.state, QpState::kRts);
    return done ? done->status : Status::kSuccess;
  };
  EXPECT_EQ(spoil([](auto& h) { h.opcode = 200; }), Status::kLocalQpOperationError);
  EXPECT_EQ(spoil([](auto& h) { h.payload_bytes = 0xffff; }), Status::kLocalQpOperationError);
  EXPECT_EQ(spoil([](auto& h) { h.payload_bytes = 257; }), Status::kLocalQpOperationError);
  EXPECT_EQ(spoil([](auto& h) { h.payload_bytes = 15; }), Status::kLocalQpOperationError);
  EXPECT_EQ(spoil([](auto& h) {
              h.opcode = 5;
              h.payload_bytes = 0;
            }),
            Status::kLocalLengthError);
  EXPECT_EQ(spoil([](auto& h) {
              h.opcode = 4;
              h.flags |= abi::kCommandInline;
            }),
            Status::kLocalQpOperationError);
}

TEST_P(Hostile, ReceiveRingProducer) {
  qp->receives.producer() = 5;
  pair.a->post(*far, {});
  EXPECT_TRUE(fails());
  EXPECT_EQ(hostile_words(), 1u);
  EXPECT_EQ(evil.adapter.sink.count(EventType::kQpFatal, qp->qp.user_handle), 1u);
}

TEST_P(Hostile, ReceiveElementOfTooManyEntries) {
  evil.post_receive(*qp, {});
  qp->receives.element(0).num_sge = 0xffffffff;
  pair.a->post(*far, {});
  EXPECT_TRUE(fails());
  EXPECT_EQ(hostile_words(), 1u);
}

TEST_P(Hostile, SharedReceiveQueueIsLostAlone) {
  TestSrq& srq = evil.make_srq(4);
  TestQp& on_srq = evil.make_qp(*cq, *cq, {.srq = &srq});
  TestQp& peer = pair.a->make_qp(*pair.ca, *pair.ca);
  connect(evil, on_srq, *pair.a, peer);
  srq.ring.producer() = 100;
  pair.a->post(peer, {});
  pair.steps(20);
  EXPECT_TRUE(srq.srq.failed);
  EXPECT_EQ(evil.adapter.sink.count(EventType::kSrqError, srq.srq.user_handle), 1u);
  EXPECT_EQ(qp->qp.state, QpState::kRts);
}

/// Random bytes over all the memory a tenant shares, again and again.
TEST_P(Hostile, RandomBytesEverywhere) {
  std::mt19937 random(4711);
  const auto scribble = [&](std::byte* at, std::size_t bytes) {
    for (std::size_t i = 0; i + 4 <= bytes; i += 4) {
      const auto word = static_cast<std::uint32_t>(random());
      if (word % 4 != 0) std::memcpy(at + i, &word, sizeof word);
    }
  };
  const std::size_t session = abi::session_bytes(Process::kVcbs);
  for (int i = 0; i < 100; ++i) {
    Process wild(evil.adapter, evil.tenant);
    TestCq& wild_cq = wild.make_cq(16, 50);
    std::vector<TestQp*> all;
    for (const QpType type : {QpType::kRc, QpType::kUc, QpType::kUd}) {
      TestQp& w = wild.make_qp(wild_cq, wild_cq, {.type = type});
      if (type == QpType::kUd) {
        bring_up_datagram(wild, w, 1);
      } else {
        bring_up(wild, w, w.qp.qpn, address(3), {.rnr_retry = 0});
      }
      all.push_back(&w);
    }
    wild.make_buffer(64);
    for (int pass = 0; pass < 8; ++pass) {
      scribble(wild.memory() + abi::kDoorbellOffset, session - abi::kDoorbellOffset);
      for (TestQp* w : all) {
        scribble(w->slot(0), w->stride * 16);
        scribble(w->receives.base(), shm::ReceiveRing::bytes_for(16, 4));
        w->receives.producer() = random() % 40;
        for (std::uint32_t v = 0; v < Process::kVcbs; ++v) {
          // Often a plausible command: random ones rarely come far.
          auto& h = *reinterpret_cast<abi::CommandHeader*>(wild.vcb(v).command);
          h.qpn = all[random() % all.size()]->qp.qpn.value;
          h.sequence = random() % 8;
          h.opcode = random() % 11;
          h.payload_bytes = random() % 3 * 16;
        }
        wild.ring(w->qp.qpn.value, random() % 20);
      }
      wild.header().active = random();
      if (random() % 8 == 0) wild.header().doorbell_producer = random();
      pair.steps(5);
    }
    wild.end();
    evil.adapter.next_vcb = VcbId(evil.adapter.next_vcb.value - Process::kVcbs);
  }
}

INSTANTIATE_TEST_SUITE_P(Engine, Hostile, ::testing::Values(Way::kLocal, Way::kWire), way_name);

/// A frame from the wire cannot pass for a peer inside the daemon.
TEST(HostileFrames, DoNotEnterLocalConnections) {
  Pair pair(Way::kWire);
  Process c(pair.b->adapter, pair.b->adapter.add_tenant("c", address(3), PortId(0)));
  pair.b->adapter.engine.ports()[0]->neighbours->add_address({address(3), 24, true});
  TestCq& cc = c.make_cq();
  TestQp& qb = pair.b->make_qp(*pair.cb, *pair.cb);
  TestQp& qc = c.make_qp(cc, cc);
  connect(*pair.b, qb, c, qc);  // inside
  Buffer& to = c.make_buffer(64);
  c.post_receive(qc, {to.all()});
  // `a` pretends to be 10.0.0.2 and connects to the queue pair of `c`.
  TestQp& qa = pair.a->make_qp(*pair.ca, *pair.ca);
  pair.a->tenant.addresses[0].gid = address(2);
  bring_up(*pair.a, qa, qc.qp.qpn, address(3), {.timeout = 8, .retry_count = 1});
  Buffer& from = pair.a->make_buffer(64);
  from.fill(1);
  pair.a->post(qa, {.sge = {from.all()}});
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kRetryExceededError);
  EXPECT_TRUE(cc.poll_all().empty());
  EXPECT_TRUE(to.is_zero());
  const auto& drops = pair.b->adapter.engine.ports()[0]->drops.frame;
  EXPECT_EQ(drops[static_cast<std::size_t>(FrameDrop::kForeignPeer)].value(), 2u);
}

}  // namespace
}  // namespace softhca::engine
