// Dividing a number of alike things (PCBs, credits) into guarantees and a shared rest (mechanisms
// A1, A2). Things of a pool are interchangeable, so nothing has to remember where it was drawn
// from: of what a holder has in use, the first `guaranteed` are its own and the surplus is drawn
// from the shared rest. What it gives back therefore goes to the shared rest as long as it holds
// more than its guarantee, and others can have it at once.
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
  Gauge high_water;       ///< most in use at once
  bool may_share = true;  ///< false: the guarantee is also a hard cap

  bool below_guarantee() const { return in_use.value() < guaranteed.value(); }
  std::uint32_t own_in_use() const { return std::min(in_use.value(), guaranteed.value()); }
  std::uint32_t shared_in_use() const { return in_use.value() - own_in_use(); }
};

class QuotaPool {
 public:
  explicit QuotaPool(std::uint32_t total) : total_(total) {
    unallocated_.set(total);
    shared_free_.set(total);
  }

  std::uint32_t total() const { return total_; }
  /// Guaranteed to nobody: the size of the shared rest.
  std::uint32_t unallocated() const { return unallocated_.value(); }
  std::uint32_t shared_free() const { return shared_free_.value(); }
  std::uint32_t shared_in_use() const { return unallocated() - shared_free(); }

  /// Changes a guarantee; nobody loses what is in use. False, and nothing changes: the increase
  /// exceeds shared_free(), so it could not be honoured at once.
  bool set_guarantee(Quota& q, std::uint32_t guaranteed) {
    const std::uint32_t before = q.guaranteed.value();
    if (guaranteed > before && guaranteed - before > shared_free()) return false;
    const std::uint32_t shared_by_others = shared_in_use() - q.shared_in_use();
    q.guaranteed.set(guaranteed);
    unallocated_.set(unallocated() + before - guaranteed);
    shared_free_.set(unallocated() - shared_by_others - q.shared_in_use());
    return true;
  }

  /// Invariant: what is free is at least shared_free() and all that holders have left of their
  /// guarantees, so a holder below its guarantee always gets one.
  bool available(const Quota& q) const {
    return q.below_guarantee() || (q.may_share && shared_free() > 0);
  }

  /// Own first, else shared. False: neither.
  bool take(Quota& q) {
    const std::uint32_t in_use = q.in_use.value();
    if (in_use >= q.guaranteed.value()) {
      if (!q.may_share || shared_free() == 0) return false;
      shared_free_.subtract();
    }
    q.in_use.set(in_use + 1);
    q.high_water.raise_to(in_use + 1);
    return true;
  }

  /// REQUIRES: q has something in use.
  void put(Quota& q) {
    const std::uint32_t in_use = q.in_use.value();
    assert(in_use > 0);
    if (in_use > q.guaranteed.value()) shared_free_.add();
    q.in_use.set(in_use - 1);
  }

 private:
  std::uint32_t total_;
  Gauge unallocated_;
  Gauge shared_free_;
};

}  // namespace softhca
