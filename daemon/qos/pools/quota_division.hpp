// SPDX-License-Identifier: Apache-2.0

// Computes what each level gives when a total that is divided among levels shrinks (mechanism A8).
// Set-up and control only: allocates.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

namespace softhca {

struct Division {
  std::uint32_t shared = 0;           ///< not assigned to any level
  std::vector<std::uint32_t> levels;  ///< own part of each level
};

/// Takes `decrease` from the shared part, then from the default level, then from the other levels
/// in proportion to what they have. The first of these give the rounding remainder. REQUIRES:
/// decrease is at most the sum of all.
inline Division after_decrease(std::uint32_t shared, std::span<const std::uint32_t> levels,
                               std::optional<std::size_t> default_level, std::uint32_t decrease) {
  Division out{shared, {levels.begin(), levels.end()}};
  const auto take = [&decrease](std::uint32_t& from, std::uint32_t most) {
    const std::uint32_t taken = std::min({from, most, decrease});
    from -= taken;
    decrease -= taken;
  };
  take(out.shared, decrease);
  if (default_level) take(out.levels[*default_level], decrease);
  const std::uint64_t sum = std::accumulate(out.levels.begin(), out.levels.end(), std::uint64_t{0});
  assert(decrease <= sum);
  const std::uint64_t wanted = decrease;
  if (wanted == 0) return out;
  for (std::uint32_t& level : out.levels)
    take(level, static_cast<std::uint32_t>(wanted * level / sum));
  for (std::uint32_t& level : out.levels) take(level, 1);
  return out;
}

}  // namespace softhca
