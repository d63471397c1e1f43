// SPDX-License-Identifier: Apache-2.0

#include "daemon/configuration/config_read.hpp"

#include <algorithm>
#include <optional>
#include <span>

#include "daemon/configuration/config_check.hpp"
#include "daemon/configuration/config_levels.hpp"
#include "daemon/configuration/config_peers.hpp"
#include "daemon/configuration/port_addresses.hpp"
#include "daemon/configuration/schema/schema_read.hpp"
#include "daemon/configuration/tenant_amounts.hpp"

namespace softhca::configuration {
namespace {

/// Records which amounts the table gives.
void note_given(Reader& reader, const Schema& schema, GivenAmounts& given) {
  for (const Key& key : schema.keys)
    if (reader.find(key.name)) given.add(key.name);
}

/// Reads the keys of a TVL from a table that has other keys, too.
void read_tvl_keys(Reader& reader, TvlConfig& tvl, Problems& problems) {
  read_keys(reader, schema_of<TvlConfig>(), &tvl, problems);
  note_given(reader, schema_of<TvlConfig>(), tvl.given);
}

/// Reads the TVLs of a tenant. REQUIRES: its share and class are read.
std::vector<TvlConfig> read_tvls(Reader& reader, const TenantConfig& tenant,
                                 const PoolsConfig& pools, Problems& problems) {
  const Range range = find_key(schema_of<TenantConfig>(), "tvls")->range;
  std::uint64_t count = amounts_of(tenant.share, tenant.workload, pools).tvls;
  reader.integer("tvls", count, range.least, range.most);
  const auto tables = reader.tables("tvl");
  if (!tables.empty()) count = tables.size();
  TvlConfig common = amounts_of(tenant.share, tenant.workload, pools, count).tvl;
  read_tvl_keys(reader, common, problems);
  if (tables.empty()) return std::vector<TvlConfig>(count, common);
  if (reader.find("tvls"))
    reader.complain(
        "tvls", "is given together with [[" + reader.path_of("tvl") + "]]; give only one of them");
  std::vector<TvlConfig> tvls;
  for (const Value* table : tables) {
    Reader tvl(*table, reader.path_of("tvl"), problems);
    read_tvl_keys(tvl, tvls.emplace_back(common), problems);
    tvl.finish();
  }
  return tvls;
}

/// Reads a level. `tvls`: the tenant's TVLs, from the first that no earlier level has; receives the
/// level's settings for its TVLs.
LevelConfig read_level(const Value& value, const std::string& path, std::span<TvlConfig> tvls,
                       Problems& problems) {
  LevelConfig level;
  const Schema& table = schema_of<LevelConfig>();
  Reader reader(value, path, problems);
  read_keys(reader, table, &level, problems);
  read_key(reader, *find_key(table, "tvls"), {0, tvls.size()}, &level, problems);
  for (TvlConfig& tvl : tvls.first(level.tvls)) read_tvl_keys(reader, tvl, problems);
  for (const Key& key : schema_of<TvlConfig>().keys)
    if (level.tvls == 0 && reader.find(key.name))
      reader.complain(key.name, "applies to the level's TVLs, and it has none; set its `tvls`");
  reader.finish();
  return level;
}

/// Reads the levels of a tenant. REQUIRES: the amounts of the tenant are read.
void read_levels(Reader& reader, TenantConfig& tenant, Problems& problems) {
  const auto tables = reader.tables("level");
  const std::string path = reader.path_of("level");
  if (tenant.further_levels.are == Levels::kDefault) {
    if (!tables.empty())
      return reader.complain("levels",
                             "is given together with [[" + path + "]]; give only one of them");
    if (tenant.tvls.size() < 2)
      return reader.complain("levels", "needs at least two TVLs, one for each level; raise tvls");
    return add_default_levels(tenant);
  }
  LevelsCheck check(tenant, path, problems);
  std::span<TvlConfig> tvls(tenant.tvls);
  for (const Value* table : tables) {
    tenant.levels.push_back(read_level(*table, path, tvls, problems));
    tvls = tvls.subspan(tenant.levels.back().tvls);
    check.add(*table);
  }
  check.finish();
}

/// Reads the SRQ rules of a tenant. REQUIRES: the levels of the tenant are read.
void read_srq_rules(Reader& reader, TenantConfig& tenant, Problems& problems) {
  const auto tables = reader.tables("srq_rule");
  if (tables.size() > kMostSrqRules)
    reader.complain("srq_rule", "is given more than " + std::to_string(kMostSrqRules) + " times");
  for (const Value* table : tables) {
    SrqRule& rule = tenant.srq_rules.emplace_back();
    Reader keys(*table, reader.path_of("srq_rule"), problems);
    read_keys(keys, schema_of<SrqRule>(), &rule, problems);
    if (!rule.level.empty() && find_level(tenant, rule.level) == nullptr)
      keys.complain("level", "\"" + rule.level + "\" is not a level of the tenant");
    keys.finish();
  }
}

enum class Section : std::uint8_t { kTenant, kTemplate };

/// Reads the devices of a tenant, and gives the tenant their addresses.
class DevicesReader {
 public:
  DevicesReader(Reader& reader, Section section, TenantConfig& tenant, Problems& problems)
      : reader_(reader), section_(section), tenant_(tenant), problems_(problems) {}

