// SPDX-License-Identifier: Apache-2.0

// Finds the provider's mappings within a range. Needs no lock and allocates nothing: allocators
// call madvise with their own locks held.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "libverbs-provider/share/maps.hpp"
#include "libverbs-provider/share/memfds.hpp"

namespace softhca::provider {

/// A few mappings at a time, because callers must not change them while the kernel's list is read.
struct OurMappings {
  static constexpr std::size_t kMost = 32;
  Mapping mappings[kMost];
  std::size_t count = 0;

  /// Finds the first ones in [addr, end), clipped to that range.
  void find(std::uint64_t addr, std::uint64_t end);
};

/// Calls visit(const Mapping&) for each of the provider's parts in [addr, end).
template <typename Visit>
void for_each_of_ours(std::uint64_t addr, std::uint64_t end, Visit visit) {
  OurMappings ours;
  do {
    ours.find(addr, end);
    for (std::size_t i = 0; i < ours.count; ++i) {
      visit(ours.mappings[i]);
      addr = ours.mappings[i].end;
    }
  } while (ours.count == OurMappings::kMost);
}

bool any_of_ours(std::uint64_t addr, std::uint64_t end);

int protection_of(const Mapping& mapping);

/// Rounds up to a multiple of the page size.
std::uint64_t page_end(std::uint64_t addr);

}  // namespace softhca::provider
