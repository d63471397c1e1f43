// SPDX-License-Identifier: Apache-2.0

// Rates of tenants, levels and queue pairs, without an engine.
#include "daemon/engine/commands/rate_control.hpp"

#include "tests/unit/engine/fixture/parts.hpp"

namespace softhca::engine {
namespace {

using Hold = RateControl::Hold;
using std::chrono::milliseconds;

class Rates : public Parts {
 protected:
  Rates() {
    other.qp.tenant = &tenant;
    other.qp.session = &session;
    other.qp.qos_class = tenant.qos_class;
    other.qp.sq.tvl = tvl;
    EXPECT_TRUE(queue_pairs.add(other.qp));
  }
  ~Rates() override {
    session.level = nullptr;
    for (QueuePair* pair : {&qp.qp, &other.qp}) {
      rates.leave(*pair);
      if (pair->sq.rates != nullptr) rates.forget(pair->sq.rates->sent);
    }
    rates.forget(tenant.rate);
  }

  /// A command of the queue pair with a message of so many bytes comes in.
  CommandContext admit(TestQp& by, std::uint32_t bytes = 1) {
    collect::Pcb pcb{};
    const abi::ScatterGather entry{.addr = 0, .length = bytes, .lkey = 0};
    pcb.header.payload_bytes = sizeof entry;
    std::memcpy(pcb.payload.data(), &entry, sizeof entry);
    CommandContext context;
    rates.admit(by.qp, pcb, context);
    return context;
  }
  RateGate& own_rate(TestQp& of, const RateLimits& limits) {
    of.qp.sq.rates = std::make_unique<QpRates>();
    rates.set(of.qp.sq.rates->sent, limits);
    return of.qp.sq.rates->sent;
  }
  /// Slots of queue pairs, and numbers of classes, that are released now.
  std::vector<std::uint32_t> released() {
    std::vector<std::uint32_t> out;
    rates.release([](QosClassId) {}, [&](std::uint32_t slot) { out.push_back(slot); });
    return out;
  }
  std::vector<std::uint32_t> released_classes() {
    std::vector<std::uint32_t> out;
    rates.release([&](QosClassId id) { out.push_back(id.value); }, [](std::uint32_t) {});
    return out;
  }

