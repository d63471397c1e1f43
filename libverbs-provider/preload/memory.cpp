// madvise and mremap, for memory that the provider has shared with the daemon in place. The
// application takes it for private memory; where the kernel treats the two differently, the
// provider, once it has told us how, makes up for it (libverbs-provider/share/process.hpp).
#include <sys/mman.h>

#include <atomic>
#include <cstdarg>
#include <cstddef>

#include "libverbs-provider/preload/next.hpp"

namespace {

using Hook = void (*)(void*, std::size_t);
std::atomic<Hook> after_dontneed{nullptr};
std::atomic<Hook> before_growth{nullptr};

constexpr int kDontNeedLocked = 24;  ///< MADV_DONTNEED_LOCKED, Linux 5.18

void run(const std::atomic<Hook>& hook, void* addr, std::size_t length) {
  if (Hook function = hook.load(std::memory_order_acquire)) function(addr, length);
}

}  // namespace

/// Called by the provider when it first shares memory.
extern "C" SOFTHCA_INTERPOSE void softhca_preload_set_memory_hooks(Hook dontneed, Hook growth);
extern "C" void softhca_preload_set_memory_hooks(Hook dontneed, Hook growth) {
  after_dontneed.store(dontneed, std::memory_order_release);
  before_growth.store(growth, std::memory_order_release);
}

extern "C" SOFTHCA_INTERPOSE int softhca_madvise(void*, std::size_t, int) asm("madvise");
extern "C" int softhca_madvise(void* addr, std::size_t length, int advice) {
  static constinit softhca::preload::Next<int(void*, std::size_t, int)> next{"madvise"};
  const int result = next.get()(addr, length, advice);
  const bool drops = advice == MADV_DONTNEED || advice == kDontNeedLocked;
  if (result == 0 && drops) run(after_dontneed, addr, length);
  return result;
}

extern "C" SOFTHCA_INTERPOSE void* softhca_mremap(void*, std::size_t, std::size_t, int,
                                                  ...) asm("mremap");
extern "C" void* softhca_mremap(void* addr, std::size_t old_length, std::size_t new_length,
                                int flags, ...) {
  static constinit softhca::preload::Next<void*(void*, std::size_t, std::size_t, int, ...)> next{
      "mremap"};
  if (old_length != 0 && new_length > old_length) run(before_growth, addr, old_length);
  if ((flags & (MREMAP_FIXED | MREMAP_DONTUNMAP)) == 0)
    return next.get()(addr, old_length, new_length, flags);
  va_list list;
  va_start(list, flags);
  void* new_addr = va_arg(list, void*);
  va_end(list);
  return next.get()(addr, old_length, new_length, flags, new_addr);
}
