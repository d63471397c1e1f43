// What has two ways and must come to the same: the unused segments as a mask known beforehand or
// set by the piece with the length (C1, C2), and the explicit or virtual kick (C3). For all subsets
// of the pieces of small commands, and for full-sized ones in random orders.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <random>
#include <vector>

#include "daemon/collect/collect_controller.hpp"

#include "tests/unit/collect/pieces.hpp"

namespace softhca::collect {
namespace {

constexpr unsigned kHeader = abi::kCommandHeaderBytes / abi::kSegmentBytes;
constexpr unsigned kSmall = 16;  ///< segments of the commands whose subsets are all tried

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
  }
  void set_payload(std::uint16_t bytes) {
    std::memcpy(command.data() + offsetof(abi::CommandHeader, payload_bytes), &bytes, sizeof bytes);
  }

  /// The command whose segments `arrived` have come, after one kind of kick.
  Pcb collect(std::uint64_t arrived, bool explicit_kick) {
    const PcbId pcb = *controller.begin(VcbId(0));
    std::memset(pool.pcb(pcb).bytes(), 0xee, sizeof(Pcb));
    Progress progress = Progress::kCollecting;
    for (unsigned segment = 0; segment < abi::kSegments; ++segment) {
      std::array<std::byte, abi::kSegmentBytes> piece{};
      const bool here = (arrived >> segment & 1) != 0;
      // Without an explicit kick what is not written has to be written as zeros.
      if (!here && explicit_kick) continue;
      if (here) std::memcpy(piece.data(), command.data() + segment * piece.size(), piece.size());
      progress = add_piece(controller, pool, pcb, segment, piece);
      if (progress != Progress::kKick) continue;
      // Neither before nor after its last piece.
      EXPECT_EQ(segment + 1, used_segments(pool.pcb(pcb).header.payload_bytes));
      break;
    }
    if (explicit_kick) progress = controller.add(pcb, abi::kExplicitKick);
    EXPECT_EQ(progress, Progress::kKick);
    const Pcb result = pool.pcb(pcb);
    controller.discard(pcb);
    return result;
  }
  void expect_same(std::uint64_t arrived) {
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

}  // namespace
}  // namespace softhca::collect
