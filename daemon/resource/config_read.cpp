#include "daemon/resource/config_read.hpp"

#include <algorithm>
#include <span>

#include "daemon/resource/config_check.hpp"
#include "daemon/resource/config_levels.hpp"
#include "daemon/resource/schema_read.hpp"

namespace softhca::resource {
namespace {

/// The keys of a TVL, in a table that has others, too.
void read_tvl_keys(Reader& reader, TvlConfig& tvl, Problems& problems) {
  read_keys(reader, schema_of<TvlConfig>(), &tvl, problems);
}

std::vector<TvlConfig> read_tvls(Reader& reader, const PoolsConfig& pools, Problems& problems) {
  TvlConfig common;
  common.kick_list = pools.kick_list;
  read_tvl_keys(reader, common, problems);
  const Range range = find_key(schema_of<TenantConfig>(), "tvls")->range;
  std::uint64_t count = 1;
  reader.integer("tvls", count, range.least, range.most);
  const auto tables = reader.tables("tvl");
  if (tables.empty()) return std::vector<TvlConfig>(count, common);
  if (reader.find("tvls"))
    reader.complain("tvls", "is given besides [[tenant.tvl]]; give one of them");
  std::vector<TvlConfig> tvls;
  for (const Value* table : tables) {
    Reader tvl(*table, "tenant.tvl", problems);
    read_tvl_keys(tvl, tvls.emplace_back(common), problems);
    tvl.finish();
  }
  return tvls;
}

/// `tvls`: the tenant's TVLs, from the first that no earlier level has; what the level says of its
/// TVLs is put there.
LevelConfig read_level(const Value& value, std::span<TvlConfig> tvls, Problems& problems) {
  LevelConfig level;
  const Schema& table = schema_of<LevelConfig>();
  Reader reader(value, "tenant.level", problems);
  read_keys(reader, table, &level, problems);
  read_key(reader, *find_key(table, "tvls"), {0, tvls.size()}, &level, problems);
  for (TvlConfig& tvl : tvls.first(level.tvls)) read_tvl_keys(reader, tvl, problems);
  for (const Key& key : schema_of<TvlConfig>().keys)
    if (level.tvls == 0 && reader.find(key.name))
      reader.complain(key.name,
                      "is for the level's TVLs, and it has none; give it some with `tvls`");
  reader.finish();
  return level;
}

/// REQUIRES: the amounts of the tenant are read.
void read_levels(Reader& reader, TenantConfig& tenant, Problems& problems) {
  const auto tables = reader.tables("level");
  if (tenant.levels_are == Levels::kDefault) {
    if (!tables.empty())
      return reader.complain("levels", "is given besides [[tenant.level]]; give one of them");
    if (tenant.tvls.size() < 2)
      return reader.complain("levels", "needs two TVLs, one for each level; raise tvls");
    return add_default_levels(tenant);
  }
  LevelsCheck check(tenant, problems);
  std::span<TvlConfig> tvls(tenant.tvls);
  for (const Value* table : tables) {
    tenant.levels.push_back(read_level(*table, tvls, problems));
    tvls = tvls.subspan(tenant.levels.back().tvls);
    check.add(*table);
  }
  check.finish();
}

/// REQUIRES: the levels of the tenant are read.
void read_srq_rules(Reader& reader, TenantConfig& tenant, Problems& problems) {
  const auto tables = reader.tables("srq_rule");
  if (tables.size() > kMostSrqRules)
    reader.complain("srq_rule", "is given more than " + std::to_string(kMostSrqRules) + " times");
  for (const Value* table : tables) {
    SrqRule& rule = tenant.srq_rules.emplace_back();
    Reader keys(*table, "tenant.srq_rule", problems);
    read_keys(keys, schema_of<SrqRule>(), &rule, problems);
    if (!rule.level.empty() && find_level(tenant, rule.level) == nullptr)
      keys.complain("level", "\"" + rule.level + "\" is no level of the tenant");
    keys.finish();
  }
}

/// `share`, `connections`: the limits where the tenant gives none.
TenantConfig read_tenant(const Value& value, const PoolsConfig& pools, const Amounts& share,
                         const ConnectionsConfig& connections, Problems& problems) {
  TenantConfig config;
  config.limits = share;
  config.connections = connections;
  Reader reader(value, "tenant", problems);
  read_keys(reader, schema_of<TenantConfig>(), &config, problems, &pools);
  config.tvls = read_tvls(reader, pools, problems);
  read_levels(reader, config, problems);
  read_srq_rules(reader, config, problems);
  reader.finish();
  return config;
}

}  // namespace

ConfigSource read_document(const Value& document, Config& config, Problems& problems) {
  Reader reader(document, "", problems);
  ConfigSource source{&document, {}, {}};
  ConnectionsConfig connections;
  const auto read = [&](const char* name, auto& section) {
    if (const Value* value = reader.find(name)) read_section(*value, name, section, problems);
  };
  for_each_section([&](const char* name, auto member) { read(name, config.*member); });
  read("connections", connections);
  source.ports = reader.tables("port");
  for (const Value* v : source.ports)
    read_section(*v, "port", config.ports.emplace_back(), problems);
  source.tenants = reader.tables("tenant");
  const Amounts share = equal_share(config.pools, std::max<std::size_t>(source.tenants.size(), 1));
  for (const Value* v : source.tenants)
    config.tenants.push_back(read_tenant(*v, config.pools, share, connections, problems));
  const Value* tenants = reader.find("tenant");
  if (!tenants || (tenants->array() && tenants->array()->empty()))
    problems.add(tenants ? tenants->line : document.line, "tenant",
                 "there is no [[tenant]]; describe at least one");
  reader.finish();
  check_config(config, source, problems);
  return source;
}

}  // namespace softhca::resource
