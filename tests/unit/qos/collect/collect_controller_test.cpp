// SPDX-License-Identifier: Apache-2.0

#include "daemon/qos/collect/collect_controller.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "tests/unit/qos/collect/pieces.hpp"

namespace softhca::collect {
namespace {

constexpr std::uint64_t kAll = Scoreboard::kAll;

class CollectControllerTest : public testing::Test {
 protected:
  CollectControllerTest() {
    EXPECT_TRUE(functions.assign(VcbId(0), 4, TenantId(0), group));
    for (std::uint32_t i = 0; i < pool.size(); ++i)
      std::memset(pool.pcb(PcbId(i)).bytes(), 0xee, sizeof(Pcb));
  }

  static std::vector<std::byte> bytes(std::size_t n, std::uint8_t value = 0x11) {
    return std::vector<std::byte>(n, std::byte(value));
  }

  static std::vector<std::byte> first_segment(std::uint16_t payload_bytes) {
    std::vector<std::byte> segment(8);
    std::memcpy(segment.data() + offsetof(abi::CommandHeader, payload_bytes), &payload_bytes, 2);
    return segment;
  }

  std::uint64_t board(PcbId pcb) { return pool.state(pcb).scoreboard.bits(); }

  PcbPool pool{{.pcbs = 2, .dedicated = 0, .max_groups = 1}};
  QosClassId group = *pool.add_group({TenantId(0), 2, true});
  FunctionTable functions{8};
  CollectController controller{pool, functions};
};

// Mechanism C4, step by step.
TEST_F(CollectControllerTest, ReferenceVector) {
  const PcbId pcb = *controller.begin(VcbId(0));
  EXPECT_EQ(board(pcb), 0x00'0000'0000u);
  EXPECT_EQ(add_piece(controller, pool, pcb, 0x10 / 8, bytes(8)), Progress::kCollecting);
  EXPECT_EQ(board(pcb), 0x00'0000'0004u);
  EXPECT_EQ(add_piece(controller, pool, pcb, 0x20 / 8, bytes(32)), Progress::kCollecting);
  EXPECT_EQ(board(pcb), 0x00'0000'00f4u);
  EXPECT_EQ(add_piece(controller, pool, pcb, 0x00 / 8, first_segment(16)), Progress::kCollecting);
  EXPECT_EQ(board(pcb), 0xff'ffff'fcf5u);
  EXPECT_EQ(add_piece(controller, pool, pcb, 0x08 / 8, bytes(8)), Progress::kCollecting);
  EXPECT_EQ(board(pcb), 0xff'ffff'fcf7u);
  EXPECT_EQ(add_piece(controller, pool, pcb, 0x18 / 8, bytes(8)), Progress::kCollecting);
  EXPECT_EQ(board(pcb), 0xff'ffff'fcffu);
  EXPECT_EQ(add_piece(controller, pool, pcb, 0x40 / 8, bytes(16)), Progress::kKick);
  EXPECT_EQ(board(pcb), 0xff'ffff'ffffu);
}

TEST_F(CollectControllerTest, PiecesLandAtTheirOffsets) {
  const PcbId pcb = *controller.begin(VcbId(0));
  add_piece(controller, pool, pcb, 8, bytes(256, 0x22));
  add_piece(controller, pool, pcb, 1, bytes(56, 0x33));
  EXPECT_EQ(add_piece(controller, pool, pcb, 0, first_segment(256)), Progress::kKick);
  EXPECT_EQ(pool.pcb(pcb).header.sequence, 0x33333333u);
  EXPECT_EQ(pool.pcb(pcb).header.payload_bytes, 256u);
  for (const std::byte b : pool.pcb(pcb).payload) ASSERT_EQ(b, std::byte{0x22});
}

TEST_F(CollectControllerTest, AVcbAndAPcbAreBoundToNoOther) {
  const PcbId first = *controller.begin(VcbId(0));
  const PcbId second = *controller.begin(VcbId(1));
  EXPECT_NE(first, second);
  EXPECT_EQ(controller.begin(VcbId(0)), first);
  EXPECT_EQ(pool.state(first).vcb, VcbId(0));
  // Send queue mode (A5); the same VCB may find a PCB later.
  EXPECT_EQ(controller.begin(VcbId(2)), std::nullopt);
  controller.discard(first);
  EXPECT_EQ(controller.begin(VcbId(2)), first);
  EXPECT_EQ(functions[VcbId(0)].pcb, kNoPcb);
}

TEST_F(CollectControllerTest, AfterUnbindTheVcbTakesTheNextCommand) {
  const PcbId first = *controller.begin(VcbId(0));
  controller.unbind(first);
  EXPECT_EQ(pool.state(first).use, PcbUse::kPool);
  const PcbId second = *controller.begin(VcbId(0));
  EXPECT_NE(second, first);
  EXPECT_EQ(pool.group(group).pcbs.in_use.value(), 2u);
}

TEST_F(CollectControllerTest, AWholeCommandAtOnce) {
  const PcbId pcb = *controller.begin(VcbId(0));
  pool.pcb(pcb).header = {};
  pool.pcb(pcb).header.payload_bytes = 16;
  EXPECT_EQ(controller.add(pcb, kAll), Progress::kKick);
}

TEST_F(CollectControllerTest, TheLengthFillsInUnusedSegmentsTheProcessLeftOut) {
  const PcbId pcb = *controller.begin(VcbId(0));
  pool.pcb(pcb).header = {};
  EXPECT_EQ(controller.add(pcb, 0xff), Progress::kKick);
}

TEST_F(CollectControllerTest, ALengthThatCannotBeIsRefused) {
  const PcbId pcb = *controller.begin(VcbId(0));
  EXPECT_EQ(add_piece(controller, pool, pcb, 0, first_segment(256)), Progress::kCollecting);
  controller.discard(pcb);
  const PcbId again = *controller.begin(VcbId(0));
  EXPECT_EQ(add_piece(controller, pool, again, 0, first_segment(257)), Progress::kBadLength);
  controller.discard(again);
  EXPECT_EQ(pool.group(group).pcbs.in_use.value(), 0u);
}

TEST_F(CollectControllerTest, HostileBitsBeyondTheCommandAreIgnored) {
  const PcbId pcb = *controller.begin(VcbId(0));
  EXPECT_EQ(controller.add(pcb, ~kAll & ~abi::kExplicitKick), Progress::kCollecting);
  EXPECT_EQ(board(pcb), 0u);
}

TEST_F(CollectControllerTest, ExplicitKickZeroesWhatIsMissing) {
  const PcbId pcb = *controller.begin(VcbId(0));
  add_piece(controller, pool, pcb, 0, first_segment(256));
  add_piece(controller, pool, pcb, 8, bytes(8));
  EXPECT_EQ(controller.add(pcb, abi::kExplicitKick), Progress::kKick);
  EXPECT_EQ(board(pcb), kAll);
  EXPECT_EQ(pool.pcb(pcb).header.payload_bytes, 256u);
  EXPECT_EQ(pool.pcb(pcb).header.sequence, 0u);
  EXPECT_EQ(pool.pcb(pcb).payload[7], std::byte{0x11});
  for (std::size_t i = 8; i < 256; ++i) ASSERT_EQ(pool.pcb(pcb).payload[i], std::byte{0});
}

TEST_F(CollectControllerTest, ExplicitKickOfACompleteCommandIsEquivalent) {
  const PcbId pcb = *controller.begin(VcbId(0));
  pool.pcb(pcb).header = {};
  pool.pcb(pcb).header.remote_addr = 77;
  EXPECT_EQ(controller.add(pcb, kAll | abi::kExplicitKick), Progress::kKick);
  EXPECT_EQ(pool.pcb(pcb).header.remote_addr, 77u);
}

TEST_F(CollectControllerTest, AbandonFreesWhatIsBoundAndNothingElse) {
  const PcbId kicked = *controller.begin(VcbId(0));
  controller.unbind(kicked);
  const PcbId collecting = *controller.begin(VcbId(3));
  EXPECT_EQ(controller.abandon(VcbId(0), 3), 0u);
  EXPECT_EQ(controller.abandon(VcbId(0), 4), 1u);
  EXPECT_EQ(pool.state(collecting).use, PcbUse::kFree);
  EXPECT_EQ(pool.state(kicked).use, PcbUse::kPool);
  EXPECT_TRUE(functions.release(VcbId(0), 4));
}

}  // namespace
}  // namespace softhca::collect
