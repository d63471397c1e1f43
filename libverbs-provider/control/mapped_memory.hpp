// SPDX-License-Identifier: Apache-2.0

// Mappings of memory that the daemon made for this process, and where such memory is.
#pragma once

#include <sys/mman.h>
#include <sys/types.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "abi/control.hpp"
#include "abi/session.hpp"

namespace softhca::provider {

/// True if the place is one of whole pages with at least `needed` bytes. REQUIRES: `needed` is not
/// 0.
inline bool is_mappable(const abi::MemoryPlace& place, std::uint64_t needed) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 61;  // the end has to fit into an off_t
  return place.offset % abi::kPageBytes == 0 && place.bytes % abi::kPageBytes == 0 &&
         place.bytes >= needed && place.offset <= kMost && place.bytes <= kMost;
}

/// A shared mapping. The owner unmaps it.
struct MappedMemory {
  std::byte* base = nullptr;  ///< null: not mapped
  std::size_t bytes = 0;

  /// Maps the place of the file. Returns 0 or an errno value.
  int map(int fd, const abi::MemoryPlace& place) {
    void* memory = ::mmap(nullptr, place.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                          static_cast<off_t>(place.offset));
    if (memory == MAP_FAILED) return errno;
    base = static_cast<std::byte*>(memory);
    bytes = place.bytes;
    return 0;
  }

  void unmap() {
    if (base != nullptr) ::munmap(base, bytes);
    base = nullptr;
  }

  /// Replaces the parent's memory by private memory in a forked child.
  void make_private() const {
    if (base != nullptr)
      ::mmap(base, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  }
};

}  // namespace softhca::provider
