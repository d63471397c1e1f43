// SPDX-License-Identifier: Apache-2.0

// Visits, breadth first, all engine states that two queue pairs with send queues of two commands
// can reach. The engine has an ordinary PCB, one or two dedicated PCBs, one place for doorbells and
// one execution credit for each TVL.
//
// From each state, all commands of a queue pair that may proceed complete, even if the other queue
// pair is blocked. When that one may proceed too, all commands complete once and in order, and
// nothing stays in use.
//
// With one dedicated PCB, a queue pair may have commands on the wire in all PCBs. Then the other
// one proceeds when these are acknowledged or their peer counts as silent; else it proceeds at
// once.
//
// The engine is the real one, with all its parts. It cannot be copied, so a state is stored as the
// actions that lead to it. They are repeated from the idle engine, to which each check returns. Two
// states are equal if the engine shows no difference: in its lists, counts, transports and timers,
// in the memory of the process, and in the queue pair that has the next turn.
#include <gtest/gtest.h>

#include <deque>
#include <set>
#include <string>
#include <vector>

#include "tests/unit/engine/fixture/pair.hpp"

namespace softhca::engine {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint32_t kRing = 2;
/// Longer than a queue pair waits before it is suspended, and longer than it polls for a receive in
/// each step.
constexpr Duration kLong = microseconds(60);

/// What a queue pair sends, and what that may wait for.
enum class Kind {
  kLocalSend,  ///< inside the daemon: receives of its peer
  kWireSend,   ///< receives of its peer, and the other host
  kFenced,     ///< a read and a fenced write in turn: the other host
  kNowhere,    ///< UC: a neighbour that never answers, so that each is lost in the end
};
bool draws(Kind kind) { return kind == Kind::kLocalSend || kind == Kind::kWireSend; }
bool crosses(Kind kind) { return kind == Kind::kWireSend || kind == Kind::kFenced; }

struct Shape {
  std::vector<Kind> kinds;
  std::uint32_t dedicated = 2;
  bool drains = false;  ///< they may go into SQD and back
};

class World {
 public:
  explicit World(const Shape& shape)
      : shape_(shape),
        pair_(Way::kWire, {.pcbs = 1, .kick_list = 2, .dedicated_kick_list = 1},
              limits(shape.dedicated)) {
    scarce_credits();
    words_ = &a().make_buffer(8 * kRing);
    far_words_ = &b().make_buffer(8 * kRing);
    for (const Kind kind : shape.kinds) {
      const QpOptions options{.type = kind == Kind::kNowhere ? QpType::kUc : QpType::kRc,
                              .send_entries = kRing,
                              .receive_entries = kRing};
      Process& there = crosses(kind) ? b() : a();
      ends_.push_back({kind, &a().make_cq(), &there.make_cq()});
      End& end = ends_.back();
      end.near = &a().make_qp(*end.sent, *end.sent, options);
      end.far = &there.make_qp(*end.received, *end.received, options);
      const Connection connection{.timeout = 14, .retry_count = 7, .max_rd_atomic = 1};
      if (kind == Kind::kNowhere)
        bring_up(a(), *end.near, Qpn(77), address(99), connection);
      else
        connect(a(), *end.near, there, *end.far, connection);
    }
    come_to_rest();
  }

  /// Actions for each queue pair: a command by VCB or by doorbell, a receive, and the change to SQD
  /// and back. Common actions: a step, a step after a long time, and a step of the other host.
  static constexpr unsigned kOfQueuePair = 4;
  unsigned actions() const { return kOfQueuePair * static_cast<unsigned>(ends_.size()) + 3; }

  /// Returns false if the action is not possible in this state.
  bool act(unsigned action) {
    const auto all = kOfQueuePair * static_cast<unsigned>(ends_.size());
    if (action < all) return act(ends_[action / kOfQueuePair], action % kOfQueuePair);
    if (action == all + 2) return step_other_host();
    step(action == all ? Duration(microseconds(1)) : kLong);
    return true;
  }

