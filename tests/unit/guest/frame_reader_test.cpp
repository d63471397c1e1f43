// SPDX-License-Identifier: Apache-2.0

#include "guest/channel/frame_reader.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "guest/channel/outbox.hpp"

namespace softhca::guest {
namespace {

using Result = FrameReader::Result;
using Bytes = std::vector<std::byte>;

Bytes frame_of(std::size_t payload, std::uint32_t stream) {
  Outbox outbox;
  const Bytes bytes(payload, std::byte{0x5a});
  outbox.add(FrameKind::kData, stream, {bytes});
  const auto front = outbox.front();
  return {front.begin(), front.end()};
}

void append(Bytes& to, std::span<const std::byte> bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

/// Reads all bytes, so many at a time. Returns the streams of the frames; 0 for a loss.
std::vector<std::uint32_t> read_all(FrameReader& reader, std::span<const std::byte> bytes,
                                    std::size_t step) {
  std::vector<std::uint32_t> found;
  while (!bytes.empty()) {
    const auto room = reader.room();
    const std::size_t count = std::min({step, room.size(), bytes.size()});
    std::memcpy(room.data(), bytes.data(), count);
    reader.filled(count);
    bytes = bytes.subspan(count);
    Frame frame;
    for (Result result; (result = reader.next(frame)) != Result::kMore;)
      found.push_back(result == Result::kFrame ? frame.stream : 0);
  }
  return found;
}

TEST(FrameReader, GarbageBeforeTheMagic_Dropped) {
  for (const std::size_t step : {std::size_t{1}, std::size_t{7}, std::size_t{100'000}}) {
    Bytes bytes(100'000, std::byte{0xf3});
    append(bytes, std::as_bytes(std::span(kMagic)));
    append(bytes, frame_of(100, 3));
    append(bytes, frame_of(kMaxPayload, 4));
    append(bytes, frame_of(0, 5));
    FrameReader reader;
    EXPECT_EQ(read_all(reader, bytes, step), (std::vector<std::uint32_t>{3, 4, 5}));
  }
}

TEST(FrameReader, FrameThatIsCutAnywhere_NextMagicIsFound) {
  const Bytes whole = frame_of(300, 3);
  for (std::size_t cut = 0; cut < whole.size(); ++cut) {
    Bytes bytes;
    append(bytes, std::as_bytes(std::span(kMagic)));
    append(bytes, std::span(whole).first(cut));
    append(bytes, Bytes(kMaxFrame));
    append(bytes, std::as_bytes(std::span(kMagic)));
    append(bytes, frame_of(1, 9));
    FrameReader reader;
    const auto found = read_all(reader, bytes, 4096);
    ASSERT_FALSE(found.empty());
    EXPECT_EQ(found.back(), 9U) << "cut at " << cut;
  }
}

TEST(FrameReader, BadHeader_Lost) {
  for (const FrameHeader& header :
       {FrameHeader{kMaxPayload + 1, 4, 0, 1}, FrameHeader{0, kFrameKinds, 0, 1},
        FrameHeader{0, 4, 1, 1}, FrameHeader{4, 0, 0, 0}}) {
    Bytes bytes;
    append(bytes, std::as_bytes(std::span(kMagic)));
    append(bytes, bytes_of(header));
    append(bytes, frame_of(4, 6));
    FrameReader reader;
    EXPECT_EQ(read_all(reader, bytes, 4096), (std::vector<std::uint32_t>{0}));
  }
}

}  // namespace
}  // namespace softhca::guest
