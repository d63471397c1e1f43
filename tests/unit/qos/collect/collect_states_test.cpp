// SPDX-License-Identifier: Apache-2.0

// Searches, breadth first, every state that a few VCBs of two tenants, one with two levels, can
// bring a pool of three PCBs into. A second pool has two PCBs, and its guarantees change at any
// moment. No PCB and no VCB may be in two places. The counts of free, used and guaranteed PCBs must
// add up. A class below its guarantee must get a PCB.
#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <set>
#include <utility>
#include <vector>

#include "daemon/qos/collect/collect_controller.hpp"

namespace softhca::collect {
namespace {

constexpr std::uint32_t kVcbs = 5;

struct Amounts {
  std::uint32_t guarantee;               ///< of the first tenant, which has no levels
  std::array<std::uint32_t, 3> divided;  ///< total of the second tenant, and of its levels
  bool shared;                           ///< all may draw on the shared rest
  std::uint32_t pcbs = 3;
  bool resized = false;  ///< every guarantee may become any other
};

/// Where each PCB is: 0 free, 1 + VCB, or 100 + group that has it kicked.
using Places = std::vector<std::uint32_t>;

class State {
 public:
  explicit State(const Amounts& setup)
      : pool({.pcbs = setup.pcbs, .dedicated = 0, .max_groups = 4}) {
    const auto tenant = [&](std::uint16_t id, std::uint32_t guarantee,
                            QosClassId parent = kNoQosClass) {
      const auto added = pool.add_group({TenantId(id), guarantee, setup.shared, parent});
      EXPECT_TRUE(added);
      return *added;
    };
    const QosClassId plain = tenant(0, setup.guarantee);
    const QosClassId divided = tenant(1, setup.divided[0]);
    groups = {plain, tenant(1, setup.divided[1], divided), tenant(1, setup.divided[2], divided),
              divided};
    // VCBs of the plain tenant, and of both levels.
    for (std::uint32_t v = 0; v < kVcbs; ++v)
      EXPECT_TRUE(functions.assign(VcbId(v), 1, TenantId(v < 2 ? 0 : 1), group_of(v)));
  }

  QosClassId group_of(std::uint32_t vcb) const { return groups[vcb < 2 ? 0 : vcb < 4 ? 1 : 2]; }

  Places places() const {
    Places places(pool.size());
    for (std::uint32_t p = 0; p < pool.size(); ++p) {
      const PcbState& s = pool.state(PcbId(p));
      if (s.use == PcbUse::kFree) continue;
      places[p] = s.vcb != kNoVcb ? 1 + s.vcb.value : 100u + s.group.value;
    }
    return places;
  }

  /// Equal for states that cannot be told apart, now or later.
  Places key() const {
    Places key = places();
    for (const QosClassId id : groups) {
      key.push_back(pool.group(id).pcbs.guaranteed.value());
      key.push_back(pool.draining(id));
    }
    return key;
  }

  /// True if the class must get a PCB.
  bool is_due(QosClassId id) const {
    return pool.group(id).pcbs.below_guarantee() && pool.quota().overdrawn() == 0;
  }

  void check() const {
    std::uint32_t in_use = 0;
    for (std::uint32_t p = 0; p < pool.size(); ++p) {
      const PcbState& s = pool.state(PcbId(p));
      in_use += s.use != PcbUse::kFree;
      if (s.vcb != kNoVcb && s.use != PcbUse::kFree) {
        ASSERT_EQ(functions[s.vcb].pcb, PcbId(p)) << "a VCB that knows nothing of its PCB";
        ASSERT_EQ(s.group, group_of(s.vcb.value));
      }
    }
    std::set<std::uint32_t> bound;
    for (std::uint32_t v = 0; v < kVcbs; ++v) {
      const PcbId pcb = functions[VcbId(v)].pcb;
      if (pcb == kNoPcb) continue;
      ASSERT_TRUE(bound.insert(pcb.value).second) << "a PCB with two VCBs";
      ASSERT_EQ(pool.state(pcb).vcb, VcbId(v));
    }
    ASSERT_EQ(pool.quota().free(), pool.size() - in_use);
    std::uint32_t promised = 0;
    for (const QosClassId id : groups) {
      promised += pool.group(id).pcbs.guaranteed.value();
      if (id == groups[3]) continue;  // includes what its levels have beyond their guarantees
      std::uint32_t held = 0;
      for (std::uint32_t p = 0; p < pool.size(); ++p)
        held += pool.state(PcbId(p)).use != PcbUse::kFree && pool.state(PcbId(p)).group == id;
      ASSERT_EQ(pool.group(id).pcbs.in_use.value(), held);
      if (is_due(id)) {
        ASSERT_GT(pool.quota().free(), 0u);
      }
    }
    ASSERT_EQ(promised + pool.quota().unallocated(), pool.size());
  }

