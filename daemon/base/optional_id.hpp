// SPDX-License-Identifier: Apache-2.0

// An Id or none, like std::optional, but returned in a register, because none is a number that no
// Id has. gcc builds a std::optional<Id> in memory by two stores. The load of both that follows
// waits for these stores, some 4 ns each time, and the path of a command has several.
#pragma once

#include <optional>

#include "daemon/base/types.hpp"

namespace softhca {

/// REQUIRES: no Id has the largest number.
template <class Id>
class OptionalId {
 public:
  constexpr OptionalId() = default;
  constexpr OptionalId(std::nullopt_t) {}
  constexpr OptionalId(Id id) : id_(id) {}

  constexpr bool has_value() const { return id_ != kNone; }
  constexpr explicit operator bool() const { return has_value(); }
  /// REQUIRES: has_value().
  constexpr const Id& operator*() const { return id_; }
  constexpr const Id* operator->() const { return &id_; }
  constexpr bool operator==(const OptionalId&) const = default;

 private:
  static constexpr Id kNone{static_cast<decltype(Id::value)>(-1)};

  Id id_ = kNone;
};

using OptionalPcb = OptionalId<PcbId>;

}  // namespace softhca
