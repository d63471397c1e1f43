// SPDX-License-Identifier: Apache-2.0

// The PCBs of an engine, and how many of them each tenant and level may have (mechanisms A1, A2,
// A4, A9, C6).
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <optional>
#include <vector>

#include "daemon/base/counter.hpp"
#include "daemon/base/expected.hpp"
#include "daemon/base/optional_id.hpp"
#include "daemon/base/types.hpp"
#include "daemon/qos/collect/pcb.hpp"
#include "daemon/qos/pools/automatic_adjustment.hpp"
#include "daemon/qos/pools/quota_search_and_lending.hpp"

namespace softhca::collect {

struct PcbPoolConfig {
  std::uint32_t pcbs = 0;       ///< for collect groups: guarantees and shared part
  std::uint32_t dedicated = 0;  ///< in addition, for the send queue scheduler
  std::uint16_t max_groups = 0;
};

struct GroupConfig {
  TenantId tenant;
  std::uint32_t guaranteed = 0;  ///< PCBs it has regardless of the other groups
  bool may_share = true;         ///< false: the guarantee is also a hard cap
  /// Group of the tenant, if this group is one of its levels. The level's guarantee is a part of
  /// the tenant's, and its surplus is drawn from the part that the tenant's levels share.
  QosClassId parent = kNoQosClass;
  bool is_default = false;  ///< level that gives first when the tenant's total shrinks
};

/// Row of the collect group table. Its counters may be read on any thread.
struct CollectGroup {
  TenantId tenant;
  QosClassId parent = kNoQosClass;
  bool used = false;
  bool is_default = false;
  bool undivided = false;  ///< the tenant has levels, and programs that belong to none of them
  /// The PCBs of a level, or of a tenant without levels. For a tenant with levels: the part that
  /// the levels share, and what they have drawn from it and beyond it.
  Quota pcbs;
  AutomaticAdjustment idle;  ///< adjusts `pcbs`
  Gauge all_in_use;          ///< for a tenant: including the PCBs of its levels
  Gauge all_high_water;
  Gauge dedicated_limit;  ///< dedicated PCBs it may hold at once
  Gauge dedicated_in_use;
  Gauge dedicated_high_water;
  Counter refused;            ///< calls of allocate() that found none
  Counter dedicated_refused;  ///< dedicated PCBs refused: over its part or over the cap
  /// Level that holds a dedicated PCB although it is guaranteed no PCB and its tenant has a hard
  /// cap.
  QosClassId beyond_cap = kNoQosClass;

  /// True if a group with a hard cap may hold no further PCB: a dedicated PCB must not circumvent
  /// the cap (A2). The group may hold as many PCBs of both kinds as it is guaranteed, and at least
  /// one. Levels that are guaranteed none, of a tenant with a hard cap, have that one PCB one level
  /// at a time. `owner` is the group of the tenant, for a tenant itself.
  bool has_all(const CollectGroup& owner) const {
    if (pcbs.may_share && owner.pcbs.may_share) return false;
    return pcbs.in_use.value() + dedicated_in_use.value() >= std::max(pcbs.guaranteed.value(), 1u);
  }
  /// Counts one more PCB of the pool, or a refusal if none is available for the group.
  bool take(QuotaPool& pool, CollectGroup& owner) {
    if ((dedicated_in_use.value() == 0 || !has_all(owner)) &&
        (&owner == this ? pool.take(pcbs) : pool.take(pcbs, owner.pcbs)))
      return true;
    refused.add();
    return false;
  }
  void put(QuotaPool& pool, CollectGroup& owner) {
    &owner == this ? pool.put(pcbs) : pool.put(pcbs, owner.pcbs);
  }
};

class PcbPool {
 public:
  /// Allocates all memory; set-up only.
  explicit PcbPool(const PcbPoolConfig& config);

  // --- set-up and live changes, between polls; no command in flight loses its PCB