  // The controller refers to the pool and table of this state.
  CollectController controller() { return {pool, functions}; }

  PcbPool pool;
  FunctionTable functions{kVcbs};
  std::array<QosClassId, 4> groups{};  ///< the last: of the tenant with levels
};

/// Breadth first over begin, unbind (the command is kicked), discard, free, abandon and resize.
class Search {
 public:
  explicit Search(const Amounts& setup) : resized_(setup.resized) { reach(State(setup)); }

  void run() {
    while (!todo_.empty() && !testing::Test::HasFatalFailure()) {
      const State from = todo_.front();
      todo_.pop_front();
      for (std::uint32_t v = 0; v < kVcbs; ++v) begin(from, VcbId(v));
      for (std::uint32_t p = 0; p < from.pool.size(); ++p) end(from, PcbId(p));
      if (resized_) resize(from);
      for (const auto& [first, count] : {std::pair(0u, 2u), {2u, 2u}, {4u, 1u}}) {
        State s = from;
        s.controller().abandon(VcbId(first), count);
        for (std::uint32_t v = first; v < first + count; ++v)
          ASSERT_EQ(s.functions[VcbId(v)].pcb, kNoPcb);
        reach(s);
      }
    }
  }
  std::size_t states() const { return seen_.size(); }

 private:
  void reach(const State& state) {
    if (!seen_.insert(state.key()).second) return;
    state.check();
    todo_.push_back(state);
  }

  void begin(const State& from, VcbId vcb) {
    State s = from;
    const PcbId before = from.functions[vcb].pcb;
    const QosClassId group = from.group_of(vcb.value);
    const auto pcb = s.controller().begin(vcb);
    if (before != kNoPcb) {
      ASSERT_EQ(pcb, before);
      ASSERT_EQ(s.key(), from.key());
    } else if (!pcb) {
      ASSERT_FALSE(from.is_due(group));
      ASSERT_EQ(s.key(), from.key());
    } else {
      ASSERT_EQ(from.pool.state(*pcb).use, PcbUse::kFree);
      ASSERT_EQ(s.pool.state(*pcb).scoreboard.bits(), 0u);
    }
    reach(s);
  }

  /// Changes guarantees. No holder may lose a PCB, and a refusal must change nothing.
  void resize(const State& from) {
    for (const QosClassId id : from.groups)
      for (std::uint32_t amount = 0; amount <= from.pool.size(); ++amount) {
        State s = from;
        const bool done = static_cast<bool>(s.pool.set_guarantee(id, amount));
        ASSERT_EQ(s.places(), from.places());
        if (done) {
          ASSERT_EQ(s.pool.guaranteed(id), amount);
        } else {
          ASSERT_EQ(s.key(), from.key());
        }
        reach(s);
      }
  }

  void end(const State& from, PcbId pcb) {
    const PcbState& is = from.pool.state(pcb);
    if (is.use == PcbUse::kFree) return;
    if (is.vcb == kNoVcb) {
      State s = from;
      s.pool.free(pcb);
      return reach(s);
    }
    State kicked = from;
    kicked.controller().unbind(pcb);
    ASSERT_EQ(kicked.functions[is.vcb].pcb, kNoPcb);
    reach(kicked);
    State dropped = from;
    dropped.controller().discard(pcb);
    ASSERT_EQ(dropped.functions[is.vcb].pcb, kNoPcb);
    reach(dropped);
  }

  bool resized_;
  std::set<Places> seen_;
  std::deque<State> todo_;
};

TEST(CollectStates, EveryReachableStateKeepsBindingsAndGuarantees) {
  for (const Amounts& setup : {Amounts{0, {0, 0, 0}, true},
                               {1, {1, 1, 0}, true},
                               {1, {2, 1, 1}, false},
                               {1, {2, 1, 0}, true},
                               {0, {3, 1, 1}, true},
                               {0, {0, 0, 0}, true, 2, true},
                               {1, {1, 1, 0}, false, 2, true}}) {
    Search search(setup);
    search.run();
    ASSERT_FALSE(HasFatalFailure());
    EXPECT_GT(search.states(), 50u);
  }
}

}  // namespace
}  // namespace softhca::collect
