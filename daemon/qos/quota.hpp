// Dividing a number of alike things (VCBs, PCBs, credits) into guarantees and a shared rest
// (mechanisms A1 to A4, A8). Things of a pool are interchangeable, so nothing has to remember where
// it was drawn from: of what a holder has in use, the first `guaranteed` are its own and the
// surplus is drawn from what is shared. What it gives back therefore goes to the shared part as
// long as it holds more than its guarantee, and others can have it at once.
//
// There may be two levels. A holder whose parent is given has its surplus from the parent: to the
// pool the parent is a holder too, its guarantee the part that its own holders share, its use what
// they drew beyond their own. So a thing is looked for in the holder's own part, then the parent's,
// then the pool's (A4). A holder is always used with the same parent, or always without.
//
// Lending (A10): what a holder leaves idle of its guarantee may count as shared for a while. When
// it asks for more than the rest of its guarantee, all it has lent is recalled at once: until that
// is back nobody else draws from the shared rest, and whatever comes back there goes to those who
// have recalled. What is recalled is in force again only as far as it is free, so nobody else's
// guarantee waits for it.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>

#include "daemon/base/counter.hpp"

namespace softhca {

/// One holder's account in a QuotaPool. Written by the owner of the pool only; what follows from
/// several numbers reads each of them once, since others may look meanwhile.
struct Quota {
  Gauge guaranteed;  ///< with what is lent of it
  Gauge in_use;
  Gauge high_water;  ///< most in use at once
  /// The part of the surplus that was the holder's own until its guarantee shrank, and is to come
  /// back (A8).
  Gauge draining;
  Gauge not_lent;          ///< guaranteed - lent: what is asked on the data path
  Gauge lent;              ///< of the guarantee: counts as shared until it is recalled
  Gauge peak;              ///< most in use at once since this was last set
  Counter recalls;         ///< of what was lent
  Counter recall_waits;    ///< times it was asked for and none of it was free
  bool may_share = true;   ///< false: the guarantee is also a hard cap
  bool recalling = false;  ///< what is lent is on its way back

  /// The part of the guarantee that is not lent.
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
  /// Things that nobody uses, guaranteed or not.
  std::uint32_t free() const { return free_.value(); }
  std::uint32_t in_use() const { return beyond(total(), free()); }
  /// The most in use at once, by all holders together.
  std::uint32_t high_water() const { return beyond(total(), least_free_.value()); }
  /// Things guaranteed to nobody.
  std::uint32_t unallocated() const { return unallocated_.value(); }
  /// Things guaranteed to holders that leave them idle, and lent.
  std::uint32_t lent() const { return lent_.value(); }
  /// Lent things that their holders have asked for, and that are not back.
  std::uint32_t recalled() const { return recalled_.value(); }
  /// The size of the shared rest.
  std::uint32_t shared() const { return unallocated() + lent(); }
  std::uint32_t shared_in_use() const { return shared_in_use_.value(); }
  std::uint32_t shared_free() const { return beyond(shared(), shared_in_use()); }
  /// Free things of the shared rest that are not recalled.
  std::uint32_t borrowable() const { return beyond(shared_free(), recalled()); }
  /// Things drawn beyond all guarantees and the shared rest: guarantees were given while what they
  /// are made of was in use. Until it is 0 nobody draws from the shared rest, and a holder below
  /// its guarantee may have to wait for the next one that is given back.
  std::uint32_t overdrawn() const { return beyond(shared_in_use(), shared()); }

  /// Changes a guarantee; nobody loses what is in use. A decrease is taken from what is lent first.
  /// False, and nothing changes: the increase exceeds unallocated().
  bool set_guarantee(Quota& q, std::uint32_t guaranteed) {
    const std::uint32_t before = q.guaranteed.value();
    if (guaranteed > before && guaranteed - before > unallocated()) return false;
    const std::uint32_t less = before - std::min(before, guaranteed);
    unallocated_.set(unallocated() + before - guaranteed);
    resize(q, guaranteed, q.lent.value() - std::min(q.lent.value(), less), q.in_use.value());
    return true;
  }

