#include "daemon/port/fault.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <map>

#include "daemon/port/frame_kind.hpp"
#include "daemon/port/memory_port.hpp"
#include "tests/unit/port/frames.hpp"

namespace softhca::port {
namespace {

using Bytes = std::vector<std::byte>;

std::uint32_t number_in(const Bytes& frame) {
  return load_be<std::uint32_t>(&frame[kTestRoceOffset]);
}

/// A sender, a link of memory, and a receiver behind a fault port on either side.
struct BadLink {
  explicit BadLink(const FaultOptions& options, std::uint32_t buffers = 1024) {
    auto ends = MemoryPort::make_pair({.buffers = buffers});
    const FaultOptions sending{.seed = options.seed,
                               .receive = {},
                               .transmit = options.transmit,
                               .roce_only = options.roce_only,
                               .max_held = options.max_held};
    sender = std::make_unique<FaultPort>(std::move(ends.first), sending);
    FaultOptions receiving = options;
    receiving.transmit = {};
    receiver = std::make_unique<FaultPort>(std::move(ends.second), receiving);
  }

  /// Sends frames numbered from 0 in bursts of 8, then lets time pass until all that is held back
  /// has come out.
  std::vector<Bytes> run(std::uint32_t frames) {
    std::vector<Bytes> all;
    for (std::uint32_t i = 0; i < frames; ++i) {
      EXPECT_TRUE(send_bytes(*sender, udp_frame(i)));
      if (i % 8 == 7) step(all);
    }
    for (int i = 0; i < 100; ++i) step(all);
    return all;
  }
  void step(std::vector<Bytes>& all) {
    sender->flush();
    for (auto& frame : receive_all(*receiver)) all.push_back(std::move(frame));
  }

