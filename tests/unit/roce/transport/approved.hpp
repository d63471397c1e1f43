// SPDX-License-Identifier: Apache-2.0

// What came out of a state machine as text, compared with a file that was approved.
#pragma once

#include <string>

#include "tests/unit/roce/transport/script.hpp"

namespace softhca::transport {

/// What came out, on one line.
std::string outcome(const FakeEnvironment& env);

/// With NAME.approved; a difference is left in NAME.received.
void compare_with_approved(const std::string& name, const std::string& text);

}  // namespace softhca::transport
