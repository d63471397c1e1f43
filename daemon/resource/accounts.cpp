#include "daemon/resource/accounts.hpp"

#include <cassert>

namespace softhca::resource {

Charge::~Charge() {
  if (accounts_ != nullptr) accounts_->give_back(kind_, amount_);
}

void Accounts::set_limits(const Amounts& limits) {
  for_each_kind([&](Kind kind) { set_limit(kind, limits[kind]); });
}

Charge Accounts::take(Kind kind, std::uint64_t amount) {
  Account& own = of(kind);
  if (!own.has(amount)) {
    own.refused.add();
    return {};
  }
  if (whole_ != nullptr && !whole_->of(kind).has(amount)) {
    own.refused_by_whole.add();
    return {};
  }
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

}  // namespace softhca::resource
