// SPDX-License-Identifier: Apache-2.0

// What has two ways and must come to the same: the unused segments as a mask known beforehand or
// set by the piece with the length (C1, C2), and the explicit or virtual kick (C3). For all subsets
// of the pieces of small commands, and for full-sized ones in random orders.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "daemon/qos/collect/collect_controller.hpp"

#include "tests/unit/qos/collect/pieces.hpp"

namespace softhca::collect {
namespace {

constexpr unsigned kHeader = abi::kCommandHeaderBytes / abi::kSegmentBytes;
constexpr unsigned kSmall = 16;  ///< segments of the commands for which all subsets are tried

unsigned used_segments(std::uint32_t payload_bytes) {
  return kHeader + (payload_bytes + abi::kSegmentBytes - 1) / abi::kSegmentBytes;
}

/// The scoreboard after the segments of `arrived`, which may be one at a time and in any order.
struct Variants {
  explicit Variants(std::uint32_t payload)
      : payload_bytes(payload), by_mask(abi::unused_segments(payload)) {}

  void add(unsigned segment) {
    by_mask.add(range(segment, 1));
    by_length.add(range(segment, 1));
    if (segment == 0) by_length.add(abi::unused_segments(payload_bytes));
  }
  bool agree() const { return by_mask.complete() == by_length.complete(); }

  std::uint32_t payload_bytes;
  Scoreboard by_mask;
  Scoreboard by_length;
};

// All orders of a command's pieces are the paths through the subsets: that every way into a subset
// gives the same boards covers them all.
TEST(MaskVariants, AgreeOnEverySubsetOfASmallCommandAndEveryWayToIt) {
  for (std::uint32_t payload = 0; payload <= (kSmall - kHeader) * abi::kSegmentBytes; ++payload) {
    const unsigned used = used_segments(payload);
    std::vector<Variants> boards(std::size_t{1} << used, Variants(payload));
    for (std::size_t subset = 1; subset < boards.size(); ++subset) {
      const auto lowest = static_cast<unsigned>(std::countr_zero(subset));
      Variants& here = boards[subset] = boards[subset & (subset - 1)];
      here.add(lowest);
      for (unsigned last = 0; last < used; ++last) {
        if ((subset >> last & 1) == 0) continue;
        Variants reached = boards[subset & ~(std::size_t{1} << last)];
        reached.add(last);
        ASSERT_EQ(reached.by_mask.bits(), here.by_mask.bits());
        ASSERT_EQ(reached.by_length.bits(), here.by_length.bits());
      }
      ASSERT_TRUE(here.agree()) << "payload " << payload << " segments " << subset;
      ASSERT_EQ(here.by_mask.complete(), subset + 1 == boards.size());
    }
  }
}

TEST(MaskVariants, AgreeForEveryLengthInRandomOrders) {
  std::mt19937 random(3);
  for (int round = 0; round < 20; ++round)
    for (std::uint32_t payload = 0; payload <= abi::kCommandPayloadBytes; ++payload) {
      const unsigned used = used_segments(payload);
      std::array<unsigned, abi::kSegments> order;
      for (unsigned i = 0; i < used; ++i) order[i] = i;
      std::shuffle(order.begin(), order.begin() + used, random);
      Variants boards(payload);
      for (unsigned n = 0; n < used; ++n) {
        ASSERT_FALSE(boards.by_mask.complete());
        boards.add(order[n]);
        ASSERT_TRUE(boards.agree()) << "payload " << payload;
      }
      ASSERT_TRUE(boards.by_mask.complete());
    }
}

/// One PCB that holds what an earlier command left.
class Kicks : public testing::Test {
 protected:
  Kicks() {
    EXPECT_TRUE(functions.assign(VcbId(0), 1, TenantId(0), group));
    for (std::size_t i = 0; i < command.size(); ++i) command[i] = static_cast<std::byte>(i * 7 + 1);
    set_kind(abi::Opcode::kCompareSwap, abi::kCommandAddressed);  // has all of the header
  }
  void set_kind(abi::Opcode opcode, std::uint8_t flags) {
    command[offsetof(abi::CommandHeader, opcode)] = static_cast<std::byte>(opcode);
    command[offsetof(abi::CommandHeader, flags)] = static_cast<std::byte>(flags);
  }
  void set_payload(std::uint16_t bytes) {
    std::memcpy(command.data() + offsetof(abi::CommandHeader, payload_bytes), &bytes, sizeof bytes);
  }

