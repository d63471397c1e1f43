#include "daemon/control/reload_apply.hpp"

#include <algorithm>

#include "daemon/control/levels.hpp"
#include "daemon/control/setup.hpp"

namespace softhca::control {

Allotments::Allotments(Adapter& adapter) : adapter_(adapter) {
  for (const auto& tenant : adapter.tenants) find_lanes(*tenant);
}

void Allotments::find_lanes(const engine::Tenant& tenant) {
  std::vector<TvlId>& lanes = lanes_[&tenant];
  const schedule::TvlTable& tvls = adapter_.engine.tvls();
  for (std::uint16_t i = 0; i < tvls.size(); ++i) {
    const schedule::Tvl& tvl = tvls[TvlId(i)];
    if (tvl.used && !tvl.closing && tvl.tenant == tenant.id &&
        tvl.purpose == schedule::TvlPurpose::kCommands)
      lanes.push_back(TvlId(i));
  }
}

schedule::TvlConfig Allotments::lane(const engine::Tenant& tenant,
                                     const resource::TenantConfig& settings,
                                     std::size_t index) const {
  const resource::TvlConfig& tvl = settings.tvls[index];
  const LevelId level = level_of_tvl(settings, tenant, index);
  return {.tenant = tenant.id,
          .level = level,
          .purpose = schedule::TvlPurpose::kCommands,
          .weight = tvl.weight,
          .max_kick_list = tvl.kick_list,
          .execution_guaranteed = tvl.execution_credits,
          .completion_guaranteed = tvl.completion_credits,
          .may_share = may_share(settings, tenant, level)};
}

Outcome Allotments::shrink(engine::Tenant& tenant, const resource::TenantConfig& to) {
  engine::Engine& engine = adapter_.engine;
  std::vector<TvlId>& lanes = lanes_[&tenant];
  for (; lanes.size() > to.tvls.size(); lanes.pop_back()) {
    if (auto closed = engine.close_tvl(lanes.back()); !closed) return closed;
    closing_.push_back(lanes.back());
  }
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    const schedule::Tvl& now = engine.tvls()[lanes[i]];
    schedule::TvlConfig less = lane(tenant, to, i);
    less.execution_guaranteed =
        std::min(less.execution_guaranteed, now.execution.guaranteed.value());
    less.completion_guaranteed =
        std::min(less.completion_guaranteed, now.completion.guaranteed.value());
    less.may_share = true;  // until it has what it is to have
    if (auto changed = engine.change_tvl(lanes[i], less); !changed) return changed;
  }
  for (std::size_t i = 0; i < tenant.levels.size(); ++i) {
    const collect::GroupId level = tenant.levels[i]->group;
    if (to.levels[i].pcbs >= engine.pcbs().guaranteed(level)) continue;
    if (auto set = engine.pcbs().set_guarantee(level, to.levels[i].pcbs); !set) return set;
  }
  if (to.pcbs < engine.pcbs().guaranteed(tenant.group))
    if (auto set = engine.pcbs().set_guarantee(tenant.group, to.pcbs); !set) return set;
  return {};
}

Outcome Allotments::grow(engine::Tenant& tenant, const resource::TenantConfig& to) {
  engine::Engine& engine = adapter_.engine;
  if (auto set = engine.pcbs().set_guarantee(tenant.group, to.pcbs); !set) return set;
  if (auto set = engine.pcbs().set_may_share(tenant.group, to.shared); !set) return set;
  engine.set_receive_policy(tenant, policy_of(to.srq));
  set_rate(to.rate, tenant, engine);
  for (std::size_t i = 0; i < tenant.levels.size(); ++i)
    if (auto grown = grow_level(*tenant.levels[i], to.levels[i]); !grown) return grown;
  std::vector<TvlId>& lanes = lanes_[&tenant];
  for (std::size_t i = 0; i < to.tvls.size(); ++i) {
    if (i < lanes.size()) {
      if (auto changed = engine.change_tvl(lanes[i], lane(tenant, to, i)); !changed) return changed;
      continue;
    }
    const auto added = engine.add_tvl(lane(tenant, to, i));
    if (!added) return added.error();
    lanes.push_back(*added);
  }
  return {};
}

Outcome Allotments::grow_level(engine::Level& level, const resource::LevelConfig& to) {
  collect::PcbPool& pcbs = adapter_.engine.pcbs();
  if (auto set = pcbs.set_guarantee(level.group, to.pcbs); !set) return set;
  if (auto set = pcbs.set_may_share(level.group, to.shared); !set) return set;
  level.vcbs.may_share = to.shared;
  level.is_default = to.is_default;
  return to.is_default ? pcbs.set_default(level.group) : Outcome();
}

Outcome Allotments::add(engine::Tenant& tenant, const resource::TenantConfig& entry) {
  if (auto added = add_tenant(entry, tenant, adapter_.engine); !added) return added;
  find_lanes(tenant);
  return {};
}

bool Allotments::release(engine::Tenant& tenant) {
  engine::Engine& engine = adapter_.engine;
  schedule::TvlTable& tvls = engine.tvls();
  std::vector<TvlId> rows;
  for (std::uint16_t i = 0; i < tvls.size(); ++i)
    if (tvls[TvlId(i)].used && tvls[TvlId(i)].tenant == tenant.id) rows.push_back(TvlId(i));
  for (const TvlId row : rows)
    if (!tvls.remove(row)) return false;
  std::erase_if(closing_, [&](TvlId id) { return !tvls[id].used; });
  lanes_[&tenant].clear();
  for (const auto& level : tenant.levels)
    adapter_.vcbs.set_guarantee(level->vcbs, tenant.vcbs, 0);  // the control thread waits for us
  if (!remove_levels(tenant, engine)) return false;
  if (!engine.pcbs().remove_group(tenant.group)) return false;
  lanes_.erase(&tenant);
  engine.remove_tenant(tenant);
  return true;
}

void Allotments::collect_closed() {
  std::erase_if(closing_,
                [&](TvlId id) { return static_cast<bool>(adapter_.engine.tvls().remove(id)); });
}

}  // namespace softhca::control