  /// True if all commands of a queue pair that has all it needs complete, while the others may lack
  /// everything. False if its commands wait for ever.
  bool completes(std::size_t which) {
    End& end = ends_[which];
    const auto done = [&] { return end.posted == end.done; };
    if (end.kind == Kind::kNowhere || run_until(done, {which})) return true;
    return all_pcbs_on_the_wire() && run_until(done, {which}, milliseconds(70));
  }
  bool all_complete() {
    std::vector<std::size_t> all;
    for (std::size_t i = 0; i < ends_.size(); ++i) all.push_back(i);
    return run_until(
        [&] {
          for (const End& end : ends_)
            if (end.posted != end.done) return false;
          return true;
        },
        all);
  }
  /// As at the beginning.
  void come_to_rest() {
    for (int i = 0; i < 4; ++i) step_all(kLong);
    pair_.expect_idle();
    EXPECT_EQ(a().tenant.counters.set_aside_queue_pairs.value(), 0u);
    EXPECT_EQ(a().tenant.counters.stalled_queue_pairs.value(), 0u);
    pair_.now += seconds(2);  // entries for neighbours and loads expire
    for (int i = 0; i < 3; ++i) step_all(kLong);
  }

  std::string key() {
    std::string out;
    const auto put = [&](std::uint64_t n) { out.push_back(static_cast<char>('0' + n)); };
    Engine& engine = a().adapter.engine;
    for (const End& end : ends_) {
      const QueuePair& qp = end.near->qp;
      const schedule::QpSlot slot(qp.slot);
      put(end.posted - end.done);
      put(end.receives - end.taken);
      put(static_cast<unsigned>(qp.state));
      put(qp.sq.stalled + 2u * qp.sq.probing);
      put(static_cast<unsigned>(qp.sq.aside));
      put(qp.sq.sparing + 2u * (qp.sq.look_at != kNever));
      put(qp.sq.commands);
      put(qp.sq.dedicated);
      put(qp.sq.started);
      const transport::SendProgress progress =
          std::visit([](const auto& transport) { return transport.progress(); }, qp.transport);
      put(static_cast<unsigned>(progress.obstacle));
      put(progress.unsent);
      put(progress.outstanding);
      put(engine.scheduler().pending(slot));
      put(engine.scheduler().kicked(slot));
      put(static_cast<unsigned>(engine.scheduler().kicked_in(slot)));
      put(engine.scheduler().overflowed(slot));
      put(end.kind == Kind::kFenced ? end.posted % 2 : 0);
      out.push_back(';');
    }
    schedule::SendQueueScheduler turns = engine.scheduler();
    for (std::size_t i = 0; i < ends_.size(); ++i)
      if (const auto turn = turns.next()) put(turn->slot.value);
    out.push_back(';');
    for (std::uint16_t i = 0; i < 2; ++i) {
      const schedule::Tvl& tvl = engine.tvls()[TvlId(i)];
      put(tvl.execution.in_use.value());
      put(tvl.completion.in_use.value());
      put(engine.arbitrator().counters(TvlId(i)).waiting.value());
      if (const auto first = engine.arbitrator().first(TvlId(i)))
        put(engine.pcbs().pcb(*first).header.qpn & 0xf);
    }
    const abi::SessionHeader& header = a().header();
    put(header.active.load() ^ header.released.load());
    put(header.doorbell_producer.load() - header.doorbell_consumer.load());
    put(engine.has_runnable());
    for (const auto& adapter : pair_.adapters) {
      const Time due = adapter->engine.next_deadline();
      put(due == kNever ? 0 : due <= pair_.now ? 1 : due <= pair_.now + kLong ? 2 : 3);
      put(adapter->engine.has_runnable());
    }
    put(unheard_);
    return out;
  }

 private:
  struct End {
    Kind kind;
    TestCq* sent;
    TestCq* received;
    TestQp* near = nullptr;
    TestQp* far = nullptr;
    std::uint32_t posted = 0, done = 0;
    std::uint32_t receives = 0, taken = 0;
  };

