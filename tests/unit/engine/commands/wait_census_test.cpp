// SPDX-License-Identifier: Apache-2.0

// What commands wait for is told, by cause: a tenant that is short of something shows that.
#include "daemon/engine/commands/wait_census.hpp"

#include <functional>
#include <memory>
#include <optional>

#include "tests/unit/engine/fixture/pair.hpp"

namespace softhca::engine {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

/// What a scenario is made of, beside the world that it makes scarce.
struct Shortage {
  const char* name;
  WaitCause cause;
  Way way = Way::kLocal;
  TenantOptions tenant = {};
  Connection connection = {};
  Work work = {.opcode = abi::Opcode::kRdmaWrite};
  std::uint32_t depth = 64;  ///< commands kept under way
  Duration tick = microseconds(2);
  std::uint32_t bytes = 64;
  Process::Way post = Process::Way::kVcb;
  std::function<void(Pair&)> prepare = {};
  std::function<void(Pair&)> each_step = {};
};

std::ostream& operator<<(std::ostream& out, const Shortage& shortage) {
  return out << shortage.name;
}

/// A queue pair of tenant `a` that always has `depth` commands under way.
class Load {
 public:
  Load(Pair& pair, const Shortage& shortage)
      : pair_(pair),
        shortage_(shortage),
        from_(pair.a->make_buffer(shortage.bytes)),
        to_(pair.b->make_buffer(shortage.bytes)),
        under_way_(0) {
    cq_ = &pair.a->make_cq(1024);
    qp_ = &pair.a->make_qp(*cq_, *cq_, {.send_entries = 256});
    far_ = &pair.b->make_qp(*pair.cb, *pair.cb);
    connect(*pair.a, *qp_, *pair.b, *far_, shortage.connection);
  }

  TestQp& qp() { return *qp_; }
  std::uint32_t under_way() const { return under_way_; }
  std::uint64_t done() const { return done_; }
  void fill() {
    const auto ended = static_cast<std::uint32_t>(cq_->poll_all().size());
    under_way_ -= ended;
    done_ += ended;
    if (under_way_ == shortage_.depth) return;
    Work work = shortage_.work;
    work.sge = {from_.all()};
    work.remote_addr = to_.addr();
    work.rkey = to_.key;
    if (shortage_.post == Process::Way::kVcb) {
      for (; under_way_ < shortage_.depth; ++under_way_) pair_.a->post(*qp_, work);
      return;
    }
    for (; under_way_ < shortage_.depth; ++under_way_) pair_.a->write_command(*qp_, work);
    const auto cause = static_cast<std::uint32_t>(DoorbellCause::kNoVcb);
    pair_.a->ring(qp_->qp.qpn.value | cause << abi::kDoorbellCauseShift, qp_->sequence);
  }
  void run_for(Duration duration) {
    for (const Time end = pair_.now + duration; pair_.now < end;) {
      fill();
      if (shortage_.each_step) shortage_.each_step(pair_);
      pair_.step(shortage_.tick);
    }
  }

