// SPDX-License-Identifier: Apache-2.0

// Accounts of the amounts in use of each kind, and their limits. The accounts of a tenant lie
// within those of the whole adapter: each amount counts in both. Taking an amount yields a Charge.
// The end of the Charge gives the amount back, exactly once, however the object ends for which it
// was taken.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "daemon/base/counter.hpp"
#include "daemon/configuration/object_limits.hpp"

namespace softhca::configuration {

class Accounts;

/// An amount that is taken until the Charge goes out of scope. Empty: refused, moved from or never
/// taken.
class [[nodiscard]] Charge {
 public:
  Charge() = default;
  Charge(Charge&& other) noexcept
      : accounts_(std::exchange(other.accounts_, nullptr)),
        kind_(other.kind_),
        amount_(other.amount_) {}
  Charge& operator=(Charge&& other) noexcept {
    Charge taken(std::move(other));
    std::swap(accounts_, taken.accounts_);
    std::swap(kind_, taken.kind_);
    std::swap(amount_, taken.amount_);
    return *this;
  }
  ~Charge();

  explicit operator bool() const { return accounts_ != nullptr; }
  std::uint64_t amount() const { return accounts_ != nullptr ? amount_ : 0; }

  /// Splits off a separate charge for `amount`. REQUIRES: amount <= amount().
  Charge split(std::uint64_t amount) {
    amount_ -= amount;
    return {accounts_, kind_, amount};
  }

 private:
  friend class Accounts;
  Charge(Accounts* accounts, Kind kind, std::uint64_t amount)
      : accounts_(accounts), kind_(kind), amount_(amount) {}

  Accounts* accounts_ = nullptr;
  Kind kind_{};
  std::uint64_t amount_ = 0;
};

/// A holder of amounts that it does not need at present. They count as taken, but do not reduce
/// what others may take: they are given up first.
class IdleHolder {
 public:
  /// Returns how much the holder could give up.
  virtual std::uint64_t idle(Kind kind) const = 0;
  /// Gives up some of it. REQUIRES: idle(kind) is not 0.
  virtual void give_up_idle(Kind kind) = 0;

 protected:
  ~IdleHolder() = default;
};

/// Only the control thread writes accounts; any thread may read them. They must outlive their
/// charges, and must not move while there are any.
class Accounts {
 public:
  /// Puts the accounts within `whole`. REQUIRES: nothing is taken.
  void set_whole(Accounts& whole) { whole_ = &whole; }

  /// Sets the limits. May be called at any time. A limit below the amount in use takes nothing back
  /// and refuses further requests.
  void set_limits(const ObjectLimits& limits);
  void set_limit(Kind kind, std::uint64_t limit) { of(kind).limit.set(limit); }

  /// Adds a holder. Its idle amounts are taken back when others need them. REQUIRES: `holder` takes
  /// its amounts from these accounts.
  void add(IdleHolder& holder);
  void remove(IdleHolder& holder);

  /// Takes an amount. Returns an empty Charge and counts a refusal if it would exceed a limit, of
  /// these accounts or of the whole, or would leave less than `spare` below the limit here. Idle
  /// amounts count as free.
  Charge take(Kind kind, std::uint64_t amount = 1, std::uint64_t spare = 0);

  /// Takes an amount that an earlier adapter had taken, whatever the limits are now.
  Charge take_again(Kind kind, std::uint64_t amount) {
    add(kind, amount);
    return {this, kind, amount};
  }

  std::uint64_t limit(Kind kind) const { return of(kind).limit.value(); }
  std::uint64_t in_use(Kind kind) const { return of(kind).in_use.value(); }
  std::uint64_t high_water(Kind kind) const { return of(kind).high_water.value(); }
  /// Return the refusals by the limit here, and by that of the whole.
  std::uint64_t refused(Kind kind) const { return of(kind).refused.value(); }
  std::uint64_t refused_by_whole(Kind kind) const { return of(kind).refused_by_whole.value(); }

 private:
  friend class Charge;
  struct Account {
    Counter limit, in_use, high_water;
    Counter refused, refused_by_whole;
  };

  Account& of(Kind kind) { return accounts_[static_cast<std::size_t>(kind)]; }
  const Account& of(Kind kind) const { return accounts_[static_cast<std::size_t>(kind)]; }
  bool may_have(Kind kind, std::uint64_t amount, std::uint64_t spare) const;
  bool make_room(Kind kind, std::uint64_t amount, std::uint64_t spare);
  bool has(Kind kind, std::uint64_t amount, std::uint64_t idle, std::uint64_t spare) const;
  void add(Kind kind, std::uint64_t amount);
  void give_back(Kind kind, std::uint64_t amount);

  std::array<Account, kKinds> accounts_;
  Accounts* whole_ = nullptr;
  std::vector<IdleHolder*> holders_;
};

}  // namespace softhca::configuration
