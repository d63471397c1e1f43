// SPDX-License-Identifier: Apache-2.0

// Finds the libibverbs that programs load, and checks that there is a provider for it.
#pragma once

#include <string>
#include <vector>

namespace softhca::cli {

/// Returns a text for the user if the libibverbs that the dynamic linker finds has a private
/// interface that is not among these numbers. Empty if it is among them, or libibverbs was not
/// found.
std::string why_no_provider(const std::vector<int>& interfaces);

}  // namespace softhca::cli
