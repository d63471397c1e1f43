// What memcpy does with the same amounts on the core that runs the caller: the measure of a
// software adapter, which can at best move data once.
#pragma once

#include <cstdint>

namespace softhca::bench {

/// Seconds that one copy of `size` bytes takes, when copies go round `buffers` pairs of source and
/// destination.
double memcpy_seconds(std::uint64_t size, std::uint32_t buffers);

}  // namespace softhca::bench
