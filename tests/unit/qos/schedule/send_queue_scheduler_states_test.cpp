// SPDX-License-Identifier: Apache-2.0

// All states that a few queue pairs with rings of two commands can reach, breadth first: in each,
// every doorbell is in exactly one place, and from each, every command gets started, in sequence.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <set>
#include <string>
#include <vector>

#include "daemon/qos/schedule/send_queue_scheduler.hpp"
#include "tests/unit/qos/schedule/overflow_memory.hpp"

namespace softhca::schedule {
namespace {

constexpr std::uint32_t kSmallRing = 2;

struct Shape {
  std::vector<std::uint16_t> tenant_of;  ///< by queue pair
  std::uint16_t tenants;
  std::uint32_t places;  ///< at least `tenants`
};

struct SmallQp {
  std::uint32_t posted = 0;
  std::uint32_t started = 0;
  std::uint32_t announced = 0;
  std::uint32_t own = 0;  ///< in the kick list of its own TVL
  std::uint32_t dedicated = 0;
  bool vcb_last = false;              ///< of `own`, the last
  std::vector<std::uint32_t> unseen;  ///< VCB commands
  bool blocked = false;
};

/// The overflow memory that schedulers see is swapped with the state that is looked at.
OverflowMemory live;

class State {
 public:
  explicit State(const Shape& shape)
      : shape_(&shape),
        scheduler_({.max_queue_pairs = static_cast<std::uint32_t>(shape.tenant_of.size()),
                    .max_classes = shape.tenants,
                    .quantum = 1,
                    .doorbells = {.entries = shape.places, .threshold = 0}},
                   live),
        qps_(shape.tenant_of.size()),
        bounded_(shape.tenants) {
    for (std::uint32_t i = 0; i < qps_.size(); ++i)
      scheduler_.open(QpSlot(i), QosClassId(shape.tenant_of[i]), kSmallRing);
  }

  static constexpr unsigned kQpActions = 9;
  unsigned actions() const {
    return kQpActions * static_cast<unsigned>(qps_.size()) + 3 + shape_->tenants;
  }

  /// False: not possible here.
  bool act(unsigned action) {
    live.ends = memory_;
    const bool done = perform(action);
    memory_ = live.ends;
    return done;
  }

  void check() const {
    std::uint32_t linked = 0;
    for (std::uint32_t i = 0; i < qps_.size(); ++i) {
      const QpSlot slot(i);
      const bool overflowed = scheduler_.overflowed(slot);
      ASSERT_FALSE(overflowed && scheduler_.pending(slot) != 0);
      ASSERT_EQ(
          overflowed ? memory_.at(i) : scheduler_.next_sequence(slot) + scheduler_.pending(slot),
          qps_[i].announced);
      linked += scheduler_.pending(slot) != 0;
    }
    ASSERT_EQ(scheduler_.linked(), linked);
    ASSERT_LE(linked, shape_->places);
  }

  /// Everything comes to its end from here once nothing is in the way.
  void drain() {
    for (std::uint32_t i = 0; i < qps_.size(); ++i)
      if (qps_[i].blocked) act(kQpActions * i + 8);
    for (unsigned t = 0; t < shape_->tenants; ++t)
      if (bounded_[t]) act(actions() - shape_->tenants + t);
    for (int round = 0; round < 12 && !idle(); ++round) {
      for (std::uint32_t i = 0; i < qps_.size(); ++i)
        for (const unsigned what : {2u, 3u, 5u, 6u}) act(kQpActions * i + what);
      for (const unsigned what : {0u, 1u, 2u})
        act(kQpActions * static_cast<unsigned>(qps_.size()) + what);
    }
    for (const SmallQp& qp : qps_) ASSERT_EQ(qp.started, qp.posted);
    ASSERT_FALSE(scheduler_.has_work());
  }

  /// Equal for states that cannot be told apart, now or later.
  std::string key() const {
    std::string out;
    const auto put = [&](std::uint32_t n) { out.push_back(static_cast<char>('0' + n)); };
    for (std::uint32_t i = 0; i < qps_.size(); ++i) {
      const SmallQp& qp = qps_[i];
      put(qp.posted - qp.started);
      put(qp.announced - qp.started);
      put(qp.own);
      put(qp.dedicated);
      put(qp.vcb_last);
      put(scheduler_.pending(QpSlot(i)));
      put(scheduler_.overflowed(QpSlot(i)));
      put(qp.blocked);
      // A VCB kick of a command that has started is stale, whatever its age.
      for (const std::uint32_t v : qp.unseen) put(v < qp.started ? 9 : v - qp.started);
      out.push_back(';');
    }
    for (const bool bounded : bounded_) put(bounded);
    // The order of the lists shows in what comes next.
    SendQueueScheduler turns = scheduler_;
    for (std::size_t i = 0; i < qps_.size(); ++i)
      if (const auto turn = turns.next()) put(turn->slot.value);
    out.push_back(';');
    SendQueueScheduler reliefs = scheduler_;
    live.ends = memory_;
    for (std::size_t i = 0; i < qps_.size(); ++i) {
      const Relief relief = reliefs.relieve();
      put(static_cast<std::uint32_t>(relief.kind));
      put(relief.slot.value);
    }
    return out;
  }

 private:
  bool idle() const {
    const auto done = [](const SmallQp& qp) {
      return qp.started == qp.posted && qp.unseen.empty();
    };
    return std::all_of(qps_.begin(), qps_.end(), done);
  }

