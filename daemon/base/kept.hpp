// SPDX-License-Identifier: Apache-2.0

// Owner of what is kept for the adapter that follows.
#pragma once

#include <utility>

#include "daemon/base/expected.hpp"
#include "daemon/base/keeping.hpp"

namespace softhca {

/// Ends the keeping when it is destroyed. An adapter that retires destroys none.
class Kept {
 public:
  /// Owns nothing.
  Kept() = default;
  /// Owns what an earlier adapter gave. `id` 0: nothing.
  Kept(Keeping* keeping, KeptId id) : keeping_(keeping), id_(id) {}
  Kept(Kept&& other) noexcept : keeping_(other.keeping_), id_(std::exchange(other.id_, 0)) {}
  Kept& operator=(Kept&& other) noexcept {
    if (this == &other) return *this;
    drop();
    keeping_ = other.keeping_;
    id_ = std::exchange(other.id_, 0);
    return *this;
  }
  ~Kept() { drop(); }

  /// Keeps a descriptor. `keeping` null: keeps nothing. Errors: those of Keeping::keep().
  static Expected<Kept> descriptor(Keeping* keeping, int fd) {
    if (keeping == nullptr) return Kept();
    const auto id = keeping->keep(fd);
    if (!id) return id.error();
    return Kept(keeping, *id);
  }

  KeptId id() const { return id_; }
  void drop() {
    if (id_ != 0) keeping_->drop(std::exchange(id_, 0));
  }

 private:
  Keeping* keeping_ = nullptr;
  KeptId id_ = 0;
};

}  // namespace softhca
