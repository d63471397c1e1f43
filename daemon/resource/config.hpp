// What the operator decides: ports, tenants and their allocations, pools, identity. One TOML
// file; config/softhca.toml describes every key. All of a Config has been checked as a whole: what
// load_config() returns can be put into effect.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/congestion.hpp"
#include "daemon/base/doorbell_config.hpp"
#include "daemon/base/expected.hpp"
#include "daemon/base/marking.hpp"
#include "daemon/base/net.hpp"
#include "daemon/base/peer_config.hpp"
#include "daemon/base/rate_limits.hpp"
#include "daemon/base/reliability.hpp"
#include "daemon/base/srq_policy.hpp"
#include "daemon/base/time.hpp"
#include "daemon/resource/address.hpp"
#include "daemon/resource/adjustment_config.hpp"
#include "daemon/resource/amounts.hpp"
#include "daemon/resource/connections_config.hpp"
#include "daemon/resource/general_services_config.hpp"

namespace softhca::resource {

/// How eagerly the engine looks for work when there is none.
enum class IdlePolicy : std::uint8_t {
  kPoll,      ///< never sleeps
  kAdaptive,  ///< parks idle processes, sleeps when all are parked
};

struct DaemonConfig {
  std::string runtime_dir;         ///< sockets and device trees: <runtime_dir>/<tenant>/...
  std::string state_dir;           ///< what `set --save` keeps; empty: nowhere
  std::string log_level = "info";  ///< trace, debug, info, warning, error, critical or off
  IdlePolicy idle = IdlePolicy::kAdaptive;
  std::optional<std::uint32_t> engine_cpu;               ///< core the engine is pinned to
  Duration park_after = std::chrono::microseconds(200);  ///< idle time before a process is parked
  /// How long the programs of a tenant that a reload removed may go on; 0: until they end.
  std::chrono::seconds drain_timeout{0};

  bool operator==(const DaemonConfig&) const = default;
};

struct MetricsConfig {
  std::string address = "127.0.0.1:9465";  ///< host:port to listen on; empty: no endpoint
  bool chosen = false;                     ///< by the file: the daemon does not start without it
  std::string credentials_file{};          ///< whose first line a scraper has to know; empty: none

  /// Whether the address was chosen makes no difference to what the daemon does once it runs.
  bool operator==(const MetricsConfig& other) const {
    return address == other.address && credentials_file == other.credentials_file;
  }
};

/// Totals of the adapter. What no tenant is guaranteed is shared (mechanism A2). From `sessions`
/// on: totals of what tenants take as their programs ask for it, up to limits of their own.
struct PoolsConfig {
  std::uint32_t tenants = 64;  ///< room in the tables, so that a reload may add some
  std::uint32_t vcbs = 4096;
  std::uint32_t pcbs = 8192;           ///< dedicated ones included
  std::uint32_t dedicated_pcbs = 256;  ///< for the send queue scheduler (A9)
  std::uint32_t tvls = 256;
  std::uint32_t execution_credits = 1024;   ///< commands being gathered and sent at once
  std::uint32_t completion_credits = 8192;  ///< commands waiting for acknowledgement at once
  std::uint32_t kick_list = 1024;           ///< default length limit of a TVL's virtual kick list
  std::uint32_t sessions = 1024;            ///< opened device contexts
  std::uint32_t queue_pairs = 131072;
  std::uint32_t completion_queues = 131072;
  std::uint32_t shared_receive_queues = 1024;
  std::uint32_t memory_regions = 131072;
  std::uint32_t memory_windows = 16384;
  std::uint32_t protection_domains = 4096;
  std::uint32_t address_handles = 16384;
  std::uint64_t registered_bytes = machine_memory();  ///< of memory regions
  std::uint64_t shared_bytes = machine_memory();      ///< shared in place, registered or idle
  std::uint64_t queue_bytes = machine_memory() / 4;   ///< rings, and their state in the daemon
  std::uint64_t descriptors = machine_descriptors();
  std::uint64_t mappings = machine_mappings();
  std::uint64_t min_bytes_per_second = 1'250'000'000;  ///< minimum rates of all tenants

