// What is taken of each kind of thing, up to which limit. An account of a tenant lies within that
// of the whole adapter: what is taken counts in both. Taking yields a Charge, and the end of the
// Charge gives back, exactly once, whichever way the object it was taken for ends.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "daemon/base/counter.hpp"
#include "daemon/resource/amounts.hpp"

namespace softhca::resource {

class Accounts;

/// Something taken, until it goes out of scope. Empty: refused, moved from or never taken.
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

  /// Splits off a charge of its own for `amount`. REQUIRES: amount <= amount().
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

/// A holder of things that it could do without for the time being. They count as taken, but do not
/// keep anybody from taking as many: they are given up first.
class IdleHolder {
 public:
  /// How much could be given up.
  virtual std::uint64_t idle(Kind kind) const = 0;
  /// Gives up some of it. REQUIRES: idle(kind) is not 0.
  virtual void give_up_idle(Kind kind) = 0;

 protected:
  ~IdleHolder() = default;
};

/// Written by the control thread alone, read by any. Must outlive its charges, and stay where it
/// is as long as there are some.
class Accounts {
 public:
  /// From now on the accounts lie within `whole`. REQUIRES: nothing is taken.
  void set_whole(Accounts& whole) { whole_ = &whole; }

  /// May be called at any time. A limit below what is in use takes nothing away and refuses more.
  void set_limits(const Amounts& limits);
  void set_limit(Kind kind, std::uint64_t limit) { of(kind).limit.set(limit); }

  /// Adds a holder whose idle things are taken back when others need them. REQUIRES: what `holder`
  /// takes it takes here.
  void add(IdleHolder& holder);
  void remove(IdleHolder& holder);

  /// Takes something. An empty Charge, and a refusal is counted: it would exceed a limit, here or
  /// of the whole, or leave less than `spare` below the limit here, even if nothing were idle.
  Charge take(Kind kind, std::uint64_t amount = 1, std::uint64_t spare = 0);

  std::uint64_t limit(Kind kind) const { return of(kind).limit.value(); }
  std::uint64_t in_use(Kind kind) const { return of(kind).in_use.value(); }
  std::uint64_t high_water(Kind kind) const { return of(kind).high_water.value(); }
  /// Refusals by the limit here, and by that of the whole.
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

}  // namespace softhca::resource
