#include "daemon/collect/pcb_pool.hpp"

#include <algorithm>
#include <cerrno>
#include <string>

namespace softhca::collect {

PcbPool::PcbPool(const PcbPoolConfig& config)
    : quota_(config.pcbs),
      dedicated_(config.dedicated),
      groups_(config.max_groups),
      free_pcbs_(config.pcbs + config.dedicated),
      free_dedicated_(config.pcbs + config.dedicated),
      states_(config.pcbs + config.dedicated),
      pcbs_(config.pcbs + config.dedicated) {
  for (std::uint32_t i = 0; i < size(); ++i)
    (i < config.pcbs ? free_pcbs_ : free_dedicated_).set(i);
}

Expected<GroupId> PcbPool::add_group(const GroupConfig& config) {
  const auto row =
      std::find_if(groups_.begin(), groups_.end(), [](const auto& g) { return !g.used; });
  if (row == groups_.end())
    return Error{"collect group table is full: it holds " + std::to_string(groups_.size()), ENOSPC};
  if (dedicated_ != 0 && groups_used_ >= dedicated_)
    return Error{"each tenant needs a dedicated PCB: there are " + std::to_string(dedicated_) +
                     " for " + std::to_string(groups_used_ + 1) + " collect groups",
                 ENOSPC};

  CollectGroup group;
  group.tenant = config.tenant;
  group.used = true;
  group.pcbs.may_share = config.may_share;
  if (!quota_.set_guarantee(group.pcbs, config.guaranteed)) return over_commit(config.guaranteed);
  *row = group;
  ++groups_used_;
  share_out_dedicated();
  return GroupId(static_cast<std::uint16_t>(row - groups_.begin()));
}

Outcome PcbPool::remove_group(GroupId id) {
  if (id.value >= groups_.size() || !groups_[id.value].used)
    return Error{"no collect group " + std::to_string(id.value), ENOENT};
  CollectGroup& group = groups_[id.value];
  const std::uint32_t held = group.pcbs.in_use.value() + group.dedicated_in_use.value();
  if (held != 0)
    return Error{"collect group " + std::to_string(id.value) + " still holds " +
                     std::to_string(held) + " PCBs",
                 EBUSY};
  quota_.set_guarantee(group.pcbs, 0);
  group.used = false;
  --groups_used_;
  share_out_dedicated();
  return {};
}

Outcome PcbPool::set_guarantee(GroupId id, std::uint32_t guaranteed) {
  if (id.value >= groups_.size() || !groups_[id.value].used)
    return Error{"no collect group " + std::to_string(id.value), ENOENT};
  Quota& quota = groups_[id.value].pcbs;
  const std::uint32_t before = quota.guaranteed.value();
  if (!quota_.set_guarantee(quota, guaranteed)) return over_commit(guaranteed - before);
  return {};
}

void PcbPool::share_out_dedicated() {
  dedicated_limit_.set(groups_used_ == 0 ? 0 : dedicated_ / groups_used_);
}

Error PcbPool::over_commit(std::uint32_t asked) const {
  return {"PCBs: asked for " + std::to_string(asked) + " more, " +
              std::to_string(quota_.shared_free()) + " of " + std::to_string(quota_.total()) +
              " are free to be allocated (" + std::to_string(quota_.shared_in_use()) +
              " further unallocated ones are in use)",
          ENOSPC};
}

}  // namespace softhca::collect
