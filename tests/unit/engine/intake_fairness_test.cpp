// SPDX-License-Identifier: Apache-2.0

// However much a tenant hands over, others wait for a portion of it and no more, and what taking it
// in costs is at its own expense.
#include <numeric>

#include "daemon/engine/records/costs.hpp"
#include "daemon/engine/turns/session_poller.hpp"
#include "daemon/engine/worker.hpp"
#include "tests/unit/engine/fixture/pair.hpp"
#include "tests/unit/engine/fixture/task.hpp"

namespace softhca::engine {
namespace {

using Post = Process::Way;

constexpr std::uint32_t kBuffer = 4096;
constexpr std::uint32_t kVcbs = 16;  ///< of each flooding process

Work write(const abi::ScatterGather& near, Buffer& far, std::uint64_t offset = 0) {
  return {.opcode = abi::Opcode::kRdmaWrite,
          .sge = {near},
          .remote_addr = far.addr() + offset,
          .rkey = far.key};
}

/// Tenant a posts one short write at a time; processes of tenant c, connected to themselves, flood.
class Flood : public ::testing::TestWithParam<int> {
 protected:
  static EngineLimits limits() {
    EngineLimits limits = Adapter::small_limits();
    limits.vcbs = 1024;
    limits.pcbs = 1024;
    limits.queue_pairs = 128;
    return limits;
  }

  Flood() : c(pair.adapters[0]->add_tenant("c", address(3))) {
    pair.connect_pair();
    from = &a.make_buffer(kBuffer);
    to = &pair.b->make_buffer(kBuffer);
    for (int i = 0; i < GetParam(); ++i) {
      Flooder& f = flooders.emplace_back();
      f.process = std::make_unique<Process>(a.adapter, c, kVcbs);
      TestCq& cq = f.process->make_cq(512);
      f.qp = &f.process->make_qp(cq, cq, {.send_entries = 256});
      f.far = &f.process->make_qp(cq, cq);
      connect(*f.process, *f.qp, *f.process, *f.far);
      f.cq = &cq;
      f.memory = &f.process->make_buffer(2 * kBuffer);
    }
  }
  ~Flood() {
    for (Flooder& f : flooders) f.process->end();
  }

  struct Flooder {
    std::unique_ptr<Process> process;
    TestQp* qp = nullptr;
    TestQp* far = nullptr;
    TestCq* cq = nullptr;
    Buffer* memory = nullptr;
    std::uint32_t posted = 0, done = 0;
  };

  /// Rings doorbells that announce no new commands, as many as fit.
  void ring_all() {
    for (Flooder& f : flooders)
      while (f.process->header().doorbell_producer - f.process->header().doorbell_consumer <
             abi::kDoorbellEntries)
        f.process->ring(f.qp->qp.qpn.value, 0);
  }
  std::uint32_t doorbells_taken() const {
    std::uint32_t sum = 0;
    for (const Flooder& f : flooders) sum += f.process->header().doorbell_consumer;
    return sum;
  }
  /// Writes in all VCBs that are free.
  void fill_all_vcbs() {
    for (Flooder& f : flooders) {
      f.done += static_cast<std::uint32_t>(f.cq->poll_all().size());
      for (std::uint32_t v = 0; v < kVcbs && f.posted - f.done < 200; ++v) {
        if (!f.process->vcb_free(v)) continue;
        f.process->post(*f.qp, write(f.memory->part(0, kBuffer), *f.memory, kBuffer));
        ++f.posted;
      }
    }
  }
  void post() { a.post(*pair.qa, write(from->part(0, 16), *to)); }
  Engine& engine() { return a.adapter.engine; }

