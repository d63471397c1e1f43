// SPDX-License-Identifier: Apache-2.0

// A change in steps that can be undone: all steps are made, or none.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "daemon/base/expected.hpp"

namespace softhca::control {

struct Step {
  std::string name;  ///< what the step makes, as "socket of tenant ocean"
  std::function<Outcome()> apply;
  /// Restores the state before apply(), which may have failed half-way. Cannot fail. Empty: apply()
  /// changes all or nothing and is the last step, so that it need not be undone.
  std::function<void()> undo;
};

/// Applies the steps in their order. If one fails, undoes it and those before it, the last one
/// first. The error names the step.
Outcome apply(std::span<const Step> steps);

}  // namespace softhca::control