  static EngineLimits limits(std::uint32_t dedicated) {
    EngineLimits limits = Adapter::small_limits();
    limits.pcbs = 1;
    limits.dedicated_pcbs = dedicated;
    limits.tenants = 1;
    limits.levels = 0;
    limits.execution_credits = 4;
    limits.completion_credits = 8;
    limits.doorbells = {.entries = 1, .threshold = 0};
    return limits;
  }
  /// One command of each TVL may execute. What one queue pair has on the wire leaves a completion
  /// credit for another.
  void scarce_credits() {
    for (std::uint16_t i = 0; i < 2; ++i) {
      const schedule::Tvl& tvl = a().adapter.engine.tvls()[TvlId(i)];
      const schedule::TvlTerms terms{.tenant = tvl.tenant,
                                     .qos_class = tvl.qos_class,
                                     .purpose = tvl.purpose,
                                     .weight = 1,
                                     .max_kick_list = tvl.max_kick_list,
                                     .execution_guaranteed = 1,
                                     .completion_guaranteed = kRing + 1,
                                     .may_share = false};
      EXPECT_TRUE(a().adapter.engine.tvl_assignment().change(TvlId(i), terms));
    }
  }

  Process& a() { return *pair_.a; }
  Process& b() { return *pair_.b; }

  bool act(End& end, unsigned what) {
    QpLifecycle& lifecycle = a().adapter.engine.queue_pairs();
    switch (what) {
      case 0:
      case 1:
        return post(end, what == 0 ? Process::Way::kVcb : Process::Way::kDoorbell);
      case 2:
        if (!draws(end.kind) || end.receives - end.taken == kRing) return false;
        post_receive(end);
        return true;
      default:
        if (!shape_.drains) return false;
        if (end.near->qp.state == QpState::kSqd)
          lifecycle.enter_ready_to_send(end.near->qp, Psn());
        else
          lifecycle.enter_drain(end.near->qp, false);
        return true;
    }
  }
  bool post(End& end, Process::Way way) {
    if (end.posted - end.done == kRing) return false;
    const bool reads = end.kind == Kind::kFenced && end.posted % 2 == 0;
    Work work{.sge = {words_->part(8 * (end.posted % kRing), 8)}};
    if (end.kind == Kind::kFenced || end.kind == Kind::kNowhere) {
      work.opcode = reads ? abi::Opcode::kRdmaRead : abi::Opcode::kRdmaWrite;
      if (!reads) work.flags |= abi::kCommandFence;
      work.remote_addr = far_words_->addr();
      work.rkey = far_words_->key;
    }
    a().post(*end.near, work, way);
    ++end.posted;
    return true;
  }
  void post_receive(End& end) {
    Process& there = crosses(end.kind) ? b() : a();
    Buffer& to = crosses(end.kind) ? *far_words_ : *words_;
    there.post_receive(*end.far, {to.part(0, 8)});
    ++end.receives;
  }

  void step(Duration time) {
    pair_.now += time;
    a().adapter.engine.poll(pair_.now);
    unheard_ = true;
    take_completions();
  }
  /// It need not look again before something comes.
  bool step_other_host() {
    if (!unheard_) return false;
    pair_.now += microseconds(1);
    b().adapter.engine.poll(pair_.now);
    unheard_ = false;
    take_completions();
    return true;
  }
  void step_all(Duration time) {
    step(time);
    step_other_host();
  }
  void take_completions() {
    for (End& end : ends_) {
      while (const auto one = end.sent->poll()) {
        EXPECT_EQ(one->status, Status::kSuccess);
        EXPECT_EQ(one->index, end.done) << "in order and once";
        ++end.done;
      }
      while (const auto one = end.received->poll()) {
        EXPECT_EQ(one->index, end.taken) << "in order and once";
        ++end.taken;
      }
    }
  }

  bool all_pcbs_on_the_wire() {
    const collect::CollectGroup& group = a().adapter.engine.pcbs().group(a().tenant.qos_class);
    std::uint32_t sent = 0;
    for (const End& end : ends_) {
      const QueuePair& qp = end.near->qp;
      const auto* rc = std::get_if<transport::Rc>(&qp.transport);
      if (rc == nullptr) continue;
      // After silence they go again, one at a time.
      const transport::SendObstacle obstacle = rc->progress().obstacle;
      if (rc->progress().unsent == 0 || obstacle == transport::SendObstacle::kNone ||
          obstacle == transport::SendObstacle::kWindow)
        sent += qp.sq.started;
    }
    return sent == group.all_in_use.value() + group.dedicated_in_use.value() &&
           sent == 1 + shape_.dedicated;
  }

