// SPDX-License-Identifier: Apache-2.0

// A minimum rate holds through the whole engine, from doorbells to copies: beside 16 queue pairs of
// a tenant that weighs a thousand times as much, for long messages and for short ones.
#include <gtest/gtest.h>

#include "daemon/engine/records/costs.hpp"
#include "tests/unit/engine/fixture/pair.hpp"

namespace softhca::engine {
namespace {

constexpr std::uint32_t kMinimumBuffer = 64 << 10;
constexpr std::uint64_t kMinimum = 500'000'000;  ///< bytes a second; a copy takes 1/8 ns for each

/// Queue pairs that always have commands in their send queues.
class Load {
 public:
  Load(Process& near, Process& far, int queue_pairs, std::uint32_t size)
      : near_(near),
        from_(near.make_buffer(kMinimumBuffer)),
        to_(far.make_buffer(kMinimumBuffer)),
        size_(size) {
    for (int i = 0; i < queue_pairs; ++i) {
      TestCq& cq = near.make_cq(256);
      TestCq& far_cq = far.make_cq(8);
      Sender sender{.qp = &near.make_qp(cq, cq, {.send_entries = 64}), .cq = &cq};
      connect(near, *sender.qp, far, far.make_qp(far_cq, far_cq));
      senders_.push_back(sender);
    }
  }
  void keep_up() {
    for (Sender& sender : senders_) {
      const auto completed = static_cast<std::uint32_t>(sender.cq->poll_all().size());
      sender.waiting -= completed;
      messages += completed;
      if (sender.waiting > kDepth / 2) continue;
      std::uint32_t sequence = 0;
      for (; sender.waiting < kDepth; ++sender.waiting)
        sequence = near_.write_command(*sender.qp, {.opcode = abi::Opcode::kRdmaWrite,
                                                    .sge = {from_.part(0, size_)},
                                                    .remote_addr = to_.addr(),
                                                    .rkey = to_.key});
      near_.ring(sender.qp->qp.qpn.value, sequence + 1);
    }
  }
  std::uint64_t bytes_counted() const { return messages * std::max(size_, 4096u); }

  std::uint64_t messages = 0;

 private:
  static constexpr std::uint32_t kDepth = 32;
  struct Sender {
    TestQp* qp = nullptr;
    TestCq* cq = nullptr;
    std::uint32_t waiting = 0;
  };
  Process& near_;
  Buffer& from_;
  Buffer& to_;
  std::uint32_t size_;
  std::vector<Sender> senders_;
};

class MinimumRateOfTenant : public ::testing::TestWithParam<std::uint32_t> {
 protected:
  static EngineLimits limits() {
    EngineLimits limits = Adapter::small_limits();
    limits.pcbs = 512;
    limits.execution_credits = 128;
    limits.queue_pairs = 128;
    return limits;
  }

  MinimumRateOfTenant() {
    Tenant& other = sender.add_tenant("hog", address(3));
    process = std::make_unique<Process>(sender, other);
    victim = std::make_unique<Load>(*pair.a, *pair.b, 2, GetParam());
    hogs = std::make_unique<Load>(*process, *pair.b, 16, kMinimumBuffer);
    cpu.order().set_tenant_weight(other.id, 1000);
    cpu.minimums().set(pair.a->tenant.qos_class, pair.a->tenant.id, {});
  }
  ~MinimumRateOfTenant() { process->end(); }

  /// By virtual time, in which each cost unit takes its eighth of a nanosecond. Bytes of the
  /// victim.
  std::uint64_t run(Duration time) {
    const std::uint64_t before = victim->bytes_counted();
    for (const Time end = pair.now + time; pair.now < end;) {
      victim->keep_up();
      hogs->keep_up();
      const std::uint64_t done = cpu.done();
      pair.step(tick);
      tick = std::max<Duration>(Duration((cpu.done() - done) / kUnitsPerNanosecond), Duration(100));
    }
    return victim->bytes_counted() - before;
  }

  Pair pair{Way::kLocal, {}, limits()};
  Adapter& sender = *pair.adapters[0];
  CpuScheduler& cpu = sender.engine.cpu();
  std::unique_ptr<Process> process;
  std::unique_ptr<Load> victim, hogs;
  Duration tick = std::chrono::microseconds(1);
};

TEST_P(MinimumRateOfTenant, HoldsBesideHogsOfGreatWeight) {
  constexpr Duration kTime = std::chrono::milliseconds(30);
  constexpr double kDue = kMinimum * 0.03;
  run(kTime);
  EXPECT_LT(static_cast<double>(run(kTime)), 0.3 * kDue) << "by weight alone";
  cpu.minimums().set(pair.a->tenant.id, {kMinimum, 64 << 10});
  run(kTime);
  const std::uint64_t of_hogs = hogs->messages;
  const auto moved = static_cast<double>(run(kTime));
  EXPECT_GT(moved, 0.95 * kDue);
  EXPECT_LT(moved, 1.3 * kDue);
  EXPECT_GT(hogs->messages - of_hogs, 100u) << "the rest is theirs";
  EXPECT_GT(pair.a->tenant.rate.minimum_bytes.value(), static_cast<std::uint64_t>(kDue));
  cpu.minimums().set(pair.a->tenant.id, {});
  run(kTime);
  EXPECT_LT(static_cast<double>(run(kTime)), 0.3 * kDue) << "by weight again";
}

INSTANTIATE_TEST_SUITE_P(Sizes, MinimumRateOfTenant, ::testing::Values(64u, kMinimumBuffer));

/// Doorbells that say nothing do not keep others from theirs.
TEST(MinimumRate, IsNotForNothing) {
  Pair pair{Way::kLocal};
  pair.connect_pair();
  Adapter& adapter = *pair.adapters[0];
  CpuScheduler& cpu = adapter.engine.cpu();
  Load load(*pair.b, *pair.b, 2, 4096);
  cpu.minimums().set(pair.a->tenant.qos_class, pair.a->tenant.id, {});
  cpu.minimums().set(pair.a->tenant.id, {4'000'000'000, 1 << 20});
  const auto messages_of = [&](bool floods) {
    const std::uint64_t before = load.messages, begin = cpu.done();
    while (cpu.done() - begin < 100 << 20) {
      load.keep_up();
      const abi::SessionHeader& header = pair.a->header();
      while (floods && header.doorbell_producer - header.doorbell_consumer < abi::kDoorbellEntries)
        pair.a->ring(pair.qa->qp.qpn.value, 0);
      pair.step(std::chrono::microseconds(20));
    }
    return static_cast<double>(load.messages - before);
  };
  const double alone = messages_of(false);
  messages_of(true);
  EXPECT_GT(messages_of(true), 0.45 * alone);
}

}  // namespace
}  // namespace softhca::engine