  static constexpr RateLimits kOneAMillisecond{.messages_per_second = 1000, .burst_messages = 1};
  TestQp other{QpOptions{.send_entries = kEntries}};
};

TEST_F(Rates, WithoutOneNobodyIsHeld) {
  EXPECT_FALSE(admit(qp, 1u << 30).charged);
  EXPECT_FALSE(session.held_by_rate());
  EXPECT_EQ(rates.hold(qp.qp), Hold::kNone);
  EXPECT_EQ(rates.next_release(), kNever);
}

TEST_F(Rates, ATenantIsHeldUntilTheDebtIsPaid) {
  rates.set(tenant.rate, {.messages_per_second = 1000, .burst_messages = 2});
  admit(qp);
  EXPECT_FALSE(session.held_by_rate());
  admit(other);
  EXPECT_TRUE(session.held_by_rate()) << "its burst is used up";
  EXPECT_EQ(tenant.rate.held.value(), 1u);
  EXPECT_EQ(rates.hold(qp.qp), Hold::kClass);
  EXPECT_EQ(rates.hold(other.qp), Hold::kClass);
  EXPECT_TRUE(released_classes().empty());
  const Time due = rates.next_release(), began = clock.now;
  EXPECT_GT(due, clock.now);
  clock.now = due;
  EXPECT_EQ(released_classes(), std::vector<std::uint32_t>{tenant.qos_class.value});
  EXPECT_FALSE(session.held_by_rate());
  EXPECT_EQ(tenant.rate.held_ns.value(), static_cast<std::uint64_t>((due - began).count()));
  EXPECT_EQ(tenant.rate.held.value(), 0u);
  EXPECT_EQ(rates.next_release(), kNever);
}

TEST_F(Rates, BytesCountAsMuchAsTheyAre) {
  rates.set(tenant.rate, {.bytes_per_second = 1'000'000, .burst_bytes = 1000});
  EXPECT_EQ(admit(qp, 101'000).charged_bytes, 101'000u);
  EXPECT_NEAR(static_cast<double>((rates.next_release() - clock.now).count()), 1e8, 1e6);
}

TEST_F(Rates, WindowsAreNoMessages) {
  rates.set(tenant.rate, kOneAMillisecond);
  collect::Pcb bind{};
  bind.header.opcode = static_cast<std::uint8_t>(abi::Opcode::kBindWindow);
  CommandContext context;
  rates.admit(qp.qp, bind, context);
  EXPECT_FALSE(context.charged);
}

// A command that could not be read whole: its length is what the process says.
TEST_F(Rates, AnImpossibleLengthCountsAsNone) {
  rates.set(tenant.rate, kOneAMillisecond);
  collect::Pcb bad{};
  bad.header.payload_bytes = 0xfff0;
  CommandContext context;
  rates.admit(qp.qp, bad, context);
  EXPECT_TRUE(context.charged);
  EXPECT_EQ(context.charged_bytes, 0u);
}

TEST_F(Rates, WhatIsTakenBackIsNotChargedFor) {
  rates.set(tenant.rate, {.bytes_per_second = 1000, .burst_bytes = 1000});
  RateGate& own = own_rate(qp, {.bytes_per_second = 1000, .burst_bytes = 1000});
  const CommandContext context = admit(qp, 5000);
  const Time debt = own.limiter.ready_at();
  rates.take_back(qp.qp, context);
  EXPECT_EQ(debt - own.limiter.ready_at(), std::chrono::seconds(5));
  EXPECT_LE(tenant.rate.limiter.ready_at(), clock.now);
}

TEST_F(Rates, ALevelHoldsItsOwnProcesses) {
  Level level;
  session.level = &level;
  rates.set(level.rate, kOneAMillisecond);
  admit(qp);
  EXPECT_TRUE(session.held_by_rate());
  EXPECT_EQ(rates.hold(qp.qp), Hold::kClass);
  session.level = nullptr;
  EXPECT_FALSE(session.held_by_rate()) << "of no level, or another";
  rates.forget(level.rate);
  EXPECT_EQ(rates.next_release(), kNever);
}

TEST_F(Rates, AQueuePairHoldsNoOther) {
  own_rate(qp, kOneAMillisecond);
  admit(qp);
  admit(other);
  EXPECT_TRUE(rates.holds(qp.qp));
  EXPECT_EQ(rates.hold(qp.qp), Hold::kQueuePair);
  EXPECT_FALSE(rates.holds(other.qp));
  EXPECT_EQ(rates.hold(other.qp), Hold::kNone);
  clock.now = rates.next_release();
  EXPECT_EQ(released(), std::vector{qp.qp.slot});
  EXPECT_FALSE(rates.holds(qp.qp));
}

TEST_F(Rates, WithAnErrorNothingIsHeld) {
  own_rate(qp, kOneAMillisecond);
  admit(qp);
  qp.qp.state = QpState::kError;
  EXPECT_FALSE(rates.holds(qp.qp));
  EXPECT_EQ(rates.hold(qp.qp), Hold::kNone);
  EXPECT_FALSE(admit(qp).charged);
}

TEST_F(Rates, WithoutItsLimitAGateOpensAtOnce) {
  RateGate& own = own_rate(qp, {.messages_per_second = 1, .burst_messages = 1});
  admit(qp);
  rates.hold(qp.qp);
  EXPECT_GT(rates.next_release(), clock.now);
  rates.set(own, {});
  EXPECT_EQ(released(), std::vector{qp.qp.slot});
}

TEST_F(Rates, WhoGoesIsForgotten) {
  RateGate& own = own_rate(qp, kOneAMillisecond);
  admit(qp);
  rates.hold(qp.qp);
  rates.forget(own);
  qp.qp.sq.rates.reset();
  clock.now += std::chrono::seconds(10);
  EXPECT_TRUE(released().empty());
}

TEST_F(Rates, OfManyTheEarliestIsReleasedFirst) {
  RateGate& slow = own_rate(qp, {.messages_per_second = 1, .burst_messages = 1});
  RateGate& fast = own_rate(other, kOneAMillisecond);
  admit(qp);
  admit(other);
  rates.hold(qp.qp);
  rates.hold(other.qp);
  EXPECT_EQ(rates.next_release(), fast.limiter.ready_at());
  clock.now = rates.next_release();
  EXPECT_EQ(released(), std::vector{other.qp.slot});
  EXPECT_EQ(rates.next_release(), slow.limiter.ready_at());
}

}  // namespace
}  // namespace softhca::engine