  /// Those of `ready` have what they need. Now and then a `pause` passes.
  template <class Done>
  bool run_until(Done&& done, const std::vector<std::size_t>& ready, Duration pause = kLong) {
    bool with_host = false;
    for (const std::size_t i : ready) {
      End& end = ends_[i];
      with_host |= crosses(end.kind);
      if (end.kind == Kind::kNowhere) pause = milliseconds(101);
      if (end.near->qp.state == QpState::kSqd)
        a().adapter.engine.queue_pairs().enter_ready_to_send(end.near->qp, Psn());
      while (draws(end.kind) && end.receives - end.taken < end.posted - end.done) post_receive(end);
    }
    for (int i = 0; i < 400 && !done(); ++i) {
      step(i % 16 == 15 ? pause : Duration(microseconds(1)));
      if (with_host) step_other_host();
    }
    return done();
  }

  Shape shape_;
  Pair pair_;
  Buffer* words_ = nullptr;
  Buffer* far_words_ = nullptr;
  std::vector<End> ends_;
  bool unheard_ = false;  ///< the other host has not looked since the last step
};

std::string written(const std::vector<unsigned>& way) {
  std::string out;
  for (const unsigned action : way) out += std::to_string(action) + ' ';
  return out;
}

/// Returns how many states there are.
std::size_t explore(const Shape& shape) {
  World world(shape);
  std::set<std::string> seen{world.key()};
  std::deque<std::vector<unsigned>> open{{}};
  const auto go = [&](const std::vector<unsigned>& way) {
    for (const unsigned action : way) world.act(action);
  };
  const auto go_back = [&](const std::vector<unsigned>& way) {
    EXPECT_TRUE(world.all_complete()) << "after " << written(way);
    world.come_to_rest();
    if (testing::Test::HasFailure()) ADD_FAILURE() << "after " << written(way);
    return !testing::Test::HasFailure();
  };
  std::size_t longest = 0;
  while (!open.empty()) {
    longest = std::max(longest, open.front().size());
    const std::vector<unsigned> from = std::move(open.front());
    open.pop_front();
    for (std::size_t i = 0; i < shape.kinds.size(); ++i) {
      go(from);
      EXPECT_TRUE(world.completes(i)) << "queue pair " << i << " after " << written(from);
      if (!go_back(from)) return seen.size();
    }
    for (unsigned action = 0; action < world.actions(); ++action) {
      go(from);
      const bool possible = world.act(action);
      std::vector<unsigned> way = from;
      way.push_back(action);
      if (possible && seen.insert(world.key()).second) open.push_back(way);
      if (!go_back(way)) return seen.size();
    }
  }
  std::printf("%zu states, the longest way has %zu steps\n", seen.size(), longest);
  return seen.size();
}

TEST(Progress, TwoQueuePairsInsideTheDaemon) {
  EXPECT_GT(explore({.kinds = {Kind::kLocalSend, Kind::kLocalSend}}), 5000u);
}

TEST(SlowProgress, TwoOfWhichOneDrains) {
  EXPECT_GT(explore({.kinds = {Kind::kLocalSend, Kind::kLocalSend}, .drains = true}), 5000u);
}

TEST(Progress, AFenceAndAnotherInsideTheDaemon) {
  EXPECT_GT(explore({.kinds = {Kind::kFenced, Kind::kLocalSend}}), 5000u);
}

TEST(Progress, AFenceAndAnotherWithoutASecondDedicatedPcb) {
  EXPECT_GT(explore({.kinds = {Kind::kFenced, Kind::kLocalSend}, .dedicated = 1}), 5000u);
}

TEST(SlowProgress, OnTheWireAndInsideTheDaemon) {
  EXPECT_GT(explore({.kinds = {Kind::kWireSend, Kind::kLocalSend}}), 5000u);
}

TEST(SlowProgress, ANeighbourThatIsNotThere) {
  EXPECT_GT(explore({.kinds = {Kind::kNowhere, Kind::kLocalSend}}), 5000u);
}

TEST(Progress, AFenceAndAnotherOnTheWire) {
  EXPECT_GT(explore({.kinds = {Kind::kFenced, Kind::kWireSend}}), 5000u);
}

}  // namespace
}  // namespace softhca::engine
