// SPDX-License-Identifier: Apache-2.0

// madvise, for advice that has another effect on shared memory than on private memory.
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "libverbs-provider/share/kernel.hpp"
#include "libverbs-provider/share/ours.hpp"
#include "libverbs-provider/share/process.hpp"

namespace softhca::provider {
namespace {

// Advice of Linux 5.18, 6.1 and 6.13.
constexpr int kDontNeedLocked = 24;
constexpr int kCollapse = 25;
constexpr int kGuardInstall = 102;

struct Range {
  std::uint64_t begin;
  std::uint64_t end;
};

/// Makes a part of the provider's memory read as zeros. Pages of registered memory cannot be given
/// back, because the daemon has sealed it against holes, so they are zeroed. If the mapping is not
/// writable, a second mapping is used, so that the permissions of the first never change.
void forget(const Mapping& mapping) {
  const KernelCalls& kernel = KernelCalls::real();
  auto* addr = reinterpret_cast<char*>(mapping.begin);
  const std::size_t length = mapping.end - mapping.begin;
  if (kernel.advise(addr, length, MADV_REMOVE) == 0) return;
  void* again = addr;
  if (!mapping.writable) {
    again = kernel.move(addr, 0, length, MREMAP_MAYMOVE, nullptr);
    if (again == MAP_FAILED) return;
    if (::mprotect(again, length, PROT_READ | PROT_WRITE) != 0) {
      kernel.unmap(again, length);
      return;
    }
  }
  std::memset(again, 0, length);
  if (again != addr) kernel.unmap(again, length);
}

void forget_all(const Range& range) { for_each_of_ours(range.begin, range.end, forget); }

/// As forget_all(), for pages with guards, which also this thread cannot access.
void forget_guarded(const Range& range) {
  for_each_of_ours(range.begin, range.end, [](Mapping mapping) {
    mapping.writable = false;
    forget(mapping);
  });
}

/// Sets whether a part is empty in children. Returns 0 or an errno value.
int wipe(const Mapping& mapping, bool wiped) {
  const ProcessLock lock;
  MemfdTable& memfds = MemfdTable::instance();
  bool all = true;
  memfds.for_each_part(mapping, [&](const MemfdPart& part) {
    const std::uint64_t end = part.offset + (part.end - part.begin);
    all = all && memfds.wiped().set(part.place, part.offset, end, wiped);
  });
  return all ? 0 : ENOMEM;
}

/// Repeats advice that the kernel refused because of the provider's memory, for the other parts of
/// the range. `ours` (0 or an errno value) handles the provider's parts. As in the kernel, unmapped
/// parts make the call fail, but only at the end.
template <typename Ours>
int advise_piecemeal(const Range& range, int advice, Ours ours) {
  std::uint64_t at = range.begin;
  int error = 0;
  bool gap = false;
  const auto advise_others = [&](std::uint64_t end) {
    if (error != 0 || at == end) return;
    if (KernelCalls::real().advise(reinterpret_cast<void*>(at), end - at, advice) == 0) return;
    if (errno == ENOMEM)
      gap = true;
    else
      error = errno;
  };
  for_each_of_ours(range.begin, range.end, [&](const Mapping& mapping) {
    advise_others(mapping.begin);
    if (error == 0) error = ours(mapping);
    at = mapping.end;
  });
  advise_others(range.end);
  if (error == 0 && gap) error = ENOMEM;
  return error;
}

/// Returns the result of madvise as an errno value.
int make_up_for(const Range& range, int advice, int error) {
  switch (advice) {
    case MADV_DONTNEED:
    case kDontNeedLocked:
      if (error == 0 || error == ENOMEM) forget_all(range);
      return error;
    case kGuardInstall:
      if (error == 0) forget_guarded(range);
      return error;
    case MADV_REMOVE:  // private memory has no file; ENODEV: of memory of a virtual machine
      if (error != EPERM && error != ENODEV) return error;
      return any_of_ours(range.begin, range.end) ? EINVAL : error;
    case MADV_FREE:  // the kernel may delay it
    case kCollapse:  // the memory has no huge pages
      if (error != EINVAL || !any_of_ours(range.begin, range.end)) return error;
      return advise_piecemeal(range, advice, [](const Mapping&) { return 0; });
    case MADV_WIPEONFORK:
      if (error != EINVAL || !any_of_ours(range.begin, range.end)) return error;
      return advise_piecemeal(range, advice, [](const Mapping& m) { return wipe(m, true); });
    case MADV_KEEPONFORK:
      if (error == 0 || error == ENOMEM)
        for_each_of_ours(range.begin, range.end, [](const Mapping& m) { wipe(m, false); });
      return error;
    default:
      return error;
  }
}

}  // namespace

int after_advice(void* addr, std::size_t length, int advice, int result) {
  if (MemfdTable::instance().empty()) return result;
  const int before = errno;
  const auto begin = reinterpret_cast<std::uint64_t>(addr);
  const Range range{begin, page_end(begin + length)};
  const bool possible = begin == page_end(begin) && range.begin < range.end;
  const int error = result == 0 ? 0 : before;
  const int outcome = possible ? make_up_for(range, advice, error) : error;
  errno = outcome == 0 ? before : outcome;
  return outcome == 0 ? 0 : -1;
}

}  // namespace softhca::provider
