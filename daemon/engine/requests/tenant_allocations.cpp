// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/requests/tenant_allocations.hpp"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <string>

#include "daemon/engine/engine.hpp"
#include "daemon/engine/requests/level_settings.hpp"

namespace softhca::engine {
namespace {

using schedule::TvlPurpose;

Error at(const Tenant& tenant, const Error& error) {
  return {"tenant " + tenant.name + ": " + error.message, error.code};
}

schedule::TvlTerms terms_of(const Tenant& tenant, QosClassId qos_class,
                            const configuration::TvlConfig& tvl, bool share) {
  return {.tenant = tenant.id,
          .qos_class = qos_class,
          .purpose = TvlPurpose::kCommands,
          .weight = tvl.weight,
          .max_kick_list = tvl.kick_list,
          .execution_guaranteed = tvl.execution_credits,
          .completion_guaranteed = tvl.completion_credits,
          .may_share = share};
}

/// Calls f(level) for every level that `to` names, and f(nullptr) for programs without a level.
/// Stops at the first error.
template <class F>
Outcome for_each_part(const Tenant& tenant, const configuration::TenantConfig& to, F&& f) {
  for (const auto& level : tenant.levels)
    if (settings_of(to, *level) != nullptr)
      if (auto done = f(level.get()); !done) return done;
  return f(nullptr);
}

QosClassId class_of(const Tenant& tenant, const Level* level) {
  return level != nullptr ? level->qos_class : tenant.qos_class;
}

/// Returns the part of `all` for a level. A level gets one, and a share of the rest in proportion
/// to its PCBs, or an equal share if no level has PCBs. Programs without a level (null) get one.
std::uint32_t part_of(std::uint32_t all, const configuration::TenantConfig& to,
                      const Level* level) {
  if (to.levels.empty()) return all;
  const auto count = static_cast<std::uint32_t>(to.levels.size());
  const std::uint64_t rest = all - std::min(all, count);
  std::uint64_t divided = 0;
  for (const configuration::LevelConfig& each : to.levels) divided += each.pcbs;
  if (level == nullptr) return 1;
  const std::uint64_t part =
      divided == 0 ? rest / count : rest * settings_of(to, *level)->pcbs / divided;
  return static_cast<std::uint32_t>(1 + part);
}

std::unique_ptr<Level> taken_from(Tenant& tenant, Level& level, Engine& engine) {
  engine.rates().forget(level.rate);
  engine.peer_rates().forget(level.peer_rates.inbound);
  engine.peer_rates().forget(level.peer_rates.served);
  const auto at = std::find_if(tenant.levels.begin(), tenant.levels.end(),
                               [&](const auto& there) { return there.get() == &level; });
  std::unique_ptr<Level> taken = std::move(*at);
  tenant.levels.erase(at);
  return taken;
}

}  // namespace

/// The state that a change modifies, and that can refuse it.
struct TenantAllocations::Snapshot {
  collect::PcbPool::Snapshot pcbs;
  schedule::TvlTable tvls;
  Parts parts;
  std::vector<TvlId> closing;
};

const std::vector<TvlId>& TenantAllocations::tvls(QosClassId qos_class) const {
  static const std::vector<TvlId> kNone;
  const auto found = parts_.find(qos_class);
  return found == parts_.end() ? kNone : found->second.commands;
}

TenantAllocations::Snapshot TenantAllocations::snapshot() const {
  return {engine_.pcbs().snapshot(), engine_.tvls(), parts_, closing_};
}

void TenantAllocations::restore(const Snapshot& snapshot, TenantAllocationChange& change) {
  engine_.pcbs().restore(snapshot.pcbs);
  engine_.tvls() = snapshot.tvls;
  parts_ = snapshot.parts;
  closing_ = snapshot.closing;
  for (auto added = change.new_levels.rbegin(); added != change.new_levels.rend(); ++added) {
    if (added->made == nullptr) continue;
    added->level = std::move(added->tenant->levels.back());
    added->tenant->levels.pop_back();
    added->made = nullptr;
  }
  change.released.clear();
  engine_.tvl_assignment().find_weights();  // those of the refused change are in force
}

Outcome TenantAllocations::change(TenantAllocationChange& change) {
  closed_.clear();
  released_levels_.clear();
  collect_closed();
  const Snapshot before = snapshot();
  const Outcome made = make(change);
  if (made)
    settle(change);
  else
    restore(before, change);
  return made;
}

Outcome TenantAllocations::make(TenantAllocationChange& change) {
  for (Tenant* tenant : change.gone)
    if (release(*tenant)) change.released.push_back(tenant);
  for (const TenantAllocationChange::OldLevel& old : change.gone_levels)
    if (!old.in_use && release_level(*old.level))
      released_levels_.emplace_back(old.tenant, old.level);
  for (const auto& [tenant, to] : change.there) {
    if (auto done = shrink(*tenant, *to); !done) return at(*tenant, done.error());
    const bool used =
        std::find(change.whole.begin(), change.whole.end(), tenant) != change.whole.end();
    if (!to->levels.empty() && !used) release_whole(*tenant);
  }
  // The dedicated PCBs come before the tenants' guarantees, which compete with them for the pool.
  if (change.dedicated_pcbs)
    if (auto set = engine_.pcbs().set_dedicated(*change.dedicated_pcbs); !set) return set;
  for (const auto& [tenant, to] : change.added) {
    for (const Tenant* gone : change.gone)
      if (gone->id == tenant->id &&
          std::find(change.released.begin(), change.released.end(), gone) == change.released.end())
        return at(*tenant, {"programs still hold resources of the removed tenant " + gone->name +
                                "; wait, end them, or set drain_timeout_s",
                            EBUSY});
    const auto group =
        engine_.pcbs().add_group({.tenant = tenant->id, .guaranteed = 0, .may_share = true});
    if (!group) return at(*tenant, group.error());
    tenant->qos_class = *group;
  }
  // The tenants' guarantees come first: new levels take their parts from them.
  for (const auto* rows : {&change.there, &change.added})
    for (const auto& [tenant, to] : *rows)
      if (auto set = engine_.pcbs().set_guarantee(tenant->qos_class, to->pcbs); !set)
        return at(*tenant, set.error());
  for (const Tenant* tenant : change.whole) engine_.pcbs().set_undivided(tenant->qos_class, true);
  if (auto added = add_levels(change); !added) return added;
  for (const auto* rows : {&change.there, &change.added})
    for (const auto& [tenant, to] : *rows)
      if (auto done = grow(*tenant, *to); !done) return at(*tenant, done.error());
  return {};
}

/// Makes the part of a change that cannot fail.
void TenantAllocations::settle(TenantAllocationChange& change) {
  // Before those of new levels are set, which may have the same numbers.
  for (const auto& [tenant, level] : released_levels_)
    engine_.cpu().minimums().forget(level->qos_class);
  for (const auto* rows : {&change.there, &change.added})
    for (const auto& [tenant, to] : *rows)
      for (const auto& level : tenant->levels) {
        const configuration::LevelConfig* entry = settings_of(*to, *level);
        level->is_default = entry != nullptr && entry->is_default;
      }
  for (const auto* rows : {&change.there, &change.added})
    for (const auto& [tenant, to] : *rows) set_rates(*tenant, *to);
  for (const auto& [tenant, to] : change.there) set_minimums(*tenant, *to);
  for (const TvlId id : closed_) {
    // Closes it again: now its queue pairs move to other TVLs.
    (void)engine_.tvl_assignment().close(id);
    closing_.push_back(id);
  }
  collect_closed();
  for (const auto& [tenant, level] : released_levels_)
    change.released_levels.push_back(taken_from(*tenant, *level, engine_));
  for (Tenant* tenant : change.released) engine_.remove_tenant(*tenant);
  for (const auto& [tenant, to] : change.added) {
    engine_.add_tenant(*tenant);
    set_minimums(*tenant, *to);  // its number may be that of a removed one
  }
  for (const TenantAllocationChange::NewLevel& added : change.new_levels)
    engine_.add_level(*added.made);
}

void TenantAllocations::set_rates(Tenant& tenant, const configuration::TenantConfig& to) {
  RateControl& rates = engine_.rates();
  // For a tenant or a level.
  const auto set_whole = [&](auto& whole, const auto& entry) {
    rates.set(whole.rate, entry.rates.sent);
    engine_.peer_rates().set(whole.peer_rates.inbound, entry.rates.inbound);
    engine_.peer_rates().set(whole.peer_rates.served, entry.rates.served);
  };
  set_whole(tenant, to);
  for (const auto& level : tenant.levels)
    if (const configuration::LevelConfig* entry = settings_of(to, *level))
      set_whole(*level, *entry);
}

/// Sets the minimum rates. A level that `to` does not name is leaving, and has no minimum.
void TenantAllocations::set_minimums(const Tenant& tenant, const configuration::TenantConfig& to) {
  schedule::MinimumRates& minimums = engine_.cpu().minimums();
  const auto minimum_of = [](const SentLimits& sent) {
    return Rate{sent.min_bytes_per_second, sent.burst_bytes};
  };
  minimums.set(tenant.id, minimum_of(to.rates.sent));
  minimums.set(tenant.qos_class, tenant.id, {});
  for (const auto& level : tenant.levels) {
    const configuration::LevelConfig* entry = settings_of(to, *level);
    minimums.set(level->qos_class, tenant.id,
                 entry != nullptr ? minimum_of(entry->rates.sent) : Rate{});
  }
}

// --- allocations that shrink

Outcome TenantAllocations::shrink(Tenant& tenant, const configuration::TenantConfig& to) {
  if (auto done = for_each_part(tenant, to,
                                [&](const Level* level) { return shrink_part(tenant, to, level); });
      !done)
    return done;
  collect::PcbPool& pcbs = engine_.pcbs();
  for (const auto& level : tenant.levels) {
    const configuration::LevelConfig* entry = settings_of(to, *level);
    if (entry == nullptr || entry->pcbs >= pcbs.guaranteed(level->qos_class)) continue;
    if (auto set = pcbs.set_guarantee(level->qos_class, entry->pcbs); !set) return set;
  }
  if (to.pcbs < pcbs.guaranteed(tenant.qos_class))
    return pcbs.set_guarantee(tenant.qos_class, to.pcbs);
  return {};
}

Outcome TenantAllocations::shrink_part(Tenant& tenant, const configuration::TenantConfig& to,
                                       const Level* level) {
  const QosClassId qos_class = class_of(tenant, level);
  schedule::TvlTable& tvls = engine_.tvls();
  const auto wanted = tvls_of(to, level);
  std::vector<TvlId>& ids = parts_[qos_class].commands;
  for (; ids.size() > wanted.size(); ids.pop_back()) {
    if (auto closed = tvls.close(ids.back()); !closed) return closed;
    closed_.push_back(ids.back());
  }
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const schedule::Tvl& now = tvls[ids[i]];
    // The TVL may take shared credits until it has its new guarantee.
    schedule::TvlTerms less = terms_of(tenant, qos_class, wanted[i], true);
    less.execution_guaranteed =
        std::min(less.execution_guaranteed, now.execution.guaranteed.value());
    less.completion_guaranteed =
        std::min(less.completion_guaranteed, now.completion.guaranteed.value());
    if (auto changed = engine_.tvl_assignment().change(ids[i], less); !changed) return changed;
  }
  return {};
}

