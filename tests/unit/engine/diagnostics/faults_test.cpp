// SPDX-License-Identifier: Apache-2.0

// Faults that the operator asks for: what they do to packets and messages, to whom, how often and
// how long.
#include "daemon/engine/diagnostics/faults.hpp"

#include <list>

#include "tests/unit/engine/fixture/pair.hpp"

// A namespace of its own: it is compiled with other tests as one.
namespace softhca::engine::injected {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using transport::Count;

constexpr std::uint32_t kQkey = 0x11111111;
constexpr std::size_t kGrh = transport::kRoutingHeaderBytes;
constexpr std::size_t kBytes = 5000;  ///< five packets

/// Two connected tenants and what is injected at either end.
class Faulty {
 public:
  explicit Faulty(Way way, const Connection& connection = {}) : pair(way) {
    pair.connect_pair(connection);
    from.fill(3);
  }
  ~Faulty() {
    while (!faults.empty()) remove();
    pair.run_for(milliseconds(5));
    for (const auto& adapter : pair.adapters) {
      EXPECT_FALSE(faults_of(*adapter).on());
      EXPECT_EQ(faults_of(*adapter).held().value(), 0u);
      EXPECT_EQ(faults_of(*adapter).active().value(), 0u);
      EXPECT_EQ(faults_of(*adapter).no_room().value(), 0u);
    }
  }

  static Faults& faults_of(Adapter& adapter) { return adapter.engine.packets().faults(); }
  Fault& inject_at(Adapter& adapter, const FaultTerms& terms) {
    faults.push_back(
        {std::make_unique<Fault>(static_cast<std::uint32_t>(faults.size() + 1), terms), &adapter});
    faults_of(adapter).add(*faults.back().fault, std::make_unique<Faults::Room>(5000));
    return *faults.back().fault;
  }
  Fault& inject_at_a(const FaultTerms& terms) { return inject_at(*pair.adapters.front(), terms); }
  Fault& inject_at_b(const FaultTerms& terms) { return inject_at(*pair.adapters.back(), terms); }
  void remove() {
    faults_of(*faults.back().where).remove(*faults.back().fault);
    faults.pop_back();
  }
  void post(std::size_t bytes = kBytes) {
    b.post_receive(*pair.qb, {to.all()});
    a.post(*pair.qa, {.sge = {from.part(0, bytes)}});
  }
  /// Sends that arrive as they were sent.
  void send(unsigned messages) {
    for (unsigned i = 0; i < messages; ++i) {
      from.fill(i);
      post();
      ASSERT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
      ASSERT_EQ(pair.wait_status(*pair.cb), Status::kSuccess);
      ASSERT_TRUE(from.equals(to)) << i;
    }
  }
  std::uint64_t counted(Process& process, Count count) {
    return process.tenant.counters.value(count);
  }
  std::uint64_t dropped_at_b() {
    const PortDropCounters& drops = pair.adapters.back()->engine.ports().front()->drops;
    std::uint64_t sum = 0;
    for (const Counter& counter : drops.parse) sum += counter.value();
    return sum;
  }