  bool perform(unsigned action) {
    const auto all = kQpActions * static_cast<unsigned>(qps_.size());
    if (action < all) return perform(action / kQpActions, action % kQpActions);
    if (action == all) return turn(KickedIn::kDedicatedTvl);
    if (action == all + 1) return turn(KickedIn::kOwnTvl);
    if (action == all + 2) return scheduler_.relieve().kind != Relief::Kind::kNone;
    const auto tenant = static_cast<std::uint16_t>(action - all - 3);
    bounded_[tenant] = !bounded_[tenant];
    scheduler_.set_bound(QosClassId(tenant), bounded_[tenant] ? 0 : SendQueueScheduler::kNoBound);
    return true;
  }

  bool perform(std::uint32_t i, unsigned what) {
    SmallQp& qp = qps_[i];
    switch (what) {
      case 0:
      case 1:
        if (qp.posted - qp.started == kSmallRing || (what == 1 && qp.unseen.size() == kSmallRing))
          return false;
        if (what == 1) qp.unseen.push_back(qp.posted);
        ++qp.posted;
        return true;
      case 2:
        return announce(i, qp.posted);
      case 3:
      case 4:
        return see(i, what - 3);
      case 5:
        return start(i, qp.own);
      case 6:
        return start(i, qp.dedicated);
      case 7:
        if (qp.blocked) return false;
        qp.blocked = true;
        scheduler_.block(QpSlot(i));
        return true;
      default:
        if (!qp.blocked) return false;
        qp.blocked = false;
        scheduler_.unblock(QpSlot(i));
        return true;
    }
  }

  bool announce(std::uint32_t i, std::uint32_t end) {
    const RingVerdict verdict = scheduler_.ring(QpSlot(i), end);
    EXPECT_NE(verdict, RingVerdict::kHostile);
    EXPECT_EQ(verdict == RingVerdict::kAccepted, end > qps_[i].announced);
    qps_[i].announced = std::max(qps_[i].announced, end);
    return verdict == RingVerdict::kAccepted;
  }

  bool see(std::uint32_t i, std::size_t which) {
    SmallQp& qp = qps_[i];
    if (which >= qp.unseen.size()) return false;
    const std::uint32_t sequence = qp.unseen[which];
    qp.unseen.erase(qp.unseen.begin() + static_cast<std::ptrdiff_t>(which));
    if (!scheduler_.vcb_may_start(QpSlot(i), sequence)) {
      announce(i, sequence + 1);
      return true;
    }
    EXPECT_EQ(sequence, qp.started + qp.own);
    EXPECT_EQ(qp.dedicated, 0u);
    scheduler_.vcb_kicked(QpSlot(i));
    ++qp.own;
    qp.vcb_last = true;
    qp.announced = sequence + 1;
    return true;
  }

  /// Gives the next queue pair a turn with a PCB that goes with this list only. False if none has a
  /// turn.
  bool turn(KickedIn list) {
    const auto turn = scheduler_.next();
    if (!turn) return false;
    SmallQp& qp = qps_[turn->slot.value];
    if (qp.blocked) {
      scheduler_.block(turn->slot);
      return true;
    }
    EXPECT_FALSE(qp.vcb_last);
    const bool own = list == KickedIn::kOwnTvl;
    EXPECT_EQ(scheduler_.kicked_in(turn->slot), qp.own != 0         ? KickedIn::kOwnTvl
                                                : qp.dedicated != 0 ? KickedIn::kDedicatedTvl
                                                                    : KickedIn::kNone);
    if ((own ? qp.dedicated : qp.own) != 0) {
      scheduler_.block(turn->slot);
      return true;
    }
    std::uint32_t& kicked = own ? qp.own : qp.dedicated;
    EXPECT_EQ(turn->sequence, qp.started + kicked);
    ++kicked;
    scheduler_.fetched(turn->slot, 1, list);
    return true;
  }

  bool start(std::uint32_t i, std::uint32_t& kicked) {
    if (kicked == 0) return false;
    if (--kicked == 0) qps_[i].vcb_last = false;
    ++qps_[i].started;
    scheduler_.started(QpSlot(i));
    return true;
  }

  const Shape* shape_;
  SendQueueScheduler scheduler_;
  std::map<std::uint32_t, std::uint32_t> memory_;
  std::vector<SmallQp> qps_;
  std::vector<bool> bounded_;
};

std::size_t explore(const Shape& shape) {
  std::set<std::string> seen;
  std::deque<State> open;
  open.emplace_back(shape);
  seen.insert(open.front().key());
  while (!open.empty() && !testing::Test::HasFailure()) {
    const State from = std::move(open.front());
    open.pop_front();
    State drained = from;
    drained.drain();
    for (unsigned action = 0; action < from.actions(); ++action) {
      State to = from;
      if (!to.act(action)) continue;
      to.check();
      if (testing::Test::HasFailure()) ADD_FAILURE() << from.key() << " action " << action;
      if (seen.insert(to.key()).second) open.push_back(std::move(to));
    }
  }
  return seen.size();
}

TEST(SendQueueSchedulerStates, TwoQueuePairsOfOneTenantAndOnePlace) {
  EXPECT_GT(explore({.tenant_of = {0, 0}, .tenants = 1, .places = 1}), 5000u);
}

TEST(SendQueueSchedulerStates, TwoQueuePairsOfTwoTenants) {
  EXPECT_GT(explore({.tenant_of = {0, 1}, .tenants = 2, .places = 2}), 5000u);
}

}  // namespace
}  // namespace softhca::schedule
