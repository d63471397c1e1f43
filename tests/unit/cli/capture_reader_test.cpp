// SPDX-License-Identifier: Apache-2.0

// The ring of a capture: the engine's end and softhcactl's.
#include "cli/ctl/capture_reader.hpp"

#include <gtest/gtest.h>

#include <array>
#include <thread>
#include <vector>

#include "cli/admin_client.hpp"
#include "daemon/base/sealed_memory.hpp"
#include "daemon/engine/diagnostics/capture_ring.hpp"

namespace softhca::cli {
namespace {

using engine::CaptureRing;

constexpr std::size_t kRing = 64 << 10;

class Ring : public ::testing::Test {
 protected:
  static SealedMemory make_memory() {
    return std::move(*SealedMemory::create("test", CaptureRing::memory_for(kRing)));
  }
  static std::vector<std::byte> pattern(std::size_t bytes, unsigned seed) {
    std::vector<std::byte> out(bytes);
    for (std::size_t i = 0; i < bytes; ++i) out[i] = static_cast<std::byte>(seed * 31 + i);
    return out;
  }
  static bool add(CaptureRing& ring, std::span<const std::byte> frame, std::uint64_t time = 0,
                  std::uint32_t snaplen = 1 << 20) {
    abi::CaptureRecord record{};
    record.interface_id = 3;
    record.captured = snaplen;
    record.time = time;
    record.direction = abi::CaptureDirection::kOutbound;
    record.remark = 7;
    // In three parts, of which one is empty.
    const std::size_t cut = frame.size() / 3;
    const std::array<CaptureRing::Part, 3> parts{frame.first(cut), CaptureRing::Part(),
                                                 frame.subspan(cut)};
    return ring.add_packet(record, parts);
  }
  bool add(std::span<const std::byte> frame, std::uint64_t time = 0,
           std::uint32_t snaplen = 1 << 20) {
    return add(ring, frame, time, snaplen);
  }
  static bool equal(std::span<const std::byte> a, std::span<const std::byte> b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }
  abi::CaptureHeader& header() { return *reinterpret_cast<abi::CaptureHeader*>(memory.base()); }

