// SPDX-License-Identifier: Apache-2.0

#include "daemon/configuration/resource_manager/reload_plan.hpp"

#include <algorithm>

#include "daemon/configuration/schema/schema.hpp"

namespace softhca::configuration {
namespace {

constexpr const char* kUnknown = "it cannot change while the daemon runs";

/// Compares two configurations. Each compared key is made equal in `old_`, so that keys that were
/// not compared are found at the end.
class Planner {
 public:
  Planner(const Config& in_force, const Config& wanted) : old_(in_force), wanted_(wanted) {}

  ReloadPlan run() {
    for_each_section([&](const char* section, auto member) {
      place_ = {section};
      keys(old_.*member, wanted_.*member);
    });
    compare_ports();
    compare_peers();
    compare_tenants("tenant", old_.tenants, wanted_.tenants);
    compare_tenants("template", old_.templates, wanted_.templates);
    if (!(old_ == wanted_))
      plan_.differences.push_back({.section = "configuration",
                                   .key = "another key",
                                   .from = "",
                                   .to = "",
                                   .refusal = kUnknown});
    return std::move(plan_);
  }

 private:
  /// The place of the keys that are compared next.
  struct Place {
    const char* section;
    std::string name = {};
    std::optional<std::uint32_t> tvl = {};
  };

  void add(Difference::Kind kind, const char* section, const std::string& name,
           const char* refusal) {
    plan_.differences.push_back({.kind = kind,
                                 .section = section,
                                 .name = name,
                                 .tvl = {},
                                 .key = {},
                                 .from = {},
                                 .to = {},
                                 .refusal = refusal});
  }

  /// Compares the keys of a structure of `table`. `prefix`, `refusal`: for a table within another
  /// one.
  void keys(const Schema& table, void* from, const void* to, const std::string& prefix = "",
            const char* refusal = kLive) {
    for (const Key& key : table.keys) {
      if (key.is_alias || key.at.type == Type::kTvls || key.at.same(from, to)) continue;
      const char* reason = *refusal != '\0' ? refusal : key.refusal;
      if (key.at.type == Type::kTable && !key.whole) {
        keys(key.table(), key.at.reach(from), key.at.look(to), prefix + key.name + '.', reason);
        continue;
      }
      record(prefix + key.name, to_text(key, from), to_text(key, to), reason);
      key.at.copy(from, to);
    }
  }
  template <class S>
  void keys(S& from, const S& to) {
    keys(schema_of<S>(), &from, &to);
  }
  void record(std::string name, std::string from, std::string to, const char* refusal = kLive) {
    plan_.differences.push_back({.kind = Difference::Kind::kChanged,
                                 .section = place_.section,
                                 .name = place_.name,
                                 .tvl = place_.tvl,
                                 .key = std::move(name),
                                 .from = std::move(from),
                                 .to = std::move(to),
                                 .refusal = refusal});
  }

  /// Compares the ports by their places in the file, which are their numbers.
  void compare_ports() {
    const std::size_t common = std::min(old_.ports.size(), wanted_.ports.size());
    for (std::size_t i = 0; i < common; ++i) compare_port(old_.ports[i], wanted_.ports[i]);
    for (std::size_t i = common; i < old_.ports.size(); ++i)
      add(Difference::Kind::kRemoved, "port", old_.ports[i].name, kPort);
    for (std::size_t i = common; i < wanted_.ports.size(); ++i)
      add(Difference::Kind::kAdded, "port", wanted_.ports[i].name, kPort);
    old_.ports = wanted_.ports.size() == common ? std::move(old_.ports) : wanted_.ports;
    old_.ports.resize(wanted_.ports.size());
  }

  void compare_port(PortConfig& from, const PortConfig& to) {
    place_ = {"port", from.name};
    keys(from, to);
  }

