// SPDX-License-Identifier: Apache-2.0

// Divides a number of identical things (VCBs, PCBs, credits) into guarantees and a shared part
// (mechanisms A1 to A4, A8). The things are interchangeable, so the pool does not record where each
// was drawn from. The first `guaranteed` things that a holder uses are its own; the surplus is
// drawn from the shared part. A holder with a surplus therefore gives back to the shared part,
// where other holders can have the thing at once.
//
// There may be two levels. A holder with a parent draws its surplus from the parent. To the pool,
// the parent is a holder too: its guarantee is the part that its own holders share, and its use is
// what they drew beyond their own guarantees. A take therefore tries the holder's own part, then
// the parent's, then the pool's (A4). A holder is always used with the same parent, or always
// without one.
//
// Lending (A10): the part of a guarantee that its holder leaves idle may count as shared for a
// while. When the holder asks for more than the part still in force, everything it has lent is
// recalled at once. Until all of that is back, no other holder draws from the shared part, and what
// comes back there goes to the holders that recall. A recalled thing is in force again only when it
// is free, so no other holder has to wait for its guarantee.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>

#include "daemon/base/counter.hpp"

namespace softhca {

/// One holder's account in a QuotaPool. Only the thread that owns the pool writes it. Other threads
/// may read it meanwhile, so a function that combines several numbers reads each of them once.
struct Quota {
  Gauge guaranteed;  ///< including the part that is lent
  Gauge in_use;
  Gauge high_water;  ///< most in use at once
  /// Surplus that was within the guarantee until the guarantee shrank, and that is to come back
  /// (A8).
  Gauge draining;
  Gauge not_lent;          ///< guaranteed - lent, which the data path reads
  Gauge lent;              ///< part of the guarantee that counts as shared until it is recalled
  Gauge peak;              ///< most in use at once since the peak was last reset
  Counter recalls;         ///< times the holder recalled what it had lent
  Counter recall_waits;    ///< times a recall found none of it free
  bool may_share = true;   ///< false: the guarantee is also a hard cap
  bool recalling = false;  ///< true while a recall is not complete

  /// Returns the part of the guarantee that is not lent.
  std::uint32_t in_force() const { return not_lent.value(); }
  bool below_guarantee() const { return in_use.value() < in_force(); }
  std::uint32_t own_in_use() const { return std::min(in_use.value(), in_force()); }
  std::uint32_t shared_in_use() const {
    const std::uint32_t all = in_use.value();
    return all - std::min(all, in_force());
  }
};

class QuotaPool {
 public:
  explicit QuotaPool(std::uint32_t total) {
    total_.set(total);
    unallocated_.set(total);
    free_.set(total);
    least_free_.set(total);
  }

  std::uint32_t total() const { return total_.value(); }
  /// Returns how many things are not in use, guaranteed or not.
  std::uint32_t free() const { return free_.value(); }
  std::uint32_t in_use() const { return beyond(total(), free()); }
  /// Returns the most that all holders together had in use at once.
  std::uint32_t high_water() const { return beyond(total(), least_free_.value()); }
  /// Returns how many things are guaranteed to no holder.
  std::uint32_t unallocated() const { return unallocated_.value(); }
  /// Returns how many guaranteed things are lent because their holders leave them idle.
  std::uint32_t lent() const { return lent_.value(); }
  /// Returns how many lent things their holders have recalled and not got back.
  std::uint32_t recalled() const { return recalled_.value(); }
  /// Returns the size of the shared part.
  std::uint32_t shared() const { return unallocated() + lent(); }
  std::uint32_t shared_in_use() const { return shared_in_use_.value(); }
  std::uint32_t shared_free() const { return beyond(shared(), shared_in_use()); }
  /// Returns how many things of the shared part are free and not recalled.
  std::uint32_t borrowable() const { return beyond(shared_free(), recalled()); }
  /// Returns how many things are drawn beyond all guarantees and the shared part: guarantees were
  /// given while the things behind them were in use. Until it is 0, no holder draws from the shared
  /// part, and a holder below its guarantee may have to wait until one is given back.
  std::uint32_t overdrawn() const { return beyond(shared_in_use(), shared()); }

