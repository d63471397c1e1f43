// SPDX-License-Identifier: Apache-2.0

// A memory region of this process, or an imported one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "abi/control.hpp"
#include "libverbs-provider/abi34.hpp"
#include "libverbs-provider/heap.hpp"
#include "libverbs-provider/lock.hpp"

namespace softhca::provider {

/// Access flags that permit writes, as in the kernel's ib_access_writable().
inline constexpr int kWritableAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                       IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;

struct Mr {
  abi34::VerbsMr base;
  HeapArray<abi::MrExtent> extents;  ///< shared for this region, and released with it
  std::size_t extent_count;
  std::uint64_t iova;
  Mr* next_on_demand;

  bool is_imported() const { return base.type == abi34::kImportedMr; }
  bool on_demand() const { return (base.access & IBV_ACCESS_ON_DEMAND) != 0; }
};
static_assert(offsetof(Mr, base) == 0);

/// The regions of a context that are paged on demand, for calls of advise_mr().
class OnDemandRegions {
 public:
  void add(Mr& mr);
  /// Removes a region, if it is one of them.
  void remove(const Mr& mr);

  /// A copy of the current values of a region.
  struct Found {
    ibv_mr mr;
    std::uint64_t iova;
    int access;
    bool imported;
  };
  bool find(std::uint32_t lkey, Found& found);

 private:
  Mutex lock_;
  Mr* first_ = nullptr;
};

}  // namespace softhca::provider