  void read(const DeviceConfig& common) {
    const auto tables = reader_.tables("device");
    if (tables.empty()) return;
    if (tables.size() > kMostDevices)
      reader_.complain("device", "is given more than " + std::to_string(kMostDevices) + " times");
    for (const Value* table : tables) {
      TenantDevice& device = tenant_.devices.emplace_back();
      Reader keys(*table, reader_.path_of("device"), problems_);
      lines_.push_back(keys.line());
      read_keys(keys, schema_of<TenantDevice>(), &device, problems_);
      if (device.name.empty()) device.name = default_device_name(common.name, lines_.size() - 1);
      check_identity(keys);
      keys.finish();
    }
    divide_addresses(tables);
  }

 private:
  /// Returns the line of an earlier device with the same value, if the last one has any.
  template <class Member>
  std::optional<unsigned> earlier(Member member) const {
    const auto& wanted = tenant_.devices.back().*member;
    for (std::size_t i = 0; i + 1 < tenant_.devices.size(); ++i)
      if (!wanted.empty() && tenant_.devices[i].*member == wanted) return lines_[i];
    return std::nullopt;
  }

  void check_identity(Reader& keys) const {
    const auto refuse_twice = [&](const char* key, std::string TenantDevice::*member) {
      if (const auto line = earlier(member))
        keys.complain(key, "\"" + tenant_.devices.back().*member +
                               "\" is already taken by the device of line " +
                               std::to_string(*line) + "; each device needs its own");
    };
    refuse_twice("name", &TenantDevice::name);
    refuse_twice("guid", &TenantDevice::guid);
    refuse_twice("pci", &TenantDevice::pci);
    if (section_ == Section::kTemplate && keys.find("guid"))
      keys.complain("guid", "would be the same for all tenants of the template; leave it out");
  }

  /// A tenant's only device may leave its addresses to the tenant.
  void divide_addresses(const std::vector<const Value*>& tables) {
    if (tables.size() == 1 && reader_.find("addresses") != nullptr &&
        tables.front()->table()->find("addresses") == nullptr) {
      tenant_.devices.front().addresses = tenant_.addresses;
      return;
    }
    if (reader_.find("addresses"))
      reader_.complain("addresses", "is given together with [[" + reader_.path_of("device") +
                                        "]]; list each address with its device only");
    tenant_.addresses.clear();
    for (std::size_t i = 0; i < tables.size(); ++i) {
      Reader keys(*tables[i], reader_.path_of("device"), problems_);
      const std::vector<Gid>& own = tenant_.devices[i].addresses;
      // Addresses that cannot be read are reported already.
      if (const Value* given = keys.find("addresses");
          section_ == Section::kTenant && own.empty() &&
          (given == nullptr || (given->array() != nullptr && given->array()->empty())))
        keys.complain("addresses", "is missing; a device needs at least one address");
      for (const Gid& gid : own) add_address(keys, gid, i);
    }
  }

  void add_address(Reader& keys, const Gid& gid, std::size_t device) {
    if (std::ranges::find(tenant_.addresses, gid) == tenant_.addresses.end())
      return tenant_.addresses.push_back(gid);
    std::size_t first = 0;
    while (std::ranges::find(tenant_.devices[first].addresses, gid) ==
           tenant_.devices[first].addresses.end())
      ++first;
    keys.complain("addresses",
                  to_string(gid) + " is already given to " +
                      (first == device ? std::string("the same device")
                                       : "the device of line " + std::to_string(lines_[first])) +
                      "; an address belongs to one device, once");
  }