  /// Changes a guarantee; no holder loses what it has in use. A decrease is taken first from what
  /// is lent. Returns false, without any change, if the increase exceeds unallocated().
  bool set_guarantee(Quota& q, std::uint32_t guaranteed) {
    const std::uint32_t before = q.guaranteed.value();
    if (guaranteed > before && guaranteed - before > unallocated()) return false;
    const std::uint32_t less = before - std::min(before, guaranteed);
    unallocated_.set(unallocated() + before - guaranteed);
    resize(q, guaranteed, q.lent.value() - std::min(q.lent.value(), less), q.in_use.value());
    return true;
  }

  /// Same as above, for a holder with a parent: the parent's guarantee changes by the opposite
  /// amount. An increase takes what the parent has lent last. Returns false if the increase exceeds
  /// the parent's guarantee.
  bool set_guarantee(Quota& q, Quota& parent, std::uint32_t guaranteed) {
    const std::uint32_t before = q.guaranteed.value();
    const std::uint32_t left = parent.guaranteed.value();
    if (guaranteed > before && guaranteed - before > left) return false;
    const std::uint32_t less = before - std::min(before, guaranteed);
    const std::uint32_t more = guaranteed - std::min(before, guaranteed);
    const std::uint32_t given = std::min(q.lent.value(), less);
    const std::uint32_t taken = more - std::min(more, parent.in_force());
    const std::uint32_t surplus = q.shared_in_use();
    set(q, guaranteed, q.lent.value() - given + taken, q.in_use.value());
    resize(parent, left + before - guaranteed, parent.lent.value() + given - taken,
           parent.in_use.value() + q.shared_in_use() - surplus);
    return true;
  }

  /// Lends `n` idle things. REQUIRES: the holder has that many in force and not in use.
  void lend(Quota& q, std::uint32_t n) {
    assert(!q.recalling && n <= q.in_force() - q.own_in_use());
    resize(q, q.guaranteed.value(), q.lent.value() + n, q.in_use.value());
  }
  /// Recalls the lent part and puts in force as much as is free. Later calls of this function or of
  /// take() bring back the rest. Returns true if more is in force than before.
  bool recall(Quota& q) { return recall(q, nullptr); }
  bool recall(Quota& q, Quota& parent) { return recall(q, &parent); }

  /// Adds to the total; the new things are unallocated.
  void grow(std::uint32_t n) {
    total_.add(n);
    unallocated_.add(n);
    free_.add(n);
    least_free_.add(n);
  }
  /// Takes from the total. REQUIRES: that many things are unallocated and free.
  void shrink(std::uint32_t n) {
    assert(n <= unallocated() && n <= free());
    total_.subtract(n);
    unallocated_.subtract(n);
    free_.subtract(n);
    least_free_.subtract(std::min(n, least_free_.value()));
  }

  /// True if take() would succeed, without a recall. Invariant: free() + overdrawn() equals
  /// shared_free() plus the unused guarantees in force of all holders. So a holder below its
  /// guarantee always gets a thing unless something is overdrawn.
  bool available(const Quota& q) const {
    if (q.below_guarantee()) return free() > 0;
    return q.lent.value() != 0 ? shared_free() > 0 : q.may_share && borrowable() > 0;
  }
  bool available(const Quota& q, const Quota& parent) const {
    if (q.below_guarantee()) return free() > 0;
    return q.lent.value() == 0 && q.may_share && available(parent);
  }
  /// Same as available(), for a holder that is about to take: recalls what it has lent.
  bool request(Quota& q) {
    if (q.below_guarantee()) return free() > 0;
    if (q.lent.value() != 0) [[unlikely]]
      recall(q);
    return available(q);
  }

  /// Takes one of the holder's own things, then one that it has lent, else a shared one. Returns
  /// false if none is available.
  bool take(Quota& q) {
    if (!request(q)) return false;
    take_requested(q);
    return true;
  }
  /// Does the same. REQUIRES: request() has returned true, and nothing has changed since.
  void take_requested(Quota& q) {
    count_drawn(q);
    take_free();
  }
  /// Takes one of the holder's own things, else one of the parent's, else a shared one. Returns
  /// false if none is available.
  bool take(Quota& q, Quota& parent) {
    if (!q.below_guarantee() && q.lent.value() != 0) recall(q, parent);
    if (q.below_guarantee() ? free() == 0 : q.lent.value() != 0 || !q.may_share || !draw(parent))
      return false;
    count(q);
    take_free();
    return true;
  }