  /// As set_guarantee() above, for a holder with a parent: the difference comes from the parent's
  /// guarantee, or goes to it. The parent gives what it has lent last. False: the increase exceeds
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

  /// Lends `n` of what is idle. REQUIRES: so many of its guarantee are in force and not in use.
  void lend(Quota& q, std::uint32_t n) {
    assert(!q.recalling && n <= q.in_force() - q.own_in_use());
    resize(q, q.guaranteed.value(), q.lent.value() + n, q.in_use.value());
  }
  /// Asks for what is lent back, and puts what is free of it in force; the rest comes with later
  /// calls of this or take(). True: there is more in force than before.
  bool recall(Quota& q) { return recall(q, nullptr); }
  bool recall(Quota& q, Quota& parent) { return recall(q, &parent); }

  /// Adds to the total, unallocated.
  void grow(std::uint32_t n) {
    total_.add(n);
    unallocated_.add(n);
    free_.add(n);
    least_free_.add(n);
  }
  /// Takes from the total. REQUIRES: so many are unallocated and free.
  void shrink(std::uint32_t n) {
    assert(n <= unallocated() && n <= free());
    total_.subtract(n);
    unallocated_.subtract(n);
    free_.subtract(n);
    least_free_.subtract(std::min(n, least_free_.value()));
  }

  /// Invariant: free() + overdrawn() equals shared_free() plus what all holders have left of their
  /// guarantees in force, so unless something is overdrawn a holder below its guarantee always gets
  /// one.
  bool available(const Quota& q) const {
    if (q.below_guarantee()) return free() > 0;
    return q.lent.value() != 0 ? shared_free() > 0 : q.may_share && borrowable() > 0;
  }
  bool available(const Quota& q, const Quota& parent) const {
    if (q.below_guarantee()) return free() > 0;
    return q.lent.value() == 0 && q.may_share && available(parent);
  }
  /// As available(), for a holder that is about to take: it recalls what it has lent.
  bool request(Quota& q) {
    if (!q.below_guarantee() && q.lent.value() != 0) recall(q);
    return available(q);
  }

  /// Takes one: of the holder's own first, what it has lent last, else a shared one. False: there
  /// is neither.
  bool take(Quota& q) {
    if (!draw(q)) return false;
    take_free();
    return true;
  }
  /// Takes one: of the holder's own first, else of the parent's, else of the shared rest. False:
  /// there is none.
  bool take(Quota& q, Quota& parent) {
    if (!q.below_guarantee() && q.lent.value() != 0) recall(q, parent);
    if (q.below_guarantee() ? free() == 0 : q.lent.value() != 0 || !q.may_share || !draw(parent))
      return false;
    count(q);
    take_free();
    return true;
  }

  /// REQUIRES: q has something in use.
  void put(Quota& q) {
    give_back(q);
    free_.add();
  }
  void put(Quota& q, Quota& parent) {
    if (uncount(q)) give_back(parent);
    free_.add();
  }

 private:
  /// By how much `n` exceeds `m`, at least 0. Its arguments are values read once: their owner may
  /// change them meanwhile.
  static std::uint32_t beyond(std::uint32_t n, std::uint32_t m) { return n - std::min(n, m); }

  void take_free() {
    const std::uint32_t left = free() - 1;
    free_.set(left);
    if (left < least_free_.value()) least_free_.set(left);
  }

  /// The peak is never above the high-water mark.
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

  bool draw(Quota& q) {
    if (!request(q)) return false;
    if (!q.below_guarantee()) shared_in_use_.add();
    count(q);
    return true;
  }

  /// True: what was given back was of the surplus.
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

  /// While less is free than all want back, each gets one at a time. What a holder has drawn beyond
  /// the guarantee in force is there already.
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

  /// Surplus that a change creates is draining; surplus that a change covers no longer is.
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
