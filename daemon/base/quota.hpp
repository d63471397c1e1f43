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
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>

#include "daemon/base/counter.hpp"

namespace softhca {

/// One holder's account in a QuotaPool. Written by the owner of the pool only.
struct Quota {
  Gauge guaranteed;
  Gauge in_use;
  Gauge high_water;  ///< most in use at once
  /// Of the surplus: what was the holder's own until its guarantee shrank, and is to come back
  /// (A8).
  Gauge draining;
  bool may_share = true;  ///< false: the guarantee is also a hard cap

  bool below_guarantee() const { return in_use.value() < guaranteed.value(); }
  std::uint32_t own_in_use() const { return std::min(in_use.value(), guaranteed.value()); }
  std::uint32_t shared_in_use() const { return in_use.value() - own_in_use(); }
};

class QuotaPool {
 public:
  explicit QuotaPool(std::uint32_t total) {
    total_.set(total);
    unallocated_.set(total);
    free_.set(total);
  }

  std::uint32_t total() const { return total_.value(); }
  /// In use by nobody, whosever they are.
  std::uint32_t free() const { return free_.value(); }
  /// Guaranteed to nobody: the size of the shared rest.
  std::uint32_t unallocated() const { return unallocated_.value(); }
  std::uint32_t shared_in_use() const { return shared_in_use_.value(); }
  std::uint32_t shared_free() const {
    return unallocated() - std::min(unallocated(), shared_in_use());
  }
  /// Drawn beyond all guarantees and the shared rest: guarantees were given while what they are
  /// made of was in use. Until it is 0 nobody draws from the shared rest, and a holder below its
  /// guarantee may have to wait for the next one that is given back.
  std::uint32_t overdrawn() const {
    return shared_in_use() - std::min(unallocated(), shared_in_use());
  }

  /// Changes a guarantee; nobody loses what is in use. False, and nothing changes: the increase
  /// exceeds unallocated().
  bool set_guarantee(Quota& q, std::uint32_t guaranteed) {
    const std::uint32_t before = q.guaranteed.value();
    if (guaranteed > before && guaranteed - before > unallocated()) return false;
    unallocated_.set(unallocated() + before - guaranteed);
    resize(q, guaranteed, q.in_use.value());
    return true;
  }

  /// Likewise for a holder with a parent; the rest stays or becomes the parent's. False: the
  /// increase exceeds the parent's guarantee.
  bool set_guarantee(Quota& q, Quota& parent, std::uint32_t guaranteed) {
    const std::uint32_t before = q.guaranteed.value();
    const std::uint32_t left = parent.guaranteed.value();
    if (guaranteed > before && guaranteed - before > left) return false;
    const std::uint32_t surplus = q.shared_in_use();
    set_and_drain(q, guaranteed, q.in_use.value());
    resize(parent, left + before - guaranteed, parent.in_use.value() + q.shared_in_use() - surplus);
    return true;
  }

  /// Adds to the total, unallocated. Control only.
  void grow(std::uint32_t n) {
    total_.add(n);
    unallocated_.add(n);
    free_.add(n);
  }
  /// Takes from the total. REQUIRES: so many are unallocated and free.
  void shrink(std::uint32_t n) {
    assert(n <= unallocated() && n <= free());
    total_.subtract(n);
    unallocated_.subtract(n);
    free_.subtract(n);
  }

  /// Invariant: free() + overdrawn() is shared_free() and all that holders have left of their
  /// guarantees, so unless overdrawn a holder below its guarantee always gets one.
  bool available(const Quota& q) const {
    return q.below_guarantee() ? free() > 0 : q.may_share && shared_free() > 0;
  }

  /// Own first, else shared. False: neither.
  bool take(Quota& q) {
    if (!draw(q)) return false;
    free_.subtract();
    return true;
  }
  /// Own first, else the parent's, else the shared rest. False: none of them.
  bool take(Quota& q, Quota& parent) {
    if (q.below_guarantee() ? free() == 0 : !q.may_share || !draw(parent)) return false;
    count(q);
    free_.subtract();
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
  static void count(Quota& q) {
    const std::uint32_t in_use = q.in_use.value() + 1;
    q.in_use.set(in_use);
    q.high_water.raise_to(in_use);
  }

  bool draw(Quota& q) {
    if (!available(q)) return false;
    if (!q.below_guarantee()) shared_in_use_.add();
    count(q);
    return true;
  }

  /// True: it was of the surplus.
  static bool uncount(Quota& q) {
    const std::uint32_t in_use = q.in_use.value();
    assert(in_use > 0);
    q.in_use.set(in_use - 1);
    if (in_use <= q.guaranteed.value()) return false;
    if (q.draining.value() != 0) q.draining.subtract();
    return true;
  }

  void give_back(Quota& q) {
    if (uncount(q)) shared_in_use_.subtract();
  }

  /// The surplus that comes of a change is draining; what the change covers is not any more.
  static void set_and_drain(Quota& q, std::uint32_t guaranteed, std::uint32_t in_use) {
    const std::uint32_t before = q.shared_in_use();
    q.guaranteed.set(guaranteed);
    q.in_use.set(in_use);
    q.high_water.raise_to(in_use);
    const std::uint32_t after = q.shared_in_use();
    q.draining.set(std::min(after, q.draining.value() + std::max(after, before) - before));
  }

  void resize(Quota& q, std::uint32_t guaranteed, std::uint32_t in_use) {
    const std::uint32_t before = q.shared_in_use();
    set_and_drain(q, guaranteed, in_use);
    shared_in_use_.set(shared_in_use() + q.shared_in_use() - before);
  }

  Gauge total_;
  Gauge unallocated_;
  Gauge shared_in_use_;
  Gauge free_;
};

}  // namespace softhca