// --- allocations that grow

Outcome TenantAllocations::add_levels(TenantAllocationChange& change) {
  for (TenantAllocationChange::NewLevel& added : change.new_levels) {
    const auto group = engine_.pcbs().add_group({.tenant = added.tenant->id,
                                                 .guaranteed = 0,
                                                 .may_share = true,
                                                 .parent = added.tenant->qos_class,
                                                 .is_default = false});
    if (!group)
      return Error{"tenant " + added.tenant->name + ": level " + added.level->name + ": " +
                       group.error().message,
                   group.error().code};
    added.level->qos_class = *group;
  }
  for (TenantAllocationChange::NewLevel& added : change.new_levels) {
    added.made = added.level.get();
    added.tenant->levels.push_back(std::move(added.level));
  }
  return {};
}

Outcome TenantAllocations::grow(Tenant& tenant, const configuration::TenantConfig& to) {
  collect::PcbPool& pcbs = engine_.pcbs();
  if (auto set = pcbs.set_may_share(tenant.qos_class, to.shared); !set) return set;
  for (const auto& level : tenant.levels) {
    const configuration::LevelConfig* entry = settings_of(to, *level);
    if (entry == nullptr) continue;
    if (auto grown = grow_level(*level, *entry); !grown) return grown;
    if (auto set = set_dedicated(tenant, to, level.get()); !set) return set;
  }
  if (to.levels.empty() || !parts_[tenant.qos_class].dedicated.empty())
    if (auto set = set_dedicated(tenant, to, nullptr); !set) return set;
  return for_each_part(tenant, to,
                       [&](const Level* level) { return grow_part(tenant, to, level); });
}

