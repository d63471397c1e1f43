// The libibverbs that programs get, and whether there is a provider for it.
#pragma once

#include <string>
#include <vector>

namespace softhca::cli {

/// Text for the user, if the libibverbs that the dynamic linker finds has a private interface that
/// is none of these numbers. Empty if it is one of them, or if there is no libibverbs.
std::string why_no_provider(const std::vector<int>& interfaces);

}  // namespace softhca::cli
