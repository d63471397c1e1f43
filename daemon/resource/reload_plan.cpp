#include "daemon/resource/reload_plan.hpp"

#include <algorithm>
#include <concepts>
#include <sstream>

#include "daemon/resource/congestion_config.hpp"

namespace softhca::resource {
namespace {

// Why something cannot be changed while the daemon runs. "" is: it can.
constexpr const char* kLive = "";
constexpr const char* kTables = "the tables are laid out when the daemon starts";
constexpr const char* kAdmin = "the socket is opened at the start";
constexpr const char* kSockets = "running programs hold paths below it";
constexpr const char* kThread = "the engine's thread is placed when it starts";
constexpr const char* kDevice = "running programs have been told of the device";
constexpr const char* kPort = "ports are opened when the daemon starts";
constexpr const char* kUnknown = "this version cannot change it live";

// --- values as the operator writes them

std::string shown(const std::string& text) { return '"' + text + '"'; }
std::string shown(bool value) { return value ? "true" : "false"; }
std::string shown(IdlePolicy idle) {
  return idle == IdlePolicy::kPoll ? "\"poll\"" : "\"adaptive\"";
}
template <std::unsigned_integral T>
std::string shown(T value) {
  return std::to_string(value);
}
std::string shown(Duration duration) {
  return std::to_string(std::chrono::duration_cast<std::chrono::microseconds>(duration).count()) +
         " us";
}
std::string shown(std::chrono::seconds duration) { return std::to_string(duration.count()) + " s"; }
std::string shown(const Gid& gid) { return to_string(gid); }
std::string shown(const InterfaceAddress& address) {
  return to_string(address.gid) + '/' + std::to_string(address.prefix);
}
std::string shown(const FaultConfig& fault) {
  std::ostringstream text;
  text << "{ loss = " << fault.loss << ", duplicate = " << fault.duplicate
       << ", reorder = " << fault.reorder << ", corrupt = " << fault.corrupt
       << ", mark = " << fault.mark << ", seed = " << fault.seed << " }";
  return text.str();
}
std::string shown(const CaptureConfig& capture) {
  return "{ file = \"" + capture.file + "\", frames = " + std::to_string(capture.frames) + " }";
}
std::string shown(double value) {
  std::ostringstream text;
  text << value;
  return text.str();
}
struct Octal {
  std::uint32_t value;
};
std::string shown(Octal mode) {
  std::ostringstream text;
  text << "0o" << std::oct << mode.value;
  return text.str();
}
std::string shown(const SocketConfig& socket) {
  return "{ owner = " + shown(socket.owner) + ", group = " + shown(socket.group) +
         ", mode = " + shown(Octal{socket.mode}) + " }";
}
template <class T>
std::string shown(const std::optional<T>& value) {
  return value ? shown(*value) : "none";
}
template <class T>
std::string shown(const std::vector<T>& values) {
  std::string text = "[";
  for (const T& value : values) text += (text.size() > 1 ? ", " : "") + shown(value);
  return text + "]";
}

std::string shown(PrunePolicy prune) {
  return prune == PrunePolicy::kNewest ? "\"newest\"" : "\"most-overflow\"";
}

std::string shown(CongestionMode mode) { return describe(mode); }

/// Compares two configurations. What has been compared is made equal in `old_`, so that a key that
/// nobody compares is found at the end.
class Planner {
 public:
  Planner(const Config& in_force, const Config& wanted) : old_(in_force), wanted_(wanted) {}

  ReloadPlan run() {
    compare_daemon();
    compare_pools();
    compare_doorbells();
    compare_adjustment();
    compare_congestion();
    compare_datagrams("general_services", &Config::general_services);
    compare_datagrams("shared_datagrams", &Config::shared_datagrams);
    compare_device();
    compare_ports();
    compare_tenants();
    if (!(old_ == wanted_))
      plan_.differences.push_back({.section = "configuration",
                                   .key = "another key",
                                   .from = "",
                                   .to = "",
                                   .refusal = kUnknown});
    return std::move(plan_);
  }

