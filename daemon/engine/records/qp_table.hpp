// SPDX-License-Identifier: Apache-2.0

// Queue pairs by number and by slot. A number has 24 bits: the slot in the low part, and above it a
// generation that changes with every use of the slot. A late packet therefore matches no queue
// pair.
#pragma once

#include <array>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <memory>
#include <vector>

#include "daemon/engine/records/durable_state.hpp"
#include "daemon/engine/records/objects.hpp"

namespace softhca::engine {

class QpTable {
 public:
  /// The number of queue pairs of the daemon's own, in addition to those of tenants. Their numbers,
  /// 1 to kOwn, are well known and do not contain their slots. No queue pair has the number 0.
  static constexpr std::uint32_t kOwn = 2;

  /// Returns the number of slots for so many queue pairs of tenants: a power of two above kOwn.
  static std::uint32_t slots_for(std::uint32_t queue_pairs);

  /// `state` outlives the table. `seed` determines the order of the slots and the first generation
  /// of each, so that a peer without a connection cannot guess the numbers of others. 0: numbers
  /// count up. The slots of an earlier engine's queue pairs stay in use until drop_left().
  explicit QpTable(DurableState& state, std::uint64_t seed = 0);

  /// Returns the number of slots, in use or not: 0 to slots() - 1.
  std::uint32_t slots() const { return static_cast<std::uint32_t>(by_slot_.size()); }
  /// Gives the queue pair its slot and number. False: no slot is free.
  bool add(QueuePair& qp);
  /// Gives the queue pair a number that an earlier engine of the same number of slots chose, and
  /// its slot. False: the slot is in use, or no engine of this size chooses the number. If that
  /// engine has left the queue pair, `durable` and `work` are not those of the slot before
  /// take_over().
  bool add(QueuePair& qp, Qpn number);
  /// True if an earlier engine has left a queue pair of this number, and take_over() was not
  /// called.
  bool is_left(Qpn number) const;
  /// Lets the queue pair go on from what the earlier engine has left. REQUIRES: is_left().
  void take_over(QueuePair& qp);
  /// Frees the slots of queue pairs of the earlier engine that were not taken over.
  void drop_left();
  /// Gives a queue pair of the daemon's own its slot. False: its number is in use. REQUIRES: it has
  /// a number.
  bool add_own(QueuePair& qp);
  /// `now`: the time of the engine's step. `with_session`: its session ends.
  void remove(QueuePair& qp, Time now = {}, bool with_session = false);
  /// Moves the queue pair to the session of another process.
  void hand_over(QueuePair& qp, Session& heir);

  /// Returns the queue pair with this number; null if there is none.
  QueuePair* find(Qpn qpn) const;
  /// True if the number belonged to a queue pair of the session, the last one removed from its
  /// slot.
  bool had(const Session& session, Qpn qpn) const;
  /// A queue pair that was removed.
  struct Former {
    Qpn qpn;
    SessionId session;
    std::uint32_t process;
    TenantId tenant;
    bool with_session;  ///< its session ended
    Time at;
  };
  /// Returns the queue pair that was last removed from the slot of this number, if it had the
  /// number.
  const Former* former(Qpn qpn) const;
  /// Returns the queue pair in the slot; null if the slot is free.
  QueuePair* at(std::uint32_t slot) const { return by_slot_[slot]; }
  /// REQUIRES: the slot is in use.
  QueuePair& operator[](std::uint32_t slot) const { return *by_slot_[slot]; }

  template <class Visit>
  void for_each(Visit&& visit) const {
    for (QueuePair* qp : by_slot_)
      if (qp != nullptr) visit(*qp);
  }

 private:
  std::uint32_t last_generation() const;
  std::uint32_t slot_of(Qpn number) const { return number.value & ((1u << slot_bits_) - 1); }
  void scatter(std::uint64_t seed);
  void find_left();
  void enter(QueuePair& qp, std::uint32_t slot);

  DurableState& state_;
  std::uint32_t slot_bits_;
  std::vector<QueuePair*> by_slot_;
  std::vector<std::uint32_t> generations_;
  std::vector<bool> left_;  ///< by slot; empty if no earlier engine has left anything
  // What queue pairs use that are not taken over yet. Nothing reads it.
  QpDurable unused_{};
  shm::ReceiveWork unused_work_{};
  struct Free {
    void operator()(Former* all) const { std::free(all); }
  };
  /// By slot; zero for slots that were never freed. Their pages are not touched.
  std::unique_ptr<Former[], Free> former_;
  std::deque<std::uint32_t> free_;  ///< freed first, used first; may also have slots in use
  std::vector<std::uint32_t> free_own_;
  std::array<QueuePair*, kOwn + 1> well_known_{};  ///< by number
};

}  // namespace softhca::engine