  Pair pair{Way::kLocal, {}, limits()};
  Process& a = *pair.a;
  Tenant& c;
  std::vector<Flooder> flooders;
  Buffer* from = nullptr;
  Buffer* to = nullptr;
};

// A step collects one portion; its last doorbell may exceed the limit. The process that posts least
// is served first.
TEST_P(Flood, OfDoorbellsDelaysACommandByAPortion) {
  constexpr std::uint32_t kMost = (kSparse.intake + kCommandCost) / kDoorbellCost;
  for (int round = 0; round < 100; ++round) {
    ring_all();
    post();
    const std::uint32_t before = doorbells_taken();
    pair.step();
    ASSERT_TRUE(a.vcb_free(0)) << round;
    ASSERT_TRUE(pair.run_until([&] { return pair.ca->poll().has_value(); }));
    if (round >= 10) {  // the engine has detected competition by then
      ASSERT_LE(doorbells_taken() - before, kMost) << round;
    }
  }
}

// A command waits for the rest of the piece that is being processed when it arrives. It also waits
// for the portions that one step collects, brings back and fetches, each exceeded by at most one
// entry. Last it waits for the piece that had the next turn.
TEST_P(Flood, OfCommandsDelaysACommandByAPortion) {
  constexpr std::uint64_t kMessage = 2048;  ///< more than the steps of a message count
  constexpr std::uint64_t kPiece = kSparse.bytes + kMessage + kRunCost;
  constexpr std::uint64_t kMost = 2 * kPiece + 2 * (kSparse.intake + kCommandCost) + kSparse.turn +
                                  kReliefCost + kCommandCost + 2 * kStartCost + kMessage + kRunCost;
  constexpr std::uint64_t kMostTime = kMost / kUnitsPerNanosecond;
  for (int round = 0; round < 300; ++round) {
    fill_all_vcbs();
    post();
    const std::uint64_t before = a.tenant.counters.command_engine_time.sum();
    ASSERT_TRUE(pair.run_until([&] { return pair.ca->poll().has_value(); }));
    if (round >= 10) {
      ASSERT_LE(a.tenant.counters.command_engine_time.sum() - before, kMostTime) << round;
    }
  }
}

/// Tenant b always has large writes, to itself.
class BesideLargeWrites {
 public:
  explicit BesideLargeWrites(Process& b)
      : process_(b), memory_(b.make_buffer(1 << 20)), cq_(b.make_cq()), near_(b.make_qp(cq_, cq_)) {
    connect(b, near_, b, b.make_qp(cq_, cq_));
  }
  void keep_busy() {
    done_ += static_cast<std::uint32_t>(cq_.poll_all().size());
    for (; posted_ - done_ < 8; ++posted_)
      process_.post(near_, write(memory_.part(0, 1 << 19), memory_, 1 << 19));
  }
  /// Work of another tenant, relative to that of b, while `keep_other_busy` does so.
  template <class KeepBusy>
  double work_of(const Tenant& other, Pair& pair, KeepBusy&& keep_other_busy) {
    const auto step = [&] { keep_other_busy(), keep_busy(), pair.step(); };
    for (int i = 0; i < 100; ++i) step();
    const Counter &b = process_.tenant.counters.engine_time, &c = other.counters.engine_time;
    const std::uint64_t b0 = b.value(), c0 = c.value();
    for (int i = 0; i < 3000; ++i) step();
    return static_cast<double>(c.value() - c0) / static_cast<double>(b.value() - b0);
  }

