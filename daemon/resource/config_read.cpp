#include "daemon/resource/config_read.hpp"

#include <algorithm>
#include <array>
#include <span>

#include "daemon/resource/config_check.hpp"
#include "daemon/resource/config_levels.hpp"
#include "daemon/resource/congestion_config.hpp"

namespace softhca::resource {
namespace {

constexpr std::size_t kLongestName = 32;
constexpr std::size_t kLongestInterface = 15;  // IFNAMSIZ less its terminating zero
constexpr std::size_t kMostAddresses = 128;
constexpr std::uint32_t kMostTvls = 64;

bool is_safe_name(std::string_view name) {
  const auto safe = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  };
  return !name.empty() && name.size() <= kLongestName && name.front() != '-' &&
         std::all_of(name.begin(), name.end(), safe);
}

/// Names become parts of paths and of metric labels.
void read_name(Reader& reader, std::string& name) {
  if (!reader.find("name")) return reader.complain("name", "is missing; give it a name");
  std::string given;
  reader.string("name", given);
  if (is_safe_name(given))
    name = given;
  else if (reader.find("name")->string())
    reader.complain("name", "may hold 1 to 32 letters, digits, '_' and '-', no '-' first");
}

template <std::size_t N>
bool one_of(const std::array<std::string_view, N>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

void read_daemon(const Value& value, Problems& problems, DaemonConfig& config) {
  Reader reader(value, "daemon", problems);
  std::string dir = config.runtime_dir;
  reader.string("runtime_dir", dir);
  if (dir.starts_with('/'))
    config.runtime_dir = dir;
  else
    reader.complain("runtime_dir", "must be an absolute path, beginning with '/'");
  static constexpr std::array<std::string_view, 7> kLevels = {
      "trace", "debug", "info", "warning", "error", "critical", "off"};
  std::string level = config.log_level;
  reader.string("log_level", level);
  if (one_of(kLevels, level))
    config.log_level = level;
  else
    reader.complain("log_level", "must be trace, debug, info, warning, error, critical or off");
  std::string idle = "adaptive";
  reader.string("idle", idle);
  if (idle == "poll")
    config.idle = IdlePolicy::kPoll;
  else if (idle != "adaptive")
    reader.complain("idle", "must be \"poll\" or \"adaptive\"");
  if (reader.find("engine_cpu")) {
    std::uint32_t cpu = 0;
    reader.integer("engine_cpu", cpu, 0, 4095);
    config.engine_cpu = cpu;
  }
  std::uint64_t park_us =
      std::chrono::microseconds(
          std::chrono::duration_cast<std::chrono::microseconds>(config.park_after))
          .count();
  reader.integer("park_after_us", park_us, 1, 10'000'000);
  config.park_after = std::chrono::microseconds(park_us);
  auto drain = static_cast<std::uint32_t>(config.drain_timeout.count());
  reader.integer("drain_timeout_s", drain, 0, 7 * 86'400);
  config.drain_timeout = std::chrono::seconds(drain);
  reader.finish();
}

void read_metrics(const Value& value, Problems& problems, MetricsConfig& config) {
  Reader reader(value, "metrics", problems);
  std::string address = config.address;
  reader.string("address", address);
  config.chosen = reader.find("address") != nullptr;
  if (address.empty() || parse_listen_address(address))
    config.address = address;
  else
    reader.complain(
        "address",
        "must be like \"127.0.0.1:9465\" or \"[::1]:9465\" (not link-local), or \"\" for no "
        "endpoint");
  reader.finish();
}

void read_pools(const Value& value, Problems& problems, PoolsConfig& config) {
  constexpr std::uint32_t kMost = 1u << 20;
  Reader reader(value, "pools", problems);
  reader.integer("tenants", config.tenants, 1, 1024);
  reader.integer("vcbs", config.vcbs, 0, kMost);
  reader.integer("pcbs", config.pcbs, 1, kMost);
  reader.integer("dedicated_pcbs", config.dedicated_pcbs, 1, kMost);
  reader.integer("tvls", config.tvls, 1, 4096);
  reader.integer("execution_credits", config.execution_credits, 1, kMost);
  reader.integer("completion_credits", config.completion_credits, 1, kMost);
  reader.integer("kick_list", config.kick_list, 1, kMost);
  reader.integer("sessions", config.sessions, 1, 65536);
  reader.integer("queue_pairs", config.queue_pairs, 1, kMost);
  reader.integer("completion_queues", config.completion_queues, 1, kMost);
  reader.integer("shared_receive_queues", config.shared_receive_queues, 0, kMost);
  reader.integer("memory_regions", config.memory_regions, 1, kMost);
  reader.integer("memory_windows", config.memory_windows, 0, 65536);
  reader.integer("protection_domains", config.protection_domains, 1, kMost);
  reader.integer("address_handles", config.address_handles, 0, kMost);
  reader.integer("registered_bytes", config.registered_bytes, 1);
  reader.integer("shared_bytes", config.shared_bytes, 0);
  reader.integer("queue_bytes", config.queue_bytes, 1);
  reader.integer("descriptors", config.descriptors, 1);
  reader.integer("mappings", config.mappings, 1);
  reader.finish();
}

void read_doorbells(const Value& value, Problems& problems, DoorbellsConfig& config) {
  constexpr std::uint32_t kMost = 1u << 20;
  Reader reader(value, "doorbells", problems);
  reader.integer("entries", config.entries, 1, kMost);
  reader.integer("threshold", config.threshold, 0, config.entries - 1, " (below entries)");
  reader.integer("dedicated_threshold", config.dedicated_threshold, 0, kMost);
  reader.boolean("adaptive", config.adaptive);
  std::string prune = "newest";
  reader.string("prune", prune);
  if (prune == "most-overflow")
    config.prune = PrunePolicy::kMostOverflow;
  else if (prune != "newest")
    reader.complain("prune", "must be \"newest\" or \"most-overflow\"");
  if (!reader.find("threshold") && config.threshold >= config.entries)
    reader.complain("threshold", "is " + std::to_string(config.threshold) +
                                     " where not given; it must be below entries");
  reader.finish();
}

void read_device(const Value& value, Problems& problems, DeviceConfig& config) {
  Reader reader(value, "device", problems);
  std::string name = config.name;
  reader.string("name", name);
  if (is_safe_name(name))
    config.name = name;
  else
    reader.complain("name", "may hold 1 to 32 letters, digits, '_' and '-', no '-' first");
  reader.integer("vendor_id", config.vendor_id, 1, 0xffffff);
  reader.integer("part_id", config.part_id);
  reader.integer("hardware_version", config.hardware_version);
  std::string firmware = config.firmware;
  reader.string("firmware", firmware);
  if (!firmware.empty() && firmware.size() <= 31)
    config.firmware = firmware;
  else
    reader.complain("firmware", "must have 1 to 31 bytes");
  reader.integer("max_qp_wr", config.max_qp_wr, 1, 65536);
  reader.integer("max_sge", config.max_sge, 1, 16);
  reader.integer("max_inline", config.max_inline, 0, 256);
  reader.integer("max_cqe", config.max_cqe, 1, 1u << 22);
  reader.integer("max_srq_wr", config.max_srq_wr, 1, 65536);
  reader.integer("max_rd_atomic", config.max_rd_atomic, 1, 128);
  reader.integer("completion_vectors", config.completion_vectors, 1, 64);
  reader.finish();
}

FaultConfig read_fault(const Value& value, Problems& problems) {
  FaultConfig config;
  Reader reader(value, "port.fault", problems);
  reader.number("loss", config.loss, 0, 1);
  reader.number("duplicate", config.duplicate, 0, 1);
  reader.number("reorder", config.reorder, 0, 1);
  reader.number("corrupt", config.corrupt, 0, 1);
  reader.number("mark", config.mark, 0, 1);
  reader.integer("seed", config.seed);
  reader.finish();
  return config;
}

CaptureConfig read_capture(const Value& value, Problems& problems) {
  CaptureConfig config;
  Reader reader(value, "port.capture", problems);
  reader.string("file", config.file);
  if (config.file.empty()) reader.complain("file", "is missing; name the pcapng file to write");
  reader.integer("frames", config.frames, 1);
  reader.finish();
  return config;
}

std::optional<Gid> read_gateway(Reader& reader, std::string_view key, bool ipv4) {
  if (!reader.find(key)) return std::nullopt;
  std::string text;
  reader.string(key, text);
  const auto gid = parse_address(text);
  if (gid && gid->is_ipv4() == ipv4 && is_host_address(*gid)) return gid;
  reader.complain(key, std::string("must be an ") + (ipv4 ? "IPv4" : "IPv6") +
                           " address of a host, without prefix length");
  return std::nullopt;
}

void read_port_device(Reader& reader, PortConfig& config) {
  reader.string("interface", config.interface);
  reader.string("device", config.device);
  if (config.interface.empty() == config.device.empty())
    reader.complain("interface",
                    "give either interface = \"eth0\" (a network interface, through af_packet) or "
                    "device = \"...\" (a DPDK device string)");
  if (config.interface.size() > kLongestInterface ||
      config.interface.find_first_of("/, \t") != std::string::npos)
    reader.complain("interface", "is not the name of a network interface (see `ip link`)");
}

PortConfig read_port(const Value& value, Problems& problems) {
  PortConfig config;
  Reader reader(value, "port", problems);
  read_name(reader, config.name);
  read_port_device(reader, config);
  for (const Value* text : reader.strings("addresses")) {
    const auto address = parse_interface_address(*text->string());
    if (address && text->string()->find('/') == std::string::npos)
      problems.add(text->line, "port.addresses",
                   "\"" + *text->string() + "\" lacks the prefix length of its subnet; write \"" +
                       *text->string() + (address->gid.is_ipv4() ? "/24\"" : "/64\"") +
                       " if that is what it is");
    else if (address && is_host_address(address->gid))
      config.addresses.push_back(*address);
    else
      problems.add(text->line, "port.addresses",
                   "\"" + *text->string() +
                       "\" is no address of a host; write \"10.0.0.1/24\" or \"fe80::1/64\"");
  }
  config.gateway4 = read_gateway(reader, "gateway4", true);
  config.gateway6 = read_gateway(reader, "gateway6", false);
  if (reader.find("vlan")) {
    std::uint16_t vlan = 1;
    reader.integer("vlan", vlan, 1, 4094);
    config.vlan = vlan;
  }
  if (reader.find("mtu")) {
    std::uint32_t mtu = 1500;
    reader.integer("mtu", mtu, 576, 65535);
    config.mtu = mtu;
  }
  if (const Value* fault = reader.find("fault")) config.fault = read_fault(*fault, problems);
  if (const Value* capture = reader.find("capture"))
    config.capture = read_capture(*capture, problems);
  reader.finish();
  return config;
}

SocketConfig read_socket(const Value& value, std::string name, SocketConfig config,
                         Problems& problems) {
  Reader reader(value, std::move(name), problems);
  reader.string("owner", config.owner);
  reader.string("group", config.group);
  reader.integer("mode", config.mode, 0, 0777, "; write it in octal, as 0o660");
  reader.finish();
  return config;
}

void read_admin(const Value& value, Problems& problems, AdminConfig& config) {
  Reader reader(value, "admin", problems);
  if (const Value* socket = reader.find("socket"))
    config.socket = read_socket(*socket, "admin.socket", config.socket, problems);
  reader.finish();
}

/// The keys that a tenant may give for all its TVLs and a TVL for itself.
void read_tvl_keys(Reader& reader, TvlConfig& tvl) {
  constexpr std::uint32_t kMost = 1u << 20;
  reader.integer("weight", tvl.weight, 1, kMaxTvlWeight);
  reader.integer("execution_credits", tvl.execution_credits, 0, kMost);
  reader.integer("completion_credits", tvl.completion_credits, 0, kMost);
  reader.integer("kick_list", tvl.kick_list, 1, kMost);
}

std::vector<TvlConfig> read_tvls(Reader& reader, const PoolsConfig& pools, Problems& problems) {
  TvlConfig common;
  common.kick_list = pools.kick_list;
  read_tvl_keys(reader, common);
  std::uint32_t count = 1;
  reader.integer("tvls", count, 1, kMostTvls);
  const auto tables = reader.tables("tvl");
  if (tables.empty()) return std::vector<TvlConfig>(count, common);
  if (reader.find("tvls"))
    reader.complain("tvls", "is given besides [[tenant.tvl]]; give one of them");
  std::vector<TvlConfig> tvls;
  for (const Value* table : tables) {
    Reader tvl(*table, "tenant.tvl", problems);
    read_tvl_keys(tvl, tvls.emplace_back(common));
    tvl.finish();
  }
  return tvls;
}

std::vector<std::string> read_names(Reader& reader, std::string_view key, Problems& problems) {
  std::vector<std::string> names;
  for (const Value* name : reader.strings(key)) {
    names.push_back(*name->string());
    if (names.back().empty()) problems.add(name->line, reader.path_of(key), "holds an empty name");
  }
  return names;
}

/// `tvls`: of the tenant, from the first that no level before has; what the level says of its TVLs
/// is put there.
LevelConfig read_level(const Value& value, std::span<TvlConfig> tvls, Problems& problems) {
  constexpr std::uint32_t kMost = 1u << 20;
  LevelConfig level;
  Reader reader(value, "tenant.level", problems);
  read_name(reader, level.name);
  reader.integer("vcbs", level.vcbs, 0, kMost);
  reader.integer("pcbs", level.pcbs, 0, kMost);
  reader.integer("tvls", level.tvls, 0, tvls.size(), " (what tenant.tvls leaves)");
  for (TvlConfig& tvl : tvls.first(level.tvls)) read_tvl_keys(reader, tvl);
  for (const char* key : {"weight", "execution_credits", "completion_credits", "kick_list"})
    if (level.tvls == 0 && reader.find(key))
      reader.complain(key, "is of the level's TVLs, and it has none; give it some with `tvls`");
  reader.boolean("shared", level.shared);
  reader.boolean("default", level.is_default);
  level.users = read_names(reader, "users", problems);
  level.groups = read_names(reader, "groups", problems);
  if (const Value* socket = reader.find("socket"))
    level.socket = read_socket(*socket, "tenant.level.socket", {}, problems);
  reader.finish();
  return level;
}

/// REQUIRES: the amounts of the tenant are read.
void read_levels(Reader& reader, TenantConfig& tenant, Problems& problems) {
  const auto tables = reader.tables("level");
  LevelsCheck check(tenant, problems);
  std::span<TvlConfig> tvls(tenant.tvls);
  for (const Value* table : tables) {
    tenant.levels.push_back(read_level(*table, tvls, problems));
    tvls = tvls.subspan(tenant.levels.back().tvls);
    check.add(*table);
  }
  check.finish();
}

std::vector<Gid> read_tenant_addresses(Reader& reader, Problems& problems) {
  std::vector<Gid> addresses;
  const auto texts = reader.strings("addresses");
  for (const Value* text : texts) {
    const auto gid = parse_address(*text->string());
    if (gid && is_host_address(*gid))
      addresses.push_back(*gid);
    else
      problems.add(text->line, "tenant.addresses",
                   "\"" + *text->string() +
                       "\" is no address of a host; write \"10.0.0.1\" or \"fe80::1\", without "
                       "prefix length");
  }
  const Value* given = reader.find("addresses");
  if (!given || (given->array() && given->array()->empty()))
    reader.complain("addresses", "is missing; a tenant needs at least one address");
  if (texts.size() > kMostAddresses)
    reader.complain("addresses", "holds more than " + std::to_string(kMostAddresses));
  return addresses;
}

/// A limit beyond the pool would promise what cannot be had.
void read_limits(Reader& reader, const Amounts& totals, Amounts& limits) {
  for_each_kind([&](Kind kind) {
    const std::string name = name_of(kind);
    reader.integer(name_of(kind), limits[kind], 0, totals[kind], " (pools." + name + ")");
  });
}

/// `share`, `connections`: the limits where the tenant gives none.
TenantConfig read_tenant(const Value& value, const PoolsConfig& pools, const Amounts& share,
                         const ConnectionsConfig& connections, Problems& problems) {
  constexpr std::uint32_t kMost = 1u << 20;
  TenantConfig config;
  Reader reader(value, "tenant", problems);
  read_name(reader, config.name);
  config.addresses = read_tenant_addresses(reader, problems);
  if (const Value* socket = reader.find("socket"))
    config.socket = read_socket(*socket, "tenant.socket", config.socket, problems);
  config.control.owner = config.socket.owner;
  config.control.group = config.socket.group;
  if (const Value* control = reader.find("control"))
    config.control = read_socket(*control, "tenant.control", config.control, problems);
  reader.integer("vcbs", config.vcbs, 0, kMost);
  reader.integer("vcbs_per_process", config.vcbs_per_process, 0, kMaxVcbsPerProcess);
  reader.integer("pcbs", config.pcbs, 0, kMost);
  reader.boolean("shared", config.shared);
  reader.boolean("lends", config.lends);
  reader.boolean("process_memory", config.process_memory);
  config.tvls = read_tvls(reader, pools, problems);
  read_levels(reader, config, problems);
  config.limits = share;
  read_limits(reader, totals_of(pools), config.limits);
  if (const Value* rate = reader.find("rate")) config.rate = read_rate(*rate, problems);
  if (const Value* srq = reader.find("srq")) config.srq = read_srq(*srq, problems);
  config.connections = connections;
  if (const Value* own = reader.find("connections"))
    config.connections = read_connections(*own, "tenant.connections", connections, problems);
  reader.finish();
  return config;
}

}  // namespace

ConfigSource read_document(const Value& document, Config& config, Problems& problems) {
  Reader reader(document, "", problems);
  ConfigSource source{&document, {}, {}};
  if (const Value* v = reader.find("daemon")) read_daemon(*v, problems, config.daemon);
  if (const Value* v = reader.find("admin")) read_admin(*v, problems, config.admin);
  if (const Value* v = reader.find("metrics")) read_metrics(*v, problems, config.metrics);
  if (const Value* v = reader.find("pools")) read_pools(*v, problems, config.pools);
  if (const Value* v = reader.find("doorbells")) read_doorbells(*v, problems, config.doorbells);
  if (const Value* v = reader.find("adjustment")) config.adjustment = read_adjustment(*v, problems);
  if (const Value* v = reader.find("congestion")) config.congestion = read_congestion(*v, problems);
  if (const Value* v = reader.find("general_services"))
    config.general_services = read_general_services(*v, "general_services", problems);
  ConnectionsConfig connections;
  if (const Value* v = reader.find("connections"))
    connections = read_connections(*v, "connections", connections, problems);
  if (const Value* v = reader.find("shared_datagrams"))
    config.shared_datagrams = read_general_services(*v, "shared_datagrams", problems);
  if (const Value* v = reader.find("device")) read_device(*v, problems, config.device);
  source.ports = reader.tables("port");
  for (const Value* v : source.ports) config.ports.push_back(read_port(*v, problems));
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
