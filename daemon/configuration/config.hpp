// SPDX-License-Identifier: Apache-2.0

// What the operator configures: ports, tenants and their allocations, pools, identity. It is one
// TOML file; config/softhca-full.toml describes every key. A Config has been checked as a whole:
// what load_config() returns can be put into effect.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/expected.hpp"
#include "daemon/base/host_addresses.hpp"
#include "daemon/base/net.hpp"
#include "daemon/configuration/address.hpp"
#include "daemon/configuration/adjustment_config.hpp"
#include "daemon/configuration/connections_config.hpp"
#include "daemon/configuration/general_services_config.hpp"
#include "daemon/configuration/given_amounts.hpp"
#include "daemon/configuration/object_limits.hpp"
#include "daemon/configuration/tenant_device.hpp"
#include "daemon/configuration/tenant_share.hpp"
#include "daemon/qos/pools/rate_limits.hpp"
#include "daemon/qos/receive/srq_policy.hpp"
#include "daemon/qos/schedule/doorbell_config.hpp"
#include "daemon/roce/transport/congestion.hpp"
#include "daemon/roce/transport/reliability.hpp"
#include "daemon/roce/wire/marking.hpp"
#include "daemon/roce/wire/peer_config.hpp"

namespace softhca::configuration {

/// What the engine does when it has no work.
enum class IdlePolicy : std::uint8_t {
  kPoll,      ///< never sleeps
  kAdaptive,  ///< parks idle processes, sleeps when all are parked
};

struct DaemonConfig {
  std::string runtime_dir;         ///< sockets and device trees: <runtime_dir>/<tenant>/...
  std::string state_dir;           ///< for values of `set --save`; empty: they are not saved
  std::string log_level = "info";  ///< trace, debug, info, warning, error, critical or off
  IdlePolicy idle = IdlePolicy::kAdaptive;
  std::optional<std::uint32_t> engine_cpu;  ///< core to which the engine is pinned
  /// How long the programs of a tenant that a reload removed may continue; 0: until they end.
  std::chrono::seconds drain_timeout{0};

  bool operator==(const DaemonConfig&) const = default;
};

struct MetricsConfig {
  std::string address = "127.0.0.1:9465";  ///< host:port to listen on; empty: no endpoint
  bool chosen = false;                     ///< set by the file; then required at the start
  /// Its first line has the credentials of scrapers; empty: none are needed.
  std::string credentials_file{};

  /// `chosen` does not count: it makes no difference once the daemon runs.
  bool operator==(const MetricsConfig& other) const {
    return address == other.address && credentials_file == other.credentials_file;
  }
};

/// Totals of the adapter. Amounts that no tenant is guaranteed are shared (mechanism A2). From
/// `sessions` on: totals of what tenants take on demand of their programs, up to limits of their
/// own.
struct PoolsConfig {
  std::uint32_t tenants = 64;  ///< capacity of the tables, so that a reload may add tenants
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
  std::uint64_t min_bytes_per_second = 1'250'000'000;  ///< sum of the tenants' minimum rates

  bool operator==(const PoolsConfig&) const = default;
};

/// Returns the totals of the pools in which tenants have limits.
ObjectLimits totals_of(const PoolsConfig& pools);

/// The device as tenants see it, and the limits of one of their objects.
struct DeviceConfig {
  static constexpr std::uint32_t kVendorId = 0x02c5f0;  ///< 24 bits; locally administered
  static constexpr std::uint32_t kPartId = 0x5ca1;
  static constexpr std::uint32_t kHardwareVersion = 1;
  static const std::string_view kFirmware;          ///< version of softhca; at most 31 bytes
  static constexpr std::uint32_t kMaxQpWr = 16384;  ///< work requests of a queue
  static constexpr std::uint32_t kMaxCqe = 1u << 20;
  static constexpr std::uint32_t kMaxSge = 16;
  static constexpr std::uint32_t kMaxInline = 256;  ///< bytes
  static constexpr std::uint32_t kMaxSrqWr = 16384;
  static constexpr std::uint32_t kMaxRdAtomic = 128;
  static constexpr std::uint32_t kCompletionVectors = 1;

  std::string name = "softhca0";

  bool operator==(const DeviceConfig&) const = default;
};

struct PortConfig {
  std::string name;
  std::string interface;      ///< network interfaces used through packet sockets, or
  std::string device;         ///< DPDK device string, or
  std::optional<Gid> socket;  ///< address of UDP sockets; exactly one of the three is set
  /// With `socket`: that address, in a network that contains all addresses of its family, since the
  /// kernel routes.
  std::vector<InterfaceAddress> addresses;
  std::optional<Gid> gateway4;
  std::optional<Gid> gateway6;
  std::vector<std::string> neighbours;  ///< see parse_static_neighbour()
  std::optional<std::uint16_t> vlan;
  std::optional<std::uint32_t> mtu;  ///< largest IP packet in bytes, if the device cannot tell

  /// Returns the names in `interface`: the one that is used first, then its backup.
  std::vector<std::string> interfaces() const;

