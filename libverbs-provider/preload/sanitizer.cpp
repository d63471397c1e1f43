// SPDX-License-Identifier: Apache-2.0

// Disables a check of AddressSanitizer, which refuses to start if a library was loaded before its
// runtime, as this one is in a program linked with the runtime. The check prevents that the runtime
// misses calls that such a library intercepts. This library calls the next function each time and
// does not replace the allocator, so the runtime misses none.
#include "libverbs-provider/preload/next.hpp"

/// The runtime reads its options here, unless the program defines this function. $ASAN_OPTIONS
/// overrides them.
extern "C" SOFTHCA_INTERPOSE const char* softhca_asan_default_options() asm(
    "__asan_default_options");
extern "C" const char* softhca_asan_default_options() { return "verify_asan_link_order=0"; }
