// The keys of [general_services] and [shared_datagrams] (the same), and of [connections].
#include "daemon/resource/reader.hpp"
#include "daemon/resource/schema.hpp"

namespace softhca::resource {
namespace {

using G = GeneralServicesConfig;

constexpr std::uint64_t kMostDatagrams = 100'000'000;   ///< datagrams a second
constexpr std::uint64_t kLongestInterval = 86'400'000;  ///< milliseconds
constexpr Factors kPart{0.01, 1};

constexpr Key kServicesKeys[] = {
    {.name = "buffers",
     .at = at<&G::buffers>,
     .range = {1, kMaxGeneralServicesBuffers},
     .doc = "at most posted and in use together"},
    {.name = "buffers_per_client",
     .at = at<&G::buffers_per_client>,
     .range = {.least = 1},
     .most_key = "buffers",
     .hint = " (buffers)",
     .doc = "the share of a client that names no number of its own"},
    {.name = "low_threshold",
     .at = at<&G::low_threshold>,
     .range = {0, kMaxGeneralServicesBuffers},
     .lead = "Buffers that wait for datagrams: below the low threshold more are posted, above the "
             "high one these are removed. Default: a quarter of what the clients asked for, and "
             "all of it.",
     .shown = Shown::kOff,
     .sample = "8"},
    {.name = "high_threshold",
     .at = at<&G::high_threshold>,
     .range = {0, kMaxGeneralServicesBuffers},
     .least_key = "low_threshold",
     .hint = " (low_threshold)",
     .shown = Shown::kOff,
     .sample = "32"},
    {.name = "source_part",
     .at = at<&G::source_part>,
     .factors = kPart,
     .doc = "of a client's share, for one host",
     .lead = "What one host may do to one client: hold this part of the share while others send, "
             "and send so many datagrams a second (0: no limit), so many at once."},
    {.name = "source_rate",
     .at = at<&G::source_rate>,
     .range = {0, kMostDatagrams},
     .unit = "datagrams/s"},
    {.name = "source_burst", .at = at<&G::source_burst>, .range = {1, kMostDatagrams}},
    {.name = "new_sources_part",
     .at = at<&G::new_sources_part>,
     .factors = kPart,
     .lead = "The same for all new hosts together, since addresses are easily made up. A host that "
             "still sends after its probation is known, and keeps its place at least until it has "
             "been silent for forget_after_ms."},
    {.name = "new_sources_rate",
     .at = at<&G::new_sources_rate>,
     .range = {0, kMostDatagrams},
     .unit = "datagrams/s"},
    {.name = "new_sources_burst", .at = at<&G::new_sources_burst>, .range = {1, kMostDatagrams}},
    {.name = "probation_ms",
     .at = at<&G::probation_ms>,
     .range = {0, kLongestInterval},
     .unit = "ms"},
    {.name = "forget_after_ms",
     .at = at<&G::forget_after_ms>,
     .range = {0, kLongestInterval},
     .unit = "ms"},
    {.name = "window_ms",
     .at = at<&G::window_ms>,
     .range = {10, kLongestInterval},
     .unit = "ms",
     .lead = "A client whose share was too small in raise_after (0: never, up to 8) of the last 8 "
             "windows has it raised, to raise_most times what it asked for at most, and is told; "
             "when half of it would have done for lower_after windows in a row it is lowered "
             "again."},
    {.name = "raise_after", .at = at<&G::raise_after>, .range = {0, 8}},
    {.name = "lower_after", .at = at<&G::lower_after>, .range = {1, kLongestInterval}},
    {.name = "raise_most", .at = at<&G::raise_most>, .range = {1, kMaxGeneralServicesBuffers}},
    {.name = "engine_share",
     .at = at<&G::engine_share>,
     .factors = kPart,
     .doc = "of the engine's time, at most, when tenants want it"},
    {.name = "tenant_clients",
     .at = at<&G::tenant_clients>,
     .range = {0, kMostPrograms},
     .lead = "Programs may be clients, too (docs/datagrams.md). Limits for all programs of one "
             "tenant together: clients, buffers asked for, requests (datagrams to send among "
             "them) a second (0: no limit), and burst."},
    {.name = "tenant_buffers",
     .at = at<&G::tenant_buffers>,
     .range = {0, kMaxGeneralServicesBuffers}},
    {.name = "send_rate",
     .at = at<&G::send_rate>,
     .range = {0, kMostDatagrams},
     .unit = "requests/s"},
    {.name = "send_burst", .at = at<&G::send_burst>, .range = {1, kMostDatagrams}},
};

void check_services(Reader& reader, void* section) {
  const auto& config = *static_cast<const GeneralServicesConfig*>(section);
  if (config.buffers_per_client > config.buffers)
    reader.complain("buffers", "must be at least buffers_per_client, " +
                                   std::to_string(config.buffers_per_client));
}
constexpr Schema kServices{
    .comment =
        "Queue pair 1: management datagrams (of 256 bytes, from anyone) and the buffers they are "
        "received into. Each client, like the connection manager and the performance agent, has a "
        "share of the buffers that nobody else can take; the spare ones are lent, never all to "
        "one. What is over is discarded before it is copied. A reload changes all of it while "
        "programs run.",
    .keys = kServicesKeys,
    .check = check_services};

using C = ConnectionsConfig;

constexpr Key kConnectionsKeys[] = {
    // librdmacm cannot look more identifiers up.
    {.name = "identifiers",
     .at = at<&C::identifiers>,
     .range = {0, 65536},
     .set = Allocation::kConnectionsIdentifiers,
     .doc = "rdma_cm_id, requests that wait in a backlog included; at most 65536"},
    {.name = "listeners",
     .at = at<&C::listeners>,
     .range = {0, 65536},
     .set = Allocation::kConnectionsListeners},
    {.name = "backlog",
     .at = at<&C::backlog>,
     .range = {1, 65536},
     .set = Allocation::kConnectionsBacklog,
     .doc = "of one listener, at most"},
    {.name = "most",
     .at = at<&C::most>,
     .range = {0, kMostOfAny},
     .set = Allocation::kConnectionsMost,
     .doc = "connections, with those that begin and those in time wait"},
    {.name = "half_open",
     .at = at<&C::half_open>,
     .range = {0, kMostOfAny},
     .set = Allocation::kConnectionsHalfOpen,
     .doc = "of these: asked for by a peer, and not established"},
    {.name = "connects_per_second",
     .at = at<&C::connects_per_second>,
     .range = {0, 1'000'000},
     .set = Allocation::kConnectionsPerSecond,
     .doc = "by its programs and its peers; 0: no limit"},
    {.name = "pcbs_each",
     .at = at<&C::pcbs_each>,
     .range = {0, kMostOfAny},
     .set = Allocation::kConnectionsPcbsEach,
     .lead = "Admission: each connection takes so many of the PCBs and completion credits that are "
             "guaranteed to the level of its program, or that no level has; one that they do not "
             "carry is refused. 0: not asked for. There are never more than the tenant's limit of "
             "queue pairs."},
    {.name = "completion_credits_each",
     .at = at<&C::completion_credits_each>,
     .range = {0, kMostOfAny},
     .set = Allocation::kConnectionsCompletionCreditsEach},
};
constexpr Schema kConnections{
    .comment =
        "Connections by rdma_cm: what holds for a tenant that does not say otherwise "
        "(`connections`). A reload or softhcactl set changes all of it while programs run; "
        "what exists stays, even above a new limit.",
    .keys = kConnectionsKeys};

}  // namespace

template <>
const Schema& schema_of<GeneralServicesConfig>() {
  return kServices;
}
template <>
const Schema& schema_of<ConnectionsConfig>() {
  return kConnections;
}

}  // namespace softhca::resource