 private:
  Pair& pair_;
  const Shortage& shortage_;
  Buffer& from_;
  Buffer& to_;
  TestCq* cq_;
  TestQp* qp_;
  TestQp* far_;
  std::uint32_t under_way_;
  std::uint64_t done_ = 0;
};

double waited_seconds(const WaitCounters& waits, WaitCause cause) {
  return static_cast<double>(waits.time[static_cast<std::size_t>(cause)].value()) * 1e-9;
}

double all_seconds(const WaitCounters& waits) {
  double all = 0;
  for (const Counter& time : waits.time) all += static_cast<double>(time.value()) * 1e-9;
  return all;
}

double followed_seconds(const WaitCounters& waits, WaitCause cause) {
  return static_cast<double>(waits.of_one[static_cast<std::size_t>(cause)].sum()) * 1e-9;
}

double all_followed_seconds(const WaitCounters& waits) {
  double all = 0;
  for (std::size_t i = 0; i < waits.of_one.size(); ++i)
    all += followed_seconds(waits, static_cast<WaitCause>(i));
  return all;
}

std::string told(const WaitCounters& waits) {
  std::string text;
  for (std::size_t i = 0; i < waits.time.size(); ++i)
    if (waits.time[i].value() != 0)
      text += std::string(name_of(static_cast<WaitCause>(i))) + " " +
              std::to_string(waited_seconds(waits, static_cast<WaitCause>(i))) + " s (followed " +
              std::to_string(followed_seconds(waits, static_cast<WaitCause>(i))) + " s), ";
  return text;
}

std::size_t guarantee_events(const Engine& engine) {
  std::size_t n = 0;
  const EventLog& log = engine.event_log();
  for (std::uint64_t i = log.oldest(); i < log.count(); ++i)
    n += log[i].kind == DaemonEventKind::kGuaranteeNotKept;
  return n;
}

class WaitCensusTest : public ::testing::TestWithParam<Shortage> {};

TEST_P(WaitCensusTest, TellsWhatIsShort) {
  const Shortage& shortage = GetParam();
  Pair pair(shortage.way, shortage.tenant);
  Load load(pair, shortage);
  if (shortage.prepare) shortage.prepare(pair);
  constexpr Duration kTime = milliseconds(60);
  load.run_for(kTime);

  const WaitCounters& waits = pair.a->tenant.counters.waits;
  EXPECT_GT(waited_seconds(waits, shortage.cause), all_seconds(waits) / 2) << told(waits);
  // Little's law: no more waits than there are, and most of what is there waits.
  const double under_way = all_seconds(waits) / std::chrono::duration<double>(kTime).count();
  EXPECT_LT(under_way, 1.1 * shortage.depth) << told(waits);
  EXPECT_GT(under_way, 0.3 * shortage.depth) << told(waits);
  // Commands that were followed say the same, if enough of them have ended.
  if (load.done() > 20 * abi::kSampledEvery) {
    EXPECT_GT(followed_seconds(waits, shortage.cause), all_followed_seconds(waits) / 2)
        << told(waits);
    EXPECT_GT(all_followed_seconds(waits), 0);
  }
  for (const auto& adapter : pair.adapters) {
    EXPECT_EQ(guarantee_events(adapter->engine), 0u);
    for (const auto& tenant : adapter->tenants)
      for (const Counter& time : tenant->counters.waits.not_kept) EXPECT_EQ(time.value(), 0u);
  }
}

/// Writes of b that keep the engine busy.
std::function<void(Pair&)> flood() {
  static constexpr std::uint32_t kBytes = 256 << 10, kUnderWay = 16;
  auto work = std::make_shared<std::optional<Work>>();
  return [work](Pair& pair) {
    if (!*work) {
      pair.connect_pair();
      Buffer& to = pair.a->make_buffer(kBytes);
      work->emplace(Work{.opcode = abi::Opcode::kRdmaWrite,
                         .flags = 0,
                         .sge = {pair.b->make_buffer(kBytes).all()},
                         .remote_addr = to.addr(),
                         .rkey = to.key});
    }
    const QueuePair& qp = pair.qb->qp;
    while (pair.qb->sequence - (qp.sq.not_begun - qp.sq.started) < kUnderWay)
      pair.b->post(*pair.qb, **work);
  };
}

std::string shortage_name(const ::testing::TestParamInfo<Shortage>& shortage) {
  return shortage.param.name;
}

const Shortage kShortages[] = {
    {.name = "Engine", .cause = WaitCause::kEngine, .depth = 16, .each_step = flood()},
    {.name = "NoVcb",
     .cause = WaitCause::kNoVcb,
     .depth = 250,
     .tick = microseconds(200),
     .post = Process::Way::kDoorbell},
    {.name = "NoPcb", .cause = WaitCause::kNoPcb, .tenant = {.pcbs = 1, .shared = false}},
    {.name = "KickList",
     .cause = WaitCause::kKickList,
     .tenant = {.pcbs = 32, .shared = true, .kick_list = 1}},
    {.name = "ExecutionCredit",
     .cause = WaitCause::kExecutionCredit,
     .tenant = {.pcbs = 32, .shared = false}},
    {.name = "CompletionCredit",
     .cause = WaitCause::kCompletionCredit,
     .way = Way::kWire,
     .tenant = {.pcbs = 32, .shared = false},
     .prepare =
         [](Pair& pair) {
           // Sent at once, and acknowledged after a while.
           schedule::TvlTerms terms{.tenant = pair.a->tenant.id,
                                    .qos_class = pair.a->tenant.qos_class,
                                    .max_kick_list = 64,
                                    .execution_guaranteed = 32,
                                    .completion_guaranteed = 4,
                                    .may_share = false};
           ASSERT_TRUE(pair.a->adapter.engine.tvl_assignment().change(TvlId(0), terms));
         }},
    {.name = "Rate",
     .cause = WaitCause::kRate,
     .prepare =
         [](Pair& pair) {
           pair.a->adapter.engine.rates().set(pair.a->tenant.rate,
                                              {.messages_per_second = 10000, .burst_messages = 1});
         }},
    {.name = "RateOfQueuePair",
     .cause = WaitCause::kRate,
     .prepare =
         [](Pair& pair) {
           QueuePair& qp = pair.a->qps.back()->qp;
           qp.sq.rates = std::make_unique<QpRates>();
           pair.a->adapter.engine.rates().set(qp.sq.rates->sent,
                                              {.messages_per_second = 10000, .burst_messages = 1});
         }},
    {.name = "Order",
     .cause = WaitCause::kOrder,
     .way = Way::kWire,
     .connection = {.max_rd_atomic = 1},
     .work = {.opcode = abi::Opcode::kRdmaRead},
     .depth = 12},
    {.name = "ReceiverLocal",
     .cause = WaitCause::kReceiver,
     .connection = {.min_rnr_timer = 14},
     .work = {.opcode = abi::Opcode::kSend}},
    {.name = "ReceiverWire",
     .cause = WaitCause::kReceiver,
     .way = Way::kWire,
     .connection = {.min_rnr_timer = 14},
     .work = {.opcode = abi::Opcode::kSend}},
    {.name = "Memory",
     .cause = WaitCause::kMemory,
     .each_step =
         [](Pair& pair) {
           pair.a->adapter.engine.slow_memory().waited(pair.b->tenant, std::chrono::seconds(1));
         }},
    {.name = "MemoryWire",
     .cause = WaitCause::kMemory,
     .way = Way::kWire,
     .each_step =
         [](Pair& pair) {
           pair.a->adapter.engine.slow_memory().waited(pair.a->tenant, std::chrono::seconds(1));
         }},
    {.name = "PeerNotThere",
     .cause = WaitCause::kAcknowledgement,
     .connection = {.timeout = 0},
     .prepare = [](Pair& pair) { pair.b->reset(*pair.b->qps.back()); }},
    {.name = "Acknowledgement",
     .cause = WaitCause::kAcknowledgement,
     .way = Way::kWire,
     .depth = 4,
     .tick = microseconds(20)},
    {.name = "SilentPeer",
     .cause = WaitCause::kAcknowledgement,
     .way = Way::kWire,
     .connection = {.timeout = 18, .retry_count = 7},
     .prepare = [](Pair& pair) { pair.b->reset(*pair.b->qps.back()); }},
    {.name = "Congestion",
     .cause = WaitCause::kCongestion,
     .way = Way::kWire,
     .prepare =
         [](Pair& pair) { pair.a->adapter.engine.set_congestion({.mode = CongestionMode::kOn}); },
     .each_step =
         [](Pair& pair) {
           pair.a->qps.back()->qp.connection.flow.notify({.mode = CongestionMode::kOn}, pair.now);
         }},
    {.name = "Neighbour",
     .cause = WaitCause::kNeighbour,
     .way = Way::kWire,
     .prepare =
         [](Pair& pair) {
           Route& route = pair.a->qps.back()->qp.connection.route;
           route.path.destination = address(77);
           route.invalidate();
         }},
};
INSTANTIATE_TEST_SUITE_P(Engine, WaitCensusTest, ::testing::ValuesIn(kShortages), shortage_name);

TEST(WaitCensusOfLevels, CountsByLevel) {
  Pair pair(Way::kLocal);
  Tenant& tenant = pair.a->tenant;
  tenant.levels.push_back(std::make_unique<Level>());
  Level& level = *tenant.levels.back();
  level.qos_class = *pair.a->adapter.engine.pcbs().add_group(
      {.tenant = tenant.id, .guaranteed = 2, .parent = tenant.qos_class});
  pair.a->adapter.engine.add_level(level);
  Process process(pair.a->adapter, tenant, Process::kVcbs, &level);
  TestCq& cq = process.make_cq();
  TestQp& qp = process.make_qp(cq, cq);
  connect(process, qp, *pair.b, pair.b->make_qp(*pair.cb, *pair.cb), {.min_rnr_timer = 14});
  Buffer& from = process.make_buffer(8);
  for (int i = 0; i < 10; ++i) process.post(qp, {.sge = {from.all()}});
  pair.run_for(milliseconds(50));
  EXPECT_NEAR(waited_seconds(level.counters.waits, WaitCause::kReceiver), 10 * 0.05, 0.05);
  EXPECT_EQ(all_seconds(tenant.counters.waits), 0);
  process.end();
}

/// Tenant `a` has lent its PCBs, and tenant `b` holds all of them.
class LentGuarantee : public ::testing::Test {
 protected:
  static EngineLimits few_dedicated() {
    EngineLimits limits = Adapter::small_limits();
    limits.dedicated_pcbs = 4;
    return limits;
  }
  LentGuarantee() : pair(Way::kLocal, {.pcbs = 32, .shared = true}, few_dedicated()) {
    a.tenant.lends = true;
    pair.step();
    engine.lending().adjust({.idle = std::chrono::seconds(4), .keep = 0});
    for (int i = 0; i < 6; ++i) {
      pair.run_for(std::chrono::seconds(1));
      engine.lending().adjust({.idle = std::chrono::seconds(4), .keep = 0});
    }
    borrow();
  }
  ~LentGuarantee() { give_back(); }

