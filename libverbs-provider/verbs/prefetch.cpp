// SPDX-License-Identifier: Apache-2.0

// Advice on memory that is paged on demand. The provider keeps no record of mappings, so the only
// effect of advice is to make the pages of a region present. Only the process that has the memory
// can do so: advice on a region of another process is checked, and has no effect.
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "libverbs-provider/context.hpp"
#include "libverbs-provider/explain.hpp"
#include "libverbs-provider/operations.hpp"
#include "libverbs-provider/share/kernel.hpp"

namespace softhca::provider {
namespace {

struct Range {
  std::uintptr_t begin = 0;
  std::size_t length = 0;  ///< 0: nothing to do
};

/// Finds the part of this process's memory in `entry`. Returns 0, or the errno value of mlx5 for
/// such an entry.
int find_range(Context& context, const ibv_pd& pd, bool write, const ibv_sge& entry, Range& range) {
  OnDemandRegions::Found found;
  if (!context.on_demand.find(entry.lkey, found))
    return refuse(ENOENT, "lkey 0x%x is of no on-demand region", entry.lkey);
  if (found.mr.pd->handle != pd.handle || (write && (found.access & kWritableAccess) == 0))
    return refuse(EPERM, "lkey 0x%x is of another protection domain, or not writable", entry.lkey);
  const std::uint64_t offset = entry.addr - found.iova;
  if (offset > found.mr.length || entry.length > found.mr.length - offset)
    return refuse(EFAULT, "%u bytes at 0x%llx exceed the region of lkey 0x%x", entry.length,
                  static_cast<unsigned long long>(entry.addr), entry.lkey);
  if (!found.imported)
    range = {reinterpret_cast<std::uintptr_t>(found.mr.addr) + offset, entry.length};
  return 0;
}

/// Makes the pages of the range present; with `wait`, before it returns. Returns 0, or EFAULT if
/// some pages cannot be had.
int populate(Range range, bool write, bool wait) {
  static const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  range.length += range.begin % page;
  range.begin -= range.begin % page;
  const KernelCalls& kernel = KernelCalls::real();
  auto* const begin = reinterpret_cast<void*>(range.begin);
  if (!wait) {
    kernel.advise(begin, range.length, MADV_WILLNEED);
    return 0;
  }
  // EINVAL: before Linux 5.14, or memory without pages of its own. Ignored, as advice is best
  // effort.
  const int advice = write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;
  if (kernel.advise(begin, range.length, advice) == 0 || errno == EINVAL) return 0;
  return refuse(EFAULT, "some pages of %zu bytes at 0x%zx cannot be had", range.length,
                static_cast<std::size_t>(range.begin));
}

}  // namespace

int advise_mr(ibv_pd* pd, ibv_advise_mr_advice advice, std::uint32_t flags, ibv_sge* list,
              std::uint32_t count) {
  if (advice != IBV_ADVISE_MR_ADVICE_PREFETCH && advice != IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE &&
      advice != IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
    return refuse(EOPNOTSUPP, "advice %d is not supported", static_cast<int>(advice));
  if ((flags & ~std::uint32_t{IBV_ADVISE_MR_FLAG_FLUSH}) != 0)
    return refuse(EINVAL, "flags 0x%x, at most IBV_ADVISE_MR_FLAG_FLUSH", flags);
  if (count == 0) return refuse(EINVAL, "num_sge 0, at least 1");
  Context& context = *to_context(pd->context);
  const bool write = advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
  const bool wait = (flags & IBV_ADVISE_MR_FLAG_FLUSH) != 0;
  for (const ibv_sge* entry = list; entry != list + count; ++entry) {
    Range range;
    if (const int error = find_range(context, *pd, write, *entry, range)) return error;
    // Without faults there is nothing to do: present pages can be used as they are.
    if (range.length == 0 || advice == IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT) continue;
    if (const int error = populate(range, write, wait)) return error;
  }
  return 0;
}

}  // namespace softhca::provider
