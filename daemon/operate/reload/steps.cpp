// SPDX-License-Identifier: Apache-2.0

#include "daemon/operate/reload/steps.hpp"

#include <cstddef>

namespace softhca::control {

Outcome apply(std::span<const Step> steps) {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    auto done = steps[i].apply();
    if (done) continue;
    for (std::size_t j = i + 1; j-- > 0;)
      if (steps[j].undo) steps[j].undo();
    return Error{steps[i].name + ": " + done.error().message, done.error().code};
  }
  return {};
}

}  // namespace softhca::control