  std::unique_ptr<FaultPort> sender, receiver;
};

std::vector<std::uint32_t> numbers(const std::vector<Bytes>& frames) {
  std::vector<std::uint32_t> n;
  for (const auto& f : frames) n.push_back(number_in(f));
  return n;
}

TEST(FaultPort, NoFaultsChangeNothing) {
  BadLink link({});
  const auto got = link.run(500);
  ASSERT_EQ(got.size(), 500u);
  for (std::uint32_t i = 0; i < 500; ++i) EXPECT_EQ(got[i], udp_frame(i));
}

class EachSide : public testing::TestWithParam<bool> {
 protected:
  FaultOptions with(const FaultRates& rates, std::uint64_t seed = 1) {
    FaultOptions o{.seed = seed};
    (GetParam() ? o.receive : o.transmit) = rates;
    return o;
  }
};

TEST_P(EachSide, LosesTheShareAskedFor) {
  BadLink link(with({.loss = 0.1}));
  const auto got = link.run(10000);
  EXPECT_GT(got.size(), 8850u);
  EXPECT_LT(got.size(), 9150u);
}

TEST_P(EachSide, LosesEverythingAtOne) {
  BadLink link(with({.loss = 1}), 64);
  EXPECT_TRUE(link.run(1000).empty()) << "and gives the buffers back";
}

TEST_P(EachSide, Duplicates) {
  BadLink link(with({.duplication = 0.2}));
  std::map<std::uint32_t, int> times;
  for (auto n : numbers(link.run(5000))) ++times[n];
  const auto twice =
      std::count_if(times.begin(), times.end(), [](auto& t) { return t.second == 2; });
  EXPECT_EQ(times.size(), 5000u);
  EXPECT_TRUE(std::all_of(times.begin(), times.end(), [](auto& t) { return t.second <= 2; }));
  EXPECT_GT(twice, 800);
  EXPECT_LT(twice, 1200);
}

TEST_P(EachSide, FlipsOneBitTheIcrcCovers) {
  BadLink link(with({.corruption = 1}));
  const auto got = link.run(1000);
  ASSERT_EQ(got.size(), 1000u);
  for (std::uint32_t i = 0; i < got.size(); ++i) {
    const Bytes sent = udp_frame(i);
    int bits = 0;
    for (std::size_t at = 0; at < sent.size(); ++at) {
      const int flipped = std::popcount(std::to_integer<unsigned>(sent[at] ^ got[i][at]));
      bits += flipped;
      if (flipped != 0) {
        EXPECT_GE(at, kTestRoceOffset);
        EXPECT_NE(at, kTestRoceOffset + 4);
      }
    }
    EXPECT_EQ(bits, 1);
  }
}

TEST_P(EachSide, ReordersWithoutLosing) {
  BadLink link(with({.reordering = 0.1}));
  auto got = numbers(link.run(5000));
  int overtaken = 0;  // by the frame that came right before
  for (std::size_t i = 1; i < got.size(); ++i) overtaken += got[i] < got[i - 1];
  EXPECT_GT(overtaken, 250);
  std::sort(got.begin(), got.end());
  ASSERT_EQ(got.size(), 5000u);
  for (std::uint32_t i = 0; i < 5000; ++i) EXPECT_EQ(got[i], i);
}

TEST_P(EachSide, ALateFrameComesOutThoughNoneFollow) {
  BadLink link(with({.reordering = 1, .delay_steps = 5}));
  EXPECT_EQ(link.run(1).size(), 1u);
}

TEST_P(EachSide, DelaysByCalls) {
  BadLink link(with({.delay = 1, .delay_steps = 10}));
  ASSERT_TRUE(send_bytes(*link.sender, udp_frame(1)));
  std::vector<Bytes> got;
  int steps = 0;
  for (; got.empty() && steps < 50; ++steps) link.step(got);
  EXPECT_GT(steps, 1);
  EXPECT_LE(steps, 12);
}

TEST_P(EachSide, SameSeedSameFateOtherSeedOtherFate) {
  const FaultRates rates{
      .loss = 0.05, .duplication = 0.05, .corruption = 0.05, .reordering = 0.05, .delay = 0.05};
  BadLink one(with(rates, 7)), same(with(rates, 7)), other(with(rates, 8));
  const auto first = one.run(2000);
  EXPECT_EQ(first, same.run(2000));
  EXPECT_NE(first, other.run(2000));
}

TEST_P(EachSide, LeavesOtherTrafficAlone) {
  BadLink link(with({.loss = 1}));
  const Bytes dns = udp_frame(1, 64, 53);
  const Bytes arp(60, std::byte{1});
  ASSERT_TRUE(send_bytes(*link.sender, dns));
  ASSERT_TRUE(send_bytes(*link.sender, arp));
  ASSERT_TRUE(send_bytes(*link.sender, udp_frame(2)));
  std::vector<Bytes> got;
  link.step(got);
  EXPECT_THAT(got, testing::ElementsAre(dns, arp));
}

TEST_P(EachSide, HitsOtherTrafficWhenAsked) {
  FaultOptions options = with({.loss = 1});
  options.roce_only = false;
  BadLink link(options);
  ASSERT_TRUE(send_bytes(*link.sender, Bytes(60, std::byte{1})));
  std::vector<Bytes> got;
  link.step(got);
  EXPECT_TRUE(got.empty());
}

TEST_P(EachSide, HoldsNoMoreThanItMay) {
  FaultOptions options = with({.delay = 1, .delay_steps = 1000});
  options.max_held = 3;
  BadLink link(options);
  std::vector<Bytes> got;
  for (std::uint32_t i = 0; i < 10; ++i) send_bytes(*link.sender, udp_frame(i));
  link.step(got);
  EXPECT_EQ(got.size(), 7u);
}

INSTANTIATE_TEST_SUITE_P(FaultPort, EachSide, testing::Bool(),
                         [](const auto& side) { return side.param ? "Receive" : "Transmit"; });

TEST(FaultPort, GivesEveryBufferBack) {
  const FaultRates bad{
      .loss = 0.2, .duplication = 0.3, .corruption = 0.1, .reordering = 0.2, .delay = 0.1};
  BadLink link({.receive = bad, .transmit = bad}, 128);
  link.run(20000);
  std::vector<Frame> all;
  while (Frame frame = link.sender->allocate()) all.push_back(frame);
  EXPECT_EQ(all.size(), 128u);
}

TEST(FaultPort, GivesHeldFramesBackAtItsEnd) {
  auto ends = MemoryPort::make_pair({.buffers = 4});
  {
    FaultPort port(std::move(ends.second), {.receive = {.delay = 1, .delay_steps = 1000}});
    for (std::uint32_t i = 0; i < 4; ++i) send_bytes(*ends.first, udp_frame(i));
    ends.first->flush();
    EXPECT_TRUE(receive_all(port).empty());
    EXPECT_FALSE(ends.first->allocate());
  }
  EXPECT_TRUE(ends.first->allocate());
}

TEST(FaultPort, DoesNotLetAnEngineSleepWhileFramesMayBeHeld) {
  struct Waitable : Port {
    std::size_t receive(std::span<Frame>) override { return 0; }
    void release(std::span<const Frame>) override {}
    Frame allocate() override { return {}; }
    void transmit(const Frame&) override {}
    void flush() override {}
    MacAddress mac() const override { return {}; }
    std::uint32_t mtu() const override { return 0; }
    bool link_up() const override { return true; }
    PortCounters counters() const override { return {}; }
    int wait_fd() const override { return 42; }
  };
  EXPECT_EQ(FaultPort(std::make_unique<Waitable>(), {.receive = {.loss = 1}}).wait_fd(), 42);
  EXPECT_EQ(FaultPort(std::make_unique<Waitable>(), {.receive = {.delay = 0.1}}).wait_fd(), -1);
}

/// An IPv4 header behind an Ethernet header, with its checksum.
Bytes ipv4_frame(std::uint8_t traffic_class, bool tagged) {
  Bytes frame(tagged ? 38 : 34);
  if (tagged) store_be(&frame[12], std::uint16_t{0x8100});
  const std::size_t ip = frame.size() - 20;
  store_be(&frame[ip - 2], std::uint16_t{0x0800});
  frame[ip] = std::byte{0x45};
  frame[ip + 1] = std::byte{traffic_class};
  frame[ip + 9] = std::byte{17};
  store_be(&frame[ip + 12], 0x0a0000ffu);
  return frame;
}
std::uint16_t sum_of(const Bytes& frame) {
  std::uint32_t sum = 0;
  for (std::size_t at = frame.size() - 20; at < frame.size(); at += 2)
    sum += load_be<std::uint16_t>(&frame[at]);
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(sum);
}

TEST(MarkCongested, MarksWhatIsCapableAndKeepsTheChecksumTrue) {
  for (const bool tagged : {false, true})
    for (unsigned tc = 0; tc < 256; ++tc) {
      Bytes frame = ipv4_frame(static_cast<std::uint8_t>(tc), tagged);
      store_be(&frame[frame.size() - 10], static_cast<std::uint16_t>(~sum_of(frame)));
      ASSERT_EQ(sum_of(frame), 0xffff);
      const bool capable = (tc & 3) == 1 || (tc & 3) == 2;
      EXPECT_EQ(mark_congested(frame), capable);
      EXPECT_EQ(std::to_integer<unsigned>(frame[frame.size() - 19]), capable ? tc | 3 : tc);
      EXPECT_EQ(sum_of(frame), 0xffff) << tc;
    }
}

TEST(MarkCongested, Ipv6AndOthers) {
  Bytes frame(54);
  store_be(&frame[12], std::uint16_t{0x86dd});
  store_be(&frame[14], std::uint32_t{6} << 28 | 0x0a2 << 20 | 0xbeef);
  EXPECT_FALSE(mark_congested(std::span(frame).first(53))) << "too short for its header";
  EXPECT_TRUE(mark_congested(frame));
  EXPECT_EQ(load_be<std::uint32_t>(&frame[14]), std::uint32_t{6} << 28 | 0x0a3 << 20 | 0xbeef);
  EXPECT_FALSE(mark_congested(frame)) << "it is marked";
  Bytes arp(60);
  store_be(&arp[12], std::uint16_t{0x0806});
  EXPECT_FALSE(mark_congested(arp));
  EXPECT_FALSE(mark_congested(std::span<std::byte>()));
}

TEST(RoceOffset, FindsTheTransportHeaders) {
  Bytes frame = udp_frame(1);
  EXPECT_EQ(roce_offset(frame), kTestRoceOffset);
  Bytes tagged = frame;
  const Bytes tag = {std::byte{0x81}, std::byte{0}, std::byte{0}, std::byte{5}};
  tagged.insert(tagged.begin() + 12, tag.begin(), tag.end());
  EXPECT_EQ(roce_offset(tagged), kTestRoceOffset + 4);
  Bytes v6(14 + 40 + 8 + 12);
  v6[12] = std::byte{0x86};
  v6[13] = std::byte{0xdd};
  v6[14 + 6] = std::byte{17};
  store_be<std::uint16_t>(&v6[14 + 40 + 2], 4791);
  EXPECT_EQ(roce_offset(v6), 14u + 40 + 8);
}

TEST(RoceOffset, SurvivesEveryTruncationAndAnyHeaderLength) {
  const Bytes frame = udp_frame(1);
  for (std::size_t n = 0; n < frame.size(); ++n)
    EXPECT_LE(roce_offset(std::span(frame).first(n)), n);
  Bytes options = frame;
  options[14] = std::byte{0x4f};
  for (std::size_t n = 0; n < options.size(); ++n)
    EXPECT_LE(roce_offset(std::span(options).first(n)), n);
}

}  // namespace
}  // namespace softhca::port
