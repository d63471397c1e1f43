// SPDX-License-Identifier: Apache-2.0

// The reads and atomics that responders have executed and may have to answer again (InfiniBand
// specification, volume 1, 9.7.5.1.4, 9.4.5).
//
// max_dest_rd_atomic fixes at set-up how many a connection may need. A read that found no place
// would have to be refused, and the peer would treat that as an error. So places are reserved at
// set-up and taken when they are used. A reserved place is only address space, without a page of
// memory behind it.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/base/intrusive_queue.hpp"
#include "daemon/base/types.hpp"

namespace softhca::transport {

/// A read or atomic that was executed and can be replayed.
struct Replay {
  Psn first;
  std::uint32_t packets = 0;
  bool atomic = false;
  bool empty = false;       ///< atomic write, flush: the response carries no data
  bool due = false;         ///< responses [next, end) are owed
  bool replay : 1 = false;  ///< the peer requested it again
  bool begun : 1 = false;   ///< a response that is owed was sent
  std::uint32_t start = 0;
  std::uint32_t next = 0;
  std::uint32_t end = 0;
  Rkey rkey;
  std::uint32_t length = 0;
  std::uint32_t xrc_srq = 0;
  std::uint32_t answer_length = 0;  ///< bytes up to the end of response `end` - 1
  std::uint32_t older = kNoIndex;
  std::uint32_t younger = kNoIndex;
  std::uint64_t addr = 0;
  struct Rest {
    std::uint32_t next;
    std::uint32_t end;
  };
  union {
    std::uint64_t original = 0;  ///< for an atomic
    Rest rest;                   ///< for a read: owed after [next, end), if not empty
  };

  /// True if it is a read of at least one byte.
  bool reads() const { return !atomic && length != 0; }
  /// Ends the part that the peer requested again. Returns true if the rest is still owed.
  bool resume() {
    if (atomic || empty || rest.end == 0) return false;
    next = rest.next;
    start = next - 1;  // the rest does not start with a first response
    end = rest.end;
    rest = {};
    replay = false;
    return true;
  }
};
static_assert(sizeof(Replay) == 64);

/// Places for all connections of an engine. A place that was given back last is taken first, so
/// that few pages are in use.
class ReplayStore {
 public:
  ReplayStore() = default;
  ReplayStore(const ReplayStore&) = delete;
  ReplayStore& operator=(const ReplayStore&) = delete;

  /// Reserves `places` more; the only call that allocates.
  void reserve(std::size_t places);
  /// REQUIRES: they were reserved, and are not taken.
  void release(std::size_t places) { reserved_ -= places; }

  /// REQUIRES: fewer places are taken than reserved.
  std::uint32_t take();
  void give_back(std::uint32_t index);
  Replay& operator[](std::uint32_t index) {
    return reinterpret_cast<Replay*>(slabs_[index / kSlab].get())[index % kSlab];
  }

  std::size_t reserved() const { return reserved_; }
  std::size_t taken() const { return taken_; }

 private:
  static constexpr std::uint32_t kSlab = 4096;  ///< places
  /// Not constructed: that would touch its pages.
  using Slab = std::unique_ptr<std::byte[]>;

  std::vector<Slab> slabs_;
  std::size_t reserved_ = 0;
  std::size_t taken_ = 0;
  std::uint32_t fresh_ = 0;        ///< this place and those behind it were never taken
  std::uint32_t free_ = kNoIndex;  ///< the place given back last; linked by `younger`
};

/// The latest reads and atomics of one responder, and the responses to them that are owed.
/// REQUIRES: close() before destruction.
class Replays {
 public:
  Replays() = default;
  Replays(const Replays&) = delete;
  Replays& operator=(const Replays&) = delete;

  /// Reserves places for `limit` replays and drops the previous ones.
  void open(ReplayStore& store, std::uint32_t limit);
  /// Gives all places back.
  void close();
  bool is_open(std::uint32_t limit) const { return store_ != nullptr && limit_ == limit; }

  /// Drops all replays.
  void clear();

  /// Returns a place for a new read or atomic; if all are used, that of the oldest one. Returns
  /// null if that one is not answered yet: the peer then has more in flight than was agreed
  /// (9.7.5.1.4).
  Replay* remember();
  /// Returns the replay with this PSN, the youngest one if PSNs have wrapped around; nullptr: none.
  Replay* find(Psn psn);
  /// Records that responses [from, end) of the replay are owed.
  void owe(Replay& replay, std::uint32_t from, std::uint32_t end);
  /// Records that responses [from, end) are owed again, before the responses already owed.
  /// REQUIRES: the replay is owed up to a response behind `end`.
  void owe_part(Replay& replay, std::uint32_t from, std::uint32_t end);
  bool any_due() const { return due_ > 0; }
  /// Returns the replay that is answered next, in PSN order. REQUIRES: any_due().
  Replay& oldest_due();
  /// Records that nothing of the replay is owed any more. REQUIRES: no older replay is owed.
  void settle(Replay& replay);
  /// Records that nothing is owed any more.
  void settle_all();

  bool empty() const { return count_ == 0; }
  bool full() const { return count_ == limit_; }
  std::uint32_t limit() const { return limit_; }
  std::uint32_t oldest() const { return oldest_; }
  std::uint32_t youngest() const { return youngest_; }
  Replay& operator[](std::uint32_t index) { return (*store_)[index]; }
  /// Adds the youngest replay. REQUIRES: !full().
  Replay& push();
  /// Drops the oldest replay. REQUIRES: !empty().
  void pop();

 private:
  ReplayStore* store_ = nullptr;
  std::uint32_t limit_ = 0;
  std::uint32_t count_ = 0;
  std::uint32_t oldest_ = kNoIndex;
  std::uint32_t youngest_ = kNoIndex;
  std::uint32_t due_ = 0;                ///< number of replays with responses owed
  std::uint32_t oldest_due_ = kNoIndex;  ///< oldest of them; kNoIndex: to be searched
};

// Called for every response.

inline Replay& Replays::oldest_due() {
  assert(any_due());
  if (oldest_due_ == kNoIndex) {
    oldest_due_ = oldest_;
    while (!(*this)[oldest_due_].due) oldest_due_ = (*this)[oldest_due_].younger;
  }
  return (*this)[oldest_due_];
}

inline void Replays::settle(Replay& r) {
  if (!r.due) return;
  r.due = false;
  oldest_due_ = kNoIndex;
  if (--due_ == 0) return;
  oldest_due_ = r.younger;
  while (!(*this)[oldest_due_].due) oldest_due_ = (*this)[oldest_due_].younger;
}

}  // namespace softhca::transport