  bool operator==(const PoolsConfig&) const = default;
};

/// The pools that tenants have limits in.
Amounts totals_of(const PoolsConfig& pools);

/// The device as tenants see it, and the limits of one object of theirs.
struct DeviceConfig {
  std::string name = "softhca0";
  std::uint32_t vendor_id = 0x02c5f0;  ///< 24 bits; locally administered, so nobody else's
  std::uint32_t part_id = 0x5ca1;
  std::uint32_t hardware_version = 1;
  std::string firmware = "0.1.0";  ///< at most 31 bytes
  std::uint32_t max_qp_wr = 16384;
  std::uint32_t max_sge = 16;
  std::uint32_t max_inline = 256;  ///< bytes
  std::uint32_t max_cqe = 1u << 20;
  std::uint32_t max_srq_wr = 16384;
  std::uint32_t max_rd_atomic = 128;
  std::uint32_t completion_vectors = 1;

  bool operator==(const DeviceConfig&) const = default;
};

/// Misbehaviour of a link for tests: probabilities 0 to 1 for each frame, from a seed.
struct FaultConfig {
  double loss = 0;
  double duplicate = 0;
  double reorder = 0;
  double corrupt = 0;
  double mark = 0;  ///< of ECN-capable packets, as by a switch that is congested
  std::uint64_t seed = 1;

  bool operator==(const FaultConfig&) const = default;
};

/// Frames of a port, both directions, written to a pcapng file until `frames` are in it.
struct CaptureConfig {
  std::string file;
  std::uint64_t frames = 100000;

  bool operator==(const CaptureConfig&) const = default;
};

struct PortConfig {
  std::string name;
  std::string interface;      ///< network interface reached by a packet socket, or
  std::string device;         ///< DPDK device string, or
  std::optional<Gid> socket;  ///< address of UDP sockets; exactly one of the three is set
  /// With `socket`: that address, on a network with all of its family, since the kernel routes.
  std::vector<InterfaceAddress> addresses;
  std::optional<Gid> gateway4;
  std::optional<Gid> gateway6;
  std::vector<std::string> neighbours;  ///< see parse_static_neighbour()
  std::optional<std::uint16_t> vlan;
  std::optional<std::uint32_t> mtu;  ///< bytes of an IP packet, where the device cannot tell
  std::optional<FaultConfig> fault;
  std::optional<CaptureConfig> capture;

  bool operator==(const PortConfig&) const = default;
};

/// Owner, group and mode of a tenant's socket: they say who may open it. Empty owner or group: the
/// daemon's own. Names or numbers.
struct SocketConfig {
  std::string owner;
  std::string group;
  std::uint32_t mode = 0660;

  bool operator==(const SocketConfig&) const = default;
};

/// Owner, group and mode of the admin socket, <runtime_dir>/admin.sock.
struct AdminConfig {
  SocketConfig socket{.owner = "", .group = "", .mode = 0600};

  bool operator==(const AdminConfig&) const = default;
};

/// One transmit virtual lane of a tenant. Credits are guarantees.
struct TvlConfig {
  std::uint32_t weight = 1;  ///< share of the arbitrator's rounds
  std::uint32_t execution_credits = 0;
  std::uint32_t completion_credits = 0;
  std::uint32_t kick_list = 1024;
  // What its queue pairs may send together; 0: no limit.
  std::uint64_t bytes_per_second = RateLimits{}.bytes_per_second;
  std::uint64_t burst_bytes = RateLimits{}.burst_bytes;
  std::uint64_t messages_per_second = RateLimits{}.messages_per_second;
  std::uint64_t burst_messages = RateLimits{}.burst_messages;
  std::uint64_t min_bytes_per_second = 0;  ///< what they are sure to send

  bool operator==(const TvlConfig&) const = default;
};

/// How a tenant comes to its levels: it has those that are given one by one, if any, or `low` and
/// `high`.
enum class Levels : std::uint8_t { kGiven, kDefault };
inline constexpr std::string_view kLevelsWords[] = {"given", "default"};

/// Which programs and queue pairs belong to a level, by what nobody else says of them. Cgroups are
/// paths: those and what is below them.
struct LevelRules {
  std::vector<std::string> cgroups;
  std::vector<std::uint8_t> service_levels;
  std::vector<std::uint8_t> traffic_classes;

