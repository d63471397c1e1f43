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

namespace softhca::shm {

using SharedSegment = SealedMemory;

class SegmentPool {
 public:
  static constexpr std::size_t kFirstSegment = 64 << 10;
  static constexpr std::size_t kLargestSegment = 4 << 20;  ///< larger rings have one of their own
  static constexpr std::size_t kAlignment = 64;

  struct Allocation {
    abi::RingLocation location;  ///< bytes as asked for
    std::byte* base;             ///< where the daemon sees it; zeroed
    bool new_segment;            ///< the tenant has not been told of the segment: send `fd`
    int fd;                      ///< of the segment, owned by the pool; -1 unless new_segment
  };

  /// The session may have up to `budget` bytes of segments. `unmap` takes those that end; empty:
  /// they are unmapped at once. `lock`: as SealedMemory::create() takes it.
  explicit SegmentPool(std::size_t budget, Unmap unmap = {}, LockMemory lock = {})
      : budget_(budget), unmap_(std::move(unmap)), lock_(std::move(lock)) {}
  ~SegmentPool();
  SegmentPool(const SegmentPool&) = delete;
  SegmentPool& operator=(const SegmentPool&) = delete;

  /// Has a segment room for it? Else allocate() will make one.
  bool has_room(std::size_t bytes) const;
  /// Has one that the tenant was told of? REQUIRES: what to_seal() gave is sealed.
  bool has_sealed_room(std::size_t bytes) const;

  /// `account` ends with the segment if one is made for it. Errors: ENOMEM (budget), EINVAL (0
  /// bytes, or over 32 bits), or what memfd_create and mmap say.
  Expected<Allocation> allocate(std::size_t bytes, std::shared_ptr<void> account = nullptr);

  /// `location` as it came from allocate(). The memory is used for later rings. One segment without
  /// rings is kept for them, unless it is large and the tenant was told of it, or the last
  /// to_seal() told of it.
  void release(const abi::RingLocation& location);

  /// Segments without rings: at most one. The next to be made takes its number, and is announced.
  std::size_t idle_count() const { return idle_ != kNone ? 1 : 0; }
  void give_up_idle();

  /// The segment's descriptor has been sent: allocations from it are no longer new_segment. Not
  /// called when sending failed, so that the next reply tries again.
  void announced(std::uint32_t segment);
  /// The tenant has mapped all segments that were announced, or will do without: their descriptors,
  /// which are to be sealed (SealedMemory::seal_holes) before anything else is done with the pool.
  std::vector<UniqueFd> to_seal();

 private:
  struct Gap {
    std::size_t offset;
    std::size_t bytes;
  };
  struct Segment {
    SharedSegment memory;   ///< none: it has been given up
    std::vector<Gap> gaps;  ///< ascending, never adjoining
    std::shared_ptr<void> account;
    bool announced = false;
    bool idle() const { return gaps.size() == 1 && gaps.front().bytes == memory.bytes(); }
    bool has_room(std::size_t room) const;
  };
  static constexpr std::uint32_t kNone = 0xffffffff;

  Expected<std::uint32_t> add_segment(std::size_t bytes, std::shared_ptr<void> account);
  std::uint32_t unused_number();
  static bool carve(Segment& segment, std::size_t bytes, std::size_t& offset);
  void give_up(Segment& segment);
  Allocation finish(std::uint32_t index, std::size_t offset, std::size_t bytes);

  std::size_t budget_;
  Unmap unmap_;
  LockMemory lock_;
  std::size_t segment_bytes_ = 0;
  std::size_t next_segment_ = kFirstSegment;
  std::vector<Segment> segments_;          ///< by number
  std::vector<std::uint32_t> unsealed_;    ///< numbers of those announced and not sealed
  std::vector<std::uint32_t> sealed_now_;  ///< of those that the last to_seal() told of
  std::uint32_t idle_ = kNone;
};

}  // namespace softhca::shm
