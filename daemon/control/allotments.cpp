#include "daemon/control/allotments.hpp"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <string>

#include "daemon/control/levels.hpp"
#include "daemon/control/setup.hpp"

namespace softhca::control {
namespace {

using schedule::TvlPurpose;

// The lane of dedicated PCBs has credits of its own, beyond those of the pools, so that commands of
// the send queue scheduler always get on (mechanism A9).
constexpr std::uint32_t kDedicatedExecution = 32;
constexpr std::uint32_t kDedicatedCompletion = 128;

Error at(const engine::Tenant& tenant, const Error& error) {
  return {"tenant " + tenant.name + ": " + error.message, error.code};
}

schedule::TvlConfig lane(const engine::Tenant& tenant, LevelId level,
                         const resource::TvlConfig& tvl, bool share) {
  return {.tenant = tenant.id,
          .level = level,
          .purpose = TvlPurpose::kCommands,
          .weight = tvl.weight,
          .max_kick_list = tvl.kick_list,
          .execution_guaranteed = tvl.execution_credits,
          .completion_guaranteed = tvl.completion_credits,
          .may_share = share};
}

/// f(LevelId) for every level that is in `to`, and for what no level has.
template <class F>
Outcome for_each_part(const engine::Tenant& tenant, const resource::TenantConfig& to, F&& f) {
  for (const auto& level : tenant.levels)
    if (settings_of(to, *level) != nullptr)
      if (auto done = f(level->id); !done) return done;
  return f(kNoLevel);
}

std::unique_ptr<engine::Level> taken_from(engine::Tenant& tenant, const engine::Level& level) {
  const auto at = std::find_if(tenant.levels.begin(), tenant.levels.end(),
                               [&](const auto& there) { return there.get() == &level; });
  std::unique_ptr<engine::Level> taken = std::move(*at);
  tenant.levels.erase(at);
  return taken;
}

}  // namespace

/// All that can refuse, and that a change is made in.
struct Allotments::Books {
  collect::PcbPool::Books pcbs;
  schedule::TvlTable tvls;
  Parts parts;
  std::vector<TvlId> closing;
};

void Allotments::adopt(const engine::Tenant& tenant) {
  const schedule::TvlTable& tvls = engine_.tvls();
  for (std::uint16_t i = 0; i < tvls.size(); ++i) {
    const schedule::Tvl& tvl = tvls[TvlId(i)];
    if (!tvl.used || tvl.closing || tvl.tenant != tenant.id) continue;
    Part& found = part(tenant, tvl.level);
    (tvl.purpose == TvlPurpose::kCommands ? found.commands : found.dedicated).emplace_back(i);
  }
}

const std::vector<TvlId>& Allotments::lanes(const engine::Tenant& tenant, LevelId level) const {
  static const std::vector<TvlId> kNone;
  const auto found = parts_.find({&tenant, level.value});
  return found == parts_.end() ? kNone : found->second.commands;
}

Allotments::Books Allotments::books() const {
  return {engine_.pcbs().books(), engine_.tvls(), parts_, closing_};
}

void Allotments::restore(const Books& books, AllotmentChange& change) {
  engine_.pcbs().restore(books.pcbs);
  engine_.tvls() = books.tvls;
  parts_ = books.parts;
  closing_ = books.closing;
  for (auto added = change.new_levels.rbegin(); added != change.new_levels.rend(); ++added) {
    if (added->made == nullptr) continue;
    added->level = std::move(added->tenant->levels.back());
    added->tenant->levels.pop_back();
    added->made = nullptr;
  }
  change.released.clear();
}

Outcome Allotments::change(AllotmentChange& change) {
  closed_.clear();
  released_levels_.clear();
  collect_closed();
  const Books before = books();
  const Outcome made = make(change);
  if (made)
    settle(change);
  else
    restore(before, change);
  return made;
}

Outcome Allotments::make(AllotmentChange& change) {
  for (engine::Tenant* tenant : change.gone)
    if (release(*tenant)) change.released.push_back(tenant);
  for (const AllotmentChange::OldLevel& old : change.gone_levels)
    if (!old.in_use && release_level(*old.tenant, *old.level))
      released_levels_.emplace_back(old.tenant, old.level);
  for (const auto& [tenant, to] : change.there) {
    if (auto done = shrink(*tenant, *to); !done) return at(*tenant, done.error());
    const bool used =
        std::find(change.whole.begin(), change.whole.end(), tenant) != change.whole.end();
    if (!to->levels.empty() && !used) release_whole(*tenant);
  }
  for (const auto& [tenant, to] : change.added) {
    for (const engine::Tenant* gone : change.gone)
      if (gone->id == tenant->id &&
          std::find(change.released.begin(), change.released.end(), gone) == change.released.end())
        return at(*tenant,
                  {"what tenant " + gone->name + " had is not free yet; try again", EBUSY});
    const auto group =
        engine_.pcbs().add_group({.tenant = tenant->id, .guaranteed = 0, .may_share = true});
    if (!group) return at(*tenant, group.error());
    tenant->group = *group;
  }
  // Totals first: levels that are added take their part of them.
  for (const auto* rows : {&change.there, &change.added})
    for (const auto& [tenant, to] : *rows)
      if (auto set = engine_.pcbs().set_guarantee(tenant->group, to->pcbs); !set)
        return at(*tenant, set.error());
  for (const engine::Tenant* tenant : change.whole)
    engine_.pcbs().set_undivided(tenant->group, true);
  if (auto added = add_levels(change); !added) return added;
  for (const auto* rows : {&change.there, &change.added})
    for (const auto& [tenant, to] : *rows)
      if (auto done = grow(*tenant, *to); !done) return at(*tenant, done.error());
  return {};
}

/// What cannot fail.
void Allotments::settle(AllotmentChange& change) {
  for (const auto* rows : {&change.there, &change.added})
    for (const auto& [tenant, to] : *rows)
      for (const auto& level : tenant->levels) {
        const resource::LevelConfig* entry = settings_of(*to, *level);
        level->is_default = entry != nullptr && entry->is_default;
      }
  for (const TvlId id : closed_) {
    (void)engine_.close_tvl(id);  // again: now its queue pairs go to others
    closing_.push_back(id);
  }
  collect_closed();
  for (const auto& [tenant, level] : released_levels_)
    change.released_levels.push_back(taken_from(*tenant, *level));
  for (engine::Tenant* tenant : change.released) engine_.remove_tenant(*tenant);
  for (const AllotmentChange::Row& row : change.added) engine_.add_tenant(*row.tenant);
  for (const AllotmentChange::NewLevel& added : change.new_levels) engine_.add_level(*added.made);
}

// --- what shrinks

Outcome Allotments::shrink(engine::Tenant& tenant, const resource::TenantConfig& to) {
  if (auto done =
          for_each_part(tenant, to, [&](LevelId id) { return shrink_part(tenant, to, id); });
      !done)
    return done;
  collect::PcbPool& pcbs = engine_.pcbs();
  for (const auto& level : tenant.levels) {
    const resource::LevelConfig* entry = settings_of(to, *level);
    if (entry == nullptr || entry->pcbs >= pcbs.guaranteed(level->group)) continue;
    if (auto set = pcbs.set_guarantee(level->group, entry->pcbs); !set) return set;
  }
  if (to.pcbs < pcbs.guaranteed(tenant.group)) return pcbs.set_guarantee(tenant.group, to.pcbs);
  return {};
}

Outcome Allotments::shrink_part(engine::Tenant& tenant, const resource::TenantConfig& to,
                                LevelId level) {
  schedule::TvlTable& tvls = engine_.tvls();
  const auto wanted = tvls_of(to, tenant, level);
  std::vector<TvlId>& lanes = part(tenant, level).commands;
  for (; lanes.size() > wanted.size(); lanes.pop_back()) {
    if (auto closed = tvls.close(lanes.back()); !closed) return closed;
    closed_.push_back(lanes.back());
  }
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    const schedule::Tvl& now = tvls[lanes[i]];
    // May draw on what is shared until it has what it is to have.
    schedule::TvlConfig less = lane(tenant, level, wanted[i], true);
    less.execution_guaranteed =
        std::min(less.execution_guaranteed, now.execution.guaranteed.value());
    less.completion_guaranteed =
        std::min(less.completion_guaranteed, now.completion.guaranteed.value());
    if (auto changed = engine_.change_tvl(lanes[i], less); !changed) return changed;
  }
  return {};
}

