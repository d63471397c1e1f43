// SPDX-License-Identifier: Apache-2.0

// What --version prints.
#pragma once

#include <string>

namespace softhca::cli {

/// Returns "softhcactl 0.2.0 (commit 0123456789ab)". Sources without a commit have no last part.
std::string version_text(const std::string& program);

}  // namespace softhca::cli
