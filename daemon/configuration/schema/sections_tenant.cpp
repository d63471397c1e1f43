// SPDX-License-Identifier: Apache-2.0

// The keys of [[tenant]] and of the tables in it.
#include <algorithm>
#include <array>

#include "daemon/configuration/schema/level_rules.hpp"
#include "daemon/configuration/schema/reader.hpp"
#include "daemon/configuration/schema/schema.hpp"
#include "daemon/configuration/schema/text_rules.hpp"

namespace softhca::configuration {
namespace {

using T = TenantConfig;

constexpr std::uint64_t kMostGuestMemory = std::uint64_t{1} << 40;

template <Kind kind>
constexpr Access limit_access() {
  using Value = std::uint64_t;
  Access access = at<&T::limits>;
  access.type = Type::kInteger;
  access.bytes = sizeof(Value);
  access.place = [](const void* section) -> const void* {
    return &static_cast<const T*>(section)->limits.values[static_cast<std::size_t>(kind)];
  };
  access.look = access.place;
  access.reach = [](void* section) -> void* { return &static_cast<T*>(section)->limits[kind]; };
  access.copy = [](void* to, const void* from) {
    static_cast<T*>(to)->limits[kind] = static_cast<const T*>(from)->limits[kind];
  };
  access.same = [](const void* one, const void* other) {
    return static_cast<const T*>(one)->limits[kind] == static_cast<const T*>(other)->limits[kind];
  };
  access.amount = amount_at<Value>;
  access.set = set_amount_at<Value>;
  return access;
}

/// Returns the key of a limit. A limit cannot exceed the pool: that would be a promise that cannot
/// be kept.
template <Kind kind>
constexpr Key limit(const char* sample, const char* lead = "", const char* unit = "") {
  return {.name = name_of(kind),
          .at = limit_access<kind>(),
          .in_pool = true,
          .set = limit_of(kind),
          .unit = unit,
          .lead = lead,
          .shown = Shown::kOff,
          .sample = sample};
}

constexpr Key kTenantKeys[] = {
    {.name = "name",
     .at = at<&T::name>,
     .text = kSafeName,
     .missing = kNameMissing,
     .doc = "letters, digits, '_' and '-'"},
    {.name = "addresses",
     .at = at<&T::addresses>,
     .doc = "Its GIDs, in this order: addresses of a port, or free-standing ones, which work "
            "between the tenants of this daemon. The name of a port stands for its first address "
            "that no tenant has, in a template for all of these. 198.18.0.0/15 is reserved for "
            "tests (RFC 2544)."},
    {.name = "socket",
     .at = at<&T::socket>,
     .table = schema_of<SocketConfig>,
     .doc = "File permissions decide which users may join. Owner and group: names or numbers, "
            "default the daemon's."},
    {.name = "guest_memory",
     .at = at<&T::programs, &ProgramsConfig::guest_memory>,
     .range = {0, kMostGuestMemory},
     .unit = "bytes",
     .doc = "The tenant is a virtual machine. Its programs share so many bytes with the daemon "
            "(softhca-run --guest). A quarter is for queues, the rest for memory that they "
            "register. It counts as shared_bytes. 0: the programs run on the host. A reload "
            "changes it for a machine that starts afterwards.",
     .shown = Shown::kOff,
     .sample = "536870912"},
    {.name = "control",
     .at = at<&T::control>,
     .table = schema_of<SocketConfig>,
     .whole = true,
     .doc =
         "The control socket (control.sock). Its users may create levels of the tenant and divide "
         "the tenant among its levels while it runs (softhcactl --as a). It exists if the tenant "
         "has levels or own_levels. Default: owner and group of the socket, and no other user.",
     .shown = Shown::kOff,
     .sample = "{ mode = 0o600 }"},
    {.name = "share",
     .at = at<&T::share>,
     .apart = true,
     .set = LiveSetting::kShare,
     .doc = "of all tenants at most \"100%\"",
     .lead =
         "Its share of the adapter, \"0%\" to \"100%\", and its class. What is not given below "
         "follows from them. Guarantees: vcbs, pcbs and the sums of the TVLs' execution_credits "
         "and completion_credits are this share of [pools] (of the PCBs without dedicated_pcbs). "
         "Engine time: the weight is 1 for each 5%. Limits: this share of [pools], and an equal "
         "part of what all shares leave (a template's: this share only)."},
    {.name = "class",
     .at = at<&T::workload>,
     .words = kWorkloadWords,
     .apart = true,
     .set = LiveSetting::kClass,
     .doc = "\"latency\" is for short messages that must not wait: tvls = 4, "
            "vcbs_per_process = 64, kick_list = 64, lends = false, priority = 5. \"bulk\" is for "
            "long messages: vcbs = 0, vcbs_per_process = 4, priority = 1."},
    {.name = "shared",
     .at = at<&T::shared>,
     .set = LiveSetting::kShared,
     .lead = "Guarantees, whatever the other tenants do. With shared = true the tenant may also "
             "use amounts that no tenant is guaranteed. With shared = false the guarantees are a "
             "hard cap."},
    {.name = "vcbs", .at = at<&T::vcbs>, .range = {0, kMostOfAny}, .set = LiveSetting::kVcbs},
    {.name = "vcbs_per_process",
     .at = at<&T::vcbs_per_process>,
     .range = {0, kMaxVcbsPerProcess},
     .set = LiveSetting::kVcbsPerProcess,
     .doc = "at its start; up to 64 as needed; 0: doorbells only"},
    {.name = "pcbs", .at = at<&T::pcbs>, .range = {0, kMostOfAny}, .set = LiveSetting::kPcbs},
    {.name = "lends",
     .at = at<&T::lends>,
     .doc = "whether its idle guarantees may be lent ([adjustment])"},
    {.name = "process_memory",
     .at = at<&T::programs, &ProgramsConfig::process_memory>,
     .doc = "Whether its programs may register memory that cannot be shared with the daemon (parts "
            "of pages, files, shared memory of others). The daemon accesses it through the kernel. "
            "With false, registering such memory fails with EOPNOTSUPP, and implicit on-demand "
            "paging is not available. A reload changes it for programs that start afterwards."},
    {.name = "trusted",
     .at = at<&T::programs, &ProgramsConfig::trusted>,
     .words = kTrustedWords,
     .doc =
         "Programs of which the engine accesses that memory itself. \"own\": programs of the "
         "daemon's user and of root in the daemon's PID namespace (not in a container of their "
         "own); they could end the daemon, too. The engine then waits as long as an access takes: "
         "a page that never arrives (from a file server that has died) stops all tenants. For "
         "other programs a process of the daemon makes the access, and the engine waits for it 50 "
         "ms at most. An access that takes longer fails, and until it returns, the tenant's other "
         "accesses fail, too. Such accesses take ten times as long, and more where processors are "
         "short. In both cases the engine waits 1 % of the time for a tenant's memory; beyond that "
         "the tenant's messages wait. A reload changes it for programs that start afterwards."},
    {.name = "controlled_qkeys",
     .at = at<&T::programs, &ProgramsConfig::controlled_qkeys>,
     .doc = "Whether its programs may use controlled Q_Keys (IBA 10.2.5: those with the highest "
            "bit set, as 0x80010000 of queue pair 1). With one, a program can send management "
            "datagrams to any host in the name of this host. With false, `ibv_modify_qp` fails "
            "with EPERM. A reload changes it for later requests."},
    {.name = "kick",
     .at = at<&T::programs, &ProgramsConfig::kick>,
     .words = kKickWords,
     .doc =
         "How its programs write commands of the ibv_wr_ calls into VCBs. \"whole\": when they "
         "are complete. \"virtual\": piece by piece, and the last piece is the kick. "
         "\"explicit\": piece by piece, then a kick. \"auto\": \"virtual\" while the send queue "
         "is idle, else \"whole\". SOFTHCA_KICK of a program has precedence. A reload changes it "
         "for programs that start afterwards."},
    {.name = "tvls",
     .at = at<&T::tvls>,
     .range = {1, kMostTvls},
     .apart = true,
     .set = LiveSetting::kTvls,
     .lead = "Its TVLs, all alike: their number, and for each its weight in the arbitrator's "
             "rounds and in the time of its tenant or level, its guaranteed credits, and the limit "
             "of its kick list. The greatest weight of its TVLs is also the tenant's weight in the "
             "engine's time. In the same way, that of a level's TVLs is its weight among the "
             "levels of its tenant."},
    {.name = "dscp",
     .at = at<&T::dscp>,
     .range = {0, 63},
     .doc = "DSCP of its packets; default: the traffic class that programs ask for",
     .shown = Shown::kOff,
     .sample = "26"},
    {.name = "priority",
     .at = at<&T::priority>,
     .range = {0, 7},
     .doc = "802.1p, on ports with a VLAN; default 0",
     .shown = Shown::kOff,
     .sample = "3"},
    {.name = "levels",
     .at = at<&T::further_levels, &FurtherLevels::are>,
     .words = kLevelsWords,
     .lead = "Levels: parts of the tenant's allocation for some of its programs. \"default\": "
             "`low` and `high`. A program belongs to `high` if it asks for it (softhca-run --level "
             "high, SOFTHCA_LEVEL=high), else to `low`. Each has half of the TVLs and is "
             "guaranteed a quarter of the VCBs and PCBs; both share the rest. TVLs of `high` have "
             "the weight, those of `low` a quarter of it, at least 1. \"given\": those of "
             "[[tenant.level]], if there are any.",
     .sample = "\"given\""},
    {.name = "own_levels",
     .at = at<&T::further_levels, &FurtherLevels::own>,
     .range = {0, kMostOwnLevels},
     .doc = "further levels that the tenant may create itself (softhcactl --as a level make)"},
    limit<Kind::kSessions>(
        "512",
        "Limits: a program that asks for more gets ENOMEM. Default: an equal share of the pool, so "
        "that no tenant can use up the share of another. If the limits of all tenants add up to "
        "more than the pool, the first that ask for it get it."),
    limit<Kind::kQueuePairs>("65536"),
    limit<Kind::kCompletionQueues>("65536"),
    limit<Kind::kSharedReceiveQueues>("512"),
    limit<Kind::kMemoryRegions>("65536"),
    limit<Kind::kMemoryWindows>("8192"),
    limit<Kind::kProtectionDomains>("2048"),
    limit<Kind::kAddressHandles>("8192"),
    limit<Kind::kRegisteredBytes>("8589934592", "", "bytes"),
    limit<Kind::kSharedBytes>("8589934592", "", "bytes"),
    limit<Kind::kQueueBytes>("2147483648", "", "bytes"),
    limit<Kind::kDescriptors>("32640"),
    limit<Kind::kMappings>("28669"),
    {.name = "rate",
     .at = at<&T::rates, &RatesConfig::sent>,
     .table = schema_of<SentLimits>,
     .whole = true,
     .lead =
         "Limits on what the tenant may send per second, in bytes and in messages, and at once "
         "after a pause; 0: no limit. A message starts while neither is used up and counts in "
         "full; reads count as sent. min_bytes_per_second is guaranteed while the tenant has "
         "something to send, whatever the weights of others. It covers messages to peers in this "
         "daemon, and on the wire what its queue pairs send, including responses to reads. A "
         "message or response counts for 4 KiB at least. All share the rest by weight.",
     .shown = Shown::kOff,
     .sample = "{ bytes_per_second = 0, burst_bytes = 1048576, messages_per_second = 0, "
               "burst_messages = 64, min_bytes_per_second = 0 }"},
    {.name = "kept_packets",
     .at = at<&T::kept_packets>,
     .range = {0, kMostOfAny},
     .unit = "packets",
     .doc = "packets in the out-of-order buffer; one more drops all of them, and they are "
            "sent again. Default: half of reliability.kept_packets",
     .shown = Shown::kOff,
     .sample = "4096"},
    {.name = "inbound_rate",
     .at = at<&T::rates, &RatesConfig::inbound>,
     .table = schema_of<InboundLimits>,
     .whole = true,
     .lead =
         "Limits on what peers may send to the tenant per second, by sends, writes and atomics. "
         "Excess messages wait at the peers. For peers in this daemon it is like a rate of their "
         "own. Others get RNR NAKs and send later, which requires an rnr_retry above 0. Excess "
         "datagrams and packets of unreliable connections are dropped and counted.",
     .shown = Shown::kOff,
     .sample = "{ bytes_per_second = 0, burst_bytes = 1048576 }"},
    {.name = "served_rate",
     .at = at<&T::rates, &RatesConfig::served>,
     .table = schema_of<ServedLimits>,
     .whole = true,
     .lead = "Limits on what peers may read from the tenant per second.",
     .shown = Shown::kOff,
     .sample = "{ bytes_per_second = 0, burst_bytes = 1048576 }"},
    {.name = "srq",
     .at = at<&T::srq>,
     .table = schema_of<SrqPolicy>,
     .whole = true,
     .lead =
         "Limits on the buffers of a shared receive queue that each queue pair on it may hold: "
         "drawn by its messages and not posted again yet; 0: no limit. kind = \"soft\": exceeding "
         "the limit is reported. kind = \"hard\": on_exceed decides. \"raise\" raises the limit "
         "and \"replenish\" lends buffers, both from those that are assigned to no queue pair. "
         "\"drop-message\" drops the message (RC: receiver not ready). \"drop-connection\" fails "
         "the queue pair and notifies its peer. \"quarantine\" answers with receiver not ready, "
         "except for one buffer at a time, for a tenth of a second and until it holds at most half "
         "of its limit. Limits may add up to overcommit times the queue; statistical = true makes "
         "them follow use. limits = [..] gives one for each importance, 0 to 7 (class selector of "
         "the traffic class), instead of limit. When only as many buffers as watermark are left, "
         "the queue pairs that draw most are named. With \"drop-connection\" the least important "
         "of them fails. With \"quarantine\" that one, or the one that holds more than all others, "
         "goes into quarantine. Without a watermark, the queue pair that drew most of a queue is "
         "reported when an eighth of it is left.",
     .shown = Shown::kOff,
     .sample = "{ limit = 0, kind = \"hard\", on_exceed = \"drop-message\", statistical = false, "
               "overcommit = 1.0, watermark = 0 }"},
    {.name = "connections",
     .at = at<&T::connections>,
     .table = schema_of<ConnectionsConfig>,
     .lead = "Limits on what its programs may use of rdma_cm. A key that is not given has the "
             "value in [connections].",
     .shown = Shown::kOff,
     .sample = "{ listeners = 16, most = 1000, pcbs_each = 2 }"},
};

bool gives(Reader& reader, std::string_view table, std::string_view key) {
  const Value* value = reader.find(table);
  return value != nullptr && value->table() && value->table()->find(key) != nullptr;
}

void check_tenant(Reader& reader, void* section) {
  auto& config = *static_cast<TenantConfig*>(section);
  if (!gives(reader, "control", "owner")) config.control.owner = config.socket.owner;
  if (!gives(reader, "control", "group")) config.control.group = config.socket.group;
}
constexpr Schema kTenant{.comment =
                             "A tenant: all programs that may open its socket. At least one tenant "
                             "or one [[template]] is needed.",
                         .keys = kTenantKeys,
                         .check = check_tenant};

constexpr std::uint64_t kMostOfRate = std::uint64_t{1} << 50;

constexpr Key kTvlKeys[] = {
    {.name = "weight",
     .at = at<&TvlConfig::weight>,
     .range = {1, kMaxTvlWeight},
     .set = LiveSetting::kWeight,
     .doc = "share of the arbitrator's rounds, and of the time of its tenant or level"},
    {.name = "execution_credits",
     .at = at<&TvlConfig::execution_credits>,
     .range = {0, kMostOfAny},
     .set = LiveSetting::kExecutionCredits,
     .doc = "guaranteed: commands being gathered and sent at once"},
    {.name = "completion_credits",
     .at = at<&TvlConfig::completion_credits>,
     .range = {0, kMostOfAny},
     .set = LiveSetting::kCompletionCredits,
     .doc = "guaranteed: commands waiting for their acknowledgement"},
    {.name = "kick_list",
     .at = at<&TvlConfig::kick_list>,
     .range = {1, kMostOfAny},
     .set = LiveSetting::kKickList,
     .doc = "most commands that wait for their start"},
};
constexpr Schema kTvl{
    .comment =
        "TVLs one by one, instead of `tvls`. A key that a TVL does not set has the tenant's value.",
    .keys = kTvlKeys};

constexpr Key kLevelKeys[] = {
    {.name = "name",
     .at = at<&LevelConfig::name>,
     .text = kSafeName,
     .missing = kNameMissing,
     .sample = "\"alerts\""},
    {.name = "vcbs",
     .at = at<&LevelConfig::vcbs>,
     .range = {0, kMostOfAny},
     .set = LiveSetting::kVcbs,
     .sample = "512"},
    {.name = "pcbs",
     .at = at<&LevelConfig::pcbs>,
     .range = {0, kMostOfAny},
     .set = LiveSetting::kPcbs,
     .sample = "1024"},
    {.name = "tvls",
     .at = at<&LevelConfig::tvls>,
     .range = {0, kMostTvls},
     .apart = true,
     .hint = " (what tenant.tvls leaves)",
     .set = LiveSetting::kTvls,
     .doc = "weight, execution_credits, completion_credits and kick_list are for these",
     .sample = "2"},
    {.name = "shared", .at = at<&LevelConfig::shared>, .set = LiveSetting::kShared},
    {.name = "default",
     .at = at<&LevelConfig::is_default>,
     .doc = "if no level is the default, the first one is"},
    {.name = "dscp",
     .at = at<&LevelConfig::dscp>,
     .range = {0, 63},
     .doc = "DSCP of its packets; default: the tenant's",
     .sample = "46"},
    {.name = "priority",
     .at = at<&LevelConfig::priority>,
     .range = {0, 7},
     .doc = "802.1p; default: the tenant's",
     .sample = "5"},
    {.name = "kick",
     .at = at<&LevelConfig::kick>,
     .words = kKickWords,
     .doc = "default: the tenant's",
     .sample = "\"virtual\""},
    {.name = "rate",
     .at = at<&LevelConfig::rates, &RatesConfig::sent>,
     .table = schema_of<SentLimits>,
     .whole = true,
     .doc = "Limits on what its programs may send per second, as a tenant's. Minimums of levels "
            "are part of that of their tenant.",
     .shown = Shown::kOff,
     .sample = "{ bytes_per_second = 0, min_bytes_per_second = 0 }"},
    {.name = "inbound_rate",
     .at = at<&LevelConfig::rates, &RatesConfig::inbound>,
     .table = schema_of<InboundLimits>,
     .whole = true,
     .doc = "limits on what peers may send to its programs per second, as a tenant's",
     .shown = Shown::kOff,
     .sample = "{ bytes_per_second = 0 }"},
    {.name = "served_rate",
     .at = at<&LevelConfig::rates, &RatesConfig::served>,
     .table = schema_of<ServedLimits>,
     .whole = true,
     .doc = "limits on what peers may read from them per second, as a tenant's",
     .shown = Shown::kOff,
     .sample = "{ bytes_per_second = 0 }"},
    {.name = "users",
     .at = at<&LevelConfig::users>,
     .doc = "names are looked up when the daemon starts and at each reload",
     .sample = "[\"ops\"]"},
    {.name = "groups", .at = at<&LevelConfig::groups>, .sample = "[\"duty\"]"},
    {.name = "cgroups",
     .at = at<&LevelConfig::cgroups>,
     .text = kCgroupPath,
     .doc = "paths as in /proc/PID/cgroup, including those below them; the longest that matches "
            "decides",
     .sample = "[\"/batch.slice\"]"},
    {.name = "service_levels",
     .at = at<&LevelConfig::service_levels>,
     .range = {0, kMostServiceLevel},
     .lead = "Queue pairs of any program of the tenant belong to the level if their address vector "
             "has one of these service levels or traffic classes when they are connected. Traffic "
             "classes have precedence. Datagram queue pairs belong to their program's level.",
     .sample = "[5]"},
    {.name = "traffic_classes",
     .at = at<&LevelConfig::traffic_classes>,
     .range = {0, 255},
     .doc = "the two ECN bits do not count",
     .sample = "[104]"},
    {.name = "socket",
     .at = at<&LevelConfig::socket>,
     .table = schema_of<SocketConfig>,
     .whole = true,
     .sample = "{ mode = 0o600 }"},
};
constexpr Schema kLevel{
    .comment =
        "Levels, one by one. They share what they do not divide; with shared = false a level has "
        "its own part and no more. A program that connects to a level's own socket "
        "(<runtime_dir>/<tenant>/<level>.socket) belongs to that level. Otherwise it belongs to "
        "the level with a rule for its user or group, else to the one with a rule for its cgroup. "
        "Else it belongs to the level that it asks for (softhca-run --level, SOFTHCA_LEVEL; not "
        "one with a socket or rules), else to the default level. Levels take their TVLs from the "
        "tenant's in this order.",
    .keys = kLevelKeys};

/// Returns the keys of a table of rates. `first` is the allocation of the first key; those of the
/// others follow it.
constexpr std::array<Key, 4> rate_keys(LiveSetting first) {
  const auto at_place = [&](unsigned place) {
    return static_cast<LiveSetting>(static_cast<unsigned>(first) + place);
  };
  return {{{.name = "bytes_per_second",
            .at = at<&RateLimits::bytes_per_second>,
            .range = {0, kMostOfRate},
            .set = at_place(0),
            .unit = "bytes/s",
            .doc = "0: no limit"},
           {.name = "burst_bytes",
            .at = at<&RateLimits::burst_bytes>,
            .range = {1, kMostOfRate},
            .set = at_place(1),
            .unit = "bytes",
            .doc = "most at once after a pause"},
           {.name = "messages_per_second",
            .at = at<&RateLimits::messages_per_second>,
            .range = {0, kMostOfRate},
            .set = at_place(2),
            .unit = "messages/s",
            .doc = "0: no limit"},
           {.name = "burst_messages",
            .at = at<&RateLimits::burst_messages>,
            .range = {1, kMostOfRate},
            .set = at_place(3),
            .doc = "most at once after a pause"}}};
}
constexpr std::array<Key, 5> sent_keys() {
  std::array<Key, 5> keys{};
  std::ranges::copy(rate_keys(LiveSetting::kRateBytes), keys.begin());
  keys.back() = {.name = "min_bytes_per_second",
                 .at = at<&SentLimits::min_bytes_per_second>,
                 .range = {0, kMostOfRate},
                 .set = LiveSetting::kRateMinBytes,
                 .unit = "bytes/s",
                 .doc = "minimum rate, whatever others send; 0: by weight"};
  return keys;
}
constexpr std::array<Key, 5> kRateKeys = sent_keys();
constexpr std::array<Key, 4> kInboundKeys = rate_keys(LiveSetting::kInboundBytes);
constexpr std::array<Key, 4> kServedKeys = rate_keys(LiveSetting::kServedBytes);
constexpr Schema kRate{.comment = "Limits on what a tenant may send.", .keys = kRateKeys};
constexpr Schema kInbound{.comment = "Limits on what peers may send to a tenant.",
                          .keys = kInboundKeys};
constexpr Schema kServed{.comment = "Limits on what peers may read from a tenant.",
                         .keys = kServedKeys};

/// Returns the access for `limit`: one number for every importance.
constexpr Access every_importance() {
  Access access = at<&SrqPolicy::limits>;
  access.type = Type::kEveryImportance;
  access.greatest = std::numeric_limits<std::uint32_t>::max();
  access.amount = [](const void* value) {
    return std::uint64_t{static_cast<const Importances*>(value)->front()};
  };
  access.set = [](void* value, std::uint64_t amount) {
    static_cast<Importances*>(value)->fill(static_cast<std::uint32_t>(amount));
  };
  return access;
}

constexpr Key kSrqKeys[] = {
    {.name = "limit",
     .at = every_importance(),
     .range = {0, kMostSrqBuffers},
     .is_alias = true,
     .set = LiveSetting::kSrqLimit,
     .unit = "buffers",
     .doc = "of each queue pair; 0: no limit"},
    {.name = "limits",
     .at = at<&SrqPolicy::limits>,
     .range = {0, kMostSrqBuffers},
     .unit = "buffers",
     .doc = "of each queue pair, by its importance; instead of limit"},
    {.name = "kind",
     .at = at<&SrqPolicy::kind>,
     .words = kLimitKinds,
     .set = LiveSetting::kSrqKind,
     .doc = "exceeding the limit is reported (soft), or handled as on_exceed says (hard)"},
    {.name = "on_exceed",
     .at = at<&SrqPolicy::on_exceed>,
     .words = kOnExceeds,
     .set = LiveSetting::kSrqOnExceed,
     .doc = "what happens to a message beyond a hard limit"},
    {.name = "statistical",
     .at = at<&SrqPolicy::statistical>,
     .set = LiveSetting::kSrqStatistical,
     .doc = "limits follow use"},
    {.name = "overcommit",
     .at = at<&SrqPolicy::overcommit>,
     .factors = {1, 1000},
     .set = LiveSetting::kSrqOvercommit,
     .doc = "sum of limits / buffers of the queue"},
    {.name = "watermark",
     .at = at<&SrqPolicy::watermark>,
     .range = {0, kMostSrqBuffers},
     .set = LiveSetting::kSrqWatermark,
     .unit = "buffers",
     .doc = "buffers left when the alarm is raised; 0: never"},
};

void check_srq(Reader& reader, void* section) {
  const auto& config = *static_cast<const SrqPolicy*>(section);
  if (reader.find("limit") && reader.find("limits"))
    reader.complain("limits", "is given together with limit; give only one of them");
  if (config.statistical && std::all_of(config.limits.begin(), config.limits.end(),
                                        [](std::uint32_t l) { return l == 0; }))
    reader.complain("statistical", "needs a limit to begin with; give limit or limits");
}
constexpr Schema kSrq{.comment = "Limits on the buffers of shared receive queues.",
                      .keys = kSrqKeys,
                      .check = check_srq};

constexpr Key kSrqRuleKeys[] = {
    {.name = "peers",
     .at = at<&SrqRule::peers>,
     .doc = "addresses of the connection's peer; not given: any, and also datagrams",
     .sample = "[\"10.1.0.0/16\", \"fd00::7\"]"},
    {.name = "level",
     .at = at<&SrqRule::level>,
     .doc = "of the receiving program",
     .sample = "\"low\""},
    {.name = "queue",
     .at = at<&SrqRule::queue>,
     .range = {1, (1u << 24) - 1},
     .doc = "number of the shared receive queue (softhcactl srqs); not given: any",
     .sample = "3"},
    {.name = "limit",
     .at = at<&SrqRule::limit>,
     .range = {0, kMostSrqBuffers},
     .unit = "buffers",
     .doc = "0: no limit",
     .sample = "64"},
    {.name = "importance",
     .at = at<&SrqRule::importance>,
     .range = {0, kImportances - 1},
     .doc = "instead of the class selector of its path",
     .sample = "2"},
    {.name = "kind",
     .at = at<&SrqRule::kind>,
     .words = kLimitKinds,
     .doc = "of the limit",
     .sample = "\"hard\""},
    {.name = "on_exceed",
     .at = at<&SrqRule::on_exceed>,
     .words = kOnExceeds,
     .doc = "what happens to a message beyond a hard limit",
     .sample = "\"quarantine\""},
};
void check_srq_rule(Reader& reader, void* section) {
  const auto& rule = *static_cast<const SrqRule*>(section);
  if (!rule.limit && !rule.importance && !rule.kind && !rule.on_exceed)
    reader.complain("", "sets nothing; give limit, importance, kind or on_exceed");
  if (const Value* peers = reader.find("peers"); peers && peers->array() && peers->array()->empty())
    reader.complain("peers", "is empty; leave the key out to match any peer");
}
constexpr Schema kSrqRule{
    .comment =
        "Rules for queue pairs on shared receive queues: the first that matches overrides srq, for "
        "each value that it gives. The rules are applied when a queue pair is connected and after "
        "a reload. softhcactl qp set overrides them.",
    .keys = kSrqRuleKeys,
    .check = check_srq_rule};

}  // namespace

template <>
const Schema& schema_of<TenantConfig>() {
  return kTenant;
}
template <>
const Schema& schema_of<TvlConfig>() {
  return kTvl;
}
template <>
const Schema& schema_of<LevelConfig>() {
  return kLevel;
}
template <>
const Schema& schema_of<SentLimits>() {
  return kRate;
}
template <>
const Schema& schema_of<InboundLimits>() {
  return kInbound;
}
template <>
const Schema& schema_of<ServedLimits>() {
  return kServed;
}
template <>
const Schema& schema_of<SrqPolicy>() {
  return kSrq;
}
template <>
const Schema& schema_of<SrqRule>() {
  return kSrqRule;
}

}  // namespace softhca::configuration
