// SPDX-License-Identifier: Apache-2.0

// Packets for a port that gathers them, without an engine.
#include "daemon/engine/ports/outbox.hpp"

#include "daemon/roce/wire/packet_tag.hpp"
#include "tests/unit/engine/fixture/process.hpp"

namespace softhca::engine {
namespace {

using Bytes = std::vector<std::byte>;
using transport::SendResult;

/// Keeps trains until the flush, and then takes them apart.
class GatheringPort final : public port::Port, public port::TrainSender {
 public:
  struct Sent {
    Bytes head, body;
    std::size_t network;
    std::uint32_t segment, packets;
  };

  port::TrainLimits limits() const override { return limits_; }
  void transmit(const port::Train& train) override {
    held_.push_back({{Bytes(train.head.begin(), train.head.end()),
                      {},
                      train.network,
                      train.segment,
                      train.packets},
                     {train.pieces.begin(), train.pieces.end()}});
    EXPECT_LE(train.packets, limits_.packets);
    EXPECT_LE(train.bytes, limits_.bytes);
    EXPECT_LE(train.pieces.size(), limits_.pieces);
  }
  void flush() override {
    for (auto& [train, pieces] : held_) {
      for (const iovec& piece : pieces) {
        const auto* at = static_cast<const std::byte*>(piece.iov_base);
        train.body.insert(train.body.end(), at, at + piece.iov_len);
      }
      sent.push_back(train);
    }
    held_.clear();
  }

  std::size_t receive(std::span<port::Frame>) override { return 0; }
  void release(std::span<const port::Frame>) override {}
  port::Frame allocate() override { return {}; }
  void transmit(const port::Frame&) override {}
  MacAddress mac() const override { return {}; }
  std::uint32_t mtu() const override { return 4500; }
  bool link_up() const override { return true; }
  port::PortCounters counters() const override { return {}; }
  const port::KernelHeaders* kernel_headers() const override {
    return by_kernel ? &headers_ : nullptr;
  }

  bool by_kernel = false;
  port::TrainLimits limits_{.packets = 16, .bytes = 60000, .pieces = 256};
  std::vector<Sent> sent;

 private:
  std::vector<std::pair<Sent, std::vector<iovec>>> held_;
  port::KernelHeaders headers_;
};

class Outboxes : public ::testing::Test {
 protected:
  Outboxes() {
    qp.pd = memory::PdId(1);
    qp.access = memory::kRemoteRead;
    buffer.words.resize(4096);
    buffer.size = 8 * buffer.words.size();
    buffer.fill(5);
    buffer.enter(memory.keys(), TenantId(0), qp.pd, Process::kFull);
  }

  SendResult add(std::uint32_t bytes, bool held = true) {
    wire::Headers h;
    h.opcode = wire::raw(wire::Opcode::kRcWriteMiddle);
    h.destination = Qpn(99);
    h.psn = Psn(psn++);
    transport::PayloadSource payload;
    payload.from = transport::PayloadSource::From::kRemote;
    payload.rkey = Rkey(buffer.key);
    payload.addr = buffer.addr() + offset;
    payload.length = bytes;
    payload.is_held = held;
    Outbox::Parts parts;
    const SendResult result = outbox.add(path, h, payload, &qp, show ? &parts : nullptr);
    if (result == SendResult::kSent) {
      Bytes packet;
      for (const auto& part : parts.view()) packet.insert(packet.end(), part.begin(), part.end());
      if (show) shown.push_back(std::move(packet));
      const auto* from = reinterpret_cast<const std::byte*>(buffer.words.data()) + offset;
      wanted.emplace_back(from, from + bytes);
      offset += bytes;
    }
    return result;
  }
  /// How many packets each train had. All of them are as they were added, in their order.
  std::vector<std::uint32_t> trains() {
    outbox.flush();
    std::vector<std::uint32_t> out;
    std::size_t next = 0;
    for (const auto& train : port.sent) {
      out.push_back(train.packets);
      Bytes frame = train.head;
      frame.insert(frame.end(), train.body.begin(), train.body.end());
      wire::FrameWalk walk(frame, train.packets > 1 ? train.segment : 0);
      wire::ParsedFrame parsed;
      for (std::uint32_t i = 0; i < train.packets; ++i, ++next) {
        EXPECT_EQ(walk.next(parsed), wire::DropReason::kNone);
        EXPECT_EQ(wire::check_icrc(parsed), tag_key == nullptr) << next;
        if (tag_key != nullptr) {
          EXPECT_TRUE(wire::check_tag(parsed, *tag_key)) << next;
        }
        EXPECT_EQ(parsed.identification, port.by_kernel ? i : next);
        EXPECT_EQ(parsed.headers.psn, Psn(static_cast<std::uint32_t>(next)));
        EXPECT_TRUE(std::ranges::equal(parsed.payload, wanted.at(next))) << next;
      }
      EXPECT_FALSE(walk.has_more());
    }
    EXPECT_EQ(next, wanted.size());
    return out;
  }

