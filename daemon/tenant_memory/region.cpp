// SPDX-License-Identifier: Apache-2.0

#include "daemon/tenant_memory/region.hpp"

#include <algorithm>
#include <cassert>
#include <cerrno>

namespace softhca::memory {

namespace {

Error invalid(const char* why) { return {why, EINVAL}; }

/// Returns null if the extents are ascending, adjoining and cover the region, else the error.
const char* wrong_extents(const RegionSpec& spec) {
  std::uint64_t next = spec.addr;
  std::uint64_t left = spec.length;
  for (const Extent& extent : spec.extents) {
    if (extent.length == 0 || extent.addr != next || extent.length > left)
      return "extents do not adjoin, or reach beyond the region";
    if (extent.mapped == nullptr && spec.process == nullptr)
      return "an extent that is not shared needs a process";
    next += extent.length;
    left -= extent.length;
  }
  return left == 0 ? nullptr : "extents do not cover the region";
}

/// Joins neighbours that are contiguous in the daemon or both reached through the process, so that
/// fewer accesses are split.
void join_neighbours(std::vector<Extent>& extents) {
  std::vector<Extent> joined;
  for (const Extent& extent : extents) {
    const bool joins =
        !joined.empty() && (extent.mapped == nullptr
                                ? joined.back().mapped == nullptr
                                : joined.back().mapped != nullptr &&
                                      joined.back().mapped + joined.back().length == extent.mapped);
    if (joins)
      joined.back().length += extent.length;
    else
      joined.push_back(extent);
  }
  extents = std::move(joined);
}

}  // namespace

Expected<std::unique_ptr<Region>> Region::make(RegionSpec spec) {
  if (spec.addr + spec.length < spec.addr || spec.iova + spec.length < spec.iova)
    return invalid("addresses exceed 64 bits");
  const std::uint32_t writes = kRemoteWrite | kRemoteAtomic;
  if ((spec.access & writes) != 0 && (spec.access & kLocalWrite) == 0)
    return invalid(
        "access IBV_ACCESS_REMOTE_WRITE or IBV_ACCESS_REMOTE_ATOMIC without "
        "IBV_ACCESS_LOCAL_WRITE");
  if (const char* why = wrong_extents(spec)) return invalid(why);
  join_neighbours(spec.extents);
  return std::unique_ptr<Region>(new Region(std::move(spec)));
}

std::unique_ptr<Region> Region::make_null(TenantId tenant, PdId pd) {
  RegionSpec spec;
  spec.tenant = tenant;
  spec.pd = pd;
  spec.access = kLocalWrite;
  spec.length = ~std::uint64_t{0};
  return std::unique_ptr<Region>(new Region(std::move(spec)));
}

Region::Region(RegionSpec spec)
    : iova_(spec.iova),
      length_(spec.length),
      pd_(spec.pd),
      access_(spec.access),
      spec_(std::move(spec)) {
  for (const Extent& extent : spec_.extents) {
    if (extent.mapped == nullptr || extent.length <= main_length_) continue;
    main_offset_ = extent.addr - spec_.addr;
    main_length_ = extent.length;
    main_mapped_ = extent.mapped;
  }
}

Region::Run Region::run_at(std::uint64_t offset) const {
  assert(offset < length_);
  const std::uint64_t addr = spec_.addr + offset;
  if (is_null()) return {nullptr, addr, length_ - offset};
  const auto after = std::upper_bound(
      spec_.extents.begin(), spec_.extents.end(), addr,
      [](std::uint64_t value, const Extent& extent) { return value < extent.addr; });
  const Extent& extent = *(after - 1);
  const std::uint64_t inside = addr - extent.addr;
  return {extent.mapped == nullptr ? nullptr : extent.mapped + inside, addr,
          extent.length - inside};
}

std::byte* Region::direct_elsewhere(std::uint64_t offset, std::uint64_t bytes) const {
  if (bytes == 0 || !contains(offset, bytes)) return nullptr;
  const Run run = run_at(offset);
  return run.length >= bytes ? run.mapped : nullptr;
}

}  // namespace softhca::memory
