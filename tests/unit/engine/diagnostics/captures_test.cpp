// SPDX-License-Identifier: Apache-2.0

// Captures: what they are told of packets on the wire and of those that there would have been.
#include "daemon/engine/diagnostics/captures.hpp"

#include <map>
#include <set>
#include <string>
#include <vector>

#include "cli/ctl/capture_reader.hpp"
#include "daemon/base/sealed_memory.hpp"
#include "tests/unit/engine/fixture/pair.hpp"

// A namespace of its own: it is compiled with other tests as one.
namespace softhca::engine::captured {
namespace {

using abi::CaptureDirection;
using wire::Opcode;

constexpr std::uint32_t kQkey = 0x11111111;
constexpr std::size_t kRing = 4 << 20;

struct Packet {
  std::string interface_name;
  CaptureDirection direction{};
  std::string remark;
  std::uint64_t time = 0;
  std::uint32_t length = 0;
  std::vector<std::byte> bytes;

  wire::ParsedFrame parse() const {
    wire::ParsedFrame parsed;
    EXPECT_EQ(wire::parse_frame(bytes, parsed), wire::DropReason::kNone);
    EXPECT_TRUE(wire::check_icrc(parsed));
    return parsed;
  }
  Opcode opcode() const { return static_cast<Opcode>(parse().headers.opcode); }
  Psn psn() const { return parse().headers.psn; }
};

/// A capture of one adapter, and its reader.
class Recorder {
 public:
  explicit Recorder(Adapter& adapter, CaptureOptions options = {.snaplen = 1 << 20},
                    std::size_t ring = kRing)
      : engine_(adapter.engine),
        memory_(std::move(*SealedMemory::create("test", CaptureRing::memory_for(ring)))),
        reader_(memory_.fd(), ring),
        capture_({memory_.base(), CaptureRing::memory_for(ring)}, std::move(options),
                 captures().sizes()) {
    captures().add(capture_);
  }
  ~Recorder() { captures().remove(capture_); }

  Captures& captures() { return engine_.packets().captures(); }
  cli::CaptureReader& reader() { return reader_; }
  /// All that has come since.
  std::vector<Packet> take() {
    static const std::vector<std::string> remarks = capture_remarks();
    std::vector<Packet> out;
    for (cli::CaptureReader::Record record; reader_.next(record);) {
      if (record.head.kind == abi::CaptureKind::kInterface) {
        EXPECT_TRUE(names_.emplace(record.head.interface_id, record.text()).second);
        continue;
      }
      out.push_back({names_.at(record.head.interface_id),
                     record.head.direction,
                     remarks.at(record.head.remark),
                     record.head.time,
                     record.head.length,
                     {record.bytes.begin(), record.bytes.end()}});
    }
    return out;
  }