  /// Collects the segments `arrived` of the command, with or without an explicit kick.
  Pcb collect(std::uint64_t arrived, bool explicit_kick) {
    const PcbId pcb = *controller.begin(VcbId(0));
    std::memset(pool.pcb(pcb).bytes(), 0xee, sizeof(Pcb));
    Progress progress = Progress::kCollecting;
    for (unsigned segment = 0; segment < abi::kSegments; ++segment) {
      std::array<std::byte, abi::kSegmentBytes> piece{};
      const bool here = (arrived >> segment & 1) != 0;
      // Without an explicit kick, the process must write the unused segments as zeros.
      if (!here && explicit_kick) continue;
      if (here) std::memcpy(piece.data(), command.data() + segment * piece.size(), piece.size());
      progress = add_piece(controller, pool, pcb, segment, piece);
      if (progress != Progress::kKick) continue;
      // Neither before nor after the last piece that it needs.
      const abi::CommandHeader& header = pool.pcb(pcb).header;
      unsigned last = used_segments(header.payload_bytes) - 1;
      while ((abi::needless_segments(header) >> last & 1) != 0) --last;
      EXPECT_EQ(segment, last);
      break;
    }
    if (explicit_kick) progress = controller.add(pcb, abi::kExplicitKick);
    EXPECT_EQ(progress, Progress::kKick);
    const Pcb result = pool.pcb(pcb);
    controller.discard(pcb);
    return result;
  }
  /// These segments of the header come, the last ones first, then the payload: the last is the
  /// kick.
  Pcb collect_in_order(std::uint64_t header, unsigned payload_segments) {
    const PcbId pcb = *controller.begin(VcbId(0));
    std::memset(pool.pcb(pcb).bytes(), 0xee, sizeof(Pcb));
    std::vector<unsigned> order;
    for (unsigned i = kHeader; i-- > 0;)
      if ((header >> i & 1) != 0) order.push_back(i);
    for (unsigned i = 0; i < payload_segments; ++i) order.push_back(kHeader + i);
    for (const unsigned segment : order) {
      const auto piece = std::span(command).subspan(segment * abi::kSegmentBytes, 8);
      const Progress progress = add_piece(controller, pool, pcb, segment, piece);
      EXPECT_EQ(progress == Progress::kKick, segment == order.back()) << segment;
    }
    const Pcb result = pool.pcb(pcb);
    controller.discard(pcb);
    return result;
  }
  void expect_same(std::uint64_t arrived) {
    // Without its first segment it is a write without data, which leaves some out.
    if ((arrived & 1) == 0) arrived &= ~abi::needless_segments({});
    const Pcb explicitly = collect(arrived, true);
    const Pcb virtually = collect(arrived, false);
    ASSERT_EQ(std::memcmp(&explicitly.header, &virtually.header, sizeof explicitly.header), 0)
        << std::hex << arrived;
    ASSERT_EQ(std::memcmp(explicitly.payload.data(), virtually.payload.data(),
                          explicitly.header.payload_bytes),
              0)
        << std::hex << arrived;
  }

  std::array<std::byte, abi::kCommandBytes> command;
  PcbPool pool{{.pcbs = 1, .dedicated = 0, .max_groups = 1}};
  QosClassId group = *pool.add_group({TenantId(0), 1, true});
  FunctionTable functions{1};
  CollectController controller{pool, functions};
};

TEST_F(Kicks, ExplicitAndVirtualGiveTheSameForEverySubsetOfASmallCommand) {
  set_payload((kSmall - kHeader) * abi::kSegmentBytes);
  for (std::uint64_t arrived = 0; arrived < std::uint64_t{1} << kSmall; ++arrived) {
    expect_same(arrived);
    if (HasFatalFailure()) return;
  }
}

TEST_F(Kicks, ExplicitAndVirtualGiveTheSameForEveryLength) {
  std::mt19937_64 random(5);
  for (std::uint16_t payload = 0; payload <= abi::kCommandPayloadBytes; ++payload) {
    set_payload(payload);
    expect_same(abi::kAllSegments);
    for (int round = 0; round < 20; ++round) expect_same(random() & abi::kAllSegments);
    if (HasFatalFailure()) return;
  }
}

/// With all that a command like it has, and nothing of an earlier one in what it leaves out.
TEST_F(Kicks, WhatTheMaskNamesNeedNotComeAndIsZero) {
  constexpr std::uint64_t kHeaderSegments = range(0, kHeader);
  set_payload(24);
  for (unsigned opcode = 0; opcode < 256; ++opcode)
    for (const std::uint8_t flags : {std::uint8_t{0}, abi::kCommandAddressed}) {
      set_kind(static_cast<abi::Opcode>(opcode), flags);
      abi::CommandHeader header;
      std::memcpy(&header, command.data(), sizeof header);
      const std::uint64_t needless = abi::needless_segments(header);
      ASSERT_EQ(needless & ~kHeaderSegments, 0u) << opcode;
      ASSERT_EQ(needless & 0b11, 0u) << "number and length of " << opcode;
      const Pcb got = collect_in_order(kHeaderSegments & ~needless, 3);
      for (unsigned i = 0; i < kHeader; ++i) {
        const auto* segment = reinterpret_cast<const std::byte*>(&got.header) + 8 * i;
        const bool left_out = (needless >> i & 1) != 0;
        const std::array<std::byte, 8> zeros{};
        const std::byte* expected = left_out ? zeros.data() : command.data() + 8 * i;
        ASSERT_EQ(std::memcmp(segment, expected, 8), 0) << opcode << " segment " << i;
      }
    }
}

}  // namespace
}  // namespace softhca::collect