 private:
  Process& process_;
  Buffer& memory_;
  TestCq& cq_;
  TestQp& near_;
  std::uint32_t posted_ = 0, done_ = 0;
};

// Doorbells without new commands are work too. Beside a tenant that always has work, the engine
// processes them only within the share of the tenant that rings them.
TEST_P(Flood, OfDoorbellsIsPaidForByWhoRings) {
  EXPECT_NEAR(BesideLargeWrites(*pair.b).work_of(c, pair, [&] { ring_all(); }), 1, 0.01);
}

// Commands that wait in send queues have their share, although a step fetches a few.
TEST(SendQueues, HaveTheirShareBesideLargeWrites) {
  Pair pair{Way::kLocal};
  pair.connect_pair();
  Process& a = *pair.a;
  Buffer& memory = a.make_buffer(kBuffer);
  std::vector<TestQp*> qps;
  std::vector<TestCq*> cqs;
  std::vector<std::uint32_t> outstanding(4);
  for (std::size_t i = 0; i < outstanding.size(); ++i) {
    cqs.push_back(&a.make_cq(512));
    qps.push_back(&a.make_qp(*cqs[i], *cqs[i], {.send_entries = 256}));
    connect(a, *qps[i], a, a.make_qp(*cqs[i], *cqs[i]));
  }
  const double share = BesideLargeWrites(*pair.b).work_of(a.tenant, pair, [&] {
    for (std::size_t i = 0; i < qps.size(); ++i) {
      outstanding[i] -= static_cast<std::uint32_t>(cqs[i]->poll_all().size());
      if (outstanding[i] == 200) continue;
      std::uint32_t sequence = 0;
      for (; outstanding[i] < 200; ++outstanding[i])
        sequence = a.write_command(*qps[i], write(memory.part(0, 64), memory, 64));
      a.ring(qps[i]->qp.qpn.value, sequence + 1);
    }
  });
  EXPECT_NEAR(share, 1, 0.02);
}

// Beside one that asks for little portions are small, but one that writes now and then does not
// keep them so.
TEST(Portions, GrowAgainBetweenRareWrites) {
  Pair pair{Way::kLocal};
  pair.connect_pair();
  Process& a = *pair.a;
  BesideLargeWrites of_b(*pair.b);
  Buffer& from = a.make_buffer(64);
  Buffer& to = pair.b->make_buffer(64);
  const CpuScheduler& cpu = a.adapter.engine.cpu();
  const auto most_in_a_step = [&](int steps) {
    std::uint64_t most = 0;
    for (int i = 0; i < steps; ++i) {
      of_b.keep_busy();
      const std::uint64_t before = cpu.done();
      pair.step();
      most = std::max(most, cpu.done() - before);
    }
    return most;
  };
  most_in_a_step(100);
  for (int round = 0; round < 10; ++round) {
    a.post(*pair.qa, write(from.all(), to));
    most_in_a_step(2);
    ASSERT_TRUE(pair.ca->poll());
    EXPECT_LT(most_in_a_step(100), 2 * kSparse.runs);
    pair.now += std::chrono::milliseconds(6);
    EXPECT_GE(most_in_a_step(100), kContended.runs);
    pair.now += std::chrono::milliseconds(24);
  }
}

// Packets that come for a tenant are its work; it answers them all the same.
TEST(ReceivedPackets, AreWorkOfWhoseTheyAre) {
  Pair pair{Way::kWire};
  pair.connect_pair();
  Process& a = *pair.a;
  Process& b = *pair.b;
  Process c(b.adapter, b.adapter.add_tenant("c", address(3)));
  BesideLargeWrites of_b(b);
  Buffer& from = a.make_buffer(kBuffer);
  Buffer& to = b.make_buffer(kBuffer);
  std::uint32_t posted = 0, done = 0;
  const std::uint64_t received = b.tenant.counters.wire.rx_packets.value();
  const double share = BesideLargeWrites(c).work_of(b.tenant, pair, [&] {
    of_b.keep_busy();
    for (; pair.ca->poll(); ++done) {
    }
    for (; posted - done < 8; ++posted) a.post(*pair.qa, write(from.all(), to));
  });
  EXPECT_NEAR(share, 1, 0.02);
  const std::uint64_t packets = b.tenant.counters.wire.rx_packets.value() - received;
  EXPECT_GT(packets, 1000u);
  EXPECT_LT(b.tenant.counters.local_bytes.value() + packets * kPacketCost,
            c.tenant.counters.local_bytes.value());
  EXPECT_GT(done, 250u);
}

INSTANTIATE_TEST_SUITE_P(Engine, Flood, ::testing::Values(2, 8, 32),
                         ::testing::PrintToStringParamName());

class ControlRequests : public ::testing::Test {
 protected:
  ControlRequests() { pair.connect_pair(); }

  Pair pair{Way::kLocal};
  Process& a = *pair.a;
  Process& b = *pair.b;
  Engine& engine = a.adapter.engine;
};

/// What a process asks for by control requests is work of its tenant, too: while others have work,
/// the next waits until they have had as much.
TEST_F(ControlRequests, WaitForTheTurnsOfOthers) {
  constexpr std::uint64_t kCost = 100000;
  pair.step();
  engine.cpu().charge(*b.session, kCost);
  EXPECT_TRUE(engine.cpu().may_take_in(b.session->qos_class)) << "no other tenant wants anything";

  Buffer& from = a.make_buffer(1 << 20);
  Buffer& to = b.make_buffer(1 << 20);
  a.post(*pair.qa, write(from.all(), to));
  pair.step();
  ASSERT_TRUE(engine.has_runnable());
  EXPECT_TRUE(engine.cpu().may_take_in(b.session->qos_class));
  const std::uint64_t before = a.tenant.counters.engine_time.value();
  engine.cpu().charge(*b.session, kCost);
  EXPECT_FALSE(engine.cpu().may_take_in(b.session->qos_class));
  EXPECT_TRUE(pair.run_until([&] { return engine.cpu().may_take_in(b.session->qos_class); }));
  EXPECT_GE(a.tenant.counters.engine_time.value() - before, kCost - kAlone.intake / 2);
  EXPECT_GE(b.tenant.counters.engine_time.value(), 2 * kCost);
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
}

/// The caller of control requests serves all tenants: a tenant far ahead of its share does not make
/// it wait until the others have had theirs.
TEST_F(ControlRequests, DoNotWaitForLong) {
  // Messages that cost much and move nothing: from a null region to a null region.
  const auto null_part = [&](Process& owner) {
    auto region = memory::Region::make_null(owner.tenant.id, owner.pd);
    return abi::ScatterGather{0, 1u << 31, (*engine.keys().insert(std::move(region)))->key()};
  };
  const abi::ScatterGather from = null_part(a), to = null_part(b);
  for (int i = 0; i < 16; ++i) {
    b.post_receive(*pair.qb, {to});
    a.post(*pair.qa, {.sge = {from}}, Post::kDoorbell);
  }
  pair.steps(2);
  ASSERT_TRUE(engine.has_runnable());
  engine.cpu().charge(*b.session, std::uint64_t{1} << 50);

  Worker worker(engine, {});
  ASSERT_TRUE(worker.start());
  bool its_turn = true;
  worker.run_for(*b.session,
                 Task{[&](Engine&) { its_turn = engine.cpu().may_take_in(b.session->qos_class); }});
  EXPECT_FALSE(its_turn);
  worker.stop();
}

class HalfWritten : public ::testing::Test {
 protected:
  HalfWritten() {
    pair.connect_pair();
    pair.b->post_receive(*pair.qb, {});
    a.write_command(*pair.qa, {});
    a.fill_vcb(0, *pair.qa, 0, kFirst);
    a.hand_over(0);
  }
  void finish() { a.fill_vcb(0, *pair.qa, 0, abi::kAllSegments & ~kFirst); }
  Engine& engine() { return a.adapter.engine; }