  bool operator==(const PortConfig&) const = default;
};

/// Owner, group and mode of a tenant's socket. They determine which users may open it. Empty owner
/// or group: the daemon's own. Names or numbers.
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
  GivenAmounts given = {};

  bool operator==(const TvlConfig&) const = default;
};

/// How a tenant gets its levels: kGiven are the configured ones, if any; kDefault are `low` and
/// `high`.
enum class Levels : std::uint8_t { kGiven, kDefault };
inline constexpr std::string_view kLevelsWords[] = {"given", "default"};

/// Which programs and queue pairs belong to a level if no other rule assigns them. Cgroups are
/// paths and include the cgroups below them.
struct LevelRules {
  std::vector<std::string> cgroups;
  std::vector<std::uint8_t> service_levels;
  std::vector<std::uint8_t> traffic_classes;

  bool empty() const {
    return cgroups.empty() && service_levels.empty() && traffic_classes.empty();
  }
  bool operator==(const LevelRules&) const = default;
};

/// How programs write commands of the ibv_wr_ calls into VCBs (mechanism C2), unless a program
/// chooses by SOFTHCA_KICK. The places are those of abi::kick_capability().
enum class KickChoice : std::uint8_t { kAuto, kWholeCommand, kVirtual, kExplicit };
inline constexpr std::string_view kKickWords[] = {"auto", "whole", "virtual", "explicit"};

/// Limits on what programs may send together, and on what peers may send to them and read from
/// them.
struct RatesConfig {
  SentLimits sent;
  InboundLimits inbound;
  ServedLimits served;

  bool operator==(const RatesConfig&) const = default;
};

/// A level: a part of its tenant's allocation for some of its programs (mechanism A3). With
/// `shared` it may also use what the tenant's levels do not divide, and beyond that what the tenant
/// may share.
struct LevelConfig {
  std::string name;
  std::uint32_t vcbs = 0;
  std::uint32_t pcbs = 0;
  std::uint32_t tvls = 0;  ///< the tenant's next TVLs; 0: uses TVLs that belong to no level
  bool shared = true;
  /// Exactly one of the levels is the default: for programs that no rule assigns to another.
  bool is_default = false;
  std::optional<std::uint8_t> dscp;      ///< if not given, that of the tenant
  std::optional<std::uint8_t> priority;  ///< if not given, that of the tenant
  std::optional<KickChoice> kick;        ///< if not given, that of the tenant
  RatesConfig rates;
  // Programs of these users and groups, as the kernel reports them, belong to the level. Names or
  // numbers. A level with a rule or a socket refuses programs that only ask for it by name.
  std::vector<std::string> users;
  std::vector<std::string> groups;
  std::vector<std::string> cgroups;  ///< paths; they include the cgroups below them
  // Queue pairs of any program of the tenant that belong to the level, by their address vectors.
  std::vector<std::uint8_t> service_levels;
  std::vector<std::uint8_t> traffic_classes;  ///< the ECN bits do not count
  std::optional<SocketConfig> socket;         ///< its own: <level>.socket, besides the tenant's
  LevelRules own_rules;                       ///< set by the tenant, not by the file
  bool own = false;                           ///< created by the tenant; such levels come last

  bool operator==(const LevelConfig&) const = default;
};

/// Programs with memory that the engine accesses itself, without a helper process. Own: programs of
/// the daemon's own user, or of root, in its own PID namespace. They could also end the daemon.
enum class Trusted : std::uint8_t { kNone, kOwn, kAll };
inline constexpr std::string_view kTrustedWords[] = {"none", "own", "all"};

/// The class of a tenant: what its programs need most. Amounts follow from it (tenant_amounts.hpp).
enum class Workload : std::uint8_t { kStandard, kLatency, kBulk };
inline constexpr std::string_view kWorkloadWords[] = {"standard", "latency", "bulk"};

/// What a tenant's programs may do, and how they post.
struct ProgramsConfig {
  bool process_memory = true;  ///< register memory that is not shared with the daemon
  Trusted trusted = Trusted::kOwn;
  bool controlled_qkeys = false;  ///< give queue pairs controlled Q_Keys
  KickChoice kick = KickChoice::kWholeCommand;
  /// Bytes of the region, if they run in a virtual machine; 0: they run on the host.
  std::uint64_t guest_memory = 0;

  bool operator==(const ProgramsConfig&) const = default;
};

/// Levels besides those that the file lists one by one.
struct FurtherLevels {
  Levels are = Levels::kGiven;
  std::uint32_t own = 3;  ///< that the tenant may create itself

  bool operator==(const FurtherLevels&) const = default;
};

/// A tenant and its allocation (mechanism A1). Amounts are guarantees. With `shared` the tenant may
/// also use amounts that no tenant is guaranteed; without it the amounts are a hard cap.
struct TenantConfig {
  /// Credits of commands in dedicated PCBs, in addition to those of TVLs. Levels share them by
  /// their PCBs, and each has at least one.
  static constexpr std::uint32_t kDedicatedExecutionCredits = 32;
  static constexpr std::uint32_t kDedicatedCompletionCredits = 128;