 private:
  Engine& engine_;
  SealedMemory memory_;
  cli::CaptureReader reader_;
  Capture capture_;
  std::map<std::uint16_t, std::string> names_;
};

std::vector<Opcode> opcodes(const std::vector<Packet>& packets) {
  std::vector<Opcode> out;
  for (const Packet& packet : packets) out.push_back(packet.opcode());
  return out;
}

/// Without acknowledgements, of which there may be more on a wire.
std::vector<Opcode> messages(const std::vector<Packet>& packets) {
  std::vector<Opcode> out = opcodes(packets);
  std::erase(out, Opcode::kRcAck);
  return out;
}

/// What a packet says, but for numbers that differ from adapter to adapter.
std::string text_of(const Packet& packet) {
  const wire::ParsedFrame parsed = packet.parse();
  const wire::Headers& h = parsed.headers;
  std::uint32_t sum = 0;
  for (const std::byte byte : parsed.payload) sum = sum * 31 + static_cast<std::uint32_t>(byte);
  std::string out = std::to_string(parsed.source.bytes[15] == 2);
  for (const std::uint64_t value :
       {std::uint64_t{h.opcode}, std::uint64_t{h.psn.value()}, std::uint64_t{h.solicited},
        std::uint64_t{h.pad}, std::uint64_t{h.dma_length}, h.compare, h.swap_add, h.original,
        std::uint64_t{h.imm}, std::uint64_t{h.syndrome}, std::uint64_t{h.msn},
        std::uint64_t{parsed.payload.size()}, std::uint64_t{sum}})
    out += " " + std::to_string(value);
  return out;
}

/// Does one of each operation, one after the other. Returns all but acknowledgements, and of these
/// the last of each message with MSN and syndrome.
std::vector<std::string> do_all(Way way) {
  Pair pair(way);
  pair.connect_pair();
  Process &a = *pair.a, &b = *pair.b;
  Buffer& from = a.make_buffer(5000);
  Buffer& to = b.make_buffer(5000);
  from.fill(7);
  Recorder recorder(*pair.adapters[0]);
  std::vector<std::string> out;
  const auto run = [&](const Work& work, std::size_t receive = 0) {
    if (receive != 0) b.post_receive(*pair.qb, {to.part(0, receive)});
    a.post(*pair.qa, work);
    EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
    if (receive != 0) {
      EXPECT_EQ(pair.wait_status(*pair.cb), Status::kSuccess);
    }
    std::string acknowledged;
    for (const Packet& packet : recorder.take()) {
      EXPECT_EQ(packet.remark, "");
      if (packet.opcode() != Opcode::kRcAck) {
        out.push_back(text_of(packet));
        continue;
      }
      const wire::Headers h = packet.parse().headers;
      acknowledged = "ack " + std::to_string(h.psn.value()) + " msn " + std::to_string(h.msn) +
                     " syndrome " + std::to_string(h.syndrome);
    }
    if (!acknowledged.empty()) out.push_back(acknowledged);
  };
  run({.sge = {from.part(0, 3000)}}, 3000);
  run({.sge = {from.part(3, 1)}}, 10);
  run({}, 10);
  run({.opcode = abi::Opcode::kSendWithImm, .sge = {from.part(0, 1024)}, .imm = 99}, 2000);
  run({.flags = abi::kCommandSignaled | abi::kCommandSolicited, .sge = {from.part(0, 8)}}, 8);
  run({.opcode = abi::Opcode::kRdmaWrite,
       .sge = {from.part(0, 4097)},
       .remote_addr = to.addr(),
       .rkey = to.key});
  run({.opcode = abi::Opcode::kRdmaWriteWithImm,
       .sge = {from.part(1, 2048)},
       .imm = 5,
       .remote_addr = to.addr(),
       .rkey = to.key},
      10);
  run({.opcode = abi::Opcode::kRdmaWrite});
  run({.opcode = abi::Opcode::kRdmaRead,
       .sge = {from.part(0, 5000)},
       .remote_addr = to.addr(),
       .rkey = to.key});
  run({.opcode = abi::Opcode::kRdmaRead});
  run({.opcode = abi::Opcode::kCompareSwap,
       .sge = {from.part(0, 8)},
       .remote_addr = to.addr(),
       .rkey = to.key,
       .compare_add = 1,
       .swap = 2});
  run({.opcode = abi::Opcode::kFetchAdd,
       .sge = {from.part(0, 8)},
       .remote_addr = to.addr(),
       .rkey = to.key,
       .compare_add = 3});
  run({.sge = {from.part(0, 2000)}}, 2000);
  return out;
}

TEST(Captures, LocalDeliveryIsToldAsWhatTheWireWouldHave) {
  const std::vector<std::string> on_wire = do_all(Way::kWire);
  EXPECT_GT(on_wire.size(), 30u);
  EXPECT_EQ(do_all(Way::kLocal), on_wire);
}

class Captured : public BothWays {
 protected:
  Captured() : pair(GetParam()) { pair.connect_pair(); }

  std::string of(const char* tenant) const {
    return local() ? std::string(tenant) + " local" : tenant;
  }
  /// A send of so many bytes that arrives.
  void send(std::size_t bytes) {
    b.post_receive(*pair.qb, {to.all()});
    a.post(*pair.qa, {.sge = {from.part(0, bytes)}});
    EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
    EXPECT_EQ(pair.wait_status(*pair.cb), Status::kSuccess);
  }

