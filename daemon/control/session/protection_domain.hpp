// A protection domain, and what is made in it.
#pragma once

#include <cstdint>
#include <utility>

#include "daemon/memory/region.hpp"
#include "daemon/resource/accounts.hpp"

namespace softhca::control {

struct Pd {
  resource::Charge charge;
  memory::PdId id;
  std::uint32_t users = 0;
};

/// Held by an object of the domain, which must outlive it: while it is held, the domain cannot go.
class PdUse {
 public:
  PdUse() = default;
  explicit PdUse(Pd& pd) : pd_(&pd) { ++pd.users; }
  PdUse(PdUse&& other) noexcept : pd_(std::exchange(other.pd_, nullptr)) {}
  PdUse& operator=(PdUse&& other) noexcept {
    std::swap(pd_, other.pd_);
    return *this;
  }
  ~PdUse() {
    if (pd_ != nullptr) --pd_->users;
  }

 private:
  Pd* pd_ = nullptr;
};

}  // namespace softhca::control