  struct Injected {
    std::unique_ptr<Fault> fault;
    Adapter* where;
  };
  std::list<Injected> faults;
  Pair pair;
  Process& a = *pair.a;
  Process& b = *pair.b;
  Buffer& from = a.make_buffer(kBytes);
  Buffer& to = b.make_buffer(kBytes);
};

class InjectedBothWays : public BothWays {};

TEST_P(InjectedBothWays, WhatIsLostIsSentAgain) {
  Faulty test(GetParam());
  const Fault& fault = test.inject_at_a({.kind = FaultKind::kDrop,
                                         .tenant = test.a.tenant.id,
                                         .direction = FaultDirection::kSent,
                                         .every = 4});
  test.send(20);
  EXPECT_GT(fault.injected().value(), 4u);
  EXPECT_EQ(fault.injected().value(), fault.met().value() / 4);
  EXPECT_EQ(Faulty::faults_of(*test.pair.adapters.front()).injected(FaultKind::kDrop).value(),
            fault.injected().value());
  if (GetParam() == Way::kLocal) {
    EXPECT_EQ(test.counted(test.a, Count::kAckTimeouts), fault.injected().value());
  }
}

TEST_P(InjectedBothWays, WhatIsAlwaysLostFails) {
  Faulty test(GetParam());
  test.inject_at_b({.kind = FaultKind::kDrop,
                    .qpn = test.pair.qb->qp.qpn,
                    .direction = FaultDirection::kReceived,
                    .every = 1});
  test.post();
  EXPECT_EQ(test.pair.wait_status(*test.pair.ca), Status::kRetryExceededError);
}

TEST_P(InjectedBothWays, LastsUntilItsTime) {
  Faulty test(GetParam());
  const Time end = test.pair.now + milliseconds(2);
  const Fault& fault = test.inject_at_a(
      {.kind = FaultKind::kDrop, .tenant = test.a.tenant.id, .every = 1, .until = end});
  test.send(1);
  EXPECT_GE(test.pair.now, end);
  EXPECT_TRUE(fault.is_over(test.pair.now));
  const std::uint64_t met = fault.met().value();
  test.send(5);
  EXPECT_EQ(fault.met().value(), met);
}

TEST_P(InjectedBothWays, HappensSoOftenAtMost) {
  Faulty test(GetParam());
  const Fault& fault = test.inject_at_a(
      {.kind = FaultKind::kDrop, .tenant = test.a.tenant.id, .every = 1, .count = 2});
  test.send(10);
  EXPECT_EQ(fault.injected().value(), 2u);
  EXPECT_GT(fault.met().value(), 2u);
}

TEST_P(InjectedBothWays, MeetsItsTargetAlone) {
  Faulty test(GetParam());
  const TenantId a = test.pair.adapters.front()->tenants.front()->id;
  const Qpn qa = test.pair.qa->qp.qpn;
  const FaultTerms others[] = {
      {.tenant = TenantId(static_cast<std::uint16_t>(a.value + 2)), .every = 1},
      {.port = PortId(1), .every = 1},
      {.qpn = Qpn(qa.value + 16), .every = 1},
      {.tenant = TenantId(static_cast<std::uint16_t>(a.value + 2)), .qpn = qa, .every = 1}};
  for (const FaultTerms& terms : others) test.inject_at_a(terms);
  test.send(3);
  for (const auto& injected : test.faults) EXPECT_EQ(injected.fault->met().value(), 0u);
}

TEST_P(InjectedBothWays, AMessageThatFindsNoReceiveComesAgain) {
  Faulty test(GetParam());
  const Fault& fault =
      test.inject_at_b({.kind = FaultKind::kRnr, .qpn = test.pair.qb->qp.qpn, .every = 2});
  test.send(10);
  EXPECT_GE(fault.injected().value(), 5u);
  EXPECT_EQ(test.counted(test.a, Count::kRnrNakReceived), fault.injected().value());
}

TEST_P(InjectedBothWays, AMessageThatFindsNoReceiveWaitsAsLongAsThePeerSays) {
  // 10.24 ms (IBA table 45).
  Faulty test(GetParam(), {.min_rnr_timer = 20});
  test.inject_at_b({.kind = FaultKind::kRnr, .tenant = test.b.tenant.id, .every = 2});
  const Time begin = test.pair.now;
  test.send(2);
  EXPECT_GE(test.pair.now - begin, microseconds(10'240));
  EXPECT_EQ(test.counted(test.a, Count::kRnrNakReceived), 1u);
}

TEST_P(InjectedBothWays, AMessageThatNeverFindsAReceiveFails) {
  Faulty test(GetParam(), {.rnr_retry = 2});
  const Fault& fault =
      test.inject_at_b({.kind = FaultKind::kRnr, .tenant = test.b.tenant.id, .every = 1});
  test.post();
  EXPECT_EQ(test.pair.wait_status(*test.pair.ca), Status::kRnrRetryExceededError);
  EXPECT_EQ(fault.injected().value(), 3u);
}

TEST_P(InjectedBothWays, ATenantThatGoesTakesItsFaultsAlong) {
  Faulty test(GetParam());
  const Fault& fault =
      test.inject_at_a({.kind = FaultKind::kDrop, .tenant = test.a.tenant.id, .every = 1});
  Faulty::faults_of(*test.pair.adapters.front()).forget(test.a.tenant);
  EXPECT_TRUE(fault.is_lost());
  EXPECT_TRUE(fault.is_over(test.pair.now));
  test.send(3);
  EXPECT_EQ(fault.met().value(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Faults, InjectedBothWays, testing::Values(Way::kLocal, Way::kWire),
                         way_name);

// --- packets alone

struct Side {
  const char* name;
  bool sent;  ///< at the sender; else at the receiver
};
class InjectedPackets : public testing::TestWithParam<Side> {
 protected:
  /// Injects a fault into packets from a to b, at the end that the parameter selects.
  const Fault& inject(Faulty& test, FaultTerms terms) {
    terms.direction = GetParam().sent ? FaultDirection::kSent : FaultDirection::kReceived;
    terms.port = PortId(0);
    return GetParam().sent ? test.inject_at_a(terms) : test.inject_at_b(terms);
  }
};

TEST_P(InjectedPackets, ThatAreDamagedAreDroppedAndComeAgain) {
  Faulty test(Way::kWire);
  const Fault& fault = inject(test, {.kind = FaultKind::kCorrupt, .every = 4});
  test.send(20);
  EXPECT_GT(fault.injected().value(), 4u);
  EXPECT_EQ(test.dropped_at_b(), fault.injected().value());
}

TEST_P(InjectedPackets, ThatComeTwiceAreTakenOnce) {
  Faulty test(Way::kWire);
  const Fault& fault = inject(test, {.kind = FaultKind::kDuplicate, .every = 4});
  test.send(20);
  EXPECT_GT(fault.injected().value(), 4u);
  EXPECT_GT(test.counted(test.b, Count::kDuplicateRequests), 0u);
}

TEST_P(InjectedPackets, ThatComeOutOfOrderArePutInOrder) {
  Faulty test(Way::kWire);
  const Fault& fault =
      inject(test, {.kind = FaultKind::kReorder, .every = 4, .delay = milliseconds(10), .by = 2});
  test.send(20);
  EXPECT_GT(fault.injected().value(), 4u);
  EXPECT_GT(test.counted(test.b, Count::kOutOfSequence), 0u);
}

TEST_P(InjectedPackets, ThatAreMarked_MeanCongestionToTheReceiver) {
  Faulty test(Way::kWire);
  for (const auto& adapter : test.pair.adapters)
    adapter->engine.set_congestion({.mode = CongestionMode::kOn});
  const Fault& fault = inject(test, {.kind = FaultKind::kMark, .every = 4});
  test.send(20);
  EXPECT_GT(fault.injected().value(), 4u);
  EXPECT_EQ(test.b.tenant.counters.congestion.marked_packets.value(), fault.injected().value());
}

TEST_P(InjectedPackets, ThatAreNotEcnCapable_AreNotMarked) {
  Faulty test(Way::kWire);
  inject(test, {.kind = FaultKind::kMark, .every = 1});
  test.send(3);
  EXPECT_EQ(test.b.tenant.counters.congestion.marked_packets.value(), 0u);
}

TEST_P(InjectedPackets, ThatAreLateComeInTheirTime) {
  Faulty test(Way::kWire, {.timeout = 14});
  inject(test, {.kind = FaultKind::kDelay, .every = 1, .delay = milliseconds(5)});
  const Time begin = test.pair.now;
  test.send(1);
  EXPECT_GE(test.pair.now - begin, milliseconds(5));
  EXPECT_LT(test.pair.now - begin, milliseconds(6));
  EXPECT_EQ(test.counted(test.a, Count::kAckTimeouts), 0u);
}

TEST_P(InjectedPackets, AreHeldNoLongerThanTheFaultLasts) {
  Faulty test(Way::kWire, {.timeout = 0});
  const Time end = test.pair.now + milliseconds(5);
  inject(test, {.kind = FaultKind::kDelay,
                .every = 1,
                .until = end,
                .delay = std::chrono::seconds(8),
                .jitter = std::chrono::seconds(1)});
  test.send(1);
  EXPECT_GE(test.pair.now, end);
  EXPECT_LT(test.pair.now, end + milliseconds(1));
}

TEST_P(InjectedPackets, GoOnWhenTheFaultIsRemoved) {
  Faulty test(Way::kWire, {.timeout = 0});
  inject(test, {.kind = FaultKind::kDelay, .every = 1, .delay = std::chrono::seconds(8)});
  test.post();
  test.pair.run_for(milliseconds(1));
  Faults& faults = Faulty::faults_of(*test.faults.front().where);
  EXPECT_GE(faults.held().value(), 5u);
  EXPECT_EQ(faults.take_room(), nullptr);
  test.remove();
  EXPECT_TRUE(faults.on());
  const Time begin = test.pair.now;
  EXPECT_EQ(test.pair.wait_status(*test.pair.ca), Status::kSuccess);
  EXPECT_LT(test.pair.now - begin, milliseconds(1));
  EXPECT_TRUE(test.from.equals(test.to));
  EXPECT_FALSE(faults.on());
  EXPECT_NE(faults.take_room(), nullptr);
}

TEST_P(InjectedPackets, SeveralFaultsAtOnce) {
  Faulty test(Way::kWire, {.retry_count = 7});
  for (const FaultKind kind : {FaultKind::kDrop, FaultKind::kCorrupt, FaultKind::kDuplicate})
    inject(test, {.kind = kind, .probability = 0.05});
  inject(test,
         {.kind = FaultKind::kReorder, .probability = 0.05, .delay = microseconds(500), .by = 3});
  inject(test, {.kind = FaultKind::kDelay, .probability = 0.05, .delay = microseconds(100)});
  test.inject_at_b({.kind = FaultKind::kRnr, .tenant = test.b.tenant.id, .probability = 0.2});
  test.send(200);
  for (const auto& injected : test.faults) EXPECT_GT(injected.fault->injected().value(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Faults, InjectedPackets,
                         testing::Values(Side{"Sent", true}, Side{"Received", false}),
                         [](const auto& side) { return std::string(side.param.name); });

// --- datagrams

class InjectedDatagrams : public BothWays {
 protected:
  /// How often a datagram arrives, of ten.
  unsigned arrived(FaultTerms terms) {
    Pair pair(GetParam());
    Process &a = *pair.a, &b = *pair.b;
    TestQp& qa = a.make_qp(*pair.ca, *pair.ca, {.type = QpType::kUd});
    TestQp& qb = b.make_qp(*pair.cb, *pair.cb, {.type = QpType::kUd, .receive_entries = 32});
    bring_up_datagram(a, qa, kQkey);
    bring_up_datagram(b, qb, kQkey);
    const std::uint32_t ah = a.make_ah(address(2));
    Buffer &from = a.make_buffer(100), &to = b.make_buffer(100 + kGrh);
    for (int i = 0; i < 20; ++i) b.post_receive(qb, {to.all()});
    const bool at_b = terms.kind == FaultKind::kRnr;
    terms.tenant = (at_b ? b : a).tenant.id;
    Faults& faults = Faulty::faults_of(at_b ? b.adapter : a.adapter);
    Fault fault(1, terms);
    faults.add(fault, std::make_unique<Faults::Room>(5000));
    for (int i = 0; i < 10; ++i) {
      a.post(qa, {.sge = {from.all()},
                  .remote_qpn = qb.qp.qpn.value,
                  .remote_qkey = kQkey,
                  .address_handle = ah});
      EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
    }
    pair.run_for(milliseconds(1));
    faults.remove(fault);
    return static_cast<unsigned>(pair.cb->poll_all().size());
  }
};

TEST_P(InjectedDatagrams, AreLost) {
  EXPECT_EQ(arrived({.kind = FaultKind::kDrop, .direction = FaultDirection::kSent, .every = 5}),
            8u);
}

TEST_P(InjectedDatagrams, ComeTwiceFromAPortAlone) {
  EXPECT_EQ(
      arrived({.kind = FaultKind::kDuplicate, .direction = FaultDirection::kSent, .every = 5}),
      local() ? 10u : 12u);
}

TEST_P(InjectedDatagrams, ARefusalIsForConnectionsAlone) {
  EXPECT_EQ(arrived({.kind = FaultKind::kRnr, .every = 1}), 10u);
}

INSTANTIATE_TEST_SUITE_P(Faults, InjectedDatagrams, testing::Values(Way::kLocal, Way::kWire),
                         way_name);

// --- chance

/// Which of a thousand packets are hit.
std::vector<bool> hits(const FaultTerms& terms) {
  const StepClock clock{};
  Faults faults(clock);
  Fault fault(1, terms);
  faults.add(fault, nullptr);
  std::vector<bool> out;
  for (int i = 0; i < 1000; ++i)
    out.push_back(faults
                      .decide({.tenant = nullptr,
                               .port = PortId(0),
                               .qpn = Qpn(5),
                               .direction = FaultDirection::kSent})
                      .any());
  faults.remove(fault);
  return out;
}

TEST(FaultChance, ASeedReplays) {
  const FaultTerms one{.kind = FaultKind::kDrop, .probability = 0.1, .seed = 7};
  FaultTerms other = one;
  other.seed = 8;
  EXPECT_EQ(hits(one), hits(one));
  EXPECT_NE(hits(one), hits(other));
  const auto count = std::ranges::count(hits(one), true);
  EXPECT_GT(count, 50);
  EXPECT_LT(count, 200);
  FaultTerms another_kind = one;
  another_kind.kind = FaultKind::kDuplicate;
  EXPECT_NE(hits(one), hits(another_kind)) << "they would always strike together";
}

TEST(FaultChance, AlwaysNeverAndEachNth) {
  EXPECT_EQ(std::ranges::count(hits({.probability = 1}), true), 1000);
  EXPECT_EQ(std::ranges::count(hits({.probability = 0}), true), 0);
  const auto each = hits({.every = 10});
  EXPECT_EQ(std::ranges::count(each, true), 100);
  EXPECT_TRUE(each[9]);
}

TEST(FaultRoom, WhatFindsNoneGoesOnAndIsCounted) {
  const StepClock clock{};
  Faults faults(clock);
  Fault fault(1, {.kind = FaultKind::kDelay, .every = 1, .delay = std::chrono::seconds(1)});
  faults.add(fault, std::make_unique<Faults::Room>(64));
  const FaultPassage passage{
      .tenant = nullptr, .port = PortId(0), .qpn = Qpn(5), .direction = FaultDirection::kSent};
  const std::array<std::byte, 8> bytes{};
  const HeldPackets::Part part = bytes;
  for (std::size_t i = 0; i < HeldPackets::kMost; ++i)
    ASSERT_TRUE(faults.hold(faults.decide(passage), passage, Qpn(6), {&part, 1}));
  EXPECT_FALSE(faults.hold(faults.decide(passage), passage, Qpn(6), {&part, 1}));
  EXPECT_EQ(faults.no_room().value(), 1u);
  EXPECT_EQ(faults.held().value(), HeldPackets::kMost);
  faults.remove(fault);
  EXPECT_EQ(faults.take_due(FaultDirection::kSent, [](PortId, std::span<std::byte>) {}),
            HeldPackets::kMost);
  EXPECT_FALSE(faults.on());
}

}  // namespace
}  // namespace softhca::engine::injected