  void compare_peers() {
    std::vector<PeerConfig> compared;
    for (const PeerConfig& from : old_.peers)
      if (find(wanted_.peers, from.name) == nullptr)
        add(Difference::Kind::kRemoved, "peer", from.name, kLive);
    for (const PeerConfig& to : wanted_.peers) {
      const PeerConfig* from = find(old_.peers, to.name);
      if (from == nullptr) add(Difference::Kind::kAdded, "peer", to.name, kLive);
      compare_peer(compared.emplace_back(from == nullptr ? to : *from), to);
    }
    old_.peers = std::move(compared);
  }

  void compare_peer(PeerConfig& from, const PeerConfig& to) {
    place_ = {"peer", to.name};
    keys(from, to);
    if (from.secrets != to.secrets)
      record("keys", said_of(from.secrets, {}), said_of(to.secrets, from.secrets));
    from.secrets = to.secrets;
  }

  /// Describes the keys: how many there are, and which of them are new, by their places.
  static std::string said_of(const std::vector<PeerSecret>& secrets,
                             const std::vector<PeerSecret>& before) {
    std::string text = std::to_string(secrets.size());
    for (std::size_t i = 0; i < secrets.size() && !before.empty(); ++i) {
      const auto was = std::ranges::find(before, secrets[i]) - before.begin();
      text += i == 0 ? " (" : ", ";
      text += was == std::ssize(before) ? "new" : "key " + std::to_string(was + 1) + " before";
    }
    return before.empty() || secrets.empty() ? text : text + ')';
  }

  /// `section`: tenant or template.
  void compare_tenants(const char* section, std::vector<TenantConfig>& old,
                       const std::vector<TenantConfig>& wanted) {
    std::vector<TenantConfig> compared;
    for (TenantConfig& from : old)
      if (find(wanted, from.name) == nullptr)
        add(Difference::Kind::kRemoved, section, from.name, kLive);
    for (const TenantConfig& to : wanted) {
      TenantConfig* from = find(old, to.name);
      if (from == nullptr) {
        add(Difference::Kind::kAdded, section, to.name, kLive);
        compared.push_back(to);
      } else {
        compare_tenant(section, *from, to);
        compared.push_back(std::move(*from));
        from->name = to.name;  // moved from, but still to be found by name
      }
    }
    old = std::move(compared);
  }

  /// Returns the tenant, level or peer with this name; null if there is none.
  template <class List>
  static auto find(List& list, const std::string& name) -> decltype(list.data()) {
    for (auto& entry : list)
      if (entry.name == name) return &entry;
    return nullptr;
  }

  void compare_tenant(const char* section, TenantConfig& from, const TenantConfig& to) {
    compare_devices(section, from, to);
    place_ = {section, to.name};
    keys(from, to);
    compare_tvls(from.tvls, to.tvls);
    compare_levels(section, to.name, from.levels, to.levels);
    place_ = {section, to.name};
    if (from.srq_rules != to.srq_rules)
      record("srq_rule", rules_of(from.srq_rules), rules_of(to.srq_rules));
    from.srq_rules = to.srq_rules;
  }

  /// Compares the devices, and so the addresses of the tenant if they divide these.
  void compare_devices(const char* section, TenantConfig& from, const TenantConfig& to) {
    place_ = {section, to.name};
    if (names_of(from.devices) != names_of(to.devices)) {
      record("device", names_of(from.devices), names_of(to.devices), kTenantDevice);
    } else {
      for (std::size_t i = 0; i < to.devices.size(); ++i) {
        place_ = {section, to.name + ": device " + to.devices[i].name};
        keys(from.devices[i], to.devices[i]);
      }
      if (!to.devices.empty()) from.addresses = to.addresses;
    }
    from.devices = to.devices;
  }

  static std::string rules_of(const SrqRules& rules) {
    std::string text = "[";
    for (const SrqRule& rule : rules) text += (text.size() > 1 ? ", " : "") + describe(rule);
    return text + "]";
  }