 private:
  /// Where the keys compared next stand.
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

  template <class T>
  void key(const char* name, T& from, const T& to, const char* refusal = kLive) {
    if (from == to) return;
    record(name, shown(from), shown(to), refusal);
    from = to;
  }
  void record(const char* name, std::string from, std::string to, const char* refusal = kLive) {
    plan_.differences.push_back({.kind = Difference::Kind::kChanged,
                                 .section = place_.section,
                                 .name = place_.name,
                                 .tvl = place_.tvl,
                                 .key = name,
                                 .from = std::move(from),
                                 .to = std::move(to),
                                 .refusal = refusal});
  }

  void compare_daemon() {
    place_ = {"daemon"};
    DaemonConfig& from = old_.daemon;
    const DaemonConfig& to = wanted_.daemon;
    key("runtime_dir", from.runtime_dir, to.runtime_dir, kSockets);
    key("log_level", from.log_level, to.log_level);
    key("idle", from.idle, to.idle);
    key("park_after_us", from.park_after, to.park_after);
    key("engine_cpu", from.engine_cpu, to.engine_cpu, kThread);
    key("drain_timeout_s", from.drain_timeout, to.drain_timeout);
    place_ = {"admin"};
    key("socket.owner", old_.admin.socket.owner, wanted_.admin.socket.owner, kAdmin);
    key("socket.group", old_.admin.socket.group, wanted_.admin.socket.group, kAdmin);
    if (old_.admin.socket.mode != wanted_.admin.socket.mode)
      record("socket.mode", shown(Octal{old_.admin.socket.mode}),
             shown(Octal{wanted_.admin.socket.mode}), kAdmin);
    old_.admin = wanted_.admin;
    place_ = {"metrics"};
    key("address", old_.metrics.address, wanted_.metrics.address);
  }

  void compare_pools() {
    place_ = {"pools"};
    PoolsConfig& from = old_.pools;
    const PoolsConfig& to = wanted_.pools;
    key("tenants", from.tenants, to.tenants, kTables);
    key("vcbs", from.vcbs, to.vcbs, kTables);
    key("pcbs", from.pcbs, to.pcbs, kTables);
    key("dedicated_pcbs", from.dedicated_pcbs, to.dedicated_pcbs, kTables);
    key("tvls", from.tvls, to.tvls, kTables);
    key("execution_credits", from.execution_credits, to.execution_credits, kTables);
    key("completion_credits", from.completion_credits, to.completion_credits, kTables);
    // A default of TVLs, where it shows as a difference of its own.
    key("kick_list", from.kick_list, to.kick_list);
    key("queue_pairs", from.queue_pairs, to.queue_pairs, kTables);
    key("memory_regions", from.memory_regions, to.memory_regions, kTables);
    key("memory_windows", from.memory_windows, to.memory_windows, kTables);
    // The rest is counted, not laid out.
    key("sessions", from.sessions, to.sessions);
    key("completion_queues", from.completion_queues, to.completion_queues);
    key("shared_receive_queues", from.shared_receive_queues, to.shared_receive_queues);
    key("protection_domains", from.protection_domains, to.protection_domains);
    key("address_handles", from.address_handles, to.address_handles);
    key("registered_bytes", from.registered_bytes, to.registered_bytes);
    key("shared_bytes", from.shared_bytes, to.shared_bytes);
    key("queue_bytes", from.queue_bytes, to.queue_bytes);
    key("descriptors", from.descriptors, to.descriptors);
    key("mappings", from.mappings, to.mappings);
  }

  void compare_doorbells() {
    place_ = {"doorbells"};
    DoorbellsConfig& from = old_.doorbells;
    const DoorbellsConfig& to = wanted_.doorbells;
    key("entries", from.entries, to.entries, kTables);
    key("threshold", from.threshold, to.threshold);
    key("dedicated_threshold", from.dedicated_threshold, to.dedicated_threshold);
    key("adaptive", from.adaptive, to.adaptive);
    key("prune", from.prune, to.prune);
  }

