// SPDX-License-Identifier: Apache-2.0

#include "daemon/qos/collect/pcb_pool.hpp"

#include <algorithm>
#include <cerrno>
#include <string>

#include "daemon/qos/pools/quota_division.hpp"

namespace softhca::collect {
namespace {

Error unknown(QosClassId id) { return {"no collect group " + std::to_string(id.value), ENOENT}; }

}  // namespace

PcbPool::PcbPool(const PcbPoolConfig& config)
    : quota_(config.pcbs),
      dedicated_(config.dedicated),
      groups_(config.max_groups),
      free_pcbs_(config.pcbs + config.dedicated),
      free_dedicated_(config.pcbs + config.dedicated),
      states_(config.pcbs + config.dedicated),
      pcbs_(config.pcbs + config.dedicated) {
  for (std::uint32_t i = size(); i-- != 0;) (i < config.pcbs ? free_pcbs_ : free_dedicated_).put(i);
}

Expected<QosClassId> PcbPool::add_group(const GroupConfig& config) {
  const auto row =
      std::find_if(groups_.begin(), groups_.end(), [](const auto& g) { return !g.used; });
  if (row == groups_.end())
    return Error{"collect group table is full: it holds " + std::to_string(groups_.size()), ENOSPC};
  if (config.parent != kNoQosClass &&
      (!known(config.parent) || groups_[config.parent.value].parent != kNoQosClass))
    return Error{"collect group " + std::to_string(config.parent.value) + " is not a tenant's",
                 EINVAL};

  CollectGroup group;
  group.tenant = config.tenant;
  group.parent = config.parent;
  group.is_default = config.is_default;
  group.pcbs.may_share = config.may_share;
  if (!give(group, config.guaranteed)) return over_commit(group, config.guaranteed);
  group.used = true;
  *row = group;
  if (dedicated_ != 0 && sharing_groups().size() > dedicated_) {
    give(*row, 0);
    row->used = false;
    return Error{"each tenant and level needs a dedicated PCB: there are " +
                     std::to_string(dedicated_) + " for " + std::to_string(dedicated_ + 1) +
                     " tenants and levels",
                 ENOSPC};
  }
  share_out_dedicated();
  return QosClassId(static_cast<std::uint16_t>(row - groups_.begin()));
}

Outcome PcbPool::remove_group(QosClassId id) {
  if (!known(id)) return unknown(id);
  CollectGroup& group = groups_[id.value];
  const std::uint32_t held = group.pcbs.in_use.value() + group.dedicated_in_use.value();
  if (held != 0)
    return Error{"collect group " + std::to_string(id.value) + " still holds " +
                     std::to_string(held) + " PCBs",
                 EBUSY};
  if (const auto levels = levels_of(id); !levels.empty())
    return Error{"collect group " + std::to_string(id.value) + " still has " +
                     std::to_string(levels.size()) + " levels",
                 EBUSY};
  give(group, 0);
  group.used = false;
  share_out_dedicated();
  return {};
}

void PcbPool::restore(const Snapshot& snapshot) {
  const std::uint32_t now = dedicated_ + surplus_;
  const std::uint32_t before = snapshot.dedicated + snapshot.surplus;
  move_free(free_dedicated_, free_pcbs_, now - std::min(now, before));
  move_free(free_pcbs_, free_dedicated_, before - std::min(now, before));
  surplus_ = snapshot.surplus;
  dedicated_ = snapshot.dedicated;
  quota_ = snapshot.quota;
  groups_ = snapshot.groups;
  share_out_dedicated();
}

Outcome PcbPool::set_guarantee(QosClassId id, std::uint32_t guaranteed) {
  if (!known(id)) return unknown(id);
  CollectGroup& group = groups_[id.value];
  if (group.parent == kNoQosClass) return set_total(id, guaranteed);
  const std::uint32_t before = group.pcbs.guaranteed.value();
  if (!give(group, guaranteed)) return over_commit(group, guaranteed - before);
  share_out_dedicated();
  return {};
}

Outcome PcbPool::set_total(QosClassId id, std::uint32_t total) {
  CollectGroup& tenant = groups_[id.value];
  const std::uint32_t before = guaranteed(id);
  const std::uint32_t shared = tenant.pcbs.guaranteed.value();
  if (total >= before) {
    if (!give(tenant, shared + total - before)) return over_commit(tenant, total - before);
    share_out_dedicated();
    return {};
  }
  const std::vector<CollectGroup*> levels = levels_of(id);
  std::vector<std::uint32_t> amounts;
  std::optional<std::size_t> default_level;
  for (const CollectGroup* level : levels) {
    if (level->is_default) default_level = amounts.size();
    amounts.push_back(level->pcbs.guaranteed.value());
  }
  const Division after = after_decrease(shared, amounts, default_level, before - total);
  for (std::size_t i = 0; i < levels.size(); ++i) give(*levels[i], after.levels[i]);
  give(tenant, after.shared);
  share_out_dedicated();
  return {};
}

Outcome PcbPool::set_may_share(QosClassId id, bool may_share) {
  if (!known(id)) return unknown(id);
  groups_[id.value].pcbs.may_share = may_share;
  return {};
}

void PcbPool::adjust(QosClassId id, Lending lending, const AdjustmentPolicy& policy, Time now) {
  CollectGroup& group = groups_[id.value];
  Quota* const parent = group.parent == kNoQosClass ? nullptr : &groups_[group.parent.value].pcbs;
  group.idle.look(quota_, group.pcbs, parent, lending, policy, now);
}

void PcbPool::recall(QosClassId id) {
  CollectGroup& group = groups_[id.value];
  CollectGroup& tenant = tenant_of(group);
  quota_.recall(tenant.pcbs);
  if (&tenant != &group) quota_.recall(group.pcbs, tenant.pcbs);
}

Outcome PcbPool::set_default(QosClassId id) {
  if (!known(id)) return unknown(id);
  CollectGroup& group = groups_[id.value];
  if (group.parent == kNoQosClass)
    return Error{"collect group " + std::to_string(id.value) + " is not a level's", EINVAL};
  for (CollectGroup* level : levels_of(group.parent)) level->is_default = level == &group;
  return {};
}

void PcbPool::set_undivided(QosClassId id, bool undivided) {
  groups_[id.value].undivided = undivided;
  share_out_dedicated();
}

std::uint32_t PcbPool::guaranteed(QosClassId id) const {
  std::uint32_t sum = group(id).pcbs.guaranteed.value();
  for (const CollectGroup& g : groups_)
    if (g.used && g.parent == id) sum += g.pcbs.guaranteed.value();
  return sum;
}

/// Sets the group's guarantee. Returns false, without any change, if the pool or the tenant has too
/// little left.
bool PcbPool::give(CollectGroup& group, std::uint32_t guaranteed) {
  if (group.parent == kNoQosClass) return quota_.set_guarantee(group.pcbs, guaranteed);
  return quota_.set_guarantee(group.pcbs, groups_[group.parent.value].pcbs, guaranteed);
}

std::vector<CollectGroup*> PcbPool::levels_of(QosClassId tenant) {
  std::vector<CollectGroup*> levels;
  for (CollectGroup& group : groups_)
    if (group.used && group.parent == tenant) levels.push_back(&group);
  return levels;
}

Outcome PcbPool::set_dedicated(std::uint32_t dedicated) {
  if (dedicated < std::max<std::size_t>(sharing_groups().size(), 1))
    return Error{"each tenant and level needs a dedicated PCB: asked for " +
                     std::to_string(dedicated) + " for " + std::to_string(sharing_groups().size()) +
                     " tenants and levels",
                 ENOSPC};
  // PCBs that were still to become ordinary ones stay dedicated.
  const std::uint32_t there = dedicated_ + surplus_;
  const std::uint32_t more = dedicated - std::min(dedicated, there);
  if (more > quota_.unallocated())
    return Error{"dedicated PCBs: asked for " + std::to_string(more) + " more, " +
                     std::to_string(quota_.unallocated()) + " PCBs are free to be allocated",
                 ENOSPC};
  if (more > quota_.free())
    return Error{"dedicated PCBs: asked for " + std::to_string(more) + " more, " +
                     std::to_string(quota_.free()) + " PCBs are not in use now; try again",
                 EBUSY};
  std::uint32_t in_use = 0;
  for (const CollectGroup& group : groups_)
    if (group.used) in_use += group.dedicated_in_use.value();
  const std::uint32_t less = there - std::min(there, std::max(dedicated, in_use));
  move_free(free_pcbs_, free_dedicated_, more);
  move_free(free_dedicated_, free_pcbs_, less);
  quota_.shrink(more);
  quota_.grow(less);
  surplus_ = there + more - less - dedicated;
  dedicated_ = dedicated;
  share_out_dedicated();
  return {};
}

/// Moves `count` PCBs from one free list to the other. REQUIRES: that many are free.
void PcbPool::move_free(FreeList& from, FreeList& to, std::uint32_t count) {
  for (; count != 0; --count) to.put(from.take());
}

/// Returns the groups among which the dedicated PCBs are divided.
std::vector<CollectGroup*> PcbPool::sharing_groups() {
  std::vector<bool> divided(groups_.size());
  for (const CollectGroup& group : groups_)
    if (group.used && group.parent != kNoQosClass) divided[group.parent.value] = true;
  std::vector<CollectGroup*> sharing;
  for (std::size_t i = 0; i < groups_.size(); ++i)
    if (groups_[i].used && (!divided[i] || groups_[i].undivided)) sharing.push_back(&groups_[i]);
  return sharing;
}

void PcbPool::share_out_dedicated() {
  const std::vector<CollectGroup*> sharing = sharing_groups();
  std::uint64_t guaranteed = 0;
  for (const CollectGroup* group : sharing) guaranteed += group->pcbs.guaranteed.value();
  const std::uint64_t rest = dedicated_ - std::min<std::uint64_t>(dedicated_, sharing.size());
  std::vector<std::uint32_t> limits(groups_.size(), std::min(dedicated_, 1u));
  for (const CollectGroup* group : sharing) {
    const std::uint64_t part = guaranteed == 0 ? rest / sharing.size()
                                               : rest * group->pcbs.guaranteed.value() / guaranteed;
    limits[static_cast<std::size_t>(group - groups_.data())] += static_cast<std::uint32_t>(part);
  }
  for (std::size_t i = 0; i < groups_.size(); ++i) groups_[i].dedicated_limit.set(limits[i]);
}

Error PcbPool::over_commit(const CollectGroup& group, std::uint32_t asked) const {
  const std::string text = "PCBs: asked for " + std::to_string(asked) + " more, ";
  if (group.parent != kNoQosClass)
    return {text + std::to_string(groups_[group.parent.value].pcbs.guaranteed.value()) + " of " +
                std::to_string(guaranteed(group.parent)) + " of the tenant belong to no level",
            ENOSPC};
  return {text + std::to_string(quota_.unallocated()) + " of " + std::to_string(quota_.total()) +
              " are free to be allocated",
          ENOSPC};
}

}  // namespace softhca::collect
