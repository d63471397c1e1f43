// SPDX-License-Identifier: Apache-2.0

#include "daemon/configuration/resource_manager/accounts.hpp"

#include <algorithm>
#include <cassert>

namespace softhca::configuration {

Charge::~Charge() {
  if (accounts_ != nullptr) accounts_->give_back(kind_, amount_);
}

void Accounts::set_limits(const ObjectLimits& limits) {
  for_each_kind([&](Kind kind) { set_limit(kind, limits[kind]); });
}

void Accounts::add(IdleHolder& holder) {
  holders_.push_back(&holder);
  if (whole_ != nullptr) whole_->add(holder);
}

void Accounts::remove(IdleHolder& holder) {
  std::erase(holders_, &holder);
  if (whole_ != nullptr) whole_->remove(holder);
}

/// True if there is room for `amount` once the holders have given up `idle` of the amount in use.
bool Accounts::has(Kind kind, std::uint64_t amount, std::uint64_t idle, std::uint64_t spare) const {
  const Account& own = of(kind);
  const std::uint64_t limit = own.limit.value() - std::min(spare, own.limit.value());
  const std::uint64_t used = own.in_use.value() - std::min(idle, own.in_use.value());
  return used <= limit && amount <= limit - used;
}

/// True if there is room, or if there would be room if all holders gave up their idle amounts.
bool Accounts::may_have(Kind kind, std::uint64_t amount, std::uint64_t spare) const {
  if (has(kind, amount, 0, spare)) return true;
  std::uint64_t idle = 0;
  for (const IdleHolder* holder : holders_) idle += holder->idle(kind);
  return has(kind, amount, idle, spare);
}

/// Makes holders give up their idle amounts, beginning with the largest. REQUIRES: may_have().
bool Accounts::make_room(Kind kind, std::uint64_t amount, std::uint64_t spare) {
  while (!has(kind, amount, 0, spare)) {
    const std::uint64_t before = in_use(kind);
    (*std::max_element(
         holders_.begin(), holders_.end(),
         [&](const IdleHolder* a, const IdleHolder* b) { return a->idle(kind) < b->idle(kind); }))
        ->give_up_idle(kind);
    assert(in_use(kind) < before);
    if (in_use(kind) >= before) return false;
  }
  return true;
}

Charge Accounts::take(Kind kind, std::uint64_t amount, std::uint64_t spare) {
  // Holders give up nothing if that would not be enough.
  if (!may_have(kind, amount, spare)) {
    of(kind).refused.add();
    return {};
  }
  if (whole_ != nullptr && !whole_->may_have(kind, amount, 0)) {
    of(kind).refused_by_whole.add();
    return {};
  }
  if (!make_room(kind, amount, spare) || (whole_ != nullptr && !whole_->make_room(kind, amount, 0)))
    return {};
  add(kind, amount);
  return {this, kind, amount};
}

void Accounts::add(Kind kind, std::uint64_t amount) {
  Account& own = of(kind);
  own.in_use.add(amount);
  own.high_water.raise_to(own.in_use.value());
  if (whole_ != nullptr) whole_->add(kind, amount);
}

void Accounts::give_back(Kind kind, std::uint64_t amount) {
  assert(of(kind).in_use.value() >= amount);
  of(kind).in_use.subtract(amount);
  if (whole_ != nullptr) whole_->give_back(kind, amount);
}

}  // namespace softhca::configuration