  void compare_adjustment() {
    place_ = {"adjustment"};
    key("automatic", old_.adjustment.automatic, wanted_.adjustment.automatic);
    key("idle_s", old_.adjustment.idle, wanted_.adjustment.idle);
    key("keep", old_.adjustment.keep, wanted_.adjustment.keep);
  }

  void compare_congestion() {
    place_ = {"congestion"};
    CongestionParameters& from = old_.congestion;
    const CongestionParameters& to = wanted_.congestion;
    key("mode", from.mode, to.mode);
    for_each_congestion_key(
        [&](const char* name, auto member) { key(name, from.*member, to.*member); });
  }

  void compare_datagrams(const char* section, GeneralServicesConfig Config::*table) {
    place_ = {section};
    for_each_general_services_key([&](const char* name, auto member) {
      key(name, (old_.*table).*member, (wanted_.*table).*member);
    });
  }

  void compare_device() {
    place_ = {"device"};
    DeviceConfig& from = old_.device;
    const DeviceConfig& to = wanted_.device;
    key("name", from.name, to.name, kDevice);
    key("vendor_id", from.vendor_id, to.vendor_id, kDevice);
    key("part_id", from.part_id, to.part_id, kDevice);
    key("hardware_version", from.hardware_version, to.hardware_version, kDevice);
    key("firmware", from.firmware, to.firmware, kDevice);
    key("max_qp_wr", from.max_qp_wr, to.max_qp_wr, kDevice);
    key("max_sge", from.max_sge, to.max_sge, kDevice);
    key("max_inline", from.max_inline, to.max_inline, kDevice);
    key("max_cqe", from.max_cqe, to.max_cqe, kDevice);
    key("max_srq_wr", from.max_srq_wr, to.max_srq_wr, kDevice);
    key("max_rd_atomic", from.max_rd_atomic, to.max_rd_atomic, kDevice);
    key("completion_vectors", from.completion_vectors, to.completion_vectors, kDevice);
  }

  /// Ports have the numbers of their places in the file, so the first that is another one ends the
  /// comparison.
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
    key("name", from.name, to.name, kPort);
    key("interface", from.interface, to.interface, kPort);
    key("device", from.device, to.device, kPort);
    key("addresses", from.addresses, to.addresses);
    key("gateway4", from.gateway4, to.gateway4);
    key("gateway6", from.gateway6, to.gateway6);
    key("vlan", from.vlan, to.vlan, kPort);
    key("mtu", from.mtu, to.mtu, kPort);
    key("fault", from.fault, to.fault, kPort);
    key("capture", from.capture, to.capture, kPort);
  }

  void compare_tenants() {
    std::vector<TenantConfig> compared;
    for (TenantConfig& from : old_.tenants)
      if (find(wanted_.tenants, from.name) == nullptr)
        add(Difference::Kind::kRemoved, "tenant", from.name, kLive);
    for (const TenantConfig& to : wanted_.tenants) {
      TenantConfig* from = find(old_.tenants, to.name);
      if (from == nullptr) {
        add(Difference::Kind::kAdded, "tenant", to.name, kLive);
        compared.push_back(to);
      } else {
        compare_tenant(*from, to);
        compared.push_back(std::move(*from));
        from->name = to.name;  // moved from: still to be found
      }
    }
    old_.tenants = std::move(compared);
  }

  /// Of tenants, or of levels.
  template <class List>
  static auto find(List& list, const std::string& name) -> decltype(list.data()) {
    for (auto& entry : list)
      if (entry.name == name) return &entry;
    return nullptr;
  }

