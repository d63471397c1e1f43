// Queue pairs by number and by slot. A number is 24 bits: the slot in the low part, above it a
// generation that changes with every use of the slot, so that a late packet finds nobody.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "daemon/engine/objects.hpp"

namespace softhca::engine {

class QpTable {
 public:
  /// The daemon's own queue pairs, beyond those of tenants. Their numbers, 1 to kOwn, are well
  /// known, so their slots need not be part of them. 0 is nobody's.
  static constexpr std::uint32_t kOwn = 2;

  /// `queue_pairs` is rounded up to a power of two above kOwn. `seed` decides the order of the
  /// slots and the first generation of each, so that a peer that has no connection does not know
  /// the numbers of others; 0: they count up.
  explicit QpTable(std::uint32_t queue_pairs, std::uint64_t seed = 0);

  /// Slots, in use or not: 0 to slots() - 1.
  std::uint32_t slots() const { return static_cast<std::uint32_t>(by_slot_.size()); }
  /// Gives the queue pair its slot and number. False: no slot is free.
  bool add(QueuePair& qp);
  /// Gives one of the daemon's own its slot. False: its number is taken. REQUIRES: it has one.
  bool add_own(QueuePair& qp);
  void remove(QueuePair& qp);
  /// The queue pair goes over to another process.
  void hand_over(QueuePair& qp, Session& heir);

  /// Null: nobody has this number.
  QueuePair* find(Qpn qpn) const;
  /// True if the number was that of a queue pair of the session, the last of its slot that went.
  bool had(const Session& session, Qpn qpn) const;
  /// Null: the slot is free.
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
  void scatter(std::uint64_t seed);
  void enter(QueuePair& qp, std::uint32_t slot);

  std::uint32_t slot_bits_;
  std::vector<QueuePair*> by_slot_;
  /// By slot. Most queue pairs are idle: what receives none takes no memory here.
  std::unique_ptr<shm::ReceiveWork[]> receives_;
  std::vector<std::uint32_t> generations_;
  struct Former {
    Qpn qpn;
    SessionId session;
  };
  std::vector<Former> former_;      ///< by slot
  std::deque<std::uint32_t> free_;  ///< by age
  std::vector<std::uint32_t> free_own_;
  std::array<QueuePair*, kOwn + 1> well_known_{};  ///< by number
};

}  // namespace softhca::engine
