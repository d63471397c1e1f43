// SPDX-License-Identifier: Apache-2.0

#include "tests/fuzz/requests/tenants.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>

#include "daemon/engine/packets/peer_table.hpp"
#include "daemon/engine/requests/level_settings.hpp"

namespace softhca::fuzz {
namespace {

using configuration::Config;
using configuration::TenantConfig;
using engine::TenantAllocationChange;

std::unique_ptr<engine::Level> make_level(const configuration::LevelConfig& config) {
  auto level = std::make_unique<engine::Level>();
  level->name = config.name;
  level->marking = marking_of(config);
  engine::set_rules(*level, &config);
  return level;
}

}  // namespace

/// A change of configuration, and what it needs.
struct Tenants::Draft {
  TenantAllocationChange change;
  std::vector<std::unique_ptr<engine::Tenant>> added;
  engine::Provisioners provisioners;
};

Tenants::Tenants(Common& common, const Programs& programs)
    : common_(common), input_(common.input), programs_(programs) {}

std::vector<engine::Tenant*> Tenants::open() const {
  std::vector<engine::Tenant*> open;
  for (const auto& tenant : all_)
    if (!tenant->control.leaving) open.push_back(tenant.get());
  return open;
}

const engine::Tenant* Tenants::any() const {
  return all_.empty() ? nullptr : all_[input_.byte() % all_.size()].get();
}

/// As path_between().
std::optional<engine::AddressPath> Tenants::any_path(const engine::Tenant& tenant) const {
  engine::AddressPath path;
  const auto& source = tenant.addresses[input_.byte() % tenant.addresses.size()];
  path.source = source.gid;
  path.destination = any_address(input_);
  if (path.source.is_ipv4() != path.destination.is_ipv4()) return std::nullopt;
  if (!common_.bench.view.addresses.is_local(path.destination)) path.port = source.port;
  return path;
}

engine::Level* Tenants::any_level(engine::Tenant& tenant) {
  std::vector<engine::Level*> levels;
  for (const auto& level : tenant.levels)
    if (!level->control.leaving) levels.push_back(level.get());
  return levels.empty() ? nullptr : levels[input_.byte() % levels.size()];
}

// --- programs that hold something

std::uint64_t Tenants::count(const engine::Tenant& tenant) const {
  return static_cast<std::uint64_t>(std::ranges::count_if(
      programs_, [&](const auto& program) { return &program->tenant() == &tenant; }));
}

std::uint64_t Tenants::count(const engine::Level& level) const {
  return static_cast<std::uint64_t>(std::ranges::count_if(programs_, [&](const auto& program) {
    const engine::Session& session = program->session();
    return session.level == &level || session.is_elsewhere_on(level);
  }));
}

std::uint64_t Tenants::count_undivided(const engine::Tenant& tenant) const {
  return static_cast<std::uint64_t>(std::ranges::count_if(programs_, [&](const auto& program) {
    return &program->tenant() == &tenant && program->session().level == nullptr;
  }));
}

std::uint32_t Tenants::oldest(const engine::Tenant& tenant) const {
  std::uint32_t oldest = common_.next_session;
  for (const auto& program : programs_)
    if (&program->tenant() == &tenant) oldest = std::min(oldest, program->session().id.value);
  return oldest;
}

// --- configurations

void Tenants::start() {
  Config first = empty_configuration();
  // Two tenants that share, each with an IPv4 and an IPv6 address.
  for (const std::uint8_t addresses : {3, 7}) {
    const std::uint8_t bytes[] = {4, 1, 1, addresses};
    Input input(bytes, sizeof bytes);
    add_tenant(first, input);
  }
  require(is_valid(first) && put(first, 0), "the first configuration comes into force");
}

void Tenants::change() {
  Config wanted = in_force_;
  for (std::uint32_t n = 1 + input_.below(3); n > 0; --n) change_something(wanted, input_);
  // The engine refuses what has no room, too.
  const bool look = input_.byte() % 4 != 3;
  if (is_valid(wanted) && (!look || has_room(wanted))) (void)put(wanted, input_.below(2));
}

/// As Departures::held_besides().
bool Tenants::has_room(const Config& wanted) const {
  configuration::Held held;
  for (const auto& tenant : all_) {
    const TenantConfig* const entry = find_tenant(wanted, tenant->name);
    if (entry == nullptr && count(*tenant) == 0) continue;
    add_held(*tenant, entry, held);
    if (entry == nullptr) held += configuration::held_by(*tenant->control.settings);
  }
  return !configuration::check_room(in_force_, wanted, held);
}

void Tenants::add_held(const engine::Tenant& tenant, const TenantConfig* wanted,
                       configuration::Held& held) const {
  const TenantConfig* const settings =
      wanted != nullptr ? wanted : find_tenant(in_force_, tenant.name);
  const engine::EngineView& view = common_.bench.view;
  configuration::Held levels;
  configuration::HeldPart part{.tenant = tenant.name, .vcbs = 0, .pcbs = 0};
  for (const auto& level : tenant.levels) {
    if (settings != nullptr ? engine::settings_of(*settings, *level) != nullptr
                            : !level->control.leaving)
      continue;
    if (count(*level) == 0) continue;
    ++levels.levels;
    ++levels.dedicated_pcbs;
    for (const TvlId id : common_.bench.allocations.tvls(level->qos_class)) {
      ++levels.tvls;
      levels.execution_credits += view.tvls[id].execution.guaranteed.value();
      levels.completion_credits += view.tvls[id].completion.guaranteed.value();
    }
    part.pcbs += view.pcbs.guaranteed(level->qos_class);
  }
  if (settings != nullptr && !settings->levels.empty() && count_undivided(tenant) != 0)
    ++levels.dedicated_pcbs;
  held += levels;
  part.levels = levels.levels;
  if (wanted != nullptr && part.levels != 0) held.parts.push_back(std::move(part));
}

std::vector<engine::Tenant::Address> Tenants::addresses_of(const Config& config,
                                                           const TenantConfig& tenant) const {
  const auto& of_port = config.ports.front().addresses;
  std::vector<engine::Tenant::Address> addresses;
  for (const Gid& gid : tenant.addresses) {
    const bool outside =
        std::ranges::find(of_port, gid, &configuration::InterfaceAddress::gid) != of_port.end();
    addresses.push_back({gid, outside ? std::optional(PortId(0)) : std::nullopt});
  }
  return addresses;
}

/// As ReloadChange::draft(). Returns false if no row is free for a tenant.
bool Tenants::draft(const Config& wanted, Draft& draft) const {
  TenantAllocationChange& change = draft.change;
  for (const auto& tenant : all_)
    if (find_tenant(wanted, tenant->name) == nullptr && count(*tenant) == 0)
      change.gone.push_back(tenant.get());
  if (wanted.pools.dedicated_pcbs != in_force_.pools.dedicated_pcbs)
    change.dedicated_pcbs = wanted.pools.dedicated_pcbs;
  const auto is_free = [&](std::uint16_t id, bool of_gone) {
    const auto has_it = [&](const auto& tenant) {
      return tenant->id.value == id &&
             !(of_gone && std::ranges::find(change.gone, tenant.get()) != change.gone.end());
    };
    return std::ranges::none_of(all_, has_it) && std::ranges::none_of(draft.added, has_it);
  };
  for (const TenantConfig& entry : wanted.tenants) {
    const auto there =
        std::ranges::find(all_, entry.name, [](const auto& tenant) { return tenant->name; });
    if (there != all_.end()) {
      engine::Tenant& tenant = **there;
      change.there.push_back({&tenant, &entry});
      if (count_undivided(tenant) != 0) change.whole.push_back(&tenant);
      auto made =
          common_.bench.view.receive_queues.make_provisioners(tenant, entry.srq, entry.srq_rules);
      std::ranges::move(made, std::back_inserter(draft.provisioners));
      draft_levels(tenant, entry, draft);
      continue;
    }
    std::uint16_t id = 0;
    for (std::uint16_t i = 0; i < 2 * Bench::kTenants; ++i)
      if (id = i % Bench::kTenants; is_free(id, i >= Bench::kTenants)) break;
    if (!is_free(id, true)) return false;
    auto& tenant = *draft.added.emplace_back(std::make_unique<engine::Tenant>());
    tenant.id = TenantId(id);
    tenant.name = entry.name;
    tenant.addresses = addresses_of(wanted, entry);
    change.added.push_back({&tenant, &entry});
    draft_levels(tenant, entry, draft);
  }
  return true;
}

void Tenants::draft_levels(engine::Tenant& tenant, const TenantConfig& entry, Draft& draft) const {
  for (const auto& level : tenant.levels)
    if (engine::settings_of(entry, *level) == nullptr)
      draft.change.gone_levels.push_back({&tenant, level.get(), count(*level) != 0});
  for (const configuration::LevelConfig& level : entry.levels)
    if (std::ranges::none_of(tenant.levels,
                             [&](const auto& there) { return there->name == level.name; }))
      draft.change.new_levels.push_back({&tenant, make_level(level), nullptr});
}

/// As change_of() and ReloadChange::port_changes().
engine::PortChange Tenants::port_change(const Config& wanted) const {
  const configuration::PortConfig& to = wanted.ports.front();
  const configuration::PortConfig& before = in_force_.ports.front();
  engine::PortChange change{.added = {},
                            .removed = {},
                            .gateway4 = to.gateway4.value_or(Gid{}),
                            .gateway6 = to.gateway6.value_or(Gid{}),
                            .neighbours = {},
                            .announce = to.addresses != before.addresses};
  for (const std::string& text : to.neighbours)
    if (const auto neighbour = configuration::parse_static_neighbour(text))
      change.neighbours.emplace(neighbour->gid, neighbour->mac);
  for (const configuration::InterfaceAddress& address : to.addresses)
    if (std::ranges::find(before.addresses, address) == before.addresses.end())
      change.added.push_back({address.gid, address.prefix, true});
  for (const configuration::InterfaceAddress& address : before.addresses)
    if (std::ranges::find(to.addresses, address.gid, &configuration::InterfaceAddress::gid) ==
            to.addresses.end() &&
        !is_former(address.gid))
      change.removed.push_back(address.gid);
  return change;
}

/// Returns false if the configuration does not come into force. The engine makes `steps` poll steps
/// after the control thread has begun the change.
bool Tenants::put(const Config& wanted, unsigned steps) {
  Draft drafted;
  if (!draft(wanted, drafted)) return false;
  common_.bench.poll(steps);
  const auto former_before = former_;
  change_former(wanted);
  engine::PutInForce put{.wanted = wanted,
                         .allocations = common_.bench.allocations,
                         .change = drafted.change,
                         .addresses = {},
                         .provisioners = std::move(drafted.provisioners),
                         .ports = {},
                         .peers = {}};
  put.ports.push_back(port_change(wanted));
  if (wanted.peers != in_force_.peers) {
    auto peers = engine::PeerTable::make(wanted.peers);
    require(static_cast<bool>(peers), "a table of peers can be made");
    put.peers = std::move(*peers);
  }
  for (const TenantAllocationChange::Row& row : drafted.change.there)
    put.addresses.push_back({row.tenant, addresses_of(wanted, *row.to), former_of(*row.tenant)});
  const auto before = common_.bench.allotted();
  const Outcome done = common_.bench.ask(put);
  if (!done) {
    require(common_.bench.allotted() == before, "a refused change changes nothing");
    for (const TenantAllocationChange::NewLevel& added : drafted.change.new_levels)
      require(added.level != nullptr, "a refused change gives new levels back");
    former_ = former_before;
    return false;
  }
  for (auto& tenant : drafted.added) {
    Domains& domains = domains_[tenant.get()];
    for (Domain& domain : domains) domain.id = engine::XrcDomainId(next_domain_++);
    all_.push_back(std::move(tenant));
  }
  let_leave(wanted, drafted);
  in_force_ = wanted;
  for (const auto& tenant : all_)
    if (const TenantConfig* entry = find_tenant(in_force_, tenant->name))
      tenant->control.settings = std::make_shared<const TenantConfig>(*entry);
  return true;
}

/// As Departures::begin().
void Tenants::let_leave(const Config& wanted, const Draft& drafted) {
  for (const TenantAllocationChange::Row& row : drafted.change.there)
    for (const auto& level : row.tenant->levels)
      level->control.leaving = engine::settings_of(*row.to, *level) == nullptr;
  engine::LetYield changed;
  for (const auto& tenant : all_) {
    tenant->control.leaving = find_tenant(wanted, tenant->name) == nullptr;
    const bool released =
        std::ranges::find(drafted.change.released, tenant.get()) != drafted.change.released.end();
    if (!released && tenant->yields != tenant->control.leaving)
      changed.tenants.emplace_back(tenant.get(), tenant->control.leaving);
  }
  common_.bench.ask(changed);
  for (const engine::Tenant* tenant : drafted.change.released) erase(*tenant);
}

void Tenants::erase(const engine::Tenant& tenant) {
  std::erase_if(former_, [&](const Former& former) { return former.tenant == &tenant; });
  domains_.erase(&tenant);
  std::erase_if(all_, [&](const auto& there) { return there.get() == &tenant; });
}

// --- former addresses

void Tenants::change_former(const Config& wanted) {
  for (const auto& tenant : all_) {
    const TenantConfig* const entry = find_tenant(wanted, tenant->name);
    if (entry == nullptr) continue;
    const auto has = [&](const Gid& gid) {
      return std::ranges::find(entry->addresses, gid) != entry->addresses.end();
    };
    for (const engine::Tenant::Address& address : tenant->addresses)
      if (!has(address.gid)) former_.push_back({tenant.get(), address, common_.next_session});
    std::erase_if(former_, [&](const Former& former) {
      return former.tenant == tenant.get() && has(former.address.gid);
    });
  }
}

std::vector<engine::Tenant::Address> Tenants::former_of(const engine::Tenant& tenant) const {
  std::vector<engine::Tenant::Address> addresses;
  for (const Former& former : former_)
    if (former.tenant == &tenant) addresses.push_back(former.address);
  return addresses;
}

bool Tenants::is_former(const Gid& gid) const {
  return std::ranges::any_of(former_,
                             [&](const Former& former) { return former.address.gid == gid; });
}

/// As Reloader::forget_addresses(), of one address.
void Tenants::forget_addresses() {
  const auto found = std::ranges::find_if(
      former_, [this](const Former& former) { return oldest(*former.tenant) >= former.session; });
  if (found == former_.end()) return;
  const Former former = *found;
  former_.erase(found);
  const Gid& gid = former.address.gid;
  const bool configured = std::ranges::find(in_force_.ports.front().addresses, gid,
                                            &configuration::InterfaceAddress::gid) !=
                          in_force_.ports.front().addresses.end();
  engine::SetAddresses set{
      .to = {former.tenant, former.tenant->addresses, former_of(*former.tenant)}, .gone = {}};
  if (!is_former(gid) && !configured) set.gone = former.address;
  common_.bench.ask(set);
}

// --- tenants and levels

void Tenants::rename_level() {
  const auto tenants = open();
  if (tenants.empty()) return;
  engine::Tenant& tenant = *tenants[input_.byte() % tenants.size()];
  engine::Level* const level = any_level(tenant);
  if (level == nullptr) return;
  const std::string to = "level" + std::to_string(input_.byte() % 4);
  if (std::ranges::find(tenant.levels, to, [](const auto& each) { return each->name; }) !=
      tenant.levels.end())
    return;
  for (TenantConfig& entry : in_force_.tenants)
    for (configuration::LevelConfig& each : entry.levels)
      if (entry.name == tenant.name && each.name == level->name) each.name = to;
  common_.bench.ask(engine::RenameLevel{*level, to});
}

void Tenants::adjust_lending() {
  engine::AdjustLending adjust{
      .lends = {}, .policy = {.idle = std::chrono::seconds(4), .keep = input_.byte() % 3 / 2.0}};
  const bool automatic = input_.byte() % 4 != 3;
  for (const auto& tenant : all_)
    adjust.lends.emplace_back(
        tenant.get(), automatic && (tenant->control.leaving || tenant->control.settings->lends));
  common_.bench.ask(adjust);
}

void Tenants::remove_tenant() {
  const auto found = std::ranges::find_if(
      all_, [this](const auto& tenant) { return tenant->control.leaving && count(*tenant) == 0; });
  if (found == all_.end()) return;
  if (common_.bench.ask(engine::RemoveTenant{common_.bench.allocations, **found})) erase(**found);
}

void Tenants::remove_level() {
  for (const auto& tenant : all_)
    for (const auto& level : tenant->levels) {
      if (!level->control.leaving || count(*level) != 0) continue;
      (void)common_.bench.ask(engine::RemoveLevel{common_.bench.allocations, *tenant, *level});
      return;
    }
}

void Tenants::release_whole() {
  for (const TenantConfig& entry : in_force_.tenants) {
    engine::Tenant& tenant =
        **std::ranges::find(all_, entry.name, [](const auto& each) { return each->name; });
    if (entry.levels.empty() || !common_.bench.allocations.has_whole(tenant) ||
        count_undivided(tenant) != 0)
      continue;
    common_.bench.ask(engine::ReleaseWhole{common_.bench.allocations, tenant});
  }
}

void Tenants::collect_closed() {
  common_.bench.ask(engine::CollectClosedTvls{common_.bench.allocations});
}

void Tenants::check_idle() const {
  for (const auto& tenant : all_) {
    const engine::TenantCounters& counters = tenant->counters;
    require(counters.sessions.value() == 0, "no session counts");
    require(counters.queue_pairs.value() == 0, "no queue pair counts");
    require(counters.stalled_queue_pairs.value() == 0, "no queue pair counts as stalled");
    require(counters.set_aside_queue_pairs.value() == 0, "no queue pair counts as parked");
    require(counters.congestion.paced_queue_pairs.value() == 0, "no queue pair counts as paced");
    require(counters.memory_regions.value() == 0, "no region counts");
    require(counters.memory.registered_bytes.value() == 0, "no memory counts as registered");
    require(counters.receive.held.value() == 0, "no receive counts as held");
    require(counters.receive.quarantined.value() == 0, "no queue pair counts as quarantined");
    require(tenant->kept.held.value() == 0, "no packet is kept");
    require(tenant->waiting_packets == 0, "no packet waits for memory");
    for (const auto& level : tenant->levels) {
      require(level->counters.sessions.value() == 0, "no session of a level counts");
      require(level->counters.assigned_queue_pairs.value() == 0, "no queue pair is on a level");
    }
  }
}

void Tenants::end() {
  Config none = in_force_;
  none.tenants.clear();
  require(put(none, 0), "all tenants may leave");
  while (!all_.empty()) {
    require(common_.bench.ask(engine::RemoveTenant{common_.bench.allocations, *all_.front()}),
            "a tenant without programs holds nothing");
    erase(*all_.front());
  }
  collect_closed();
}

}  // namespace softhca::fuzz
