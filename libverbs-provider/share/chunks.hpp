// SPDX-License-Identifier: Apache-2.0

// The mapping that the C library's allocator makes for one large allocation (glibc: from 128 KiB
// on). Its pages hold nothing else. So the first and the last page may be exchanged although the
// program's part does not fill them. Two words precede the address that malloc returns: the
// distance to the start of the mapping, and the length from the words on, with a flag that no other
// block has.
#pragma once

#include <cstdint>

namespace softhca::provider {

/// A range of whole pages.
struct PageRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// Returns the mapping of an allocation if malloc returned `addr`, else an empty range. Another
/// thread may own and unmap the words in front of it, so they are read through the kernel.
PageRange pages_of_allocation(std::uint64_t addr);

/// True if such a mapping may begin with the page. REQUIRES: the page is readable.
bool may_begin_allocation(std::uint64_t page);

}  // namespace softhca::provider
