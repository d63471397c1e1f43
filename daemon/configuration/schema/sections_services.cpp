// SPDX-License-Identifier: Apache-2.0

// The keys of [general_services] and [shared_datagrams] (the same), and of [connections].
#include "daemon/configuration/schema/reader.hpp"
#include "daemon/configuration/schema/schema.hpp"

namespace softhca::configuration {
namespace {

using G = GeneralServicesConfig;

constexpr Factors kPart{0.01, 1};

constexpr Key kServicesKeys[] = {
    {.name = "buffers",
     .at = at<&G::buffers>,
     .range = {1, kMaxGeneralServicesBuffers},
     .doc = "most buffers, posted and in use together"},
    {.name = "buffers_per_client",
     .at = at<&G::buffers_per_client>,
     .range = {.least = 1},
     .most_key = "buffers",
     .hint = " (buffers)",
     .doc = "share of a client that requests no number"},
    {.name = "low_threshold",
     .at = at<&G::low_threshold>,
     .range = {0, kMaxGeneralServicesBuffers},
     .lead = "Buffers that wait for datagrams. Below low_threshold more are posted; above "
             "high_threshold the excess is removed. Defaults: a quarter of what the clients asked "
             "for, and all of it.",
     .shown = Shown::kOff,
     .sample = "8"},
    {.name = "high_threshold",
     .at = at<&G::high_threshold>,
     .range = {0, kMaxGeneralServicesBuffers},
     .least_key = "low_threshold",
     .hint = " (low_threshold)",
     .shown = Shown::kOff,
     .sample = "32"},
    {.name = "engine_share",
     .at = at<&G::engine_share>,
     .factors = kPart,
     .doc = "largest part of the engine's time while tenants have work"},
};

void check_services(Reader& reader, void* section) {
  const auto& config = *static_cast<const GeneralServicesConfig*>(section);
  if (config.buffers_per_client > config.buffers)
    reader.complain("buffers", "must be at least buffers_per_client, " +
                                   std::to_string(config.buffers_per_client));
}
constexpr Schema kServices{
    .comment =
        "Queue pair 1: management datagrams (of 256 bytes, from any host) and the buffers that "
        "receive them. Each client, like the connection manager and the performance agent, has a "
        "share of the buffers that no other client can take. The spare buffers are lent, but never "
        "all to one client. Excess datagrams are discarded before they are copied. A reload "
        "changes all of it while programs run.",
    .keys = kServicesKeys,
    .check = check_services};

using C = ConnectionsConfig;

constexpr Key kConnectionsKeys[] = {
    // librdmacm cannot look up more identifiers.
    {.name = "identifiers",
     .at = at<&C::identifiers>,
     .range = {0, 65536},
     .set = LiveSetting::kConnectionsIdentifiers,
     .doc = "rdma_cm_id, including requests that wait in a backlog; at most 65536"},
    {.name = "listeners",
     .at = at<&C::listeners>,
     .range = {0, 65536},
     .set = LiveSetting::kConnectionsListeners},
    {.name = "most",
     .at = at<&C::most>,
     .range = {0, kMostOfAny},
     .set = LiveSetting::kConnectionsMost,
     .doc = "connections, including those being set up and those in TIME-WAIT"},
    {.name = "half_open",
     .at = at<&C::half_open>,
     .range = {0, kMostOfAny},
     .set = LiveSetting::kConnectionsHalfOpen,
     .doc = "of these: requested by a peer, not established; also of one listener"},
    {.name = "connects_per_second",
     .at = at<&C::connects_per_second>,
     .range = {0, 1'000'000},
     .set = LiveSetting::kConnectionsPerSecond,
     .doc = "new connections by its programs and its peers; 0: no limit"},
    {.name = "pcbs_each",
     .at = at<&C::pcbs_each>,
     .range = {0, kMostOfAny},
     .set = LiveSetting::kConnectionsPcbsEach,
     .lead = "Admission: each connection takes this many PCBs, and as many completion credits, of "
             "those that are guaranteed to the level of its program or belong to no level. A "
             "connection is refused if they do not suffice. 0: it takes none. There are never more "
             "connections than the tenant's limit of queue pairs."},
};
constexpr Schema kConnections{
    .comment =
        "Connections by rdma_cm: the defaults of the tenants' `connections`. A reload or "
        "softhcactl set changes all of it while programs run. Existing connections stay, even "
        "above a new limit.",
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

}  // namespace softhca::configuration
