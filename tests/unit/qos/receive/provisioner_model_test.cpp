// SPDX-License-Identifier: Apache-2.0

// Random draws, completions, posts, departures and changes, compared with a naive model that
// recounts the buffers of every queue pair each time.
#include <deque>
#include <map>
#include <random>

#include "tests/unit/qos/receive/desk.hpp"

namespace softhca::receive {
namespace {

constexpr std::uint32_t kBuffers = 24;
constexpr std::size_t kQueuePairs = 40;

class Model {
 public:
  Model(std::uint32_t seed, const SrqPolicy& policy)
      : random_(seed), policy_(policy), desk_(policy, kBuffers, kQueuePairs) {
    for (std::size_t qp = 0; qp < kQueuePairs; ++qp)
      desk_.members[qp].importance = static_cast<std::uint8_t>(qp % kImportances);
  }

  void step() {
    desk_.now += std::chrono::milliseconds(random_() % 20);
    switch (random_() % 16) {
      case 0:
        return leave(pick());
      case 1:
        return desk_.provisioner.set_limit(desk_.members[pick()], random_() % 6);
      case 2:
        return desk_.provisioner.set_policy(policy_);
      case 3:
      case 4:
      case 5:
      case 6:
      case 7:
        return post();
      case 8:
      case 9:
        return complete(pick());
      default:
        return draw(pick());
    }
  }

  void check() {
    std::uint32_t holders = 0;
    for (std::size_t qp = 0; qp < kQueuePairs; ++qp) {
      ASSERT_EQ(desk_.held(qp), held(qp)) << "queue pair " << qp;
      holders += held(qp) != 0 ? 1 : 0;
    }
    ASSERT_EQ(desk_.provisioner.unreplenished(), completed_.size());
    ASSERT_GE(desk_.provisioner.accounts_in_use(), holders);
    ASSERT_LE(desk_.provisioner.accounts_in_use(), kBuffers);
  }

  /// Gives all buffers back. After a while, only the queue pair that drew last has an assignment.
  void drain() {
    for (std::size_t qp = 0; qp < kQueuePairs; ++qp) {
      complete(qp);
      desk_.provisioner.set_limit(desk_.members[qp], 1);
    }
    while (!completed_.empty()) post();
    check();
    for (int i = 0; i < 200; ++i) {
      desk_.now += std::chrono::seconds(1);
      draw(0);
      complete(0);
      if (!completed_.empty()) post();
    }
    EXPECT_EQ(desk_.provisioner.accounts_in_use(), 1u);
    EXPECT_EQ(desk_.provisioner.unassigned(), kBuffers * policy_.overcommit - 1);
  }

 private:
  struct Buffer {
    std::uint64_t life;  ///< of the queue pair that drew it
    std::uint64_t address;
  };

  std::size_t pick() { return random_() % kQueuePairs; }

  std::uint32_t held(std::size_t qp) const {
    std::uint32_t n = drawing_.contains(qp) ? 1 : 0;
    for (const Buffer& b : completed_) n += b.life == life(qp) ? 1 : 0;
    return n;
  }
  std::uint64_t life(std::size_t qp) const {
    const auto found = lives_.find(qp);
    return (found == lives_.end() ? 0 : found->second) * kQueuePairs + qp;
  }

  void draw(std::size_t qp) {
    if (drawing_.contains(qp) || completed_.size() + drawing_.size() >= kBuffers) return;
    Member& member = desk_.members[qp];
    const Decision decision = desk_.provisioner.decide(member, Desk::qpn(qp), desk_.now);
    const std::uint32_t limit = desk_.limit(qp);
    if (limit == 0 || held(qp) < limit || policy_.kind == LimitKind::kSoft) {
      ASSERT_TRUE(is_granted(decision));
    } else {
      ASSERT_EQ(is_granted(decision),
                policy_.on_exceed == OnExceed::kReplenish && desk_.provisioner.unassigned() > 0);
    }
    if (!is_granted(decision)) return;
    desk_.provisioner.drawn(member, desk_.now);
    drawing_[qp] = random_() % 8;
  }

  void complete(std::size_t qp) {
    const auto found = drawing_.find(qp);
    desk_.provisioner.completed(desk_.members[qp], found == drawing_.end() ? 0 : found->second);
    if (found == drawing_.end()) return;
    completed_.push_back({life(qp), found->second});
    drawing_.erase(found);
  }

  void post() {
    const std::uint64_t address = random_() % 10;
    desk_.provisioner.posted(address);
    if (completed_.empty()) return;
    auto gone = completed_.begin();
    for (auto it = completed_.begin(); it != completed_.end(); ++it)
      if (it->address == address) {
        gone = it;
        break;
      }
    completed_.erase(gone);
  }

  void leave(std::size_t qp) {
    complete(qp);  // as the engine does
    desk_.provisioner.leave(desk_.members[qp]);
    desk_.members[qp].importance = static_cast<std::uint8_t>(qp % kImportances);
    ++lives_[qp];
  }

  std::mt19937 random_;
  SrqPolicy policy_;
  Desk desk_;
  std::map<std::size_t, std::uint64_t> drawing_;  ///< queue pair -> address
  std::deque<Buffer> completed_;
  std::map<std::size_t, std::uint64_t> lives_;
};

TEST(ProvisionerModel, AgreesForEveryPolicy) {
  for (std::uint32_t seed = 0; seed < 28; ++seed) {
    SrqPolicy policy = limited(1 + seed % 5, static_cast<OnExceed>(seed % 4));
    policy.limits[3] = seed % 3;
    policy.kind = seed % 7 == 0 ? LimitKind::kSoft : LimitKind::kHard;
    policy.statistical = seed % 2 == 0;
    policy.overcommit = seed % 3 == 0 ? 2.0 : 1.0;
    SCOPED_TRACE("seed " + std::to_string(seed));
    Model model(seed, policy);
    for (int i = 0; i < 2000; ++i) {
      model.step();
      model.check();
      if (::testing::Test::HasFatalFailure()) return;
    }
    model.drain();
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace softhca::receive