  Pair pair;
  Process& a = *pair.a;
  Process& b = *pair.b;
  Buffer& from = a.make_buffer(1 << 20);
  Buffer& to = b.make_buffer(1 << 20);
};

TEST_P(Captured, NamesInterfacesByTenantAndTellsDirections) {
  Recorder recorder(*pair.adapters[0], {.snaplen = 1 << 20, .time_of_day = std::chrono::hours(1)});
  send(10);
  const auto packets = recorder.take();
  ASSERT_EQ(opcodes(packets), (std::vector{Opcode::kRcSendOnly, Opcode::kRcAck}));
  EXPECT_EQ(packets[0].interface_name, of("a"));
  EXPECT_EQ(packets[0].direction, CaptureDirection::kOutbound);
  // Inside the daemon a packet is told once, by the tenant that sends it.
  EXPECT_EQ(packets[1].interface_name, of(local() ? "b" : "a"));
  EXPECT_EQ(packets[1].direction,
            local() ? CaptureDirection::kOutbound : CaptureDirection::kInbound);
  const auto now =
      static_cast<std::uint64_t>((pair.now.time_since_epoch() + std::chrono::hours(1)).count());
  EXPECT_LE(packets[0].time, now);
  EXPECT_GT(packets[0].time + 1'000'000'000, now);
}

TEST_P(Captured, KeepsToOneTenant) {
  Adapter& there = *pair.adapters.back();
  Recorder recorder(there, {.tenant = "b", .snaplen = 1 << 20});
  Recorder nobody(there, {.tenant = "c", .snaplen = 1 << 20});
  send(10);
  const auto packets = recorder.take();
  ASSERT_EQ(opcodes(packets), (std::vector{Opcode::kRcSendOnly, Opcode::kRcAck}));
  for (const Packet& packet : packets) EXPECT_EQ(packet.interface_name, of("b"));
  EXPECT_EQ(packets[0].direction, CaptureDirection::kInbound);
  EXPECT_EQ(packets[1].direction, CaptureDirection::kOutbound);
  EXPECT_TRUE(nobody.take().empty());
}

TEST_P(Captured, KeepsToOnePortAndToTheBeginningOfPackets) {
  Recorder one(*pair.adapters[0], {.port = PortId(0), .snaplen = 64});
  Recorder other(*pair.adapters[0], {.port = PortId(1), .snaplen = 64});
  send(1000);
  const auto packets = one.take();
  EXPECT_TRUE(other.take().empty());
  ASSERT_EQ(packets.size(), local() ? 0u : 2u);
  for (const Packet& packet : packets) EXPECT_LE(packet.bytes.size(), 64u);
  if (!local()) {
    EXPECT_GT(packets[0].length, 1000u);
  }
}

TEST_P(Captured, EndsAndBeginsAgain) {
  Captures& captures = pair.adapters[0]->engine.packets().captures();
  EXPECT_FALSE(captures.on());
  send(10);
  {
    Recorder recorder(*pair.adapters[0]);
    EXPECT_TRUE(captures.on());
    send(10);
    EXPECT_EQ(recorder.take().size(), 2u);
  }
  EXPECT_FALSE(captures.on());
  send(10);
  Recorder recorder(*pair.adapters[0]);
  send(3000);
  EXPECT_EQ(messages(recorder.take()),
            (std::vector{Opcode::kRcSendFirst, Opcode::kRcSendMiddle, Opcode::kRcSendLast}));
}

TEST_P(Captured, BeginsInTheMiddleOfAMessage) {
  b.post_receive(*pair.qb, {to.all()});
  a.post(*pair.qa, {.sge = {from.all()}});
  const auto got = pair.ca->poll();
  EXPECT_FALSE(got);
  pair.steps(2);
  Recorder recorder(*pair.adapters[0]);
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
  EXPECT_EQ(pair.wait_status(*pair.cb), Status::kSuccess);
  const auto packets = recorder.take();
  ASSERT_FALSE(packets.empty());
  EXPECT_EQ(packets.back().opcode(), Opcode::kRcAck);
  send(10);
  EXPECT_EQ(recorder.take().front().psn(), packets.back().psn() + 1);
}

TEST_P(Captured, AFullRingHurtsNobody) {
  Recorder all(*pair.adapters[0]);
  Recorder recorder(*pair.adapters[0], {.snaplen = 1 << 20}, 4096);
  for (int i = 0; i < 10; ++i) send(3000);
  const auto packets = recorder.take();
  EXPECT_GE(packets.size(), 2u);
  EXPECT_LE(packets.size(), 12u);
  std::uint64_t dropped = 0;
  for (std::uint16_t id = 0; id < abi::kCaptureInterfaces; ++id)
    dropped += recorder.reader().dropped(id);
  EXPECT_EQ(dropped + packets.size(), all.take().size());
  send(10);
  EXPECT_EQ(recorder.take().size(), 2u);
}

TEST_P(Captured, ARefusedWriteAndItsNak) {
  Recorder recorder(*pair.adapters.back());
  a.post(*pair.qa, {.opcode = abi::Opcode::kRdmaWrite,
                    .sge = {from.part(0, 3000)},
                    .remote_addr = to.addr(),
                    .rkey = to.key + 1});
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kRemoteAccessError);
  const auto packets = recorder.take();
  ASSERT_GE(packets.size(), 2u);
  EXPECT_EQ(packets.front().opcode(), Opcode::kRcWriteFirst);
  EXPECT_EQ(packets.back().opcode(), Opcode::kRcAck);
  EXPECT_EQ(packets.back().parse().headers.syndrome, wire::kSyndromeRemoteAccess);
  EXPECT_EQ(packets.back().psn(), packets.front().psn());
  if (local()) {
    EXPECT_EQ(packets.front().remark, "refused: remote access error");
    EXPECT_EQ(packets.size(), 2u);
  }
  // The rest of the message came when the queue pair had failed.
  if (!local()) {
    EXPECT_EQ(packets[1].remark, "dropped: bad_state");
  }
}

TEST_P(Captured, AReceiverThatIsNotReady) {
  Recorder recorder(*pair.adapters[0]);
  a.post(*pair.qa, {.sge = {from.part(0, 10)}});
  pair.run_for(std::chrono::microseconds(50));
  const auto before = recorder.take();
  ASSERT_GE(before.size(), 2u);
  EXPECT_EQ(before[0].opcode(), Opcode::kRcSendOnly);
  EXPECT_EQ(before[0].remark, local() ? "dropped: receiver not ready" : "");
  EXPECT_EQ(before[1].opcode(), Opcode::kRcAck);
  EXPECT_EQ(before[1].parse().headers.syndrome, wire::kSyndromeRnr | 1);
  b.post_receive(*pair.qb, {to.all()});
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
  const auto after = recorder.take();
  ASSERT_GE(after.size(), 2u);
  EXPECT_EQ(after[after.size() - 2].opcode(), Opcode::kRcSendOnly);
  EXPECT_EQ(after[after.size() - 2].remark, "");
  EXPECT_EQ(after[after.size() - 2].psn(), before[0].psn()) << "the same packet again";
}

TEST_P(Captured, AQueuePairThatIsNotThere) {
  Recorder recorder(*pair.adapters.back());
  b.destroy(*pair.qb);
  a.post(*pair.qa, {.sge = {from.part(0, 10)}});
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kRetryExceededError);
  const auto packets = recorder.take();
  EXPECT_GE(packets.size(), 4u) << "one and three retries";
  if (local()) {
    EXPECT_EQ(packets.size(), 4u);
  }
  for (const Packet& packet : packets) {
    EXPECT_EQ(packet.opcode(), Opcode::kRcSendOnly);
    EXPECT_EQ(packet.psn(), packets[0].psn());
    EXPECT_EQ(packet.remark, local() ? "unanswered: no queue pair is connected to this one"
                                     : "dropped: unknown_queue_pair");
    EXPECT_EQ(packet.interface_name, local() ? "a local" : "b");
  }
}

TEST_P(Captured, AQueuePairThatBeginsAnewBeginsWithItsFirstNumber) {
  Recorder recorder(*pair.adapters[0]);
  send(10);
  const Psn first = recorder.take().front().psn();
  send(10);
  EXPECT_EQ(recorder.take().front().psn(), first + 1);
  a.reset(*pair.qa);
  b.reset(*pair.qb);
  connect(a, *pair.qa, b, *pair.qb);
  send(10);
  EXPECT_EQ(recorder.take().front().psn(), first);
}

TEST_P(Captured, DatagramsAndWhyTheyAreDropped) {
  TestQp& qa = a.make_qp(*pair.ca, *pair.ca, {.type = QpType::kUd});
  TestQp& qb = b.make_qp(*pair.cb, *pair.cb, {.type = QpType::kUd});
  bring_up_datagram(a, qa, kQkey);
  bring_up_datagram(b, qb, kQkey);
  const std::uint32_t ah = a.make_ah(address(2));
  Recorder recorder(*pair.adapters.back());
  const auto datagram = [&](std::uint32_t qkey) {
    a.post(qa, {.sge = {from.part(0, 100)},
                .remote_qpn = qb.qp.qpn.value,
                .remote_qkey = qkey,
                .address_handle = ah});
    EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
    pair.run_for(std::chrono::microseconds(50));
    const auto packets = recorder.take();
    EXPECT_EQ(opcodes(packets), std::vector{Opcode::kUdSendOnly});
    return packets.at(0);
  };
  EXPECT_EQ(datagram(kQkey).remark, "dropped: out_of_buffer");
  b.post_receive(qb, {to.all()});
  EXPECT_EQ(datagram(kQkey + 1).remark, "dropped: bad_qkey");
  const Packet taken = datagram(kQkey);
  EXPECT_EQ(taken.remark, "");
  EXPECT_EQ(taken.parse().headers.source, qa.qp.qpn);
  EXPECT_EQ(taken.parse().headers.qkey, kQkey);
  EXPECT_EQ(taken.parse().payload.size(), 100u);
  EXPECT_EQ(pair.wait_status(*pair.cb), Status::kSuccess);
}

INSTANTIATE_TEST_SUITE_P(Ways, Captured, ::testing::Values(Way::kLocal, Way::kWire), way_name);

class OnTheWire : public ::testing::Test {
 protected:
  OnTheWire() {
    pair.connect_pair();
    recorder.emplace(*pair.adapters[1]);
    sent = packet();
  }
  /// As if `a` had sent these bytes.
  void put(std::span<const std::byte> bytes) {
    port::Frame frame = pair.link->allocate();
    std::copy(bytes.begin(), bytes.end(), frame.data);
    frame.length = static_cast<std::uint32_t>(bytes.size());
    pair.link->transmit(frame);
    pair.link->flush();
    pair.run_for(std::chrono::microseconds(10));
  }
  /// A send of no bytes from `a`.
  std::vector<std::byte> make(Qpn to, Psn psn, const Gid& destination = address(2)) {
    const wire::ParsedFrame like = sent.parse();
    wire::Headers h = like.headers;
    h.destination = to;
    h.psn = psn;
    const wire::FrameTemplate path({.source_mac = like.ethernet.source,
                                    .destination_mac = like.ethernet.destination,
                                    .source = address(1),
                                    .destination = destination});
    std::vector<std::byte> bytes(path.frame_length(h.opcode, 0));
    wire::FrameBuilder(bytes, path, h, 0, 0).finish();
    return bytes;
  }
  /// A packet that has arrived.
  Packet packet() {
    Buffer& from = pair.a->make_buffer(100);
    Buffer& to = pair.b->make_buffer(100);
    pair.b->post_receive(*pair.qb, {to.all()});
    pair.a->post(*pair.qa, {.sge = {from.all()}});
    EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
    return recorder->take().at(0);
  }