  StepClock clock{Time(std::chrono::milliseconds(1000))};
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
  QueuePair qp;
  Buffer buffer;
  wire::FramePath near{.source = Gid::from_ipv4(0x0a000001),
                       .destination = Gid::from_ipv4(0x0a000002)};
  wire::FrameTemplate path{near};
  GatheringPort port;
  Outbox outbox{port, port, payloads};
  std::unique_ptr<wire::PacketKey> tag_key;  ///< not null: packets have its tag
  std::uint32_t psn = 0;
  std::uint32_t offset = 0;
  std::vector<Bytes> wanted;
  bool show = false;
  std::vector<Bytes> shown;
};

using Lengths = std::vector<std::uint32_t>;

TEST_F(Outboxes, PacketsOfOneSizeMakeATrain) {
  for (int i = 0; i < 5; ++i) ASSERT_EQ(add(1024), SendResult::kSent);
  EXPECT_EQ(trains(), (Lengths{5}));
}

TEST_F(Outboxes, PacketsOfATrainHaveATagEach) {
  auto made = wire::PacketKey::make(PeerSecret{});
  ASSERT_TRUE(made) << made.error().message;
  tag_key = std::move(*made);
  near.key = tag_key.get();
  path = wire::FrameTemplate(near);
  for (int i = 0; i < 5; ++i) ASSERT_EQ(add(1024), SendResult::kSent);
  ASSERT_EQ(add(17), SendResult::kSent);
  EXPECT_EQ(trains(), (Lengths{6}));
}

TEST_F(Outboxes, ShowsPacketsAsTheyAreWhenTheTrainIsCut) {
  show = true;
  for (const std::uint32_t bytes : {1024u, 1024u, 1021u, 0u, 300u}) {
    add(bytes);
    add(bytes, false);
  }
  trains();
  ASSERT_EQ(shown.size(), 10u);
  for (std::uint32_t i = 0; i < shown.size(); ++i) {
    wire::ParsedFrame parsed;
    ASSERT_EQ(wire::parse_frame(shown[i], parsed), wire::DropReason::kNone) << i;
    EXPECT_TRUE(wire::check_icrc(parsed)) << i;
    EXPECT_EQ(parsed.identification, i);
    EXPECT_EQ(parsed.headers.psn, Psn(i));
    EXPECT_TRUE(std::ranges::equal(parsed.payload, wanted[i])) << i;
  }
}

TEST_F(Outboxes, AShorterPacketEndsATrainAndALongerOneBeginsTheNext) {
  for (const std::uint32_t bytes : {1024u, 1024u, 17u, 17u, 1024u, 1024u}) add(bytes);
  EXPECT_EQ(trains(), (Lengths{3, 1, 2}));
}

TEST_F(Outboxes, TheKernelCountsFromZeroInEachTrain) {
  port.by_kernel = true;
  for (const std::uint32_t bytes : {1024u, 1024u, 17u, 17u, 1024u, 1024u}) add(bytes);
  EXPECT_EQ(trains(), (Lengths{3, 1, 2}));
}

TEST_F(Outboxes, PaddingIsPartOfTheSize) {
  for (const std::uint32_t bytes : {601u, 602u, 603u, 604u, 605u}) add(bytes);
  EXPECT_EQ(trains(), (Lengths{4, 1}));
}

TEST_F(Outboxes, OtherHeadersMakeAnotherTrain) {
  add(1024);
  near.traffic_class = 3;
  path = wire::FrameTemplate(near);
  add(1024);
  add(1024);
  EXPECT_EQ(trains(), (Lengths{1, 2}));
}

TEST_F(Outboxes, SmallPayloadIsCopiedAndMakesTrainsToo) {
  for (int i = 0; i < 20; ++i) add(8);
  EXPECT_EQ(trains(), (Lengths{16, 4})) << "as many as the port takes";
}

TEST_F(Outboxes, PayloadThatIsHeldStaysWhereItIs) {
  add(1024, true);
  add(1024, false);
  buffer.words[64] ^= 1;   // of the first
  buffer.words[192] ^= 1;  // of the second
  outbox.flush();
  ASSERT_EQ(port.sent.size(), 1u);
  Bytes frame = port.sent[0].head;
  frame.insert(frame.end(), port.sent[0].body.begin(), port.sent[0].body.end());
  wire::FrameWalk walk(frame, port.sent[0].segment);
  wire::ParsedFrame parsed;
  ASSERT_EQ(walk.next(parsed), wire::DropReason::kNone);
  EXPECT_FALSE(wire::check_icrc(parsed)) << "gathered when it left";
  ASSERT_EQ(walk.next(parsed), wire::DropReason::kNone);
  EXPECT_TRUE(wire::check_icrc(parsed)) << "copied when it was added";
}

TEST_F(Outboxes, WhatCannotBeReadLeavesNoTrace) {
  add(1024);
  const std::uint32_t key = std::exchange(buffer.key, 0x12345);
  EXPECT_EQ(add(1024, true), SendResult::kNoAccess);
  EXPECT_EQ(add(1024, false), SendResult::kNoAccess);
  buffer.key = key;
  psn = 1;
  add(1024);
  EXPECT_EQ(trains(), (Lengths{2}));
}

TEST_F(Outboxes, AFullPortTakesNothing) {
  port.limits_ = {};
  EXPECT_EQ(add(64), SendResult::kNoBuffer);
  psn = 0;
  port.limits_ = {.packets = 1, .bytes = 60000, .pieces = 256};
  add(64);
  add(64);
  EXPECT_EQ(trains(), (Lengths{1, 1})) << "a device that takes no trains";
}

TEST_F(Outboxes, MuchThatWaitsGoesBeforeTheStepEnds) {
  for (int i = 0; i < 31; ++i) {
    add(1024);
    add(512);  // ends the train
    offset = 0;
  }
  EXPECT_TRUE(port.sent.empty());
  for (int i = 0; i < 200; ++i) {
    add(1024);
    offset = 0;
  }
  EXPECT_FALSE(port.sent.empty());
  trains();
}

}  // namespace
}  // namespace softhca::engine
