// SPDX-License-Identifier: Apache-2.0

// Packets to and from the wire, without an engine: two ends of a link.
#include "daemon/engine/packets/packet_io.hpp"

#include "daemon/engine/packets/congestion_control.hpp"
#include "daemon/engine/records/costs.hpp"
#include "tests/unit/engine/fixture/far_end.hpp"
#include "tests/unit/engine/fixture/process.hpp"

namespace softhca::engine {
namespace {

using std::chrono::milliseconds;
using transport::SendResult;

const Gid kNear = Gid::from_ipv4(0x0a000001), kFar = Gid::from_ipv4(0x0a000002);

class Packets : public ::testing::Test {
 protected:
  Packets() {
    tenant.addresses = {{.gid = kNear, .port = PortId(0)}};
    addresses.add(tenant);
    cpu.order().join(tenant.qos_class, tenant.id);
    qp.tenant = &tenant;
    qp.session = &session;
    qp.qpn = Qpn(17);
    qp.pd = memory::PdId(1);
    qp.connection.route.path = {.source = kNear, .destination = kFar, .port = PortId(0)};
  }

  PortBinding& binding() { return far.binding(); }
  static wire::Headers send_only() {
    wire::Headers h;
    h.opcode = wire::raw(wire::Opcode::kRcSendOnly);
    h.pkey = 0xffff;
    h.destination = Qpn(99);
    return h;
  }
  SendResult send(const transport::PayloadSource& payload = {}) {
    const SendResult result = packets.send(qp.connection.route, send_only(), payload, &qp);
    packets.finish_batch();
    return result;
  }
  std::size_t receive() {
    taken.clear();
    return packets.receive([&](PortBinding&, const wire::ParsedFrame& frame) {
      taken.push_back(frame.headers.destination);
    });
  }
  void learn() {
    EXPECT_EQ(send(), SendResult::kNoBuffer);
    EXPECT_TRUE(far.receive().empty());
    receive();
    EXPECT_TRUE(taken.empty());
  }
  /// What the peer would send: the same as this end, for this end.
  std::vector<std::byte> packet(std::optional<std::uint16_t> vlan = std::nullopt) {
    return far.packet(send_only(), {}, {.vlan = vlan});
  }
  std::uint64_t dropped(wire::DropReason reason) {
    return binding().drops.parse[static_cast<std::size_t>(reason)].value();
  }

