// SPDX-License-Identifier: Apache-2.0

#include "bench/verbs/memcpy_rate.hpp"

#include <chrono>
#include <cstring>

#include "bench/verbs/endpoint.hpp"

namespace softhca::bench {

double memcpy_seconds(std::uint64_t size, std::uint32_t buffers) {
  constexpr auto kTime = std::chrono::milliseconds(40);
  const std::uint64_t stride = (size + 63) / 64 * 64;
  const Buffer memory(stride * 2 * buffers);
  const auto start = std::chrono::steady_clock::now();
  std::uint64_t copies = 0;
  auto now = start;
  while (now - start < kTime) {
    // Reading the clock costs as much as a small copy.
    const std::uint64_t burst = size < 65536 ? 1024 : 1;
    for (std::uint64_t i = 0; i < burst; ++i, ++copies) {
      char* from = memory.data() + copies % buffers * 2 * stride;
      std::memcpy(from + stride, from, size);
      asm volatile("" : : "r"(from) : "memory");  // the copy must happen
    }
    now = std::chrono::steady_clock::now();
  }
  return std::chrono::duration<double>(now - start).count() / static_cast<double>(copies);
}

}  // namespace softhca::bench
