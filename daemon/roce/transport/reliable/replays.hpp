// SPDX-License-Identifier: Apache-2.0

// The reads and atomics that responders have executed and may have to answer again (InfiniBand
// specification, volume 1, 9.7.5.1.4, 9.4.5).
//
// max_dest_rd_atomic fixes at set-up how many a connection may need. A read that found no place
// would have to be refused, and the peer would treat that as an error. So each connection has
// places of its own, and takes them in rotation. A place that was never taken is only address
// space, without a page of memory behind it.
//
// The places are plain data that the next engine takes over (resume()).
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>

#include "daemon/base/atomic_step.hpp"
#include "daemon/base/store_order.hpp"
#include "daemon/base/types.hpp"

namespace softhca::transport {

/// A read or atomic that was executed and can be replayed.
struct Replay {
  Psn first;
  std::uint32_t packets = 0;
  bool due = false;  ///< responses [next, end) are owed
  AtomicState state = AtomicState::kNone;
  bool taken : 1 = false;  ///< false: the place is free
  bool atomic : 1 = false;
  bool empty : 1 = false;   ///< atomic write, flush: the response carries no data
  bool replay : 1 = false;  ///< the peer requested it again
  bool begun : 1 = false;   ///< a response that is owed was sent
  std::uint32_t start = 0;
  std::uint32_t next = 0;
  std::uint32_t end = 0;
  Rkey rkey;
  std::uint32_t length = 0;
  std::uint32_t xrc_srq = 0;
  std::uint32_t answer_length = 0;  ///< bytes up to the end of response `end` - 1
  std::uint64_t addr = 0;
  struct Rest {
    std::uint32_t next;
    std::uint32_t end;
  };
  union {
    AtomicStep step = {};  ///< of an atomic or atomic write
    Rest rest;             ///< of a read: owed after [next, end), if not empty
  };

  /// True if it is a read of at least one byte.
  bool reads() const { return !atomic && length != 0; }
  /// The peer requested it again: what is owed changes from now on.
  void begin_again() {
    replay = true;
    keep_store_order();
  }
  /// Ends the part that the peer requested again. Returns true if the rest is still owed.
  bool resume() {
    if (atomic || empty || rest.end == 0) return false;
    next = rest.next;
    start = next - 1;  // the rest does not start with a first response
    end = rest.end;
    rest = {};
    keep_store_order();
    replay = false;
    return true;
  }
};
static_assert(sizeof(Replay) == 64);

/// The places of a connection. They outlive the connection.
struct ReplayPlaces {
  std::span<Replay> all;
  std::uint8_t* used;  ///< the places behind so many have never been taken
};

/// The latest reads and atomics of one responder, and the responses to them that are owed.
class Replays {
 public:
  /// Most replays of a connection.
  static constexpr std::uint32_t kMost = 128;

  Replays() = default;
  Replays(const Replays&) = delete;
  Replays& operator=(const Replays&) = delete;

  /// Uses the first `limit` places, at most all of them, and drops the previous replays.
  void open(const ReplayPlaces& places, std::uint32_t limit);
  /// Goes on with what an earlier engine has left in the places, before `expected`. Drops what is
  /// not consistent. REQUIRES: open() with other places and the same limit.
  void resume(const ReplayPlaces& places, Psn expected);
  /// Ends the use of the places.
  void close();
  bool is_open(std::uint32_t limit) const { return used_ != nullptr && limit_ == limit; }

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
  std::uint32_t size() const { return count_; }
  std::uint32_t limit() const { return limit_; }
  /// Returns a replay by age: 0 is the oldest one. REQUIRES: age < size().
  Replay& operator[](std::uint32_t age) { return places_[index(age)]; }
  /// REQUIRES: !empty().
  Replay& youngest() { return (*this)[count_ - 1]; }
  /// Adds the youngest replay. REQUIRES: !full().
  Replay& push();
  /// Drops the youngest replay, which is not owed. REQUIRES: !empty().
  void drop_youngest();
  /// Drops the oldest replay. REQUIRES: !empty().
  void pop();

 private:
  static constexpr std::uint32_t kUnknown = 0xffffffff;

  std::uint32_t index(std::uint32_t age) const {
    const std::uint32_t sum = oldest_ + age;
    return sum < limit_ ? sum : sum - limit_;
  }
  std::uint32_t age_of(const Replay& replay) const;
  void find_due(std::uint32_t from);

  std::span<Replay> places_;
  std::uint8_t* used_ = nullptr;
  std::uint32_t limit_ = 0;
  std::uint32_t count_ = 0;
  std::uint32_t oldest_ = 0;             ///< its place
  std::uint32_t due_ = 0;                ///< number of replays with responses owed
  std::uint32_t oldest_due_ = kUnknown;  ///< age of the oldest of them; kUnknown: to be searched
};

// Called for every response.

inline Replay& Replays::oldest_due() {
  assert(any_due());
  if (oldest_due_ == kUnknown) find_due(0);
  return (*this)[oldest_due_];
}

inline void Replays::settle(Replay& r) {
  if (!r.due) return;
  r.due = false;
  oldest_due_ = kUnknown;
  if (--due_ != 0) find_due(age_of(r) + 1);
}

}  // namespace softhca::transport