Outcome TenantAllocations::grow_level(Level& level, const configuration::LevelConfig& to) {
  collect::PcbPool& pcbs = engine_.pcbs();
  if (auto set = pcbs.set_guarantee(level.qos_class, to.pcbs); !set) return set;
  if (auto set = pcbs.set_may_share(level.qos_class, to.shared); !set) return set;
  return to.is_default ? pcbs.set_default(level.qos_class) : Outcome();
}

Outcome TenantAllocations::grow_part(Tenant& tenant, const configuration::TenantConfig& to,
                                     const Level* level) {
  const QosClassId qos_class = class_of(tenant, level);
  const auto wanted = tvls_of(to, level);
  std::vector<TvlId>& ids = parts_[qos_class].commands;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const schedule::TvlTerms more = terms_of(tenant, qos_class, wanted[i], may_share(to, level));
    if (i < ids.size()) {
      if (auto changed = engine_.tvl_assignment().change(ids[i], more); !changed) return changed;
      continue;
    }
    const auto added = engine_.tvl_assignment().add(more);
    if (!added) return added.error();
    ids.push_back(*added);
  }
  return {};
}

/// Sets the terms of the TVL of dedicated PCBs. Its credits are its own, beyond those of the pools,
/// so that commands of the send queue scheduler always make progress (mechanism A9). Under a hard
/// cap it has one credit of each kind, which suffices for that.
Outcome TenantAllocations::set_dedicated(const Tenant& tenant,
                                         const configuration::TenantConfig& to,
                                         const Level* level) {
  const QosClassId qos_class = class_of(tenant, level);
  const bool share = may_share(to, level);
  const std::uint32_t execution = part_of(to.kDedicatedExecutionCredits, to, level);
  const std::uint32_t completion = part_of(to.kDedicatedCompletionCredits, to, level);
  const schedule::TvlTerms wanted{.tenant = tenant.id,
                                  .qos_class = qos_class,
                                  .purpose = TvlPurpose::kDedicated,
                                  .weight = 1,
                                  .max_kick_list = completion,
                                  .execution_guaranteed = share ? execution : 1,
                                  .completion_guaranteed = share ? completion : 1,
                                  .may_share = share};
  std::vector<TvlId>& ids = parts_[qos_class].dedicated;
  if (!ids.empty()) return engine_.tvl_assignment().change(ids.front(), wanted);
  const auto added = engine_.tvl_assignment().add(wanted);
  if (!added) return added.error();
  ids.push_back(*added);
  return {};
}