  void borrow() {
    while (const auto pcb = engine.pcbs().allocate(pair.b->tenant.qos_class))
      borrowed.push_back(*pcb);
  }
  void give_back() {
    for (const PcbId pcb : borrowed) engine.pcbs().free(pcb);
    borrowed.clear();
  }
  std::size_t events() const { return guarantee_events(engine); }
  std::uint64_t not_kept() const {
    return a.tenant.counters.waits.not_kept[static_cast<std::size_t>(Guarantee::kPcbs)].value();
  }

  Pair pair;
  Process& a = *pair.a;
  Engine& engine = a.adapter.engine;
  std::vector<PcbId> borrowed;
  const Shortage shortage{.name = "", .cause = WaitCause::kNoPcb};
  Load load{pair, shortage};
};

TEST_F(LentGuarantee, IsAnEventWhenItDoesNotComeBack) {
  load.run_for(milliseconds(5));
  EXPECT_EQ(events(), 0u) << "a borrower may take a moment";
  load.run_for(milliseconds(30));
  ASSERT_EQ(events(), 1u);
  const EventLog& log = engine.event_log();
  const DaemonEvent& event = log[log.count() - 1];
  EXPECT_EQ(event.tenant, a.tenant.id);
  EXPECT_EQ(event.qpn, load.qp().qp.qpn);
  EXPECT_GE(event.amount, 10u);
  EXPECT_NE(std::string(event.cause).find("PCBs"), std::string::npos) << event.cause;
  EXPECT_NE(std::string(event.cause).find("lent"), std::string::npos) << event.cause;
  EXPECT_GT(not_kept(), 25'000'000u);
}

TEST_F(LentGuarantee, IsNoneWhenItDoes) {
  load.run_for(milliseconds(2));
  give_back();
  load.run_for(milliseconds(100));
  EXPECT_EQ(events(), 0u);
  EXPECT_LT(not_kept(), 5'000'000u);
}

TEST_F(LentGuarantee, IsTheSameEventForTenSeconds) {
  load.run_for(milliseconds(500));
  EXPECT_EQ(events(), 1u);
  pair.run_for(std::chrono::seconds(10));  // nothing is posted: nothing waits
  EXPECT_EQ(events(), 1u);
  load.run_for(milliseconds(50));
  EXPECT_EQ(events(), 2u);
}

}  // namespace
}  // namespace softhca::engine