// --- what grows

Outcome Allotments::add_levels(AllotmentChange& change) {
  for (AllotmentChange::NewLevel& added : change.new_levels) {
    const auto group = engine_.pcbs().add_group({.tenant = added.tenant->id,
                                                 .guaranteed = 0,
                                                 .may_share = true,
                                                 .parent = added.tenant->group,
                                                 .is_default = false});
    if (!group)
      return Error{"tenant " + added.tenant->name + ": level " + added.level->name + ": " +
                       group.error().message,
                   group.error().code};
    added.level->group = *group;
    added.level->id = LevelId(group->value);  // unique in the adapter, as a level's number is to be
  }
  for (AllotmentChange::NewLevel& added : change.new_levels) {
    added.made = added.level.get();
    added.tenant->levels.push_back(std::move(added.level));
  }
  return {};
}

Outcome Allotments::grow(engine::Tenant& tenant, const resource::TenantConfig& to) {
  collect::PcbPool& pcbs = engine_.pcbs();
  if (auto set = pcbs.set_may_share(tenant.group, to.shared); !set) return set;
  for (const auto& level : tenant.levels) {
    const resource::LevelConfig* entry = settings_of(to, *level);
    if (entry == nullptr) continue;
    if (auto grown = grow_level(*level, *entry); !grown) return grown;
    if (auto set = set_dedicated(tenant, level->id, to.shared && entry->shared); !set) return set;
  }
  if (to.levels.empty() || !part(tenant, kNoLevel).dedicated.empty())
    if (auto set = set_dedicated(tenant, kNoLevel, to.shared); !set) return set;
  return for_each_part(tenant, to, [&](LevelId id) { return grow_part(tenant, to, id); });
}

