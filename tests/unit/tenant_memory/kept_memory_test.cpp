// SPDX-License-Identifier: Apache-2.0

// Memory of a tenant that outlives the adapter: segments of rings and shared buffers.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "daemon/tenant_memory/segment_pool.hpp"
#include "daemon/tenant_memory/shared_buffer.hpp"
#include "tests/fake_keeper.hpp"

namespace softhca {
namespace {

constexpr std::size_t kPlenty = 64 << 20;

class KeptMemory : public ::testing::Test {
 protected:
  KeptMemory() { EXPECT_EQ(keeper.objects(), 0u); }

  static Outcome seal(std::vector<DescriptorToSeal> all) {
    for (const DescriptorToSeal& fd : all)
      if (auto sealed = SealedMemory::seal_holes(fd.get()); !sealed) return sealed;
    return {};
  }

  FakeKeeper keeper;
  FakeKeeping before{keeper};
  FakeKeeping after{keeper};
};

TEST_F(KeptMemory, SealedMemory_IsTheSameForTheNextAdapter_AndStaysWritable) {
  auto first = SealedMemory::create("test", 5000);
  ASSERT_TRUE(first);
  ASSERT_TRUE(first->keep(&before));
  ASSERT_TRUE(SealedMemory::seal_holes(first->fd()));
  first->take_to_seal();
  auto second = SealedMemory::adopt(after, first->kept());
  ASSERT_TRUE(second);
  EXPECT_EQ(second->bytes(), first->bytes());
  EXPECT_EQ(second->fd(), -1) << "sealed";
  EXPECT_NE(second->base(), first->base());
  second->base()[4999] = std::byte{7};
  EXPECT_EQ(first->base()[4999], std::byte{7});
  before.retire();
}

TEST_F(KeptMemory, MemoryThatAProcessHasSealed_CountsAsSealed) {
  auto first = SealedMemory::create("test", 4096);
  ASSERT_TRUE(first->keep(&before));
  auto open = SealedMemory::adopt(after, first->kept());
  EXPECT_GE(open->fd(), 0);
  ASSERT_TRUE(SealedMemory::seal_holes(first->fd()));
  FakeKeeping third(keeper);
  const auto sealed = SealedMemory::adopt(third, first->kept());
  EXPECT_EQ(sealed->fd(), -1);
  before.retire();
  after.retire();
}

TEST_F(KeptMemory, MemoryThatEnds_IsDropped) {
  auto memory = SealedMemory::create("test", 8192);
  ASSERT_TRUE(memory->keep(&before));
  EXPECT_EQ(keeper.objects(), 1u);
  EXPECT_TRUE(memory->unmap(4096)) << "half of it";
  EXPECT_EQ(keeper.objects(), 0u) << "before the first page goes";
}

TEST_F(KeptMemory, NumberThatNothingHas_IsRefused) {
  const auto memory = SealedMemory::adopt(after, 99);
  ASSERT_FALSE(memory);
  EXPECT_EQ(memory.error().code, EBADMSG);
}

class KeptSegments : public KeptMemory {
 protected:
  shm::SegmentPool earlier{kPlenty, {}, {.keeping = &before}};
  shm::SegmentPool later{kPlenty, {}, {.keeping = &after}};
};

TEST_F(KeptSegments, RingsStayInPlace_AndNewRingsAreElsewhere) {
  const auto a = earlier.allocate(1000);
  const auto gone = earlier.allocate(300);
  const auto b = earlier.allocate(500);
  ASSERT_TRUE(a && gone && b);
  earlier.announced(a->location.segment);
  ASSERT_TRUE(seal(earlier.to_seal()));
  EXPECT_NE(a->kept, 0u);
  EXPECT_EQ(b->kept, 0u) << "of the segment that was there";
  std::memset(b->base, 5, 500);
  earlier.release(gone->location);
  before.retire();

  ASSERT_TRUE(later.adopt_segment(a->location.segment, a->kept, nullptr, true));
  std::byte* const same = later.adopt_ring(b->location);
  ASSERT_NE(same, nullptr);
  ASSERT_NE(later.adopt_ring(a->location), nullptr);
  EXPECT_EQ(later.adopt_ring(a->location), nullptr) << "another ring has it";
  EXPECT_EQ(later.adopt_ring({a->location.segment + 1, 64, 0}), nullptr);
  EXPECT_EQ(later.adopt_ring({a->location.segment, 64, std::uint64_t{1} << 40}), nullptr);
  EXPECT_EQ(later.adopt_ring({a->location.segment, 64, 3}), nullptr);
  later.end_adoption();
  EXPECT_EQ(same[499], std::byte{5});
  const auto next = later.allocate(300);
  ASSERT_TRUE(next);
  EXPECT_FALSE(next->new_segment) << "announced and sealed before";
  EXPECT_EQ(next->location.offset, gone->location.offset) << "the first gap";
  const auto behind = later.allocate(400);
  EXPECT_GE(behind->location.offset, b->location.offset + 500);
  for (const auto& location : {a->location, b->location, next->location, behind->location})
    later.release(location);
  later.give_up_idle();
  EXPECT_EQ(keeper.objects(), 0u);
}

TEST_F(KeptSegments, SegmentThatIsNotSealedYet_IsSealedNext) {
  const auto ring = earlier.allocate(64);
  earlier.announced(ring->location.segment);
  before.retire();
  ASSERT_TRUE(later.adopt_segment(0, ring->kept, nullptr, true));
  ASSERT_NE(later.adopt_ring(ring->location), nullptr);
  later.end_adoption();
  EXPECT_EQ(later.to_seal().size(), 1u);
  EXPECT_FALSE(after.descriptor(ring->kept)) << "closed with the one that is sealed";
}

TEST_F(KeptSegments, SegmentThatWasNotAnnounced_IsAnnouncedWithTheNextRing) {
  const auto ring = earlier.allocate(64);
  before.retire();
  ASSERT_TRUE(later.adopt_segment(0, ring->kept, nullptr, false));
  later.end_adoption();
  EXPECT_EQ(later.idle_count(), 1u);
  const auto again = later.allocate(64);
  EXPECT_TRUE(again->new_segment);
  EXPECT_GE(again->fd, 0);
}

TEST_F(KeptSegments, SeveralSegmentsWithoutRings_AllButOneAreGivenUp) {
  const auto one = earlier.allocate(shm::SegmentPool::kFirstSegment);
  const auto two = earlier.allocate(shm::SegmentPool::kFirstSegment);
  before.retire();
  ASSERT_TRUE(later.adopt_segment(0, one->kept, nullptr, true));
  ASSERT_TRUE(later.adopt_segment(1, two->kept, nullptr, true));
  EXPECT_FALSE(later.adopt_segment(1, two->kept, nullptr, true)) << "the number is in use";
  later.end_adoption();
  EXPECT_EQ(later.idle_count(), 1u);
  EXPECT_EQ(keeper.objects(), 1u);
}

TEST_F(KeptSegments, KeeperThatRefuses_RefusesTheRing) {
  before.refuse(true);
  const auto ring = earlier.allocate(64);
  ASSERT_FALSE(ring);
  EXPECT_EQ(ring.error().code, EMFILE);
}

TEST_F(KeptMemory, Buffer_KeepsItsHandle_WhichNoOtherGets) {
  memory::SharedBufferPool earlier(kPlenty, {}, {}, &before);
  const auto made = earlier.create(5000);
  ASSERT_TRUE(made);
  before.retire();
  memory::SharedBufferPool later(kPlenty, {}, {}, &after);
  later.give_handles_from(made->handle);
  ASSERT_TRUE(later.adopt(made->handle, made->kept, nullptr, std::make_shared<int>()));
  EXPECT_FALSE(later.adopt(made->handle, made->kept, nullptr, nullptr));
  EXPECT_FALSE(later.find(made->handle)->is_sealed());
  EXPECT_EQ(later.idle_count(), 0u) << "the process is about to register it";
  EXPECT_NE(later.create(100)->handle, made->handle);
  EXPECT_EQ(seal([&] {
              std::vector<DescriptorToSeal> all;
              all.push_back(later.find(made->handle)->to_seal().first);
              return all;
            }())
                .error()
                .code,
            0);
  after.retire();

  FakeKeeping last(keeper);
  memory::SharedBufferPool third(kPlenty, {}, {}, &last);
  ASSERT_TRUE(third.adopt(made->handle, made->kept, nullptr, nullptr));
  EXPECT_EQ(third.idle_count(), 1u);
  {
    const auto use = third.acquire(made->handle);
    EXPECT_EQ(third.idle_count(), 0u);
  }
  EXPECT_EQ(third.idle_count(), 1u);
}

}  // namespace
}  // namespace softhca