  SealedMemory memory = make_memory();
  CaptureRing ring{{memory.base(), CaptureRing::memory_for(kRing)}};
  CaptureReader reader{memory.fd(), kRing};
  CaptureReader::Record record;
};

TEST_F(Ring, BringsWhatWasPutIn) {
  EXPECT_FALSE(reader.next(record));
  ASSERT_TRUE(ring.add_interface(3, "web local"));
  const auto frame = pattern(101, 1);
  ASSERT_TRUE(add(frame, 12345));
  ASSERT_TRUE(reader.next(record));
  EXPECT_EQ(record.head.kind, abi::CaptureKind::kInterface);
  EXPECT_EQ(record.head.interface_id, 3);
  EXPECT_EQ(record.text(), "web local");
  ASSERT_TRUE(reader.next(record));
  EXPECT_EQ(record.head.kind, abi::CaptureKind::kPacket);
  EXPECT_EQ(record.head.time, 12345u);
  EXPECT_EQ(record.head.direction, abi::CaptureDirection::kOutbound);
  EXPECT_EQ(record.head.remark, 7);
  EXPECT_EQ(record.head.length, 101u);
  EXPECT_TRUE(equal(record.bytes, frame));
  EXPECT_FALSE(reader.next(record));
}

TEST_F(Ring, KeepsTheBeginningOfWhatIsTooLong) {
  const auto frame = pattern(101, 1);
  ASSERT_TRUE(add(frame, 0, 40));
  ASSERT_TRUE(reader.next(record));
  EXPECT_EQ(record.head.length, 101u);
  EXPECT_TRUE(equal(record.bytes, std::span(frame).first(40)));
}

TEST_F(Ring, WrapsAtEverySize) {
  std::size_t bytes = 0;
  for (unsigned i = 0; i < 3000; ++i) {
    const auto frame = pattern(i * 7 % 4200, i);
    ASSERT_TRUE(add(frame, i)) << i;
    ASSERT_TRUE(reader.next(record)) << i;
    ASSERT_EQ(record.head.time, i);
    ASSERT_TRUE(equal(record.bytes, frame)) << i;
    bytes += frame.size();
  }
  EXPECT_GT(bytes, 50 * kRing);
}

TEST_F(Ring, RefusesWhatFindsNoRoomAndGoesOnWhenThereIsSome) {
  const auto frame = pattern(1000, 1);
  unsigned put = 0;
  while (add(frame, put)) ++put;
  EXPECT_EQ(put, kRing / 1032);
  ring.count_dropped(3);
  ring.count_dropped(3);
  EXPECT_EQ(reader.dropped(3), 2u);
  EXPECT_EQ(reader.dropped(2), 0u);
  for (unsigned i = 0; i < put; ++i) {
    ASSERT_TRUE(reader.next(record));
    ASSERT_EQ(record.head.time, i);
  }
  EXPECT_FALSE(reader.next(record));
  EXPECT_TRUE(add(frame, 77));
  ASSERT_TRUE(reader.next(record));
  EXPECT_EQ(record.head.time, 77u);
}

TEST_F(Ring, IsNotHurtByAReaderThatLies) {
  const auto frame = pattern(1000, 1);
  const auto fill = [&] {
    std::size_t added = 0;
    while (added <= kRing / frame.size() && add(frame)) ++added;
    return added;
  };
  EXPECT_LT(fill(), kRing / frame.size());
  for (const std::uint64_t claim :
       {std::uint64_t{1} << 40, ~std::uint64_t{0}, std::uint64_t{kRing} * 3}) {
    header().read.store(claim);
    EXPECT_FALSE(add(frame)) << claim;
  }
  // What it may have read it is believed to have read, and no more comes than there is room for.
  header().read.store(header().written.load());
  EXPECT_GT(fill(), 0u);
  EXPECT_FALSE(add(frame));
  header().read.store(0);
  EXPECT_FALSE(add(frame)) << "that it has not read what it had";
}

TEST_F(Ring, AReaderTellsWhatIsNoRecord) {
  ASSERT_TRUE(add(pattern(100, 1)));
  for (const std::uint32_t bytes : {0u, 8u, 24u, 1u << 30}) {
    CaptureReader other(memory.fd(), kRing);
    std::memcpy(memory.base() + abi::kCaptureRing, &bytes, sizeof bytes);
    EXPECT_THROW(other.next(record), CommandError) << bytes;
  }
}

TEST_F(Ring, AReaderTellsAMemoryThatIsTooShort) {
  EXPECT_THROW(CaptureReader(memory.fd(), 2 * kRing), CommandError);
  EXPECT_THROW(CaptureReader(memory.fd(), kRing - 8), CommandError);
}

TEST_F(Ring, TwoThreads) {
  constexpr std::uint64_t kPackets = 20000;
  std::uint64_t refused = 0;
  std::thread writer([&] {
    for (std::uint64_t i = 0; i < kPackets; ++i)
      if (!add(pattern(i % 3000, static_cast<unsigned>(i)), i)) {
        ring.count_dropped(3);
        ++refused;
        std::this_thread::yield();
      }
    while (!add({}, kPackets)) std::this_thread::yield();
  });
  std::uint64_t got = 0, before = 0;
  for (;;) {
    if (!reader.next(record)) {
      std::this_thread::yield();
      continue;
    }
    const std::uint64_t i = record.head.time;
    if (i == kPackets) break;
    if (got++ != 0) {
      EXPECT_GT(i, before);
    }
    before = i;
    EXPECT_TRUE(equal(record.bytes, pattern(i % 3000, static_cast<unsigned>(i)))) << i;
  }
  writer.join();
  EXPECT_EQ(got + refused, kPackets);
  EXPECT_EQ(reader.dropped(3), refused);
}

}  // namespace
}  // namespace softhca::cli
