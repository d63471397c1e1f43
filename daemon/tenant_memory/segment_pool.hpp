// SPDX-License-Identifier: Apache-2.0

// Ring memory of one session: 64-byte aligned pieces of sealed memfds. Set-up path only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "abi/rings.hpp"
#include "daemon/base/expected.hpp"
#include "daemon/base/sealed_memory.hpp"
#include "daemon/base/unique_fd.hpp"
#include "daemon/tenant_memory/gaps.hpp"
#include "daemon/tenant_memory/machine.hpp"

namespace softhca::shm {

using SharedSegment = SealedMemory;

class SegmentPool {
 public:
  static constexpr std::size_t kFirstSegment = 64 << 10;
  /// A larger ring has a segment of its own.
  static constexpr std::size_t kLargestSegment = 4 << 20;
  static constexpr std::size_t kAlignment = 64;

  struct Allocation {
    abi::RingLocation location;    ///< `bytes` as requested
    std::byte* base;               ///< the daemon's mapping; zeroed
    bool new_segment;              ///< the segment is not announced to the tenant yet: send `fd`
    int fd;                        ///< the segment's, owned by the pool; -1 unless new_segment
    KeptId kept;                   ///< of the segment, if allocate() has made it; else 0
    const SharedSegment* segment;  ///< until the pool's next call
  };

  /// The session may have up to `budget` bytes of segments. `unmap` takes the segments that end; if
  /// it is empty, they are unmapped at once. `source`: makes and keeps them.
  explicit SegmentPool(std::size_t budget, Unmap unmap = {}, memory::MemorySource source = {})
      : budget_(budget), unmap_(std::move(unmap)), source_(std::move(source)) {}
  ~SegmentPool();
  SegmentPool(const SegmentPool&) = delete;
  SegmentPool& operator=(const SegmentPool&) = delete;

  /// True if a segment has room for `bytes`. Otherwise allocate() makes a new segment.
  bool has_room(std::size_t bytes) const;
  /// True if allocate() would use a segment that is announced to the tenant. REQUIRES: the
  /// descriptors that to_seal() returned are sealed.
  bool has_sealed_room(std::size_t bytes) const;

  /// Allocates a ring. `account` ends with the segment if a new one is made. Errors: ENOMEM
  /// (budget), EINVAL (0 bytes, or 2^32 or more), and the errors of memfd_create and mmap.
  Expected<Allocation> allocate(std::size_t bytes, std::shared_ptr<void> account = nullptr);

  // --- what an earlier pool of the same session had. Call these before any other function.

  /// Takes up a segment, under its number and without rings. `announced`: the earlier pool has
  /// recorded that. Errors: EBADMSG, the number is in use or too large; those of adopt().
  Outcome adopt_segment(std::uint32_t number, KeptId kept, std::shared_ptr<void> account,
                        bool announced);
  /// Returns the memory of a ring that the earlier pool allocated, as the ring is. Null: no adopted
  /// segment has this room, or another ring has it.
  std::byte* adopt_ring(const abi::RingLocation& location);
  /// Ends the adoption. Segments without rings are given up, except one.
  void end_adoption();

  // --- the end of rings

  /// Frees the memory at `location`, which allocate() returned, for later rings. The pool keeps one
  /// segment without rings. It does not keep a large segment that is announced, nor one that the
  /// last to_seal() returned.
  void release(const abi::RingLocation& location);

  /// Returns the number of segments without rings: at most one. After give_up_idle(), the next new
  /// segment takes its number and is announced.
  std::size_t idle_count() const { return idle_ != kNone ? 1 : 0; }
  void give_up_idle();

  /// Records that the segment's descriptor was sent: allocations from it are no longer new_segment.
  /// Do not call it if sending failed, so that the next reply sends the descriptor again.
  void announced(std::uint32_t segment);
  /// Returns the descriptors of the announced segments that are not sealed. The tenant has mapped
  /// these segments or does without them. Seal the descriptors (SealedMemory::seal_holes) before
  /// any other call to the pool.
  std::vector<DescriptorToSeal> to_seal();

 private:
  struct Segment {
    SharedSegment memory;  ///< no memory: the segment was given up
    memory::Gaps gaps;
    std::shared_ptr<void> account;
    bool announced = false;
    bool idle() const { return gaps.is_whole(0, memory.bytes()); }
  };
  static constexpr std::uint32_t kNone = 0xffffffff;
  /// A session has fewer segments, as the budget limits their memory.
  static constexpr std::uint32_t kMaxSegments = 1 << 20;

  Expected<std::uint32_t> add_segment(std::size_t bytes, std::shared_ptr<void> account);
  std::uint32_t unused_number();
  void give_up(Segment& segment);
  Allocation finish(std::uint32_t index, std::size_t offset, std::size_t bytes);

  std::size_t budget_;
  Unmap unmap_;
  const memory::MemorySource source_;
  std::size_t segment_bytes_ = 0;
  std::size_t next_segment_ = kFirstSegment;
  std::vector<Segment> segments_;  ///< by number
  /// numbers of the segments that are announced and not sealed
  std::vector<std::uint32_t> unsealed_;
  /// numbers of the segments that the last to_seal() returned
  std::vector<std::uint32_t> sealed_now_;
  std::uint32_t idle_ = kNone;
};

}  // namespace softhca::shm
