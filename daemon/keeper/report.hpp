// SPDX-License-Identifier: Apache-2.0

// What the keeper tells the operator, on standard error.
#pragma once

#include <string>

namespace softhca::keeper {

void report_warning(const std::string& text);
/// Also tells the service manager.
void report_failure(const std::string& text);

}  // namespace softhca::keeper
