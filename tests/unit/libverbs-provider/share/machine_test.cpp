// SPDX-License-Identifier: Apache-2.0

// Memory of a process in a virtual machine: pieces of one file, which stay the process's while it
// maps them.
#include <gtest/gtest.h>
#include <linux/falloc.h>
#include <sys/wait.h>

#include <functional>
#include <memory>

#include "libverbs-provider/share/ours.hpp"
#include "libverbs-provider/share/process.hpp"
#include "tests/unit/libverbs-provider/share/fake_daemon.hpp"

namespace softhca::provider {
namespace {

/// Maps pages of the machine's file.
char* map_file(void* addr, std::uint64_t page, std::size_t pages) {
  const int fixed = addr != nullptr ? MAP_FIXED : 0;
  return static_cast<char*>(::mmap(addr, pages * kPage, PROT_READ | PROT_WRITE, MAP_SHARED | fixed,
                                   FakeMachine::instance().fd(), static_cast<off_t>(page * kPage)));
}

Mapping mapping_at(const void* addr) {
  MapsReader maps(reinterpret_cast<std::uint64_t>(addr));
  Mapping mapping{};
  EXPECT_TRUE(maps.next(mapping));
  return mapping;
}

class Machine : public testing::Test {
 protected:
  std::string prepare(const char* addr, std::size_t length) {
    if (registry_->prepare(region(addr, length), extents_) != 0) return "error";
    return shape(addr, length, extents_);
  }
  std::uint32_t handle(std::size_t i = 0) const { return extents_.all()[i].handle; }
  void reopen() {
    registry_.reset();
    registry_ = make_registry();
  }
  std::unique_ptr<MemoryRegistry> make_registry() {
    return std::make_unique<MemoryRegistry>(
        daemon_.source(), MemoryRegistry::Limits{.idle_bytes = 64 * kPage}, KernelCalls::real());
  }
  bool sees(const Anonymous& memory) {
    return daemon_.sees_the_same(extents_.all(), memory.base(), memory.bytes());
  }
  /// Registers other memory until a sweep has given back pieces.
  void cycle_until_unmapped(std::size_t count) {
    for (int i = 0; i < 300 && daemon_.unmapped.size() < count; ++i) {
      ExtentList extents;
      ASSERT_EQ(registry_->prepare(region(other_.base(), kPage), extents), 0);
      registry_->release(extents.all());
    }
  }