  bool empty() const {
    return cgroups.empty() && service_levels.empty() && traffic_classes.empty();
  }
  bool operator==(const LevelRules&) const = default;
};

/// What programs may send together, and what peers may send to them and read from them.
struct RatesConfig {
  SentLimits sent;
  InboundLimits inbound;
  ServedLimits served;

  bool operator==(const RatesConfig&) const = default;
};

/// A level: a part of its tenant's allocation for some of its programs (mechanism A3). With
/// `shared` it may also draw on what the tenant's levels do not divide, and beyond that on what the
/// tenant may share.
struct LevelConfig {
  std::string name;
  std::uint32_t vcbs = 0;
  std::uint32_t pcbs = 0;
  std::uint32_t tvls = 0;  ///< the next so many of the tenant's; 0: those that no level has
  bool shared = true;
  bool is_default = false;  ///< one of the levels is: for programs that nothing assigns to another
  std::optional<std::uint8_t> dscp;      ///< where not given, as of the tenant
  std::optional<std::uint8_t> priority;  ///< likewise
  RatesConfig rates;
  // Users and groups whose programs belong to it, by what the kernel says of them: names or
  // numbers. A level with a rule or a socket keeps out programs that only ask for it by name.
  std::vector<std::string> users;
  std::vector<std::string> groups;
  std::vector<std::string> cgroups;  ///< likewise; paths, for those below them, too
  // Queue pairs of any program of the tenant that belong to it, by their address vectors.
  std::vector<std::uint8_t> service_levels;
  std::vector<std::uint8_t> traffic_classes;  ///< the bits of ECN do not count
  std::optional<SocketConfig> socket;         ///< of its own, besides the tenant's: <level>.socket
  LevelRules own_rules;                       ///< given by the tenant itself, not by a file
  bool own = false;  ///< made by the tenant itself; such levels are the last

  bool operator==(const LevelConfig&) const = default;
};

/// Whose memory the engine reaches itself. Own: programs of the daemon's own user, or root's, in
/// its own PID namespace: they could end the daemon, too.
enum class Trusted : std::uint8_t { kNone, kOwn, kAll };
inline constexpr std::string_view kTrustedWords[] = {"none", "own", "all"};

/// What its programs may do.
struct ProgramsConfig {
  bool process_memory = true;  ///< register memory that is not shared with the daemon
  Trusted trusted = Trusted::kOwn;
  bool controlled_qkeys = false;  ///< give queue pairs such Q_Keys

  bool operator==(const ProgramsConfig&) const = default;
};

/// A tenant and its allocation (mechanism A1). Amounts are guarantees; with `shared` it may also
/// draw from what nobody is guaranteed, without it they are a hard cap.
struct TenantConfig {
  std::string name;
  std::vector<Gid> addresses;  ///< its GID table, in this order; never empty
  SocketConfig socket;
  /// The socket by which the tenant makes levels and divides its amounts among them: control.sock,
  /// there when it has levels or may make some.
  SocketConfig control{.owner = "", .group = "", .mode = 0600};
  std::uint32_t vcbs = 0;
  std::uint32_t vcbs_per_process = 16;
  std::uint32_t most_vcbs_per_process = 64;
  std::uint32_t pcbs = 0;
  /// Of commands in dedicated PCBs, beside those of TVLs; levels share them.
  std::uint32_t dedicated_execution_credits = 32;
  std::uint32_t dedicated_completion_credits = 128;
  bool shared = true;
  std::optional<std::uint8_t> dscp;      ///< of its packets; where not given, as the program asks
  std::optional<std::uint8_t> priority;  ///< 802.1Q
  bool lends = true;  ///< guarantees that it leaves idle, where adjustment is automatic
  ProgramsConfig programs;
  std::vector<TvlConfig> tvls;  ///< never empty; those of the levels first, in their order
  Levels levels_are = Levels::kGiven;
  std::vector<LevelConfig> levels;
  std::uint32_t own_levels = 3;  ///< that it may make itself
  Amounts limits;                ///< what its programs may take; where not given, an equal share
  std::optional<std::uint32_t> kept_packets;  ///< of [reliability], at most; kept_watermark()
  RatesConfig rates;
  SrqPolicy srq;
  SrqRules srq_rules;
  ConnectionsConfig connections;