  /// Gives back one. REQUIRES: q has something in use.
  void put(Quota& q) {
    give_back(q);
    free_.add();
  }
  void put(Quota& q, Quota& parent) {
    if (uncount(q)) give_back(parent);
    free_.add();
  }

 private:
  /// Returns n - m, or 0 if m is larger. The arguments are values that were read once: the owner
  /// may change the originals meanwhile.
  static std::uint32_t beyond(std::uint32_t n, std::uint32_t m) { return n - std::min(n, m); }

  void take_free() {
    const std::uint32_t left = free() - 1;
    free_.set(left);
    if (left < least_free_.value()) least_free_.set(left);
  }

  /// Keeps the peak at or below the high-water mark.
  static void raise_peak(Quota& q, std::uint32_t in_use) {
    if (in_use <= q.peak.value()) return;
    q.peak.set(in_use);
    q.high_water.raise_to(in_use);
  }

  static void count(Quota& q) {
    const std::uint32_t in_use = q.in_use.value() + 1;
    q.in_use.set(in_use);
    raise_peak(q, in_use);
  }

  void count_drawn(Quota& q) {
    if (!q.below_guarantee()) shared_in_use_.add();
    count(q);
  }

  bool draw(Quota& q) {
    if (!request(q)) return false;
    count_drawn(q);
    return true;
  }

  /// Counts one less in use. Returns true if it was part of the surplus.
  static bool uncount(Quota& q) {
    const std::uint32_t in_use = q.in_use.value();
    assert(in_use > 0);
    q.in_use.set(in_use - 1);
    if (in_use <= q.in_force()) return false;
    if (q.draining.value() != 0) q.draining.subtract();
    return true;
  }

  void give_back(Quota& q) {
    if (uncount(q)) shared_in_use_.subtract();
  }

  /// If less is free than all holders recall, each gets one at a time. What a holder itself has
  /// drawn beyond its guarantee in force is already back.
  bool recall(Quota& q, Quota* parent) {
    if (q.lent.value() == 0) return false;
    if (!q.recalling) {
      q.recalling = true;
      q.recalls.add();
      recalled_.add(q.lent.value());
    }
    const std::uint32_t surplus = q.shared_in_use();
    const std::uint32_t drawn = parent ? std::min(surplus, parent->shared_in_use()) : surplus;
    const std::uint32_t n = shared_free() >= recalled()
                                ? q.lent.value()
                                : std::min(q.lent.value(), drawn + std::min(shared_free(), 1u));
    if (n == 0) {
      q.recall_waits.add();
      return false;
    }
    if (parent == nullptr) {
      resize(q, q.guaranteed.value(), q.lent.value() - n, q.in_use.value());
      return true;
    }
    set(q, q.guaranteed.value(), q.lent.value() - n, q.in_use.value());
    resize(*parent, parent->guaranteed.value(), parent->lent.value(),
           parent->in_use.value() - (surplus - q.shared_in_use()));
    return true;
  }

  /// Surplus that a change creates is draining; surplus that a change covers stops draining.
  void set(Quota& q, std::uint32_t guaranteed, std::uint32_t lent, std::uint32_t in_use) {
    const std::uint32_t before = q.shared_in_use();
    lent_.set(lent_.value() - q.lent.value() + lent);
    if (q.recalling) recalled_.set(recalled() - q.lent.value() + lent);
    if (lent == 0) q.recalling = false;
    q.guaranteed.set(guaranteed);
    q.lent.set(lent);
    q.not_lent.set(guaranteed - lent);
    q.in_use.set(in_use);
    raise_peak(q, in_use);
    const std::uint32_t after = q.shared_in_use();
    q.draining.set(std::min(after, q.draining.value() + std::max(after, before) - before));
  }

  void resize(Quota& q, std::uint32_t guaranteed, std::uint32_t lent, std::uint32_t in_use) {
    const std::uint32_t before = q.shared_in_use();
    set(q, guaranteed, lent, in_use);
    shared_in_use_.set(shared_in_use() + q.shared_in_use() - before);
  }

  Gauge total_;
  Gauge unallocated_;
  Gauge lent_;
  Gauge recalled_;
  Gauge shared_in_use_;
  Gauge free_;
  Gauge least_free_;
};

}  // namespace softhca
