// SPDX-License-Identifier: Apache-2.0

// The keys of [pools], [doorbells] and [adjustment].
#include "daemon/configuration/schema/reader.hpp"
#include "daemon/configuration/schema/schema.hpp"

namespace softhca::configuration {
namespace {

constexpr Key kPoolsKeys[] = {
    {.name = "tenants",
     .at = at<&PoolsConfig::tenants>,
     .range = {1, 1024},
     .refusal = kTables,
     .doc = "capacity of the tables, including tenants that a reload adds"},
    {.name = "vcbs",
     .at = at<&PoolsConfig::vcbs>,
     .range = {0, kMostOfAny},
     .refusal = kTables,
     .doc = "virtual collect buffers"},
    {.name = "pcbs",
     .at = at<&PoolsConfig::pcbs>,
     .range = {1, kMostOfAny},
     .refusal = kTables,
     .doc = "physical collect buffers, including dedicated ones"},
    {.name = "dedicated_pcbs",
     .at = at<&PoolsConfig::dedicated_pcbs>,
     .range = {1, kMostOfAny},
     .doc = "of the PCBs, for doorbells that find no other PCB: one for each tenant or level, the "
            "rest in proportion to their guarantees"},
    {.name = "tvls",
     .at = at<&PoolsConfig::tvls>,
     .range = {1, 4096},
     .refusal = kTables,
     .doc = "transmit virtual lanes"},
    {.name = "execution_credits",
     .at = at<&PoolsConfig::execution_credits>,
     .range = {1, kMostOfAny},
     .refusal = kTables,
     .doc = "commands that may be gathered and sent at the same time"},
    {.name = "completion_credits",
     .at = at<&PoolsConfig::completion_credits>,
     .range = {1, kMostOfAny},
     .refusal = kTables,
     .doc = "commands that may wait for their acknowledgement at the same time"},
    // The default of the TVLs' kick_list. A reload shows a change at each TVL.
    {.name = "kick_list",
     .at = at<&PoolsConfig::kick_list>,
     .range = {1, kMostOfAny},
     .doc = "default length limit of a TVL's virtual kick list"},
    // The following keys without `refusal` are only counted, without tables. They can change while
    // the daemon runs.
    {.name = "sessions",
     .at = at<&PoolsConfig::sessions>,
     .range = {1, 65536},
     .doc = "opened device contexts; those beyond the value at the daemon's start have no VCBs",
     .lead =
         "Totals of what the tenants' programs take on demand, up to the limits of each tenant."},
    {.name = "queue_pairs",
     .at = at<&PoolsConfig::queue_pairs>,
     .range = {1, kMostOfAny},
     .refusal = kTables},
    {.name = "completion_queues",
     .at = at<&PoolsConfig::completion_queues>,
     .range = {1, kMostOfAny}},
    {.name = "shared_receive_queues",
     .at = at<&PoolsConfig::shared_receive_queues>,
     .range = {0, kMostOfAny}},
    {.name = "memory_regions",
     .at = at<&PoolsConfig::memory_regions>,
     .range = {1, 262144},
     .refusal = kTables,
     .doc = "at most 262144"},
    {.name = "memory_windows",
     .at = at<&PoolsConfig::memory_windows>,
     .range = {0, 65536},
     .refusal = kTables,
     .doc = "at most 65536"},
    {.name = "protection_domains",
     .at = at<&PoolsConfig::protection_domains>,
     .range = {1, kMostOfAny}},
    {.name = "address_handles", .at = at<&PoolsConfig::address_handles>, .range = {0, kMostOfAny}},
    {.name = "registered_bytes",
     .at = at<&PoolsConfig::registered_bytes>,
     .range = {.least = 1},
     .unit = "bytes",
     .doc = "memory regions",
     .lead = "Defaults of these three: the memory of the machine, the same, and a quarter of it.",
     .shown = Shown::kOff,
     .sample = "17179869184"},
    {.name = "shared_bytes",
     .at = at<&PoolsConfig::shared_bytes>,
     .unit = "bytes",
     .doc = "memory that programs share with the daemon in place, registered or idle",
     .shown = Shown::kOff,
     .sample = "17179869184"},
    {.name = "queue_bytes",
     .at = at<&PoolsConfig::queue_bytes>,
     .range = {.least = 1},
     .unit = "bytes",
     .doc = "rings of queues, accounts of shared receive queues, pieces of memory regions beyond "
            "the first, and state of the reads and atomics that a peer may have in flight",
     .shown = Shown::kOff,
     .sample = "4294967296"},
    {.name = "descriptors",
     .at = at<&PoolsConfig::descriptors>,
     .range = {.least = 1},
     .doc = "6 for a session, 1 for a completion channel, 2 for an rdma_cm event channel or a "
            "client of datagrams",
     .lead = "Descriptors and mappings of the daemon that sessions may take. A sixteenth of a "
             "tenant's mappings is not available for memory. The daemon gives up idle memory when "
             "the tenant needs its mapping. Default: the hard limit of open files and "
             "vm.max_map_count, less what the daemon needs for itself.",
     .shown = Shown::kOff,
     .sample = "65280"},
    {.name = "mappings",
     .at = at<&PoolsConfig::mappings>,
     .range = {.least = 1},
     .doc = "1 for each session, for each part (64 MiB at most) of a memory region that is shared "
            "in place, and for each few MiB of queues",
     .shown = Shown::kOff,
     .sample = "57338"},
    {.name = "min_bytes_per_second",
     .at = at<&PoolsConfig::min_bytes_per_second>,
     .range = {0, std::uint64_t{1} << 50},
     .unit = "bytes/s",
     .doc = "Greatest sum of the tenants' minimum rates. Set it to what the engine and the slowest "
            "link between tenants and their peers always carry: the daemon does not measure this. "
            "If the sum is more than they carry, each minimum is missed in proportion."},
};
constexpr Schema kPools{
    .comment = "Totals of the adapter. Tenants share the amounts that no tenant is guaranteed.",
    .keys = kPoolsKeys};

constexpr Key kDoorbellsKeys[] = {
    {.name = "entries",
     .at = at<&DoorbellConfig::entries>,
     .range = {1, kMostOfAny},
     .refusal = kTables,
     .doc = "most queue pairs with doorbells in the daemon"},
    {.name = "threshold",
     .at = at<&DoorbellConfig::threshold>,
     .most_key = "entries",
     .below = 1,
     .hint = " (below entries)",
     .doc = "entries kept free for new queue pairs"},
    {.name = "dedicated_threshold",
     .at = at<&DoorbellConfig::dedicated_threshold>,
     .range = {0, kMostOfAny},
     .doc = "A tenant's doorbells also leave the daemon when fewer of its dedicated PCBs than this "
            "are free, all that are in use wait for a peer, and no other PCB is available. 0: "
            "never."},
    {.name = "adaptive",
     .at = at<&DoorbellConfig::adaptive>,
     .doc = "true: the thresholds above are minimums. The daemon raises `threshold` to a quarter "
            "of the average number of entries in use. While PCBs are held n times as long as "
            "usual, it raises `dedicated_threshold` n-fold. Both are at most a half."},
    {.name = "prune",
     .at = at<&DoorbellConfig::prune>,
     .words = kPrunePolicies,
     .doc = "The queue pairs that lose their doorbells first: \"newest\", or \"most-overflow\": "
            "those pruned most often before."},
};

void check_doorbells(Reader& reader, void* section) {
  const auto& config = *static_cast<const DoorbellConfig*>(section);
  if (!reader.find("threshold") && config.threshold >= config.entries)
    reader.complain("threshold", "is " + std::to_string(config.threshold) +
                                     " where not given; it must be below entries");
}
constexpr Schema kDoorbells{
    .comment =
        "The daemon itself keeps doorbells of at most `entries` queue pairs. The others wait in "
        "their programs' memory, at the cost of those programs only. Each tenant and each QoS "
        "level with doorbells has an equal share of the entries, and at least one.",
    .keys = kDoorbellsKeys,
    .check = check_doorbells};

constexpr Key kAdjustmentKeys[] = {
    {.name = "automatic", .at = at<&AdjustmentConfig::automatic>},
    // Use is sampled once a second, and the time is divided into four parts.
    {.name = "idle_s",
     .at = at<&AdjustmentConfig::idle>,
     .range = {4, 86'400},
     .unit = "s",
     .doc = "time without use before it is lent, 4 to 86400"},
};
constexpr Schema kAdjustment{
    .comment =
        "Automatic adjustment: PCBs and credits that a tenant is guaranteed and has not used for "
        "idle_s seconds are lent to the shared amounts. The tenant keeps the most it had in use in "
        "that time, and a tenth of the guarantee besides. Guarantees of a tenant or QoS level "
        "without programs are lent at once. A tenant that asks for them gets the free ones at "
        "once, and the first that borrowers give back. A borrower with commands that wait for "
        "their peer keeps what these hold until they end.",
    .keys = kAdjustmentKeys};

}  // namespace

template <>
const Schema& schema_of<PoolsConfig>() {
  return kPools;
}
template <>
const Schema& schema_of<DoorbellConfig>() {
  return kDoorbells;
}
template <>
const Schema& schema_of<AdjustmentConfig>() {
  return kAdjustment;
}

}  // namespace softhca::configuration