  void compare_levels(const char* section, const std::string& tenant,
                      std::vector<LevelConfig>& from, const std::vector<LevelConfig>& to) {
    const auto full = [&](const LevelConfig& level) { return tenant + ": level " + level.name; };
    std::vector<LevelConfig> stay, compared;
    for (const LevelConfig& level : from) {
      if (find(to, level.name) != nullptr)
        stay.push_back(level);
      else
        add(Difference::Kind::kRemoved, section, full(level), kLive);
    }
    for (const LevelConfig& level : to) {
      const LevelConfig* old = find(stay, level.name);
      compared.push_back(old != nullptr ? *old : level);
      if (old == nullptr) add(Difference::Kind::kAdded, section, full(level), kLive);
    }
    // The order of levels decides which rule comes first.
    std::vector<LevelConfig> ordered = compared;
    std::erase_if(ordered, [&](const LevelConfig& l) { return find(stay, l.name) == nullptr; });
    if (names_of(stay) != names_of(ordered)) record("levels", names_of(stay), names_of(ordered));
    for (std::size_t i = 0; i < to.size(); ++i) {
      place_ = {section, full(to[i])};
      keys(compared[i], to[i]);
      compare_rules(compared[i].own_rules, to[i].own_rules);
      compared[i].own_rules = to[i].own_rules;
      compared[i].own = to[i].own;
    }
    from = std::move(compared);
  }

  /// Compares the rules that the tenant has set.
  void compare_rules(const LevelRules& from, const LevelRules& to) {
    const auto compare = [&](const char* what, const auto& before, const auto& after) {
      if (before != after) record(what, to_text(before), to_text(after));
    };
    compare("own cgroups", from.cgroups, to.cgroups);
    compare("own service_levels", from.service_levels, to.service_levels);
    compare("own traffic_classes", from.traffic_classes, to.traffic_classes);
  }

  template <class List>
  static std::string names_of(const List& list) {
    std::vector<std::string> names;
    for (const auto& entry : list) names.push_back(entry.name);
    return to_text(names);
  }

  /// Compares the TVLs. They are added and removed at the end; their keys are compared one by one.
  void compare_tvls(std::vector<TvlConfig>& from, const std::vector<TvlConfig>& to) {
    if (from.size() != to.size())
      record("tvls", std::to_string(from.size()), std::to_string(to.size()));
    const std::size_t common = std::min(from.size(), to.size());
    for (std::size_t i = 0; i < common; ++i) {
      place_.tvl = static_cast<std::uint32_t>(i);
      keys(from[i], to[i]);
    }
    place_.tvl.reset();
    from.resize(common);
    from.insert(from.end(), to.begin() + static_cast<std::ptrdiff_t>(common), to.end());
  }

  Config old_;
  const Config& wanted_;
  ReloadPlan plan_;
  Place place_{""};
};

}  // namespace

std::string Difference::text() const {
  std::string text = section;
  if (!name.empty()) text += ' ' + name;
  if (tvl) text += ": TVL " + std::to_string(*tvl);
  if (kind == Kind::kAdded) text += ": added";
  if (kind == Kind::kRemoved) text += ": removed";
  if (kind == Kind::kChanged) text += ": " + key + ' ' + from + " -> " + to;
  if (!is_live()) text += " (" + refusal + "; restart the daemon to change it)";
  return text;
}

bool ReloadPlan::is_live() const {
  return std::all_of(differences.begin(), differences.end(),
                     [](const Difference& d) { return d.is_live(); });
}

std::vector<std::string> ReloadPlan::refusals() const {
  std::vector<std::string> out;
  for (const Difference& difference : differences)
    if (!difference.is_live()) out.push_back(difference.text());
  return out;
}

std::vector<std::string> ReloadPlan::texts() const {
  std::vector<std::string> out;
  for (const Difference& difference : differences) out.push_back(difference.text());
  return out;
}

std::string ReloadPlan::summary() const {
  if (empty()) return "nothing has changed";
  return std::to_string(differences.size()) +
         (differences.size() == 1 ? " change made" : " changes made");
}

ReloadPlan plan_reload(const Config& in_force, const Config& wanted) {
  return Planner(in_force, wanted).run();
}

}  // namespace softhca::configuration
