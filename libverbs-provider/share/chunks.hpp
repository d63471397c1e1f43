// What the C library's allocator has mapped for one large allocation (glibc: from 128 KiB on): the
// pages hold nothing else, so that the first and the last may be exchanged though the program's
// part of them does not fill them. In front of what malloc returns stand two words: how far the
// mapping reaches below them, and its length from there on, with a flag that no other block has.
#pragma once

#include <cstdint>

namespace softhca::provider {

/// Whole pages.
struct PageRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// What was mapped for an allocation, if `addr` is what malloc returned; else empty. What is in
/// front of it may be another thread's, and go meanwhile: it is read through the kernel.
PageRange pages_of_allocation(std::uint64_t addr);

/// Whether it may be that such a mapping begins with the page. REQUIRES: it can be read.
bool may_begin_allocation(std::uint64_t page);

}  // namespace softhca::provider