  Pair pair{Way::kWire};
  std::optional<Recorder> recorder;
  Packet sent;
};

TEST_F(OnTheWire, DuplicatesAndWhatIsAhead) {
  put(sent.bytes);
  auto packets = recorder->take();
  ASSERT_FALSE(packets.empty());
  EXPECT_EQ(packets[0].remark, "duplicate_request: not executed again");
  EXPECT_EQ(packets[0].bytes, sent.bytes);
  put(make(pair.qb->qp.qpn, sent.psn() + 3));
  packets = recorder->take();
  ASSERT_GE(packets.size(), 2u);
  EXPECT_EQ(packets[0].remark, "out_of_sequence: dropped, or kept for its turn");
  EXPECT_EQ(packets[1].parse().headers.syndrome, wire::kSyndromeSequence);
}

TEST_F(OnTheWire, DamagedPackets) {
  auto damaged = sent.bytes;
  damaged[70] ^= std::byte{1};
  put(damaged);
  auto packets = recorder->take();
  ASSERT_EQ(packets.size(), 1u);
  EXPECT_EQ(packets[0].remark, "dropped: bad_icrc");
  EXPECT_EQ(packets[0].interface_name, "b");
  EXPECT_EQ(packets[0].bytes, damaged);
  damaged = sent.bytes;
  damaged[14 + 20 + 8] = std::byte{0x7f};
  put(damaged);
  packets = recorder->take();
  ASSERT_EQ(packets.size(), 1u);
  EXPECT_EQ(packets[0].remark, "dropped: unknown_opcode");
  EXPECT_EQ(packets[0].interface_name, "b");
  EXPECT_EQ(packets[0].bytes, damaged);
}

TEST_F(OnTheWire, WhatIsNobodysIsOfThePort) {
  Recorder of_tenant(*pair.adapters[1], {.tenant = "b", .snaplen = 1 << 20});
  put(make(Qpn(0xabc), sent.psn(), address(77)));
  const auto packets = recorder->take();
  ASSERT_EQ(packets.size(), 1u);
  EXPECT_EQ(packets[0].remark, "dropped: unknown_queue_pair");
  EXPECT_EQ(packets[0].interface_name, "port " + pair.adapters[1]->engine.ports()[0]->name);
  EXPECT_TRUE(of_tenant.take().empty());
}

TEST_F(OnTheWire, ATenantThatGoesAndAnotherOfItsNumber) {
  Captures& captures = recorder->captures();
  Tenant other;
  other.id = pair.b->tenant.id;
  other.name = "another";
  captures.forget(pair.b->tenant);
  const Captures::Part part = std::as_bytes(std::span("frame"));
  captures.sent(*pair.adapters[1]->engine.ports()[0], &other, {&part, 1});
  captures.forget(other);
  recorder->take();
  captures.sent(*pair.adapters[1]->engine.ports()[0], &other, {&part, 1});
  EXPECT_EQ(recorder->take().at(0).interface_name, "another");
}

TEST_F(OnTheWire, MoreInterfacesThanThereAre) {
  Captures& captures = recorder->captures();
  Tenant other;
  other.id = TenantId(2);
  const Captures::Part part = std::as_bytes(std::span("frame"));
  // The tenant that was there before has the first one.
  for (int i = 1; i < 600; ++i) {
    other.name = "t" + std::to_string(i);
    captures.sent(*pair.adapters[1]->engine.ports()[0], &other, {&part, 1});
    captures.forget(other);
    if (i < 511) {
      EXPECT_EQ(recorder->take().at(0).interface_name, other.name);
    }
  }
  const auto packets = recorder->take();
  EXPECT_EQ(packets.size(), 89u);
  for (const Packet& packet : packets) EXPECT_EQ(packet.interface_name, "others");
}

TEST(CaptureRemarks, EachHasATextOfItsOwn) {
  const auto remarks = capture_remarks();
  EXPECT_EQ(std::set<std::string>(remarks.begin(), remarks.end()).size(), remarks.size());
  EXPECT_EQ(remarks.at(static_cast<std::size_t>(remark_of(wire::DropReason::kBadIcrc))),
            "dropped: bad_icrc");
  EXPECT_EQ(remarks.at(static_cast<std::size_t>(remark_of(FrameDrop::kNoGroupMember))),
            "dropped: no_group_member");
  EXPECT_EQ(remarks.at(static_cast<std::size_t>(remark_of(transport::Count::kOutOfSequence))),
            "out_of_sequence: dropped, or kept for its turn");
  EXPECT_EQ(remark_of(transport::Count::kAcksSent), CaptureRemark::kNone);
  EXPECT_EQ(remarks.at(static_cast<std::size_t>(unresolved_remark())), "dropped: unresolved");
}

}  // namespace
}  // namespace softhca::engine::captured