  static constexpr std::uint64_t kFirst = 0b1001;
  Pair pair{Way::kLocal};
  Process& a = *pair.a;
};

TEST_F(HalfWritten, IsNoWork) {
  pair.steps(2);
  const std::uint64_t before = engine().cpu().done();
  constexpr int kSteps = 10000;
  for (int i = 0; i < kSteps; ++i) EXPECT_FALSE(pair.step());
  EXPECT_LE(engine().cpu().done() - before, 24 * kDoorbellCost);  // looks, ever rarer
  EXPECT_FALSE(engine().has_runnable());
  finish();
  for (int i = 0; i < 2000 && !a.vcb_free(0); ++i) pair.step();
  EXPECT_TRUE(a.vcb_free(0));
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
}

TEST_F(HalfWritten, LetsItsProcessBeParked) {
  pair.steps(2);
  ASSERT_TRUE(engine().intake().park(*a.session));
  EXPECT_EQ(a.header().parked, 1u);
  pair.steps(10);
  finish();
  engine().intake().unpark(*a.session);  // the process has said so
  pair.step();
  EXPECT_TRUE(a.vcb_free(0));
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
}

TEST_F(HalfWritten, IsSeenToBeFinishedBeforeParking) {
  pair.steps(2);
  finish();
  EXPECT_FALSE(engine().intake().park(*a.session));
  EXPECT_EQ(a.header().parked, 0u);
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
}

/// Sessions without memory of their own, of two classes.
class Looks : public ::testing::Test {
 protected:
  static constexpr std::size_t kMany = 3 * SessionPoller::kLooks + 1;

  Looks() {
    poller.reserve(2, 2);
    for (std::uint16_t t : {0, 1}) {
      tenants[t].id = TenantId(t);
      const std::size_t sessions = t == 0 ? 1 : kMany;
      for (std::size_t i = 0; i < sessions; ++i) {
        all.push_back(std::make_unique<Session>(SessionId(static_cast<std::uint32_t>(all.size())),
                                                tenants[t], shm::SessionView(nullptr, 0),
                                                VcbId(0)));
        all.back()->qos_class = QosClassId(t);
        poller.add(*all.back());
      }
    }
    seen.resize(all.size());
  }
  void look() {
    poller.look([this](const Session& session) { ++seen[session.id.value]; });
  }

  Tenant tenants[2];
  std::vector<std::unique_ptr<Session>> all;
  SessionPoller poller;
  std::vector<int> seen;
};

TEST_F(Looks, AreDividedBetweenParties) {
  look();
  EXPECT_EQ(seen[0], 1);
  EXPECT_EQ(std::accumulate(seen.begin() + 1, seen.end(), 0),
            static_cast<int>(SessionPoller::kLooks / 2));
  constexpr int kRounds = 2 * kMany / (SessionPoller::kLooks / 2);
  for (int i = 1; i < kRounds; ++i) look();
  for (std::size_t i = 1; i < seen.size(); ++i) EXPECT_GE(seen[i], 1) << i;
}

TEST_F(Looks, PassOverWhoRests) {
  for (std::size_t i = 1; i < all.size(); ++i)
    if (i % 3 != 0) poller.rest(*all[i]);
  for (int i = 0; i < 10; ++i) look();
  for (std::size_t i = 1; i < seen.size(); ++i) EXPECT_EQ(seen[i] != 0, i % 3 == 0) << i;
  for (const auto& session : all) poller.remove(*session);
  look();
  EXPECT_EQ(seen[0], 10);
}

}  // namespace
}  // namespace softhca::engine