// --- allocations that end

/// Removes the TVLs of a class. Closes those that are still in use, so that they no longer count as
/// a guarantee. Returns true if all are removed.
bool TenantAllocations::release_part(QosClassId qos_class) {
  schedule::TvlTable& tvls = engine_.tvls();
  Part& rows = parts_[qos_class];
  for (auto* ids : {&rows.commands, &rows.dedicated})
    std::erase_if(*ids, [&](TvlId id) {
      const bool removed = static_cast<bool>(tvls.remove(id));
      if (!removed) (void)tvls.close(id);
      return removed;
    });
  return rows.commands.empty() && rows.dedicated.empty();
}

bool TenantAllocations::is_idle(QosClassId id) const {
  const collect::CollectGroup& group = engine_.pcbs().group(id);
  return group.pcbs.in_use.value() == 0 && group.dedicated_in_use.value() == 0;
}

bool TenantAllocations::release_level(const Level& level) {
  const bool released = release_part(level.qos_class);
  (void)engine_.pcbs().set_guarantee(level.qos_class, 0);
  if (!released || !engine_.pcbs().remove_group(level.qos_class)) return false;
  parts_.erase(level.qos_class);
  return true;
}

std::unique_ptr<Level> TenantAllocations::remove_level(Tenant& tenant, Level& level) {
  return release_level(level) ? taken_from(tenant, level, engine_) : nullptr;
}

/// Removes the levels together with the tenant, once all of them are idle.
bool TenantAllocations::release(Tenant& tenant) {
  bool idle = release_part(tenant.qos_class) && is_idle(tenant.qos_class);
  for (const auto& level : tenant.levels)
    idle = release_part(level->qos_class) && is_idle(level->qos_class) && idle;
  collect::PcbPool& pcbs = engine_.pcbs();
  (void)pcbs.set_guarantee(tenant.qos_class, 0);
  if (!idle) return false;
  const auto forget = [&](QosClassId qos_class) {
    (void)pcbs.remove_group(qos_class);
    parts_.erase(qos_class);
  };
  for (const auto& level : tenant.levels) forget(level->qos_class);
  forget(tenant.qos_class);
  return true;
}

void TenantAllocations::release_whole(Tenant& tenant) {
  engine_.pcbs().set_undivided(tenant.qos_class, false);
  std::erase_if(parts_[tenant.qos_class].dedicated,
                [&](TvlId id) { return static_cast<bool>(engine_.tvls().remove(id)); });
}

void TenantAllocations::collect_closed() {
  std::erase_if(closing_, [&](TvlId id) { return static_cast<bool>(engine_.tvls().remove(id)); });
}

}  // namespace softhca::engine
