// The parts of an engine from queue pairs and their states down, without an engine: a process with
// a completion queue and memory, and a host at the far end of its tenant's port.
#pragma once

#include "daemon/engine/local_link.hpp"
#include "daemon/engine/qp_lifecycle.hpp"
#include "tests/unit/engine/far_end.hpp"
#include "tests/unit/engine/parts.hpp"
#include "tests/unit/engine/queue_pairs.hpp"

namespace softhca::engine {

using Status = abi::CompletionStatus;

class QpParts : public Parts {
 protected:
  static inline const Gid kNear = address(1), kFar = address(2);
  static constexpr std::uint32_t kFull = Process::kFull;

  QpParts() {
    scheduler.close(schedule::QpSlot(Parts::qp.qp.slot));
    queue_pairs.remove(Parts::qp.qp);
    dedicated_tvl = add_tvl(schedule::TvlPurpose::kDedicated);
    tenant.addresses = {{kNear, PortId(0)}};
    addresses.add(tenant);
    packets.add_user(tenant.id);
    pairs.reserve(32);
  }
  /// Whatever a test did: when its queue pairs are gone nothing is held by any command.
  ~QpParts() override {
    while (!pairs.empty()) remove(*pairs.back());
    for (const auto& buffer : buffers) region_access.keys().erase(buffer->key);
    for (std::uint16_t i = 0; i < kTenants; ++i) {
      EXPECT_EQ(pcbs.group(QosClassId(i)).all_in_use.value(), 0u);
      EXPECT_EQ(pcbs.group(QosClassId(i)).dedicated_in_use.value(), 0u);
    }
    for (std::uint16_t i = 0; i < tvls.size(); ++i) {
      EXPECT_EQ(tvls[TvlId(i)].execution.in_use.value(), 0u);
      EXPECT_EQ(tvls[TvlId(i)].completion.in_use.value(), 0u);
      EXPECT_EQ(arbitrator.counters(TvlId(i)).waiting.value(), 0u);
    }
    EXPECT_FALSE(scheduler.has_work());
  }

  // --- as the control layer does it
  /// Installed, in RESET.
  TestQp& make_qp(const QpOptions& options = {}) {
    pairs.push_back(std::make_unique<TestQp>(options));
    TestQp& made = *pairs.back();
    describe(made, options, session, kPd, cq, cq);
    made.qp.user_handle = 100 + pairs.size();
    EXPECT_TRUE(lifecycle.install(made.qp));
    return made;
  }
  void remove(TestQp& test) {
    lifecycle.remove(test.qp);
    std::erase_if(pairs, [&](const auto& pair) { return pair.get() == &test; });
  }
  /// Connected to one of the far host, in RTS.
  TestQp& make_connected(const QpOptions& options = {}, const Connection& connection = {}) {
    TestQp& made = make_qp(options);
    bring_up(lifecycle, made, kPeer, kFar, connection);
    return made;
  }
  /// In RTS, each the other's peer inside this daemon.
  void connect(TestQp& a, TestQp& b, const Connection& connection = {}) {
    bring_up(lifecycle, a, b.qp.qpn, kNear, connection);
    bring_up(lifecycle, b, a.qp.qpn, kNear, connection);
  }
  TestSrq& make_srq(XrcDomainId domain = {}) {
    constexpr std::uint32_t kSge = 4;
    srqs.push_back(std::make_unique<TestSrq>(kEntries, kSge));
    SharedReceiveQueue& srq = srqs.back()->srq;
    srq.session = &session;
    srq.ring = shm::ReceiveRing(srqs.back()->ring.base(), kEntries, kSge);
    srq.user_handle = 200 + srqs.size();
    srq.pd = kPd;
    srq.xrc_domain = domain;
    if (domain != XrcDomainId()) srq.cq = &cq.cq;
    receives.add(srq);
    return *srqs.back();
  }
  Buffer& make_buffer(std::size_t bytes) {
    buffers.push_back(std::make_unique<Buffer>());
    Buffer& made = *buffers.back();
    made.words.resize((bytes + 7) / 8);
    made.size = bytes;
    made.enter(region_access.keys(), tenant.id, kPd, kFull);
    return made;
  }

