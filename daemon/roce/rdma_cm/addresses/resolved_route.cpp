// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/rdma_cm/addresses/resolved_route.hpp"

#include <arpa/inet.h>

namespace softhca::management::rdma_cm {

namespace {

/// Packet life time of a path, as a code: the value of Linux for RoCE.
constexpr std::uint8_t kPacketLifeTime = 18;

/// Returns a label that distinguishes connections between the same ends, for networks that spread
/// them over paths: the program's own label if set, else computed as in Linux.
std::uint32_t flow_label_of(const Identifier& id) {
  constexpr std::uint32_t kMask = 0xfffff;
  const std::uint32_t own = ntohl(id.local.flow_info) & kMask;
  return own != 0 ? own : (id.local.port * 31U + id.remote.port) & kMask;
}

}  // namespace

ResolvedRoute route_to(const Identifier& id, const TenantAdapter& adapter) {
  ResolvedRoute route{.mtu = adapter.path_mtu,
                      .rate = adapter.packet_rate,
                      .packet_life_time = kPacketLifeTime,
                      .flow_label = flow_label_of(id),
                      .traffic_class = id.options.traffic_class};
  // The acknowledge timeout is twice the life time, for both directions.
  if (id.options.ack_timeout.value_or(0) != 0)
    route.packet_life_time = static_cast<std::uint8_t>(*id.options.ack_timeout - 1);
  return route;
}

cm::Path path_of(const Identifier& id, const TenantAdapter& adapter) {
  const ResolvedRoute route = id.route ? *id.route : route_to(id, adapter);
  return {.local = *id.source,
          .remote = id.remote.address,
          .flow_label = route.flow_label,
          .traffic_class = route.traffic_class,
          .hop_limit = route.hop_limit};
}

}  // namespace softhca::management::rdma_cm
