// SPDX-License-Identifier: Apache-2.0

// Adapters are replaced while programs work with them (restart_world.hpp). The programs find every
// byte and every completion, and no error.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "tests/sim/failure.hpp"
#include "tests/sim/restart_lane.hpp"

namespace softhca::sim {
namespace {

using engine::QpType;
using engine::TestCq;
using engine::TestSrq;

constexpr engine::XrcDomainId kDomain(7);
constexpr std::uint32_t kReceiveBytes = 8192;

/// Programs with a lane of each service.
class Programs {
 public:
  Programs(const RestartOptions& options, std::uint64_t seed)
      : random_(seed), world_(options, random_) {
    send_ = &world_.a->make_cq(512);
    receive_ = &world_.b->make_cq(512);
    xrc_receive_ = &world_.b->make_cq(512);
    srq_ = &world_.b->make_srq();
    xrc_srq_ = &world_.b->make_srq(kDomain, *xrc_receive_);
    shared_ = std::make_unique<ReceiveSlots>(*world_.b, kReceiveBytes);
    xrc_shared_ = std::make_unique<ReceiveSlots>(*world_.b, kReceiveBytes);
    add({.type = QpType::kRc});
    add({.type = QpType::kRc, .longest = 40000}, 48000);
    add({.type = QpType::kRc, .srq = srq_});
    add({.type = QpType::kRc, .srq = srq_});
    add({.type = QpType::kUc});
    add({.type = QpType::kUd});
    add({.type = QpType::kUd, .srq = srq_});
    add({.type = QpType::kXrcSend, .srq = xrc_srq_});
  }

  /// Restarts an adapter with this chance in each step, until all is done.
  void run(double chance) {
    constexpr int kMostSteps = 4'000'000;
    for (int i = 0; i < kMostSteps; ++i) {
      if (is_done()) return finish();
      step(chance);
    }
    throw Failure("not done after all steps");
  }
  unsigned restarts() const { return restarts_; }

 private:
  void add(const LaneOptions& options, std::uint32_t receive_bytes = kReceiveBytes) {
    lanes_.push_back(std::make_unique<Lane>(world_, *send_, *receive_, options,
                                            static_cast<std::uint32_t>(lanes_.size()), random_));
    Lane& lane = *lanes_.back();
    if (options.srq == nullptr) {
      own_.push_back(std::make_unique<ReceiveSlots>(*world_.b, receive_bytes));
      lane.receives = own_.back().get();
    } else {
      lane.receives = options.srq == srq_ ? shared_.get() : xrc_shared_.get();
    }
  }

  void step(double chance) {
    if (random_.chance(0.1)) {
      shared_->post(srq_->ring, random_);
      xrc_shared_->post(xrc_srq_->ring, random_);
      for (const auto& lane : lanes_) lane->act();
    }
    world_.step();
    if (random_.chance(chance)) {
      ++restarts_;
      world_.restart(random_.below(world_.hosts()));
    }
    for (const auto& c : send_->poll_all()) lane_of(c.qpn, true).completed(c);
    for (const auto& c : receive_->poll_all())
      c.is_receive ? lane_of(c.qpn, false).received(c) : lane_of(c.qpn, false).bound(c);
    for (const auto& c : xrc_receive_->poll_all()) lane_of(c.qpn, false).received(c);
  }

  Lane& lane_of(std::uint32_t qpn, bool near) {
    for (const auto& lane : lanes_)
      if ((near ? lane->near() : lane->far()).qp.qpn.value == qpn) return *lane;
    throw Failure("completion of an unknown queue pair");
  }

  bool is_done() const {
    return std::all_of(lanes_.begin(), lanes_.end(),
                       [](const auto& lane) { return lane->is_done(); });
  }

  /// Nothing comes later.
  void finish() {
    for (int i = 0; i < 2000; ++i) step(0);
    for (const auto& lane : lanes_) lane->expect_complete();
    for (unsigned host = 0; host < world_.hosts(); ++host)
      for (const auto& event : world_.sink(host).async)
        require(event.type == engine::EventType::kCommunicationEstablished, "event",
                static_cast<std::uint64_t>(event.type));
  }

  Random random_;
  RestartWorld world_;
  TestCq *send_, *receive_, *xrc_receive_;
  TestSrq *srq_, *xrc_srq_;
  std::unique_ptr<ReceiveSlots> shared_, xrc_shared_;
  std::vector<std::unique_ptr<ReceiveSlots>> own_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  unsigned restarts_ = 0;
};

struct Case {
  const char* name;
  RestartOptions options;
  double chance;
};

class Restart : public ::testing::TestWithParam<Case> {};

TEST_P(Restart, AtStepBoundaries_NothingIsLostOrRepeated) {
  constexpr std::uint64_t kSeeds = 20;
  unsigned restarts = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    try {
      Programs programs(GetParam().options, seed);
      programs.run(GetParam().chance);
      restarts += programs.restarts();
    } catch (const Failure& failure) {
      FAIL() << failure.what();
    }
  }
  EXPECT_EQ(restarts != 0, GetParam().chance != 0);
}

INSTANTIATE_TEST_SUITE_P(, Restart,
                         ::testing::Values(Case{"WireWithoutRestart", {.loss = 0.01}, 0},
                                           Case{"LocalWithoutRestart", {.local = true}, 0},
                                           Case{"Wire", {}, 0.01},
                                           Case{"WireWithLoss", {.loss = 0.02}, 0.01},
                                           Case{"Local", {.local = true}, 0.01},
                                           Case{"WireOften", {.loss = 0.005}, 0.1},
                                           Case{"LocalOften", {.local = true}, 0.1}),
                         [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace softhca::sim