Outcome Allotments::grow_level(engine::Level& level, const resource::LevelConfig& to) {
  collect::PcbPool& pcbs = engine_.pcbs();
  if (auto set = pcbs.set_guarantee(level.group, to.pcbs); !set) return set;
  if (auto set = pcbs.set_may_share(level.group, to.shared); !set) return set;
  return to.is_default ? pcbs.set_default(level.group) : Outcome();
}

Outcome Allotments::grow_part(engine::Tenant& tenant, const resource::TenantConfig& to,
                              LevelId level) {
  const auto wanted = tvls_of(to, tenant, level);
  std::vector<TvlId>& lanes = part(tenant, level).commands;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const schedule::TvlConfig more = lane(tenant, level, wanted[i], may_share(to, tenant, level));
    if (i < lanes.size()) {
      if (auto changed = engine_.change_tvl(lanes[i], more); !changed) return changed;
      continue;
    }
    const auto added = engine_.add_tvl(more);
    if (!added) return added.error();
    lanes.push_back(*added);
  }
  return {};
}

Outcome Allotments::set_dedicated(const engine::Tenant& tenant, LevelId level, bool share) {
  const schedule::TvlConfig wanted{.tenant = tenant.id,
                                   .level = level,
                                   .purpose = TvlPurpose::kDedicated,
                                   .weight = 1,
                                   .max_kick_list = kDedicatedCompletion,
                                   .execution_guaranteed = kDedicatedExecution,
                                   .completion_guaranteed = kDedicatedCompletion,
                                   .may_share = share};
  std::vector<TvlId>& lanes = part(tenant, level).dedicated;
  if (!lanes.empty()) return engine_.change_tvl(lanes.front(), wanted);
  const auto added = engine_.add_tvl(wanted);
  if (!added) return added.error();
  lanes.push_back(*added);
  return {};
}

// --- what goes

/// What it cannot take now is nobody's guarantee any more.
bool Allotments::release_part(const engine::Tenant& tenant, LevelId level) {
  schedule::TvlTable& tvls = engine_.tvls();
  Part& rows = part(tenant, level);
  for (auto* lanes : {&rows.commands, &rows.dedicated})
    std::erase_if(*lanes, [&](TvlId id) {
      const bool removed = static_cast<bool>(tvls.remove(id));
      if (!removed) (void)tvls.close(id);
      return removed;
    });
  return rows.commands.empty() && rows.dedicated.empty();
}

bool Allotments::is_idle(collect::GroupId id) const {
  const collect::CollectGroup& group = engine_.pcbs().group(id);
  return group.pcbs.in_use.value() == 0 && group.dedicated_in_use.value() == 0;
}

bool Allotments::release_level(engine::Tenant& tenant, const engine::Level& level) {
  const bool lanes = release_part(tenant, level.id);
  (void)engine_.pcbs().set_guarantee(level.group, 0);
  if (!lanes || !engine_.pcbs().remove_group(level.group)) return false;
  parts_.erase({&tenant, level.id.value});
  return true;
}

std::unique_ptr<engine::Level> Allotments::remove_level(engine::Tenant& tenant,
                                                        engine::Level& level) {
  return release_level(tenant, level) ? taken_from(tenant, level) : nullptr;
}

/// Its levels go with it, all at once.
bool Allotments::release(engine::Tenant& tenant) {
  bool idle = release_part(tenant, kNoLevel) && is_idle(tenant.group);
  for (const auto& level : tenant.levels)
    idle = release_part(tenant, level->id) && is_idle(level->group) && idle;
  collect::PcbPool& pcbs = engine_.pcbs();
  (void)pcbs.set_guarantee(tenant.group, 0);
  if (!idle) return false;
  for (const auto& level : tenant.levels) (void)pcbs.remove_group(level->group);
  (void)pcbs.remove_group(tenant.group);
  std::erase_if(parts_, [&](const auto& entry) { return entry.first.first == &tenant; });
  return true;
}

void Allotments::release_whole(engine::Tenant& tenant) {
  engine_.pcbs().set_undivided(tenant.group, false);
  std::erase_if(part(tenant, kNoLevel).dedicated,
                [&](TvlId id) { return static_cast<bool>(engine_.tvls().remove(id)); });
}

void Allotments::collect_closed() {
  std::erase_if(closing_, [&](TvlId id) { return static_cast<bool>(engine_.tvls().remove(id)); });
}

}  // namespace softhca::control
