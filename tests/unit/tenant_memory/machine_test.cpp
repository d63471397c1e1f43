// SPDX-License-Identifier: Apache-2.0

// The region of a virtual machine: its layout and its pieces.
#include "daemon/tenant_memory/machine.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>
#include <vector>

#include "tests/fake_keeper.hpp"

namespace softhca::memory {
namespace {

constexpr std::uint64_t kBytes = 64 << 20;
constexpr std::uint64_t kBegin = 2 << 20;

std::shared_ptr<Machine> started(std::uint64_t begin = 0, Machine::Terms terms = {}) {
  auto machine = Machine::create(kBytes, std::move(terms));
  EXPECT_TRUE(machine);
  EXPECT_TRUE((*machine)->start(begin));
  return *machine;
}

TEST(MachineRegion, BeginsWithTheVcbPagesOfSessions_OneAfterTheOther) {
  const auto machine = started();
  std::vector<SealedMemory> all;
  for (std::uint64_t i = 0; i < kBytes / 16 / (256 << 10); ++i) {
    auto pages = machine->take_vcbs();
    ASSERT_TRUE(pages);
    EXPECT_EQ(pages->piece().offset, i * (256 << 10));
    EXPECT_EQ(pages->piece().bytes, 64u * 4096);
    all.push_back(std::move(*pages));
  }
  EXPECT_EQ(machine->take_vcbs().error().code, ENOMEM);
  all.erase(all.begin());
  EXPECT_EQ(machine->take_vcbs()->piece().offset, 0u) << "given back";
}

TEST(MachineRegion, OffsetsCountFromTheGuestsDevice) {
  const auto machine = started(kBegin);
  EXPECT_EQ(machine->take_vcbs()->piece().offset, 0u);
  const auto piece = machine->take(5000);
  ASSERT_TRUE(piece);
  EXPECT_EQ(piece->bytes(), 8192u);
  piece->base()[0] = std::byte{7};
  auto* const whole =
      static_cast<std::byte*>(::mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, machine->fd(), 0));
  ASSERT_NE(whole, MAP_FAILED);
  EXPECT_EQ(whole[kBegin + piece->piece().offset], std::byte{7});
  ::munmap(whole, kBytes);
}

TEST(MachineRegion, QueuesInUse_CountPiecesOfAllMachines) {
  const auto in_use = std::make_shared<std::atomic<std::uint64_t>>(0);
  auto machine = started(kBegin, {.queues_in_use = in_use});
  const auto pages = machine->take_vcbs();
  const auto shared = machine->shared();
  EXPECT_EQ(in_use->load(), 0u) << "they are not for queues";
  auto piece = machine->take(5000);
  auto other = started(0, {.queues_in_use = in_use})->take(4096);
  EXPECT_EQ(in_use->load(), 12288u);
  machine = nullptr;
  piece = Error{"given back"};
  EXPECT_EQ(in_use->load(), 4096u);
}

TEST(MachineRegion, PartsDoNotOverlap) {
  const auto machine = started(kBegin);
  const auto shared = machine->shared_place();
  EXPECT_EQ(shared.offset + shared.bytes, kBytes - kBegin);
  std::vector<SealedMemory> all;
  for (auto piece = machine->take(1 << 20); piece; piece = machine->take(1 << 20)) {
    EXPECT_GE(piece->piece().offset, kBytes / 16 / (256 << 10) * (256 << 10) - kBegin);
    EXPECT_LE(piece->piece().offset + (1 << 20), shared.offset);
    all.push_back(std::move(*piece));
  }
  EXPECT_GE(all.size(), 8u);
}

TEST(MachineRegion, APieceIsZeroedWhenItIsTakenAgain) {
  const auto machine = started();
  std::uint64_t first = 0;
  {
    const auto piece = machine->take(4096);
    first = piece->piece().offset;
    std::memset(piece->base(), 0xff, piece->bytes());
  }
  const auto again = machine->take(4096);
  EXPECT_EQ(again->piece().offset, first);
  EXPECT_TRUE(std::all_of(again->base(), again->base() + again->bytes(),
                          [](std::byte each) { return each == std::byte{}; }));
}

TEST(MachineRegion, IsRefusedWhereItCannotBegin) {
  for (const std::uint64_t begin : {std::uint64_t{1}, kBytes, ~std::uint64_t{0} / 4096 * 4096}) {
    auto machine = Machine::create(kBytes, {});
    EXPECT_EQ((*machine)->start(begin).error().code, EINVAL) << begin;
    EXPECT_FALSE((*machine)->has_started());
  }
  EXPECT_EQ(started()->start(0).error().code, EALREADY);
}

TEST(MachineRegion, LeavesNoRoomForRings_Refused) {
  constexpr std::uint64_t kSmallest = 16 << 20;
  auto machine = Machine::create(kSmallest, {});
  ASSERT_TRUE(machine);
  const Outcome half = (*machine)->start(kSmallest / 2);
  ASSERT_FALSE(half);
  EXPECT_EQ(half.error().code, EINVAL);
  EXPECT_FALSE((*machine)->has_started());
  ASSERT_TRUE((*machine)->start(kBegin));
  EXPECT_LT((*machine)->rings_bytes(), kSmallest / 4);
}

TEST(MachineRegion, LivesUntilItsLastPieceEnds) {
  int unmapped = 0;
  auto machine = started(0, {.unmap = [&](SealedMemory) { ++unmapped; }});
  {
    const auto piece = machine->take(4096);
    const auto shared = machine->shared();
    EXPECT_EQ(machine->shared(), shared);
    machine = nullptr;
    EXPECT_EQ(unmapped, 0);
    piece->base()[0] = std::byte{1};
    *shared->at(0, 1) = std::byte{1};
  }
  EXPECT_EQ(unmapped, 1);
}

TEST(MachineRegion, AnAdapterThatFollowsHasTheSameMemoryAndPieces) {
  FakeKeeper keeper;
  FakeKeeping before(keeper), after(keeper);
  const auto machine = started(kBegin, {.keeping = &before});
  const auto pages = machine->take_vcbs();
  const auto rings = machine->take(10000);
  EXPECT_TRUE(Machine::is_piece(rings->kept()));
  rings->base()[9999] = std::byte{5};
  *machine->shared()->at(1, 1) = std::byte{6};
  ASSERT_TRUE(SealedMemory::seal_holes(machine->descriptor_to_seal()->get()));
  machine->set_sealed();

  const auto next = Machine::adopt(machine->kept(), {.keeping = &after});
  ASSERT_TRUE(next) << next.error().message;
  EXPECT_TRUE((*next)->has_started());
  EXPECT_TRUE((*next)->is_sealed());
  EXPECT_GE((*next)->fd(), 0) << "for the replies to come";
  const auto rings_again = (*next)->adopt(rings->kept());
  ASSERT_TRUE(rings_again);
  EXPECT_EQ(rings_again->base()[9999], std::byte{5});
  EXPECT_EQ(rings_again->piece().offset, rings->piece().offset);
  EXPECT_EQ(*(*next)->shared()->at(1, 1), std::byte{6});
  EXPECT_EQ((*next)->adopt(rings->kept()).error().code, EBADMSG) << "it is taken";
  EXPECT_NE((*next)->take_vcbs()->piece().offset, ~0u);
  ASSERT_TRUE((*next)->adopt(pages->kept())) << "given back, thus free";
  for (const KeptId damaged : {KeptId{1} << 63, ~KeptId{0}, KeptId{1} << 63 | 1 << 20})
    EXPECT_EQ((*next)->adopt(damaged).error().code, EBADMSG);
  before.retire();
}

TEST(Gaps, TakeAndGiveBackInAnyOrder_LeaveOneGap) {
  Gaps gaps(100, 1000);
  std::vector<std::size_t> taken;
  while (const auto at = gaps.take(100)) taken.push_back(*at);
  EXPECT_EQ(taken.size(), 9u);
  EXPECT_EQ(std::set<std::size_t>(taken.begin(), taken.end()).size(), 9u);
  for (const std::size_t i : {4, 2, 3, 0, 8, 6, 7, 5, 1}) gaps.give_back(taken[i], 100);
  EXPECT_TRUE(gaps.is_whole(100, 1000));
  EXPECT_TRUE(gaps.take_at(500, 100));
  EXPECT_FALSE(gaps.take_at(599, 1));
  EXPECT_FALSE(gaps.take_at(900, 101));
  EXPECT_FALSE(gaps.take_at(99, 1));
  gaps.give_back(500, 100);
  EXPECT_TRUE(gaps.is_whole(100, 1000));
}

}  // namespace
}  // namespace softhca::memory
