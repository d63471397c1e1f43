// SPDX-License-Identifier: Apache-2.0

// Hints for the user about memory that needs process memory for its registration.
#pragma once

#include <cstdint>
#include <span>

#include "abi/control.hpp"

namespace softhca::provider {

/// Reports on standard error, once in the process, which part of the region is not shared with the
/// daemon, and why. Either a file of /proc cannot be opened, or a setting would allow it.
/// `open_error`: errno value for /proc/self/mem, or 0.
void say_unshared(std::uint64_t addr, std::uint64_t length, std::span<const abi::MrExtent> extents,
                  int open_error);
/// As above, for a region of all addresses.
void say_implicit();

}  // namespace softhca::provider