  bool operator==(const TenantConfig&) const = default;
};

struct Config {
  DaemonConfig daemon;
  AdminConfig admin;
  MetricsConfig metrics;
  PoolsConfig pools;
  DoorbellConfig doorbells;
  AdjustmentConfig adjustment;
  CongestionParameters congestion;
  ReliabilityParameters reliability;
  GeneralServicesConfig general_services;  ///< queue pair 1
  GeneralServicesConfig shared_datagrams;  ///< queue pair 2
  DeviceConfig device;
  std::vector<PortConfig> ports;  ///< empty: loopback between the tenants only
  std::vector<PeerConfig> peers;  ///< the longest prefix decides; others send plain packets
  std::vector<TenantConfig> tenants;
  /// What tenants that are made on demand are like. `name`: of the template; `addresses`: those
  /// that such tenants are given, may be empty.
  std::vector<TenantConfig> templates;

  bool operator==(const Config&) const = default;
};

inline RateLimits rate_of(const TvlConfig& tvl) {
  return {tvl.bytes_per_second, tvl.burst_bytes, tvl.messages_per_second, tvl.burst_messages};
}

/// How packets of a tenant, or of a level, are marked.
inline Marking marking_of(const TenantConfig& tenant) { return {tenant.dscp, tenant.priority}; }
inline Marking marking_of(const LevelConfig& level) { return {level.dscp, level.priority}; }

/// Null: there is none of that name.
const TenantConfig* find_tenant(const Config& config, std::string_view name);
const LevelConfig* find_level(const TenantConfig& tenant, std::string_view name);

/// Is the level kept for programs that a file names, or that come by its socket?
bool is_reserved(const LevelConfig& level);
/// May the tenant divide what it has? Then it has a control socket.
inline bool may_divide(const TenantConfig& tenant) {
  return !tenant.levels.empty() || tenant.own_levels != 0;
}

// Greatest values of more than one key.
inline constexpr std::uint32_t kMostOfAny = 1u << 20;
inline constexpr std::size_t kMostAddresses = 128;           ///< of a tenant
inline constexpr std::size_t kMostTemplateAddresses = 4096;  ///< that a template gives away
inline constexpr std::uint32_t kMostTvls = 64;               ///< of a tenant
inline constexpr std::uint32_t kMaxVcbsPerProcess = 64;      ///< as abi/session.hpp has bits for
inline constexpr std::uint32_t kMaxTvlWeight = 1000;
inline constexpr std::uint32_t kMaxDedicatedCredits = 65536;  ///< of a tenant
inline constexpr std::uint32_t kMostOwnLevels = 32;           ///< of a tenant
inline constexpr std::uint32_t kMostOutOfOrder = 32768;       ///< packets, of a queue pair
inline constexpr std::uint32_t kMostInFlight = 256;           ///< packets, of a queue pair
inline constexpr std::size_t kMostRulesOfLevel = 16;          ///< of a kind
inline constexpr std::uint32_t kMaxLevels = 192;  ///< of all tenants: rows of the engine's tables

/// The configuration without a file: tenants `a` (198.18.0.1) and `b` (198.18.0.2, both of the
/// benchmarking range of RFC 2544), loopback only, a quarter of the buffers and credits guaranteed
/// to each and the rest shared.
Config default_config();

/// The limits of a tenant that does not give its own, when there are `tenants` of them: an equal
/// share of each pool, so that none can use up what is another's.
Amounts equal_share(const PoolsConfig& pools, std::size_t tenants);

/// $RUNTIME_DIRECTORY (systemd), else /run/softhca for root, else $XDG_RUNTIME_DIR/softhca, else
/// /tmp/softhca-<uid>.
std::string default_runtime_dir();
/// $STATE_DIRECTORY (systemd), else empty.
std::string default_state_dir();

/// The error message holds one line "file:line: key: what is wrong and how to mend it" for every
/// error found. Keys not given have the values of a default-constructed Config; tenants must be
/// given.
Expected<Config> parse_config(std::string_view text, const std::string& filename);
/// As parse_config(), for a file, with the keys of peers. Also names what this machine does not
/// have: users, groups, interfaces, folders of captures, key files, the engine's core.
Expected<Config> load_config(const std::string& path);

}  // namespace softhca::resource