  std::string name;
  std::vector<Gid> addresses;         ///< those of its devices, in this order; never empty
  std::vector<TenantDevice> devices;  ///< empty: one, with all addresses; see devices_of()
  SocketConfig socket;
  /// The socket on which the tenant creates levels and divides its amounts among them:
  /// control.sock. It exists if the tenant has levels or may create some.
  SocketConfig control{.owner = "", .group = "", .mode = 0600};
  Share share;  ///< of every pool, for the amounts that are not given
  Workload workload = Workload::kStandard;
  GivenAmounts given;
  std::uint32_t vcbs = 0;
  std::uint32_t vcbs_per_process = 16;  ///< at first
  std::uint32_t pcbs = 0;
  bool shared = true;
  std::optional<std::uint8_t> dscp;      ///< of its packets; if not given, the program's
  std::optional<std::uint8_t> priority;  ///< 802.1Q
  bool lends = true;                     ///< lends its idle guarantees if adjustment is automatic
  ProgramsConfig programs;
  std::vector<TvlConfig> tvls;  ///< never empty; those of the levels first, in their order
  FurtherLevels further_levels;
  std::vector<LevelConfig> levels;
  ObjectLimits limits;  ///< limits of its programs; if not given, an equal share
  std::optional<std::uint32_t> kept_packets;  ///< limit of out-of-order packets
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
  std::vector<PeerConfig> peers;  ///< the longest prefix decides; other hosts send plain packets
  std::vector<TenantConfig> tenants;
  /// Settings of tenants that are created on demand. `name`: name of the template. `addresses`: the
  /// addresses for such tenants; may be empty.
  std::vector<TenantConfig> templates;

  bool operator==(const Config&) const = default;
};

/// Returns how packets of a tenant, or of a level, are marked.
inline Marking marking_of(const TenantConfig& tenant) { return {tenant.dscp, tenant.priority}; }
inline Marking marking_of(const LevelConfig& level) { return {level.dscp, level.priority}; }

/// Returns the tenant or level with this name; null if there is none.
const TenantConfig* find_tenant(const Config& config, std::string_view name);
const LevelConfig* find_level(const TenantConfig& tenant, std::string_view name);

/// Returns the devices of a tenant, never none: those of the file, or one of the name of [device].
std::vector<TenantDevice> devices_of(const TenantConfig& tenant, const DeviceConfig& device);

/// True if only programs that a rule names, or that use the level's socket, may use the level.
bool is_reserved(const LevelConfig& level);
/// True if the tenant may divide its allocation. Then it has a control socket.
inline bool may_divide(const TenantConfig& tenant) {
  return !tenant.levels.empty() || tenant.further_levels.own != 0;
}

// Greatest values that several keys share.
inline constexpr std::uint32_t kMostOfAny = 1u << 20;
inline constexpr std::size_t kMostAddresses = 128;           ///< of a tenant
inline constexpr std::size_t kMostTemplateAddresses = 4096;  ///< of a template
inline constexpr std::size_t kMostAddressesInAll = 8192;     ///< of ports, tenants and templates
inline constexpr std::uint32_t kMostTvls = 64;               ///< of a tenant
inline constexpr std::uint32_t kMaxVcbsPerProcess = 64;      ///< the bits in abi/session.hpp
inline constexpr std::uint32_t kMaxTvlWeight = 1000;
inline constexpr std::uint32_t kMostOwnLevels = 32;      ///< of a tenant
inline constexpr std::uint32_t kMostOutOfOrder = 32768;  ///< packets, of a queue pair
inline constexpr std::uint32_t kMostInFlight = 256;      ///< packets, of a queue pair
inline constexpr std::size_t kMostRulesOfLevel = 16;     ///< of each kind
inline constexpr std::uint32_t kMaxLevels = 192;  ///< of all tenants: rows of the engine's tables

/// Returns the configuration that is used without a file. It has the tenants `a` (198.18.0.1) and
/// `b` (198.18.0.2, both of the benchmarking range of RFC 2544), and loopback only. A quarter of
/// the adapter is guaranteed to each, and the rest is shared.
Config default_config();

/// Returns $RUNTIME_DIRECTORY (systemd), else /run/softhca for root, else $XDG_RUNTIME_DIR/softhca,
/// else /tmp/softhca-<uid>.
std::string default_runtime_dir();
/// Returns $STATE_DIRECTORY (systemd), else empty.
std::string default_state_dir();

/// Parses a configuration. The error message has one line "file:line: key: what is wrong and how to
/// mend it" for every error found. Keys that are not given have the values of a default-constructed
/// Config; tenants must be given. `host`: the addresses of the host, for ports that name a network.
Expected<Config> parse_config(std::string_view text, const std::string& filename,
                              const std::vector<HostAddress>& host = {});
/// Does the same for a file, and reads the keys of peers. It also reports what this machine does
/// not have: users, groups, interfaces, folders of captures, key files, the engine's core.
Expected<Config> load_config(const std::string& path);

}  // namespace softhca::configuration
