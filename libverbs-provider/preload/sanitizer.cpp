// AddressSanitizer refuses to start where a library was loaded before its runtime, as this one is
// in a program that is linked with the runtime: it would miss functions that the library stands in
// for. It misses none by this library, which calls on each time, and does not stand in for the
// allocator.
#include "libverbs-provider/preload/next.hpp"

/// The runtime asks for its options here, unless the program has such a function itself. What
/// $ASAN_OPTIONS says comes after it.
extern "C" SOFTHCA_INTERPOSE const char* softhca_asan_default_options() asm(
    "__asan_default_options");
extern "C" const char* softhca_asan_default_options() { return "verify_asan_link_order=0"; }
