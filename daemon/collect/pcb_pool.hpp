// The PCBs of an engine and who may have how many (mechanisms A1, A2, A4, A9, C6).
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <optional>
#include <vector>

#include "daemon/base/bit_set.hpp"
#include "daemon/base/counter.hpp"
#include "daemon/base/expected.hpp"
#include "daemon/base/optional_id.hpp"
#include "daemon/base/types.hpp"
#include "daemon/collect/pcb.hpp"
#include "daemon/qos/idle_watch.hpp"
#include "daemon/qos/quota.hpp"

namespace softhca::collect {

struct PcbPoolConfig {
  std::uint32_t pcbs = 0;       ///< for collect groups: guaranteed parts and shared rest
  std::uint32_t dedicated = 0;  ///< on top: for the send queue scheduler
  std::uint16_t max_groups = 0;
};

struct GroupConfig {
  TenantId tenant;
  std::uint32_t guaranteed = 0;  ///< PCBs it has whatever the others do
  bool may_share = true;         ///< false: the guarantee is also a hard cap
  /// A level of the tenant whose group this is: its guarantee is a part of that group's, and its
  /// surplus is drawn from what the levels share.
  QosClassId parent = kNoQosClass;
  bool is_default = false;  ///< of the levels, the first to give when the tenant's total shrinks
};

/// Row of the collect group table. Its counters may be read on any thread.
struct CollectGroup {
  TenantId tenant;
  QosClassId parent = kNoQosClass;
  bool used = false;
  bool is_default = false;
  bool undivided = false;  ///< of a tenant with levels: it has programs that are of none of them
  /// For a level, or a tenant without levels: its PCBs. For a tenant with levels: the part that the
  /// levels share, and what they have drawn from it and beyond.
  Quota pcbs;
  IdleWatch idle;    ///< of pcbs
  Gauge all_in_use;  ///< of a tenant: with those of its levels
  Gauge all_high_water;
  Gauge dedicated_limit;  ///< dedicated PCBs it may hold: its part of them
  Gauge dedicated_in_use;
  Gauge dedicated_high_water;
  Counter refused;            ///< allocate() that found nothing
  Counter dedicated_refused;  ///< allocate_dedicated() over its part, or the cap
  /// The level of a tenant with a hard cap that is guaranteed no PCB and holds a dedicated one.
  QosClassId beyond_cap = kNoQosClass;

  /// A dedicated PCB is no way round a hard cap (A2): a group that has one holds no more PCBs of
  /// both kinds than its guarantee, or one; and of the levels of a tenant with a hard cap that are
  /// guaranteed none, one at a time has that one. `owner`: its tenant's, itself if it is no
  /// level's.
  bool has_all(const CollectGroup& owner) const {
    if (pcbs.may_share && owner.pcbs.may_share) return false;
    return pcbs.in_use.value() + dedicated_in_use.value() >= std::max(pcbs.guaranteed.value(), 1u);
  }
  /// Counts one more of the pool, or that there is none for the group.
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
  /// Allocates everything; set-up only.
  explicit PcbPool(const PcbPoolConfig& config);

  // --- set-up and live changes, between polls; no command in flight loses its PCB

  /// Errors: no row left; the guarantee exceeds what is unallocated or, for a level, what its
  /// tenant's levels share (ENOSPC); fewer dedicated PCBs than groups (ENOSPC); the parent is none
  /// or a level itself (EINVAL).
  Expected<QosClassId> add_group(const GroupConfig& config);
  /// Errors: unknown group (ENOENT); it still holds PCBs or has levels (EBUSY). To drain a group
  /// set its guarantee to 0 and send nothing more through it.
  Outcome remove_group(QosClassId id);
  /// Changes the guarantee of a group. For a level: a part of its tenant's, which its levels have
  /// shared or will share. For a tenant: its total (A8); an increase goes to what its levels share,
  /// a decrease is taken from there, then from the default level, then from the others in
  /// proportion. What is in use beyond the new guarantee is draining. Errors as add_group().
  Outcome set_guarantee(QosClassId id, std::uint32_t guaranteed);
  /// Errors: unknown group (ENOENT).
  Outcome set_may_share(QosClassId id, bool may_share);
  /// How many of all PCBs are dedicated; groups have parts of them as ever. Those beyond that are
  /// in use become ordinary ones as they come back. Errors: fewer than groups, or more than are
  /// guaranteed to nobody (ENOSPC); of the ordinary ones so many are in use (EBUSY).
  Outcome set_dedicated(std::uint32_t dedicated);
  /// Lends what the group has left idle, or brings back what it has recalled (A10).
  void adjust(QosClassId id, Lending lending, const AdjustmentPolicy& policy, Time now);
  /// Somebody has come who may use the PCBs of the group and of its tenant.
  void recall(QosClassId id);
  /// Makes a level the default level of its tenant, in place of the one before. Errors: unknown
  /// group (ENOENT), not a level (EINVAL).
  Outcome set_default(QosClassId level);
  /// A tenant whose levels were added while it had programs: as long as these run it has a part of
  /// the dedicated PCBs beside its levels. REQUIRES: the group is used.
  void set_undivided(QosClassId tenant, bool undivided);

