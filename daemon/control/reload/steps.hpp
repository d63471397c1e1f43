// A change made of steps, each of which can be taken back: all of them are made, or none.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "daemon/base/expected.hpp"

namespace softhca::control {

struct Step {
  std::string name;  ///< what it makes, as "socket of tenant ocean"
  std::function<Outcome()> apply;
  /// Everything is as before apply(), which may have failed half-way. Cannot fail. Empty: there is
  /// nothing to take back, because apply() itself changes all or nothing, and is the last step.
  std::function<void()> undo;
};

/// Applies the steps in their order. When one fails, it and those before it are undone, the last
/// one first; the error names it.
Outcome apply(std::span<const Step> steps);

}  // namespace softhca::control
