// The keys of [pools], [doorbells] and [adjustment].
#include "daemon/resource/reader.hpp"
#include "daemon/resource/schema.hpp"

namespace softhca::resource {
namespace {

constexpr Key kPoolsKeys[] = {
    {.name = "tenants",
     .at = at<&PoolsConfig::tenants>,
     .range = {1, 1024},
     .refusal = kTables,
     .doc = "room for them in the tables, also for those that a reload adds"},
    {.name = "vcbs",
     .at = at<&PoolsConfig::vcbs>,
     .range = {0, kMostOfAny},
     .refusal = kTables,
     .doc = "virtual collect buffers"},
    {.name = "pcbs",
     .at = at<&PoolsConfig::pcbs>,
     .range = {1, kMostOfAny},
     .refusal = kTables,
     .doc = "physical collect buffers, dedicated ones included"},
    {.name = "dedicated_pcbs",
     .at = at<&PoolsConfig::dedicated_pcbs>,
     .range = {1, kMostOfAny},
     .doc = "of them, for doorbells of those who find no other: one for each tenant or level, the "
            "rest by what it is guaranteed"},
    {.name = "tvls",
     .at = at<&PoolsConfig::tvls>,
     .range = {1, 4096},
     .refusal = kTables,
     .doc = "transmit virtual lanes"},
    {.name = "execution_credits",
     .at = at<&PoolsConfig::execution_credits>,
     .range = {1, kMostOfAny},
     .refusal = kTables,
     .doc = "commands being gathered and sent at once"},
    {.name = "completion_credits",
     .at = at<&PoolsConfig::completion_credits>,
     .range = {1, kMostOfAny},
     .refusal = kTables,
     .doc = "commands waiting for their acknowledgement at once"},
    // The default of TVLs' own kick_list, which shows as a difference of its own there.
    {.name = "kick_list",
     .at = at<&PoolsConfig::kick_list>,
     .range = {1, kMostOfAny},
     .doc = "longest virtual kick list of a TVL that does not say otherwise"},
    // Those of the following that are only counted, without tables laid out for them, can change.
    {.name = "sessions",
     .at = at<&PoolsConfig::sessions>,
     .range = {1, 65536},
     .doc = "opened device contexts; those beyond the number at the daemon's start have no VCBs",
     .lead = "Totals of what the tenants' programs take as they ask for it, up to limits of the "
             "tenant."},
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
     .doc = "of memory regions",
     .lead = "Default of the three: as much memory as the machine has; the same; a quarter of it.",
     .shown = Shown::kOff,
     .sample = "17179869184"},
    {.name = "shared_bytes",
     .at = at<&PoolsConfig::shared_bytes>,
     .unit = "bytes",
     .doc = "of memory that programs share with the daemon in place, registered or idle",
     .shown = Shown::kOff,
     .sample = "17179869184"},
    {.name = "queue_bytes",
     .at = at<&PoolsConfig::queue_bytes>,
     .range = {.least = 1},
     .unit = "bytes",
     .doc = "of the rings of queues, of accounts of shared receive queues, of the pieces of memory "
            "regions beyond the first, and of the reads and atomics that a peer may have in flight",
     .shown = Shown::kOff,
     .sample = "4294967296"},
    {.name = "descriptors",
     .at = at<&PoolsConfig::descriptors>,
     .range = {.least = 1},
     .doc = "6 for a session, 1 for a completion channel, 2 for an event channel of rdma_cm or a "
            "client of datagrams",
     .lead = "Descriptors and mappings of the daemon that sessions may take. A sixteenth of a "
             "tenant's mappings is kept from memory, and memory that is idle is given up when the "
             "tenant lacks its mapping. Default: what the hard limit of open files and "
             "vm.max_map_count allow, less what the daemon needs for itself.",
     .shown = Shown::kOff,
     .sample = "65280"},
    {.name = "mappings",
     .at = at<&PoolsConfig::mappings>,
     .range = {.least = 1},
     .doc = "1 for each session, for each part of a memory region that is shared in place, 64 MiB "
            "of it at most, and for each few MiB of queues",
     .shown = Shown::kOff,
     .sample = "57338"},
    {.name = "min_bytes_per_second",
     .at = at<&PoolsConfig::min_bytes_per_second>,
     .range = {0, std::uint64_t{1} << 50},
     .unit = "bytes/s",
     .doc = "The most that minimum rates of tenants may add up to: what the engine and the slowest "
            "link between tenants and their peers carry for sure. Nobody measures that; what is "
            "promised beyond it comes short in proportion."},
};
constexpr Schema kPools{
    .comment = "Totals of the adapter. What no tenant is guaranteed is shared among the tenants.",
    .keys = kPoolsKeys};

constexpr Key kDoorbellsKeys[] = {
    {.name = "entries",
     .at = at<&DoorbellConfig::entries>,
     .range = {1, kMostOfAny},
     .refusal = kTables,
     .doc = "queue pairs with doorbells in the daemon"},
    {.name = "threshold",
     .at = at<&DoorbellConfig::threshold>,
     .most_key = "entries",
     .below = 1,
     .hint = " (below entries)",
     .doc = "of these, kept free for new queue pairs"},
    {.name = "dedicated_threshold",
     .at = at<&DoorbellConfig::dedicated_threshold>,
     .range = {0, kMostOfAny},
     .doc = "With fewer dedicated PCBs of a tenant free, all others waiting for a peer, and no "
            "other PCB to be had, its doorbells leave the daemon too. 0: never."},
    {.name = "adaptive",
     .at = at<&DoorbellConfig::adaptive>,
     .doc = "With adaptive = true the thresholds above are minimums; those in force follow the "
            "load: a quarter of the places in use on the average, and as many times more PCBs as "
            "these are held longer "
            "than usual."},
    {.name = "prune",
     .at = at<&DoorbellConfig::prune>,
     .words = kPrunePolicies,
     .doc = "Whose doorbells go first: \"newest\", or \"most-overflow\": those pruned most often "
            "before."},
};

void check_doorbells(Reader& reader, void* section) {
  const auto& config = *static_cast<const DoorbellConfig*>(section);
  if (!reader.find("threshold") && config.threshold >= config.entries)
    reader.complain("threshold", "is " + std::to_string(config.threshold) +
                                     " where not given; it must be below entries");
}
constexpr Schema kDoorbells{
    .comment =
        "The daemon itself keeps doorbells of at most `entries` queue pairs; the rest wait in "
        "their programs' memory, at those programs' cost only. Each tenant, and each QoS level, "
        "that has doorbells has an equal share of the places, and one however few there are.",
    .keys = kDoorbellsKeys,
    .check = check_doorbells};

constexpr Key kAdjustmentKeys[] = {
    {.name = "automatic", .at = at<&AdjustmentConfig::automatic>},
    // Use is looked at once a second, in four parts of the time.
    {.name = "idle_s",
     .at = at<&AdjustmentConfig::idle>,
     .range = {4, 86'400},
     .unit = "s",
     .doc = "not in use for this long, 4 to 86400"},
    {.name = "keep",
     .at = at<&AdjustmentConfig::keep>,
     .factors = {0, 1},
     .doc = "this part of a guarantee, 0 to 1, is not lent"},
};
constexpr Schema kAdjustment{
    .comment =
        "Automatic adjustment: PCBs and credits that a tenant is guaranteed and has not used for "
        "idle_s seconds are lent to what is shared, except for `keep` of the guarantee beyond the "
        "most it had in use in that time; those of a tenant or QoS level without programs at once. "
        "When it asks for them it has what is free at once, and the first that borrowers give "
        "back. A borrower whose commands wait for their peer keeps what they hold until they end.",
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

}  // namespace softhca::resource