  /// How many PCBs each group may have and has: everything but the PCBs themselves. restore()
  /// undoes whatever changed since snapshot(). REQUIRES: no PCB was allocated or freed in between.
  struct Snapshot {
    QuotaPool quota;
    std::uint32_t dedicated, surplus;
    std::vector<CollectGroup> groups;
  };
  Snapshot snapshot() const { return {quota_, dedicated_, surplus_, groups_}; }
  void restore(const Snapshot& snapshot);

  // --- data path: a few ns each

  /// A PCB of the group's own, else of what its tenant's levels share, else of the shared rest
  /// (A4), with an empty scoreboard; nothing: all are used up (A5).
  OptionalPcb allocate(QosClassId id) {
    CollectGroup& group = groups_[id.value];
    assert(group.used);
    CollectGroup& tenant = tenant_of(group);
    if (!group.take(quota_, tenant)) return std::nullopt;
    tenant.all_in_use.add();
    tenant.all_high_water.raise_to(tenant.all_in_use.value());
    return take_free(free_pcbs_, id, PcbUse::kPool);
  }

  /// A PCB that allocate() gave becomes one of `to`, a group of the same tenant. False: allocate()
  /// would find none for that, and nothing changes.
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

  /// Would allocate() find one? What the group has lent does not count.
  bool has_free(QosClassId id) const {
    const CollectGroup& group = groups_[id.value];
    if (group.parent == kNoQosClass) return quota_.available(group.pcbs);
    return quota_.available(group.pcbs, groups_[group.parent.value].pcbs);
  }

  /// A dedicated PCB (A9). Each group may hold its part, dedicated_limit(), so none can exhaust
  /// them for the others; nothing: that is in use, or the group holds as many PCBs as it may have
  /// at all.
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
    group.dedicated_in_use.add();
    group.dedicated_high_water.raise_to(group.dedicated_in_use.value());
    return take_free(free_dedicated_, id, PcbUse::kDedicated);
  }

  /// REQUIRES: it is in use and not bound to a VCB.
  void free(PcbId id) {
    PcbState& s = states_[id.value];
    assert(s.use != PcbUse::kFree && s.vcb == kNoVcb);
    CollectGroup& group = groups_[s.group.value];
    if (s.use == PcbUse::kPool) {
      CollectGroup& tenant = tenant_of(group);
      group.put(quota_, tenant);
      tenant.all_in_use.subtract();
      free_pcbs_.set(id.value);
    } else {
      group.dedicated_in_use.subtract();
      CollectGroup& tenant = tenant_of(group);
      if (tenant.beyond_cap == s.group) tenant.beyond_cap = kNoQosClass;
      surplus_ == 0 ? free_dedicated_.set(id.value) : become_ordinary(id.value);
    }
    s.use = PcbUse::kFree;
  }

  Pcb& pcb(PcbId id) { return pcbs_[id.value]; }
  PcbState& state(PcbId id) { return states_[id.value]; }
  const PcbState& state(PcbId id) const { return states_[id.value]; }

  // --- figures

  /// PCBs of both kinds: ids are below it.
  std::uint32_t size() const { return static_cast<std::uint32_t>(states_.size()); }
  const CollectGroup& group(QosClassId id) const { return groups_[id.value]; }
  std::uint16_t max_groups() const { return static_cast<std::uint16_t>(groups_.size()); }
  const QuotaPool& quota() const { return quota_; }
  std::uint32_t dedicated() const { return dedicated_; }
  /// What a tenant is guaranteed with its levels or, for a level, its own guarantee.
  std::uint32_t guaranteed(QosClassId id) const;
  /// PCBs in use that were the group's until its guarantee shrank, and are to come back; for a
  /// tenant: those beyond its total.
  std::uint32_t draining(QosClassId id) const { return group(id).pcbs.draining.value(); }
  /// Dedicated PCBs that the group may hold: one, and of the rest a part as large as its guarantee
  /// is among all, rounded down; the same for each if none is guaranteed any. Each level of a
  /// tenant has a part, and so has a tenant without levels, or with programs that belong to none of
  /// its levels; others have one if it is free.
  std::uint32_t dedicated_limit(QosClassId id) const { return group(id).dedicated_limit.value(); }

 private:
  PcbId take_free(BitSet& free, QosClassId group, PcbUse use) {
    const std::uint32_t i = *free.find_first();
    free.clear(i);
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
  /// One beyond dedicated_ has come back.
  void become_ordinary(std::uint32_t pcb) {
    --surplus_;
    free_pcbs_.set(pcb);
    quota_.grow(1);
  }
  static void move_free(BitSet& from, BitSet& to, std::uint32_t count);
  Error over_commit(const CollectGroup& group, std::uint32_t asked) const;

  QuotaPool quota_;
  std::uint32_t dedicated_;
  std::uint32_t surplus_ = 0;  ///< dedicated ones beyond that, in use
  std::vector<CollectGroup> groups_;
  // Free PCB list: one bit string per kind, both indexed by PcbId.
  BitSet free_pcbs_;
  BitSet free_dedicated_;
  std::vector<PcbState> states_;
  std::vector<Pcb> pcbs_;
};

}  // namespace softhca::collect