  Reader& reader_;
  Section section_;
  TenantConfig& tenant_;
  Problems& problems_;
  std::vector<unsigned> lines_;  ///< of the devices read so far
};

/// Checks the number of addresses. A template lists addresses of which each of its tenants gets
/// one, or none.
/// `written`: the table as it is in the file, with names of ports.
void check_address_count(Reader& reader, const Value& written, const TenantConfig& config,
                         Section section) {
  const std::size_t most = section == Section::kTenant ? kMostAddresses : kMostTemplateAddresses;
  const Value* given = written.table() != nullptr ? written.table()->find("addresses") : nullptr;
  const bool needed = config.devices.empty() || (config.devices.size() == 1 && given);
  if (section == Section::kTenant && needed && config.addresses.empty() &&
      (!given || (given->array() && given->array()->empty())))
    reader.complain("addresses", "is missing; a tenant needs at least one address");
  if (config.addresses.size() > most)
    reader.complain("addresses", "holds more than " + std::to_string(most) + " addresses");
}

/// What tenants have in common.
struct Common {
  const PoolsConfig& pools;
  const ConnectionsConfig& connections;  ///< its limits if it sets none
  const DeviceConfig& device;
  Share unshared;       ///< what the shares of the tenants leave
  std::size_t tenants;  ///< that divide it
};

/// Returns the share that a tenant gives; none if it gives no valid one.
Share share_in(const Value& tenant) {
  const Value* value = tenant.table()->find("share");
  return value != nullptr && value->string() ? parse_share(*value->string()).value_or(Share{})
                                             : Share{};
}

/// Reads a tenant or a template. `written`: its table as it is in the file.
TenantConfig read_tenant(const Value& value, const Value& written, Section section,
                         const Common& common, Problems& problems) {
  TenantConfig config;
  config.connections = common.connections;
  Reader reader(value, section == Section::kTenant ? "tenant" : "template", problems);
  const PoolsConfig& pools = common.pools;
  // The defaults of other keys follow from these.
  for (const char* key : {"share", "class"})
    read_key(reader, *find_key(schema_of<TenantConfig>(), key), {}, &config, problems);
  give(config, amounts_of(config.share, config.workload, pools));
  config.limits = section == Section::kTemplate && config.share.tenths != 0
                      ? limits_of(config.share, {}, 1, pools)
                      : limits_of(config.share, common.unshared, common.tenants, pools);
  read_keys(reader, schema_of<TenantConfig>(), &config, problems, &pools);
  note_given(reader, schema_of<TenantConfig>(), config.given);
  if (reader.find("tvl")) config.given.add("tvls");
  DevicesReader(reader, section, config, problems).read(common.device);
  check_address_count(reader, written, config, section);
  config.tvls = read_tvls(reader, config, pools, problems);
  read_levels(reader, config, problems);
  read_srq_rules(reader, config, problems);
  reader.finish();
  return config;
}

}  // namespace

ConfigSource read_document(const Value& document, Config& config,
                           const std::vector<HostAddress>& host, Problems& problems) {
  Reader reader(document, "", problems);
  ConfigSource source{&document, {}, {}, {}, {}};
  ConnectionsConfig connections;
  const auto read = [&](const char* name, auto& section) {
    if (const Value* value = reader.find(name)) read_section(*value, name, section, problems);
  };
  for_each_section([&](const char* name, auto member) { read(name, config.*member); });
  read("connections", connections);
  source.ports = reader.tables("port");
  for (const Value* v : source.ports)
    read_section(*v, "port", config.ports.emplace_back(), problems);
  resolve_ports(config.ports, source.ports, host, config.pools.tenants, problems);
  source.peers = reader.tables("peer");
  for (const Value* v : source.peers)
    read_section(*v, "peer", config.peers.emplace_back(), problems);
  source.tenants = reader.tables("tenant");
  source.templates = reader.tables("template");
  // With a template without a share, only the greatest possible number of tenants is known.
  const bool is_open = std::ranges::any_of(source.templates,
                                           [](const Value* v) { return share_in(*v).tenths == 0; });
  const std::size_t sharers = is_open ? config.pools.tenants : source.tenants.size();
  std::vector<Share> shares;
  for (const Value* tenant : source.tenants) shares.push_back(share_in(*tenant));
  const Common common{.pools = config.pools,
                      .connections = connections,
                      .device = config.device,
                      .unshared = unshared(shares),
                      .tenants = std::max<std::size_t>(sharers, 1)};
  NamedPorts named(config.ports, source.tenants);
  const auto read_all = [&](const std::vector<const Value*>& values, Section section) {
    std::vector<TenantConfig> all;
    for (const Value* v : values)
      all.push_back(read_tenant(section == Section::kTenant ? named.in_tenant(*v, problems)
                                                            : named.in_template(*v, problems),
                                *v, section, common, problems));
    return all;
  };
  config.tenants = read_all(source.tenants, Section::kTenant);
  config.templates = read_all(source.templates, Section::kTemplate);
  const Value* tenants = reader.find("tenant");
  const bool none = !tenants || (tenants->array() && tenants->array()->empty());
  if (none && source.templates.empty())
    problems.add(tenants ? tenants->line : document.line, "tenant",
                 "is missing; give at least one [[tenant]] or [[template]]");
  reader.finish();
  check_config(config, source, problems);
  check_peers(config, source, problems);
  return source;
}

}  // namespace softhca::configuration