  void compare_tenant(TenantConfig& from, const TenantConfig& to) {
    place_ = {"tenant", to.name};
    key("addresses", from.addresses, to.addresses);
    key("socket.owner", from.socket.owner, to.socket.owner);
    key("socket.group", from.socket.group, to.socket.group);
    if (from.socket.mode != to.socket.mode)
      record("socket.mode", shown(Octal{from.socket.mode}), shown(Octal{to.socket.mode}), kLive);
    from.socket.mode = to.socket.mode;
    if (!(from.control == to.control))
      record("control", shown(from.control), shown(to.control), kLive);
    from.control = to.control;
    key("shared", from.shared, to.shared);
    key("vcbs", from.vcbs, to.vcbs);
    key("vcbs_per_process", from.vcbs_per_process, to.vcbs_per_process);
    key("pcbs", from.pcbs, to.pcbs);
    key("lends", from.lends, to.lends);
    key("process_memory", from.process_memory, to.process_memory);
    for_each_kind([&](Kind kind) { key(name_of(kind), from.limits[kind], to.limits[kind]); });
    if (!(from.rate == to.rate)) record("rate", describe(from.rate), describe(to.rate), kLive);
    from.rate = to.rate;
    if (!(from.srq == to.srq)) record("srq", describe(from.srq), describe(to.srq), kLive);
    from.srq = to.srq;
    for (const ConnectionsKey& limit : kConnectionsKeys)
      key(limit.name, from.connections.*limit.member, to.connections.*limit.member);
    compare_tvls(from.tvls, to.tvls);
    compare_levels(to.name, from.levels, to.levels);
  }

  void compare_levels(const std::string& tenant, std::vector<LevelConfig>& from,
                      const std::vector<LevelConfig>& to) {
    const auto full = [&](const LevelConfig& level) { return tenant + ": level " + level.name; };
    std::vector<LevelConfig> stay, compared;
    for (const LevelConfig& level : from) {
      if (find(to, level.name) != nullptr)
        stay.push_back(level);
      else
        add(Difference::Kind::kRemoved, "tenant", full(level), kLive);
    }
    for (const LevelConfig& level : to) {
      const LevelConfig* old = find(stay, level.name);
      compared.push_back(old != nullptr ? *old : level);
      if (old == nullptr) add(Difference::Kind::kAdded, "tenant", full(level), kLive);
    }
    // Their order decides whose rule comes first.
    std::vector<LevelConfig> ordered = compared;
    std::erase_if(ordered, [&](const LevelConfig& l) { return find(stay, l.name) == nullptr; });
    if (names_of(stay) != names_of(ordered)) record("levels", names_of(stay), names_of(ordered));
    for (std::size_t i = 0; i < to.size(); ++i) {
      place_ = {"tenant", full(to[i])};
      compare_level(compared[i], to[i]);
    }
    from = std::move(compared);
  }

  void compare_level(LevelConfig& from, const LevelConfig& to) {
    key("vcbs", from.vcbs, to.vcbs);
    key("pcbs", from.pcbs, to.pcbs);
    key("tvls", from.tvls, to.tvls);
    key("shared", from.shared, to.shared);
    key("default", from.is_default, to.is_default);
    key("users", from.users, to.users);
    key("groups", from.groups, to.groups);
    key("socket", from.socket, to.socket);
  }

  static std::string names_of(const std::vector<LevelConfig>& levels) {
    std::vector<std::string> names;
    for (const LevelConfig& level : levels) names.push_back(level.name);
    return shown(names);
  }

  /// TVLs come and go at the end; what they have is compared one by one.
  void compare_tvls(std::vector<TvlConfig>& from, const std::vector<TvlConfig>& to) {
    if (from.size() != to.size()) record("tvls", shown(from.size()), shown(to.size()), kLive);
    const std::size_t common = std::min(from.size(), to.size());
    for (std::size_t i = 0; i < common; ++i) {
      place_.tvl = static_cast<std::uint32_t>(i);
      key("weight", from[i].weight, to[i].weight);
      key("execution_credits", from[i].execution_credits, to[i].execution_credits);
      key("completion_credits", from[i].completion_credits, to[i].completion_credits);
      key("kick_list", from[i].kick_list, to[i].kick_list);
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
  if (!is_live()) text += " (" + refusal + "; restart the daemon for it)";
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

ReloadPlan plan_reload(const Config& in_force, const Config& wanted) {
  return Planner(in_force, wanted).run();
}

}  // namespace softhca::resource