  StepClock clock{Time(milliseconds(1000))};
  CongestionParameters parameters;
  LocalAddresses addresses;
  RecordingSink sink;
  AsyncEvents async{sink, clock, cpu, 4};
  DurableState state{{.queue_pairs = 64, .memory_regions = 64, .memory_windows = 16}};
  QpTable queue_pairs{state};
  CpuScheduler cpu{clock, 64, 1, 1};
  CompletionQueues completions{sink, async, clock, cpu};
  EventLog log{clock, 1};
  ReceiveQueues receives{clock, queue_pairs, cpu, async, completions, log};
  collect::PcbPool pcbs{{.pcbs = 8, .dedicated = 1, .max_groups = 1}};
  MemoryAccess memory{state};
  PayloadReader payloads{pcbs, memory, receives};
  PacketIo packets{
      clock, parameters, addresses, cpu, payloads, log, {.tenants = 1, .queue_pairs = 64}};
  QpHistory history{clock, queue_pairs.slots()};
  CongestionControl congestion{clock, parameters, packets, history};
  Tenant tenant;
  RingMemory session_memory{sizeof(abi::SessionHeader)};
  Session session{SessionId(1), tenant, shm::SessionView(session_memory.base(), 0), VcbId(0)};
  QueuePair qp;
  FarEnd far{packets, clock, kNear, kFar};
  std::vector<Qpn> taken;
};

TEST_F(Packets, GoOnceTheNeighbourIsKnown) {
  learn();
  const std::uint64_t before = cpu.done();
  EXPECT_EQ(send(), SendResult::kSent);
  EXPECT_EQ(cpu.done() - before, packet_cost(0) + kTransmitCost);
  const auto sent = far.receive();
  ASSERT_EQ(sent.size(), 1u);
  wire::ParsedFrame parsed;
  ASSERT_EQ(wire::parse_frame(sent[0], parsed), wire::DropReason::kNone);
  EXPECT_TRUE(wire::check_icrc(parsed));
  EXPECT_EQ(parsed.headers.destination, Qpn(99));
  EXPECT_EQ(parsed.source, kNear);
  EXPECT_EQ(parsed.destination, kFar);
  EXPECT_EQ(tenant.counters.wire.tx_packets.value(), 1u);
}

TEST_F(Packets, AreMarkedAsTheirLevelOrTenantIs) {
  Level level;
  const auto sent_as = [&](std::optional<std::uint8_t> traffic_class) {
    if (traffic_class) qp.connection.route.path.traffic_class = *traffic_class;
    qp.connection.route.invalidate();
    EXPECT_EQ(send(), SendResult::kSent);
    const auto frames = far.receive();
    wire::ParsedFrame parsed;
    EXPECT_EQ(frames.size(), 1u);
    EXPECT_EQ(wire::parse_frame(frames.at(0), parsed), wire::DropReason::kNone);
    return parsed;
  };
  learn();
  EXPECT_EQ(sent_as(0x20).traffic_class, 0x20) << "as the program asks";
  tenant.marking = {.dscp = 26, .priority = 3};
  EXPECT_EQ(sent_as(0x20).traffic_class, 26 << 2);
  EXPECT_FALSE(sent_as({}).ethernet.vlan) << "the port has none";
  binding().vlan = 7;
  EXPECT_EQ(sent_as({}).ethernet.vlan, 3 << 13 | 7);
  session.level = &level;
  EXPECT_EQ(sent_as({}).traffic_class, 26 << 2) << "the level says nothing";
  level.marking = {.dscp = 46, .priority = 5};
  EXPECT_EQ(sent_as({}).traffic_class, 46 << 2);
  EXPECT_EQ(sent_as({}).ethernet.vlan, 5 << 13 | 7);
  level.marking = {.dscp = 0, .priority = std::nullopt};
  EXPECT_EQ(sent_as({}).traffic_class, 0) << "as none of the tenant's";
  EXPECT_EQ(sent_as({}).ethernet.vlan, 3 << 13 | 7);
}

/// Keys change at once, though headers of routes are kept for a while.
TEST_F(Packets, EndWithATagOfTheKeyInForce) {
  PeerConfig config;
  config.name = "far";
  config.addresses = {{kFar, 32}};
  const auto secret = [](unsigned seed) {
    PeerSecret s;
    for (std::size_t i = 0; i < s.size(); ++i) s[i] = std::byte(seed + 11 * i);
    return s;
  };
  const auto one = std::move(*wire::PacketKey::make(secret(1)));
  const auto two = std::move(*wire::PacketKey::make(secret(2)));
  const auto put_into_force = [&](std::vector<PeerSecret> secrets) {
    config.secrets = std::move(secrets);
    auto table = PeerTable::make({&config, config.secrets.empty() ? 0u : 1u});
    ASSERT_TRUE(table);
    packets.exchange_peers(*table);
  };
  enum class Sealed { kPlain, kOne, kTwo };
  const auto sent = [&] {
    EXPECT_EQ(send(), SendResult::kSent);
    const auto frames = far.receive();
    wire::ParsedFrame parsed;
    EXPECT_EQ(frames.size(), 1u);
    EXPECT_EQ(wire::parse_frame(frames.at(0), parsed), wire::DropReason::kNone);
    if (wire::check_tag(parsed, *one)) return Sealed::kOne;
    EXPECT_EQ(wire::check_tag(parsed, *two), !wire::check_icrc(parsed));
    return wire::check_icrc(parsed) ? Sealed::kPlain : Sealed::kTwo;
  };
  const auto comes = [&](wire::PacketKey* key) {
    far.put(far.packet(send_only(), {}, {.key = key}));
    receive();
    return taken.size() == 1;
  };
  learn();
  EXPECT_EQ(sent(), Sealed::kPlain);
  EXPECT_TRUE(comes(nullptr));
  EXPECT_FALSE(comes(one.get()));
  EXPECT_EQ(dropped(wire::DropReason::kBadIcrc), 1u);
  put_into_force({secret(1)});
  EXPECT_EQ(sent(), Sealed::kOne);
  EXPECT_EQ(sent(), Sealed::kOne);
  EXPECT_TRUE(comes(one.get()));
  EXPECT_FALSE(comes(nullptr));
  EXPECT_EQ(dropped(wire::DropReason::kUnauthenticated), 1u);
  EXPECT_FALSE(comes(two.get()));
  EXPECT_EQ(dropped(wire::DropReason::kWrongKey), 1u);
  clock.now += std::chrono::microseconds(1);
  put_into_force({secret(2), secret(1)});
  EXPECT_EQ(sent(), Sealed::kTwo);
  EXPECT_TRUE(comes(one.get()));
  EXPECT_TRUE(comes(two.get()));
  clock.now += std::chrono::microseconds(1);
  put_into_force({});
  EXPECT_EQ(sent(), Sealed::kPlain);
  EXPECT_TRUE(comes(nullptr));
}

TEST_F(Packets, CountAsLostWhenANeighbourDoesNotAnswer) {
  EXPECT_EQ(send(), SendResult::kNoBuffer);
  clock.now += milliseconds(101);
  EXPECT_EQ(send(), SendResult::kSent) << "so that transports try again and give up";
  EXPECT_EQ(tenant.counters.wire.unresolved.value(), 1u);
  EXPECT_EQ(binding().drops.unresolved.value(), 1u);
  clock.now += std::chrono::seconds(2);
  EXPECT_EQ(send(), SendResult::kNoBuffer) << "after a pause the retry budget is full again";
}

TEST_F(Packets, WaitForNobodyOnASharedQueuePair) {
  qp.clients = reinterpret_cast<SharedQp*>(1);  // only looked at
  EXPECT_EQ(send(), SendResult::kSent);
  EXPECT_EQ(tenant.counters.wire.unresolved.value(), 1u);
}

TEST_F(Packets, OfAPathWithoutAPortAreLost) {
  qp.connection.route.path.port.reset();
  EXPECT_EQ(send(), SendResult::kSent);
  EXPECT_EQ(tenant.counters.wire.tx_packets.value(), 0u);
}

TEST_F(Packets, CarryWhatTheirSourceNames) {
  learn();
  Buffer buffer;
  buffer.words.resize(8);
  buffer.size = 64;
  buffer.fill(5);
  buffer.enter(memory.keys(), TenantId(0), qp.pd, Process::kFull);
  qp.access = memory::kRemoteRead;
  transport::PayloadSource payload;
  payload.from = transport::PayloadSource::From::kRemote;
  payload.rkey = Rkey(buffer.key);
  payload.addr = buffer.addr();
  payload.length = 64;
  EXPECT_EQ(send(payload), SendResult::kSent);
  const auto sent = far.receive();
  ASSERT_EQ(sent.size(), 1u);
  wire::ParsedFrame parsed;
  ASSERT_EQ(wire::parse_frame(sent[0], parsed), wire::DropReason::kNone);
  ASSERT_EQ(parsed.payload.size(), 64u);
  EXPECT_EQ(std::memcmp(parsed.payload.data(), buffer.data(), 64), 0);
  memory.keys().erase(buffer.key);
  EXPECT_EQ(send(payload), SendResult::kNoAccess);
  EXPECT_TRUE(far.receive().empty());
}

TEST_F(Packets, BeyondWhatThePortCarriesAreLost) {
  learn();
  transport::PayloadSource payload;
  payload.length = 1 << 16;
  EXPECT_EQ(send(payload), SendResult::kSent);
  EXPECT_TRUE(far.receive().empty());
}

TEST_F(Packets, SoundOnesAreTakenAndOthersCounted) {
  auto good = packet();
  far.put(good);
  EXPECT_EQ(receive(), 1u);
  EXPECT_EQ(taken, std::vector{Qpn(99)});

  auto bad = good;
  bad.back() ^= std::byte{1};
  far.put(bad);
  EXPECT_EQ(receive(), 1u);
  EXPECT_TRUE(taken.empty());
  EXPECT_EQ(dropped(wire::DropReason::kBadIcrc), 1u);

  far.put(std::span(good).first(20));
  receive();
  EXPECT_TRUE(taken.empty());
  std::uint64_t drops = 0;
  for (const auto& counter : binding().drops.parse) drops += counter.value();
  EXPECT_EQ(drops, 2u);
}

/// Passes on to another port, as if the kernel wrote the headers.
struct ByKernel final : port::Port {
  explicit ByKernel(std::unique_ptr<port::Port> to) : port(std::move(to)) {}
  std::size_t receive(std::span<port::Frame> out) override { return port->receive(out); }
  void release(std::span<const port::Frame> frames) override { port->release(frames); }
  port::Frame allocate() override { return port->allocate(); }
  void transmit(const port::Frame& frame) override { port->transmit(frame); }
  void flush() override { port->flush(); }
  const port::KernelHeaders* kernel_headers() const override { return &headers; }
  MacAddress mac() const override { return port->mac(); }
  std::uint32_t mtu() const override { return port->mtu(); }
  bool link_up() const override { return port->link_up(); }
  port::PortCounters counters() const override { return port->counters(); }
  std::unique_ptr<port::Port> port;
  port::KernelHeaders headers{.source_ports = {41, 42, 43, 44, 45, 46, 47, 48}};
};

TEST_F(Packets, SayWhatTheKernelWritesIntoTheirHeaders) {
  learn();
  binding().port = std::make_unique<ByKernel>(std::move(binding().port));
  qp.connection.route.udp_source_port = 0xc003;
  qp.connection.route.invalidate();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(send(), SendResult::kSent);
    const auto sent = far.receive();
    ASSERT_EQ(sent.size(), 1u);
    wire::ParsedFrame parsed;
    ASSERT_EQ(wire::parse_frame(sent[0], parsed), wire::DropReason::kNone);
    EXPECT_TRUE(wire::check_icrc(parsed));
    EXPECT_EQ(parsed.identification, 0);
    EXPECT_EQ(parsed.udp_source_port, 44);
    EXPECT_TRUE(parsed.dont_fragment);
  }
}

TEST_F(Packets, OfAnIdentificationThatIsNotSeenAreTaken) {
  const auto hidden = [&](std::uint16_t identification) {
    const wire::FrameTemplate path({.source_mac = {},
                                    .destination_mac = binding().port->mac(),
                                    .vlan = {},
                                    .source = kFar,
                                    .destination = kNear});
    std::vector<std::byte> bytes(path.frame_length(send_only().opcode, 0));
    wire::FrameBuilder(bytes, path, send_only(), 0, identification).finish();
    path.write(bytes.data(), bytes.size() - path.length(), 0);
    return bytes;
  };
  far.put(hidden(5));
  receive();
  EXPECT_TRUE(taken.empty()) << "on a port that sees it";
  binding().hidden.emplace();
  far.put(hidden(5));
  receive();
  EXPECT_EQ(taken.size(), 1u);
  EXPECT_EQ(binding().drops.weakly_checked.value(), 0u);
  far.put(hidden(5555));
  receive();
  EXPECT_EQ(taken.size(), 1u);
  EXPECT_EQ(binding().drops.weakly_checked.value(), 1u);
  auto bad = hidden(5556);
  bad[bad.size() - 6] ^= std::byte{1};
  far.put(bad);
  receive();
  EXPECT_TRUE(taken.empty());
  EXPECT_EQ(dropped(wire::DropReason::kBadIcrc), 2u);
}

TEST_F(Packets, OfAPortThatIsNotServedAreDropped) {
  EXPECT_TRUE(binding().link_up());
  binding().service.store(PortService::kSetDown);
  EXPECT_FALSE(binding().link_up());
  far.put(packet());
  far.put(packet());
  EXPECT_EQ(receive(), 2u);
  EXPECT_TRUE(taken.empty());
  EXPECT_EQ(binding().drops.frame[static_cast<std::size_t>(FrameDrop::kPortDown)].value(), 2u);
}

TEST_F(Packets, ThePortIsNamedWhileAFrameIsLookedAt) {
  Pulse pulse{};
  clock.pulse = &pulse;
  far.put(packet());
  far.put(packet());
  std::vector<Subject> named;
  packets.receive([&](PortBinding&, const wire::ParsedFrame&) {
    named.push_back(Subject::of_word(pulse.subject.load()));
    clock.work_on(subject_of(qp));
  });
  const Subject port(Subject::Kind::kPort, 0);
  EXPECT_EQ(named, (std::vector{port, port}));
}

TEST_F(Packets, OfAnotherVlanAreNotForThePort) {
  far.put(packet(5));
  receive();
  EXPECT_TRUE(taken.empty());
  EXPECT_EQ(binding().drops.frame[static_cast<std::size_t>(FrameDrop::kForeignVlan)].value(), 1u);
  far.put(packet(std::uint16_t{3 << 13}));  // priority only
  receive();
  EXPECT_EQ(taken.size(), 1u);
  binding().vlan = 5;
  far.put(packet(5));
  receive();
  EXPECT_EQ(taken.size(), 1u);
}

TEST_F(Packets, ReachTellsWhetherDatagramsCanGo) {
  AddressPath path = qp.connection.route.path;
  EXPECT_EQ(packets.reach_of(path, false), Reach::kUnknown);
  EXPECT_EQ(binding().neighbours->size(), 0u) << "it only looked";
  EXPECT_EQ(packets.reach_of(path), Reach::kUnknown);
  packets.finish_batch();
  far.receive();
  receive();
  EXPECT_EQ(packets.reach_of(path), Reach::kReady);
  path.destination = Gid::from_ipv4(0x0a010001);
  EXPECT_EQ(packets.reach_of(path), Reach::kNone) << "no network of ours, and no gateway";
  path.destination = kNear;
  EXPECT_EQ(packets.reach_of(path), Reach::kReady) << "inside this daemon";
}

/// The adapter sets the ECN bits (RFC 3168), but only where the sender reacts to congestion.
TEST_F(Packets, AreEcnCapableWhereTheSenderReacts) {
  learn();
  const auto codepoint = [&] {
    EXPECT_EQ(send(), SendResult::kSent);
    const auto sent = far.receive();
    wire::ParsedFrame parsed;
    EXPECT_EQ(sent.size(), 1u);
    EXPECT_EQ(wire::parse_frame(sent[0], parsed), wire::DropReason::kNone);
    return parsed.traffic_class & wire::kEcnMask;
  };
  EXPECT_EQ(codepoint(), 0);
  parameters.mode = CongestionMode::kOn;
  qp.connection.route.cc_enabled = true;
  qp.connection.route.invalidate();
  EXPECT_EQ(codepoint(), 2);
}

TEST_F(Packets, MarksAreToldToTheSenderNotTooOften) {
  learn();
  parameters.mode = CongestionMode::kOn;
  parameters.fixed.min_time_between_cnps = 50;
  qp.state = QpState::kRts;
  const auto bytes = packet();
  wire::ParsedFrame marked;
  ASSERT_EQ(wire::parse_frame(bytes, marked), wire::DropReason::kNone);
  for (int i = 0; i < 3; ++i) congestion.notify_sender(binding(), qp, marked);
  packets.finish_batch();
  EXPECT_EQ(tenant.counters.congestion.cnps_sent.value(), 1u);
  const auto sent = far.receive();
  ASSERT_EQ(sent.size(), 1u);
  wire::ParsedFrame parsed;
  ASSERT_EQ(wire::parse_frame(sent[0], parsed), wire::DropReason::kNone);
  EXPECT_EQ(parsed.headers.opcode, wire::raw(wire::Opcode::kCnp));
  clock.now += std::chrono::microseconds(50);
  congestion.notify_sender(binding(), qp, marked);
  EXPECT_EQ(tenant.counters.congestion.cnps_sent.value(), 2u);
  EXPECT_EQ(tenant.counters.congestion.marked_packets.value(), 4u);
}

/// Any host can send datagrams, from any number of forged addresses.
TEST_F(Packets, MarkedDatagramsOfStrangersMakeNoNeighbours) {
  parameters.mode = CongestionMode::kOn;
  qp.type = QpType::kUd;
  qp.state = QpState::kRts;
  const auto bytes = packet();
  wire::ParsedFrame marked;
  ASSERT_EQ(wire::parse_frame(bytes, marked), wire::DropReason::kNone);
  for (std::uint32_t i = 0; i < 250; ++i) {
    marked.source = Gid::from_ipv4(0x0a000003 + i);
    congestion.notify_sender(binding(), qp, marked);
  }
  packets.finish_batch();
  EXPECT_EQ(binding().neighbours->size(), 0u);
  EXPECT_TRUE(far.receive().empty()) << "no host is asked";
  EXPECT_EQ(tenant.counters.congestion.marked_packets.value(), 250u);
}

TEST_F(Packets, AMarkFromAGroupIsToldToNobody) {
  learn();
  parameters.mode = CongestionMode::kOn;
  qp.state = QpState::kRts;
  const auto bytes = packet();
  wire::ParsedFrame marked;
  ASSERT_EQ(wire::parse_frame(bytes, marked), wire::DropReason::kNone);
  marked.source = Gid::from_ipv4(0xe0000001);
  congestion.notify_sender(binding(), qp, marked);
  packets.finish_batch();
  EXPECT_TRUE(far.receive().empty());
  EXPECT_EQ(tenant.counters.congestion.cnps_sent.value(), 0u);
  EXPECT_EQ(tenant.counters.congestion.marked_packets.value(), 1u);
}

TEST_F(Packets, WhatIsSlowedDownWaitsAndIsCounted) {
  learn();
  parameters.mode = CongestionMode::kOn;
  qp.state = QpState::kRts;
  congestion.receive_notification(qp);
  EXPECT_EQ(tenant.counters.congestion.cnps_ignored.value(), 1u) << "it does not react";
  qp.connection.route.cc_enabled = true;
  congestion.receive_notification(qp);
  EXPECT_EQ(tenant.counters.congestion.cnps_handled.value(), 1u);
  EXPECT_TRUE(qp.connection.flow.limited());
  EXPECT_EQ(tenant.counters.congestion.paced_queue_pairs.value(), 1u);
  EXPECT_GT(tenant.counters.congestion.paced_rate.value(), 0u);
  congestion.release(qp);
  EXPECT_FALSE(qp.connection.flow.limited());
  EXPECT_EQ(tenant.counters.congestion.paced_queue_pairs.value(), 0u);
  EXPECT_EQ(tenant.counters.congestion.paced_rate.value(), 0u);
}

}  // namespace
}  // namespace softhca::engine