  Anonymous other_{1};
  FakeDaemon daemon_{true};
  std::unique_ptr<MemoryRegistry> registry_ = make_registry();
  ExtentList extents_;
};

TEST_F(Machine, AdjoiningPieces_KernelHasMergedThem_EachIsFound) {
  Anonymous memory(30);
  for (std::size_t i = 0; i < 3; ++i)
    ASSERT_EQ(prepare(memory.base() + i * 10 * kPage, 10 * kPage), "S");
  const Mapping mapping = mapping_at(memory.base());
  ASSERT_GE(mapping.end - mapping.begin, 30 * kPage) << "the pieces adjoin";
  ASSERT_EQ(prepare(memory.base() + 5 * kPage + 7, 20 * kPage), "SSS");
  EXPECT_EQ(extents_.all()[0].offset, 5 * kPage + 7);
  EXPECT_EQ(extents_.all()[1].offset, 0u);
  EXPECT_EQ(extents_.all()[1].length, 10 * kPage);
  EXPECT_EQ(handle(1), handle(0) + 10);
  EXPECT_EQ(handle(2), handle(1) + 10);
  EXPECT_EQ(extents_.all()[2].length, 5 * kPage + 7);
  EXPECT_TRUE(daemon_.sees_the_same(extents_.all(), memory.base() + 5 * kPage + 7, 20 * kPage));
  ASSERT_EQ(prepare(memory.base() + 13 * kPage, kPage), "S");
  EXPECT_EQ(extents_.all()[0].offset, 3 * kPage);
  EXPECT_EQ(daemon_.allocs, 3u);
}

TEST_F(Machine, PieceBetweenOtherMemoryOfTheFile_OnlyThePieceIsOurs) {
  FakeMachine& machine = FakeMachine::instance();
  auto* room = static_cast<char*>(
      ::mmap(nullptr, 40 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  Anonymous::fill(room + 10 * kPage, 13 * kPage, 3);
  machine.skip(10);
  const std::uint32_t before = machine.next() - 10;
  ASSERT_EQ(prepare(room + 10 * kPage, 13 * kPage), "S");
  machine.skip(10);
  // As rings of a session may lie there.
  ASSERT_EQ(map_file(room, before, 10), room);
  ASSERT_EQ(map_file(room + 23 * kPage, before + 23, 10), room + 23 * kPage);
  std::memset(room, 7, kPage);
  std::memset(room + 30 * kPage, 7, kPage);
  const Mapping mapping = mapping_at(room);
  ASSERT_GE(mapping.end - mapping.begin, 33 * kPage) << "merged";
  EXPECT_EQ(prepare(room + kPage, 30 * kPage), "PSP");
  EXPECT_EQ(extents_.all()[1].offset, 0u);
  EXPECT_EQ(extents_.all()[1].length, 13 * kPage);

  OurMappings ours;
  ours.find(mapping.begin, mapping.end);
  ASSERT_EQ(ours.count, 1u);
  EXPECT_EQ(ours.mappings[0].begin, reinterpret_cast<std::uint64_t>(room + 10 * kPage));
  EXPECT_EQ(ours.mappings[0].end, reinterpret_cast<std::uint64_t>(room + 23 * kPage));
  EXPECT_TRUE(any_of_ours(ours.mappings[0].begin + 5 * kPage, mapping.end));
  EXPECT_FALSE(any_of_ours(ours.mappings[0].end, mapping.end));
  // Advice changes only the piece.
  EXPECT_EQ(after_advice(room, 33 * kPage, MADV_DONTNEED, 0), 0);
  EXPECT_EQ(room[0], 7);
  EXPECT_EQ(room[10 * kPage + 1], 0);
  EXPECT_EQ(room[22 * kPage + 1], 0);
  EXPECT_EQ(room[30 * kPage], 7);
  ::munmap(room, 40 * kPage);
}

TEST_F(Machine, SessionIsClosedAndOpenedAgain_MemoryKeepsItsHandle) {
  Anonymous memory(12);
  ASSERT_EQ(prepare(memory.base(), memory.bytes()), "S");
  const std::uint32_t first = handle();
  reopen();
  EXPECT_TRUE(daemon_.freed.empty());
  memory.base()[3] = 42;
  ASSERT_EQ(prepare(memory.base() + kPage, 2 * kPage), "S");
  EXPECT_EQ(handle(), first);
  EXPECT_EQ(extents_.all()[0].offset, kPage);
  EXPECT_EQ(daemon_.allocs, 1u);
  EXPECT_EQ(registry_->idle_bytes(), 0u);
  registry_->release(extents_.all());
  EXPECT_EQ(registry_->idle_bytes(), 12 * kPage);
  EXPECT_EQ(memory.base()[3], 42);
}

TEST_F(Machine, GivenBackWhileMapped_IsAdoptedUnderTheSameHandle) {
  Anonymous memory(100);
  ASSERT_EQ(prepare(memory.base(), memory.bytes()), "S");
  const std::uint32_t first = handle();
  registry_->release(extents_.all());
  EXPECT_TRUE(daemon_.freed.contains(first)) << "too much is idle";
  EXPECT_TRUE(daemon_.unmapped.empty());
  ASSERT_EQ(prepare(memory.base(), memory.bytes()), "S");
  EXPECT_EQ(handle(), first);
  EXPECT_EQ(daemon_.allocs, 1u);
  EXPECT_TRUE(memory.intact());
  EXPECT_TRUE(sees(memory));
}

TEST_F(Machine, OrphanIsUnmapped_IsGivenBackByALaterSession) {
  std::uint32_t first = 0;
  {
    Anonymous memory(12);
    ASSERT_EQ(prepare(memory.base(), memory.bytes()), "S");
    first = handle();
    reopen();
    cycle_until_unmapped(1);
    EXPECT_TRUE(daemon_.unmapped.empty()) << "still mapped";
  }
  cycle_until_unmapped(1);
  EXPECT_EQ(daemon_.unmapped, std::set<std::uint32_t>{first});
  EXPECT_FALSE(FakeMachine::instance().holds(first));
}

TEST_F(Machine, PieceIsMappedInPart_IsKept) {
  Anonymous memory(12);
  ASSERT_EQ(prepare(memory.base(), memory.bytes()), "S");
  registry_->release(extents_.all());
  ::munmap(memory.base(), 5 * kPage);
  ::munmap(memory.base() + 6 * kPage, 6 * kPage);
  cycle_until_unmapped(1);
  EXPECT_TRUE(daemon_.unmapped.empty());
  ::munmap(memory.base() + 5 * kPage, kPage);
  cycle_until_unmapped(1);
  EXPECT_EQ(daemon_.unmapped.size(), 1u);
}

TEST_F(Machine, UnmappedMemory_AnotherSessionHasARegionInIt_IsKept) {
  const std::unique_ptr<MemoryRegistry> second = make_registry();
  ExtentList theirs;
  {
    Anonymous memory(12);
    ASSERT_EQ(prepare(memory.base(), memory.bytes()), "S");
    ASSERT_EQ(second->prepare(region(memory.base(), memory.bytes()), theirs), 0);
    ASSERT_EQ(theirs.all()[0].handle, handle());
    registry_->release(extents_.all());
  }
  cycle_until_unmapped(1);
  EXPECT_TRUE(daemon_.unmapped.empty());
  second->release(theirs.all());
  for (int i = 0; i < 300 && daemon_.unmapped.empty(); ++i) {
    ASSERT_EQ(second->prepare(region(other_.base(), kPage), theirs), 0);
    second->release(theirs.all());
  }
  EXPECT_EQ(daemon_.unmapped.size(), 1u);
}

TEST_F(Machine, NoMemoryLeft_UnmappedPiecesAreGivenBackAtOnce) {
  daemon_.allowance = 30 * kPage;
  {
    Anonymous orphan(10), idle(10);
    ASSERT_EQ(prepare(orphan.base(), orphan.bytes()), "S");
    reopen();
    ASSERT_EQ(prepare(idle.base(), idle.bytes()), "S");
    registry_->release(extents_.all());
  }
  Anonymous memory(30);
  EXPECT_EQ(prepare(memory.base(), memory.bytes()), "S");
  EXPECT_EQ(daemon_.unmapped.size(), 2u);
  EXPECT_TRUE(memory.intact());
  EXPECT_TRUE(sees(memory));
  Anonymous more(1);
  EXPECT_EQ(prepare(more.base(), kPage), "P") << "all memory is mapped";
}

TEST_F(Machine, MemoryOfAnotherMachine_IsLeft) {
  FakeDaemon host(false);
  MemoryRegistry other(host.source());
  Anonymous memory(4), theirs(4);
  ASSERT_EQ(prepare(memory.base(), memory.bytes()), "S");
  ExtentList extents;
  ASSERT_EQ(other.prepare(region(memory.base(), memory.bytes()), extents), 0);
  EXPECT_EQ(shape(memory.base(), memory.bytes(), extents), "P");
  reopen();
  ASSERT_EQ(other.prepare(region(memory.base(), memory.bytes()), extents), 0);
  EXPECT_EQ(shape(memory.base(), memory.bytes(), extents), "P") << "an orphan";
  ASSERT_EQ(other.prepare(region(theirs.base(), theirs.bytes()), extents), 0);
  EXPECT_EQ(shape(theirs.base(), theirs.bytes(), extents), "S");
  EXPECT_TRUE(memory.intact());
  EXPECT_TRUE(theirs.intact());
}

TEST_F(Machine, ForkedChild_HasPrivateCopiesOfMergedPieces) {
  Anonymous memory(20);
  ASSERT_EQ(prepare(memory.base(), 10 * kPage), "S");
  ASSERT_EQ(prepare(memory.base() + 10 * kPage, 10 * kPage), "S");
  ASSERT_EQ(after_advice(memory.base() + 9 * kPage, 2 * kPage, MADV_WIPEONFORK,
                         ::madvise(memory.base() + 9 * kPage, 2 * kPage, MADV_WIPEONFORK)),
            0);
  reopen();  // orphans are copied, too
  const pid_t child = ::fork();
  if (child == 0) {
    const bool same = Anonymous::holds(memory.base(), 9 * kPage, 1) &&
                      memory.base()[19 * kPage] == Anonymous::value(19 * kPage, 1);
    const bool wiped = memory.base()[9 * kPage] == 0 && memory.base()[10 * kPage + 5] == 0;
    Anonymous::fill(memory.base(), memory.bytes(), 50);
    ::_exit(same && wiped ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(memory.intact());
}

TEST_F(Machine, MemoryIsMovedAndGrown_StaysShared) {
  Anonymous memory(20);
  ASSERT_EQ(prepare(memory.base(), 10 * kPage), "S");
  ASSERT_EQ(prepare(memory.base() + 10 * kPage, 10 * kPage), "S");
  void* result = nullptr;
  ASSERT_TRUE(
      remap({memory.base() + 5 * kPage, 10 * kPage, 30 * kPage, MREMAP_MAYMOVE, nullptr}, &result));
  auto* const moved = static_cast<char*>(result);
  ASSERT_NE(result, MAP_FAILED);
  EXPECT_EQ(moved[0], Anonymous::value(5 * kPage, 1));
  EXPECT_EQ(moved[10 * kPage], 0) << "not memory of the next piece";
  EXPECT_EQ(prepare(moved, 30 * kPage), "SSS");
  EXPECT_EQ(daemon_.allocs, 3u);
  EXPECT_TRUE(daemon_.sees_the_same(extents_.all(), moved, 30 * kPage));
  ::munmap(moved, 30 * kPage);
}

TEST_F(Machine, DeviceCannotReserveItsMemory_IsShared) {
  KernelCalls kernel = KernelCalls::real();
  kernel.reserve = [](int, int, off_t, off_t) {
    errno = ENODEV;
    return -1;
  };
  MemoryRegistry registry(daemon_.source(), {}, kernel);
  Anonymous memory(8);
  ASSERT_EQ(registry.prepare(region(memory.base(), memory.bytes()), extents_), 0);
  EXPECT_EQ(shape(memory.base(), memory.bytes(), extents_), "S");
  EXPECT_TRUE(memory.intact());
  EXPECT_TRUE(sees(memory));
}

TEST_F(Machine, ExchangeFails_PieceIsGivenBackUnmapped) {
  KernelCalls kernel = KernelCalls::real();
  kernel.map = [](void*, std::size_t, int, int, int, off_t) { return MAP_FAILED; };
  MemoryRegistry registry(daemon_.source(), {}, kernel);
  Anonymous memory(8);
  ASSERT_EQ(registry.prepare(region(memory.base(), memory.bytes()), extents_), 0);
  EXPECT_EQ(shape(memory.base(), memory.bytes(), extents_), "P");
  EXPECT_EQ(daemon_.unmapped.size(), 1u);
}

TEST_F(Machine, ExchangeFailsAndLeavesAMapping_PieceIsKept) {
  KernelCalls kernel = KernelCalls::real();
  kernel.userfaultfd = [](int) { return -1; };
  kernel.single_threaded = [] { return true; };
  kernel.unmap = [](void*, std::size_t) { return -1; };
  kernel.move = [](void*, std::size_t, std::size_t, int, void*) { return MAP_FAILED; };
  MemoryRegistry registry(daemon_.source(), {}, kernel);
  Anonymous memory(8);
  ASSERT_EQ(registry.prepare(region(memory.base(), memory.bytes()), extents_), 0);
  EXPECT_EQ(shape(memory.base(), memory.bytes(), extents_), "P");
  EXPECT_EQ(daemon_.freed.size(), 1u);
  EXPECT_TRUE(daemon_.unmapped.empty());
}

TEST_F(Machine, PiecesOfAllSizesAndAlignments_AreFoundByEachPage) {
  for (std::size_t pages = 1; pages < 40; ++pages) {
    FakeMachine::instance().skip(pages % 7);
    Anonymous memory(pages);
    ASSERT_EQ(prepare(memory.base(), memory.bytes()), "S");
    const std::uint32_t piece = handle();
    for (std::size_t page = 0; page < pages; ++page) {
      ASSERT_EQ(prepare(memory.base() + page * kPage, kPage), "S");
      ASSERT_EQ(handle(), piece);
      ASSERT_EQ(extents_.all()[0].offset, page * kPage);
    }
  }
}

TEST(PieceIndexTest, FindsBlocksOfItsMachineOnly) {
  static PieceIndex index;
  const FileIdentity first{1, 2}, second{1, 3};
  EXPECT_EQ(index.machine_of(first), PieceIndex::kNoMachine);
  const std::uint32_t a = index.add_machine(first);
  ASSERT_TRUE(index.insert(a, 3, 50, 7));
  const std::uint32_t b = index.add_machine(second);
  ASSERT_TRUE(index.insert(b, 49, 100, 8));
  EXPECT_EQ(index.add_machine(first), a);
  EXPECT_EQ(index.machine_of(second), b);
  PieceIndex::Block block{};
  EXPECT_FALSE(index.find(a, 0, 3, block));
  ASSERT_TRUE(index.find(a, 0, 4, block));
  EXPECT_EQ(block.first, 3u);
  EXPECT_EQ(index.piece_of(block), 7u);
  ASSERT_TRUE(index.find(a, 49, 200, block));
  EXPECT_EQ(block.end, 50u);
  EXPECT_FALSE(index.find(a, 50, 200, block));
  ASSERT_TRUE(index.insert(a, 60, 62, 9));
  EXPECT_FALSE(index.insert(a, 56, 62, 10)) << "it has that block";
  EXPECT_FALSE(index.find(a, 56, 60, block)) << "nothing of the attempt is left";
  index.erase(a, 60, 62);
  index.erase(a, 3, 50);
  EXPECT_EQ(index.machine_of(first), PieceIndex::kNoMachine);
  for (ino_t i = 10; i < 13; ++i) ASSERT_TRUE(index.insert(index.add_machine({1, i}), 0, 1, 1));
  EXPECT_EQ(index.add_machine({1, 14}), PieceIndex::kNoMachine) << "too many";
}

}  // namespace
}  // namespace softhca::provider
