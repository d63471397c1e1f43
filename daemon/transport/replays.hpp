// The reads and atomics that responders have executed and may have to answer again (InfiniBand
// specification, volume 1, 9.7.5.1.4, 9.4.5).
//
// How many a connection may want is agreed when it is made (max_dest_rd_atomic), and a read that
// found no place would have to be refused, which the peer takes for an error. So places are
// reserved then, and taken when they are used: what is only reserved is address space that no page
// of memory stands behind.
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
  bool empty = false;       ///< atomic write, flush: nothing but that it was done
  bool due = false;         ///< packets [next, end) are owed
  bool replay : 1 = false;  ///< was asked for again
  bool begun : 1 = false;   ///< a packet of what is owed has gone
  std::uint32_t start = 0;
  std::uint32_t next = 0;
  std::uint32_t end = 0;
  Rkey rkey;
  std::uint32_t length = 0;
  std::uint32_t xrc_srq = 0;
  std::uint32_t answer_length = 0;  ///< bytes up to the end of packet `end` - 1
  std::uint32_t older = kNoIndex;
  std::uint32_t younger = kNoIndex;
  std::uint64_t addr = 0;
  struct Rest {
    std::uint32_t next;
    std::uint32_t end;
  };
  union {
    std::uint64_t original = 0;  ///< of an atomic
    Rest rest;                   ///< of a read: what is owed after [next, end), if anything
  };

  /// It is a read, of more than nothing.
  bool reads() const { return !atomic && length != 0; }
  /// The part that was asked for again is answered. True: the rest goes on being owed.
  bool resume() {
    if (atomic || empty || rest.end == 0) return false;
    next = rest.next;
    start = next - 1;  // it does not begin here
    end = rest.end;
    rest = {};
    replay = false;
    return true;
  }
};
static_assert(sizeof(Replay) == 64);

/// Places for all connections of an engine. Places given back are the first to be taken again, so
/// that as few pages as possible are in use.
class ReplayStore {
 public:
  ReplayStore() = default;
  ReplayStore(const ReplayStore&) = delete;
  ReplayStore& operator=(const ReplayStore&) = delete;

  /// `places` more can be taken; the only call that allocates.
  void reserve(std::size_t places);
  /// REQUIRES: they were reserved, and are not taken.
  void release(std::size_t places) { reserved_ -= places; }

  /// REQUIRES: no more are taken than are reserved.
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
  std::uint32_t fresh_ = 0;        ///< never taken: this place and those behind it
  std::uint32_t free_ = kNoIndex;  ///< given back last; linked by `younger`
};

/// The last reads and atomics of one responder, and which responses to them are due. REQUIRES:
/// close() before it goes.
class Replays {
 public:
  Replays() = default;
  Replays(const Replays&) = delete;
  Replays& operator=(const Replays&) = delete;

  /// Room for `limit`; what it held before is gone.
  void open(ReplayStore& store, std::uint32_t limit);
  /// Gives all places back.
  void close();
  bool is_open(std::uint32_t limit) const { return store_ != nullptr && limit_ == limit; }

  /// Forgets all replays.
  void clear();

  /// A place for a new read or atomic, at the cost of the oldest one if there is no other; none
  /// when that one has not been answered yet, so that the peer has more in flight than was agreed
  /// (9.7.5.1.4).
  Replay* remember();
  /// The replay that has this PSN, the youngest where a PSN came round again; nullptr: none.
  Replay* find(Psn psn);
  /// Responses [from, end) of the replay are due.
  void owe(Replay& replay, std::uint32_t from, std::uint32_t end);
  /// Responses [from, end) are due once more, before what is due now is finished. REQUIRES: the
  /// replay is due, up to a response behind `end`.
  void owe_part(Replay& replay, std::uint32_t from, std::uint32_t end);
  bool any_due() const { return due_ > 0; }
  /// The replay that is answered next, in PSN order. REQUIRES: any_due().
  Replay& oldest_due();
  /// Nothing of the replay is due any more. REQUIRES: none older is due.
  void settle(Replay& replay);
  /// Nothing is due any more.
  void settle_all();

  bool empty() const { return count_ == 0; }
  bool full() const { return count_ == limit_; }
  std::uint32_t limit() const { return limit_; }
  std::uint32_t oldest() const { return oldest_; }
  std::uint32_t youngest() const { return youngest_; }
  Replay& operator[](std::uint32_t index) { return (*store_)[index]; }
  /// Adds a replay, the youngest. REQUIRES: !full().
  Replay& push();
  /// Forgets the oldest. REQUIRES: !empty().
  void pop();

 private:
  ReplayStore* store_ = nullptr;
  std::uint32_t limit_ = 0;
  std::uint32_t count_ = 0;
  std::uint32_t oldest_ = kNoIndex;
  std::uint32_t youngest_ = kNoIndex;
  std::uint32_t due_ = 0;                ///< replays that are due
  std::uint32_t oldest_due_ = kNoIndex;  ///< of them; kNoIndex: to be looked for
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