  /// Errors: the table has no free row (ENOSPC); the guarantee exceeds the unallocated PCBs or, for
  /// a level, what the levels of its tenant share (ENOSPC); fewer dedicated PCBs than groups
  /// (ENOSPC); the parent is unknown or a level itself (EINVAL).
  Expected<QosClassId> add_group(const GroupConfig& config);
  /// Errors: unknown group (ENOENT); it still holds PCBs or has levels (EBUSY). To drain a group,
  /// set its guarantee to 0 and send nothing more through it.
  Outcome remove_group(QosClassId id);
  /// Changes the guarantee of a group. The change for a level comes from the part that the levels
  /// of its tenant share, or goes to it. For a tenant it changes the total (A8): an increase goes
  /// to the part that its levels share; a decrease is taken from there, then from the default
  /// level, then from the other levels in proportion. PCBs in use beyond the new guarantee are
  /// draining. Errors: as add_group().
  Outcome set_guarantee(QosClassId id, std::uint32_t guaranteed);
  /// Errors: unknown group (ENOENT).
  Outcome set_may_share(QosClassId id, bool may_share);
  /// Sets how many of all PCBs are dedicated, and divides them among the groups again. Dedicated
  /// PCBs in use beyond the new number become ordinary ones when they are freed. Errors: fewer than
  /// groups, or the increase exceeds the PCBs guaranteed to no group (ENOSPC); too few ordinary
  /// PCBs are free (EBUSY).
  Outcome set_dedicated(std::uint32_t dedicated);
  /// Lends what the group has left idle, or takes back what it has recalled (A10).
  void adjust(QosClassId id, Lending lending, const AdjustmentPolicy& policy, Time now);
  /// Recalls what the group and its tenant have lent, for a new program that may use their PCBs.
  void recall(QosClassId id);
  /// Makes a level the default level of its tenant, instead of the previous one. Errors: unknown
  /// group (ENOENT), not a level (EINVAL).
  Outcome set_default(QosClassId level);
  /// Marks a tenant that got its levels while programs of it ran. As long as these run, the tenant
  /// has a part of the dedicated PCBs beside its levels. REQUIRES: the group is used.
  void set_undivided(QosClassId tenant, bool undivided);

  /// All that determines how many PCBs each group may have and has; not the PCBs themselves.
  /// restore() undoes all changes since snapshot(). REQUIRES: no PCB was allocated or freed in
  /// between.
  struct Snapshot {
    QuotaPool quota;
    std::uint32_t dedicated, surplus;
    std::vector<CollectGroup> groups;
  };
  Snapshot snapshot() const { return {quota_, dedicated_, surplus_, groups_}; }
  void restore(const Snapshot& snapshot);

  // --- data path: a few ns each

  /// Allocates a PCB from the group's own part, else from what its tenant's levels share, else from
  /// the shared part (A4), with an empty scoreboard. Returns nothing if all are used up (A5).
  OptionalPcb allocate(QosClassId id) {
    CollectGroup& group = groups_[id.value];
    assert(group.used);
    CollectGroup& tenant = tenant_of(group);
    if (!group.take(quota_, tenant)) return std::nullopt;
    add_one(tenant.all_in_use, tenant.all_high_water);
    return take_free(free_pcbs_, id, PcbUse::kPool);
  }

  /// Moves a PCB of allocate() to `to`, a group of the same tenant. Returns false, without any
  /// change, if allocate() would find none for `to`.
  bool pass_on(PcbId id, QosClassId to) {
    PcbState& s = states_[id.value];
    assert(s.use == PcbUse::kPool);
    CollectGroup& from = groups_[s.group.value];
    CollectGroup& tenant = tenant_of(from);
    assert(&tenant == &tenant_of(groups_[to.value]));
    if (!groups_[to.value].take(quota_, tenant)) return false;
    from.put(quota_, tenant);
    s.group = to;
    return true;
  }

  /// True if allocate() would succeed now. PCBs that the group has lent do not count.
  bool has_free(QosClassId id) const {
    const CollectGroup& group = groups_[id.value];
    if (group.parent == kNoQosClass) return quota_.available(group.pcbs);
    return quota_.available(group.pcbs, groups_[group.parent.value].pcbs);
  }

  /// Allocates a dedicated PCB (A9). Each group may hold up to dedicated_limit(), so no group can
  /// exhaust them for the others. Returns nothing if that many are in use, or if the group holds as
  /// many PCBs as it may have in total.
  OptionalPcb allocate_dedicated(QosClassId id) {
    CollectGroup& group = groups_[id.value];
    assert(group.used);
    CollectGroup& tenant = tenant_of(group);
    const bool beyond =
        &tenant != &group && !tenant.pcbs.may_share && group.pcbs.guaranteed.value() == 0;
    if (group.dedicated_in_use.value() >= group.dedicated_limit.value() || !free_dedicated_.any() ||
        group.has_all(tenant) || (beyond && tenant.beyond_cap != kNoQosClass)) {
      group.dedicated_refused.add();
      return std::nullopt;
    }
    if (beyond) tenant.beyond_cap = id;
    add_one(group.dedicated_in_use, group.dedicated_high_water);
    return take_free(free_dedicated_, id, PcbUse::kDedicated);
  }