  // --- as a process does it
  /// A command comes by a VCB and waits for credits.
  PcbId kick(TestQp& test, const Work& work = {}) {
    const std::uint32_t sequence = write_command(test, work);
    const schedule::QpSlot slot(test.qp.slot);
    EXPECT_TRUE(scheduler.vcb_may_start(slot, sequence));
    scheduler.vcb_kicked(slot);
    const PcbId pcb = *pcbs.allocate(test.qp.qos_class);
    EXPECT_TRUE(arbitrator.kick(test.qp.sq.tvl, pcb));
    collect::Pcb& buffer = pcbs.pcb(pcb);
    EXPECT_EQ(test.qp.sq.ring.copy(sequence, buffer.header, buffer.payload.data()), Verdict::kOk);
    commands.prepare(test.qp, pcb);
    return pcb;
  }
  /// It comes and begins.
  PcbId post(TestQp& test, const Work& work = {}) {
    const PcbId pcb = kick(test, work);
    execution.start_commands();
    return pcb;
  }
  /// What it has under way for a peer in this daemon goes there.
  void deliver(TestQp& test) {
    QpEnvironment env(transport_parts, test.qp);
    QpLocalLink link(transport_parts, test.qp);
    std::get<transport::Local>(test.qp.transport).transmit(link, env, clock.now, 1 << 20);
  }
  /// As deliver(), until the queue pair gives up looking and waits for its peer.
  void deliver_in_vain(TestQp& test) {
    const auto& local = std::get<transport::Local>(test.qp.transport);
    for (int i = 0; i < 1000 && !local.is_held(); ++i) {
      clock.now += std::chrono::microseconds(1);
      deliver(test);
    }
    EXPECT_TRUE(local.is_held());
  }
  void ring(TestQp& test) {
    EXPECT_EQ(scheduler.ring(schedule::QpSlot(test.qp.slot), test.sequence),
              schedule::RingVerdict::kAccepted);
  }
  void post_receive(TestQp& test, Buffer& to) {
    test.receives.post(test.next_receive++, {to.all()});
  }
  void expect_completion(std::uint32_t index, Status status) {
    const auto done = cq.poll();
    ASSERT_TRUE(done) << "of " << index;
    EXPECT_EQ(done->index, index);
    EXPECT_EQ(done->status, status);
  }
  void expect_nothing() { EXPECT_FALSE(cq.poll()); }
  std::size_t raised(EventType type, const TestQp& test) const {
    return sink.count(type, test.qp.user_handle);
  }

  // --- what a test asks of a queue pair
  static std::uint32_t under_way(const TestQp& test) { return test.qp.sq.started; }
  static std::uint32_t held_by(const TestQp& test) { return test.qp.sq.commands; }
  static QpState state_of(const TestQp& test) { return test.qp.state; }
  static bool about_to_fail(const TestQp& test) { return test.qp.error.pending; }
  std::uint32_t pending(const TestQp& test) const {
    return scheduler.pending(schedule::QpSlot(test.qp.slot));
  }
  /// The engine's work for `f`.
  template <class F>
  std::uint64_t cost_of(F&& f) {
    const std::uint64_t before = cpu.done();
    f();
    return cpu.done() - before;
  }

  static constexpr memory::PdId kPd{5};
  static constexpr Qpn kPeer{0x111};

  CompletionEvents completions{sink, async_events, clock, cpu};
  MemoryAccess region_access{64, 16, queue_pairs.slots()};
  ReceiveQueues receives{clock, queue_pairs, cpu, async_events, completions, event_log};
  CongestionParameters congestion_parameters;
  PayloadReader payloads{pcbs, region_access, receives};
  Captures captures{clock, {.tenants = kTenants, .queue_pairs = queue_pairs.slots()}};
  Faults faults{clock};
  PacketIo packets{clock,    congestion_parameters, addresses, cpu, payloads, captures, faults,
                   event_log};
  QpHistory history{clock, queue_pairs.slots()};
  CongestionControl congestion{clock, congestion_parameters, packets, history};
  DatagramControl datagram_control{clock, addresses, cpu, packets, kTenants};
  TvlAssignment tvl_assignment{queue_pairs, commands,   cpu,      ingress,
                               tvls,        arbitrator, kTenants, kTenants};
  CommandExecution execution{cpu,           commands,     pcbs,        scheduler, dispatch,
                             region_access, async_events, completions, history};
  PeerRates peer_rates{clock, queue_pairs.slots()};
  SlowMemory slow_memory{clock, queue_pairs.slots()};
  TransportParts transport_parts{.command_sink = execution,
                                 .commands = commands,
                                 .pcbs = pcbs,
                                 .memory = region_access,
                                 .receives = receives,
                                 .congestion = congestion,
                                 .datagram_control = datagram_control,
                                 .cpu = cpu,
                                 .events = async_events,
                                 .queue_pairs = queue_pairs,
                                 .peer_rates = peer_rates,
                                 .slow_memory = slow_memory,
                                 .memory_waits = region_access.waits(),
                                 .captures = captures,
                                 .faults = faults,
                                 .history = history};
  QpStall stall{commands, pcbs, scheduler};
  Multicast multicast{addresses};
  QpLifecycle lifecycle{clock, transport_parts, queue_pairs, addresses, scheduler,   execution,
                        stall, tvl_assignment,  multicast,   event_log, pcbs.size(), 64};
  FarEnd far{packets, clock, kNear, kFar};
  TestCq cq{session, 64, 1, -1};
  std::vector<std::unique_ptr<TestSrq>> srqs;
  std::vector<std::unique_ptr<Buffer>> buffers;
  std::vector<std::unique_ptr<TestQp>> pairs;
  TvlId dedicated_tvl;
};

}  // namespace softhca::engine
