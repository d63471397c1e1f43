// SPDX-License-Identifier: Apache-2.0

// memcpy of the same sizes on the caller's core. It is the yardstick of a software adapter, which
// has to move data at least once.
#pragma once

#include <cstdint>

namespace softhca::bench {

/// Returns the seconds of one copy of `size` bytes, when the copies rotate among `buffers` pairs of
/// source and destination.
double memcpy_seconds(std::uint64_t size, std::uint32_t buffers);

}  // namespace softhca::bench