  /// Frees a PCB. REQUIRES: it is in use and not bound to a VCB.
  void free(PcbId id) {
    PcbState& s = states_[id.value];
    assert(s.use != PcbUse::kFree && s.vcb == kNoVcb);
    CollectGroup& group = groups_[s.group.value];
    if (s.use == PcbUse::kPool) {
      CollectGroup& tenant = tenant_of(group);
      group.put(quota_, tenant);
      tenant.all_in_use.subtract();
      free_pcbs_.put(id.value);
    } else {
      group.dedicated_in_use.subtract();
      CollectGroup& tenant = tenant_of(group);
      if (tenant.beyond_cap == s.group) tenant.beyond_cap = kNoQosClass;
      surplus_ == 0 ? free_dedicated_.put(id.value) : become_ordinary(id.value);
    }
    s.use = PcbUse::kFree;
  }

  Pcb& pcb(PcbId id) { return pcbs_[id.value]; }
  PcbState& state(PcbId id) { return states_[id.value]; }
  const PcbState& state(PcbId id) const { return states_[id.value]; }

  // --- figures

  /// Returns the number of PCBs of both kinds; every PcbId is below it.
  std::uint32_t size() const { return static_cast<std::uint32_t>(states_.size()); }
  const CollectGroup& group(QosClassId id) const { return groups_[id.value]; }
  std::uint16_t max_groups() const { return static_cast<std::uint16_t>(groups_.size()); }
  const QuotaPool& quota() const { return quota_; }
  std::uint32_t dedicated() const { return dedicated_; }
  /// Returns the guarantee of a tenant including its levels, or of a level alone.
  std::uint32_t guaranteed(QosClassId id) const;
  /// Returns how many PCBs in use were within the group's guarantee until it shrank, and are to
  /// come back. For a tenant: those beyond its total.
  std::uint32_t draining(QosClassId id) const { return group(id).pcbs.draining.value(); }
  /// Returns how many dedicated PCBs the group may hold: one, and a part of the rest in proportion
  /// to its guarantee, rounded down. If no group has a guarantee, the rest is divided equally. The
  /// parts go to each level, each tenant without levels, and each tenant with programs that belong
  /// to none of its levels. A tenant that has only levels may hold one if it is free.
  std::uint32_t dedicated_limit(QosClassId id) const { return group(id).dedicated_limit.value(); }

 private:
  /// Free PCBs of a kind. The one that was freed last is taken first, since caches still have it.
  class FreeList {
   public:
    explicit FreeList(std::uint32_t capacity) : ids_(capacity) {}
    bool any() const { return count_ != 0; }
    void put(std::uint32_t pcb) { ids_[count_++] = pcb; }
    /// REQUIRES: any().
    std::uint32_t take() {
      assert(any());
      return ids_[--count_];
    }

   private:
    std::vector<std::uint32_t> ids_;
    std::uint32_t count_ = 0;
  };

  PcbId take_free(FreeList& free, QosClassId group, PcbUse use) {
    const std::uint32_t i = free.take();
    PcbState& s = states_[i];
    s.scoreboard = Scoreboard();
    s.vcb = kNoVcb;
    s.group = group;
    s.use = use;
    return PcbId(i);
  }

  CollectGroup& tenant_of(CollectGroup& group) {
    return group.parent == kNoQosClass ? group : groups_[group.parent.value];
  }
  bool known(QosClassId id) const { return id.value < groups_.size() && groups_[id.value].used; }
  std::vector<CollectGroup*> levels_of(QosClassId tenant);
  std::vector<CollectGroup*> sharing_groups();
  bool give(CollectGroup& group, std::uint32_t guaranteed);
  Outcome set_total(QosClassId tenant, std::uint32_t total);
  void share_out_dedicated();
  /// Turns a freed PCB beyond dedicated_ into an ordinary one.
  void become_ordinary(std::uint32_t pcb) {
    --surplus_;
    free_pcbs_.put(pcb);
    quota_.grow(1);
  }
  static void move_free(FreeList& from, FreeList& to, std::uint32_t count);
  Error over_commit(const CollectGroup& group, std::uint32_t asked) const;

  QuotaPool quota_;
  std::uint32_t dedicated_;
  std::uint32_t surplus_ = 0;  ///< dedicated PCBs beyond dedicated_, still in use
  std::vector<CollectGroup> groups_;
  FreeList free_pcbs_;
  FreeList free_dedicated_;
  std::vector<PcbState> states_;
  std::vector<Pcb> pcbs_;
};

}  // namespace softhca::collect
