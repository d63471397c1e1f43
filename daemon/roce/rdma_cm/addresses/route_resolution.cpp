// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/rdma_cm/addresses/route_resolution.hpp"

#include <arpa/inet.h>

#include <array>
#include <cerrno>

#include "daemon/base/address_text.hpp"
#include "daemon/base/endian.hpp"
#include "daemon/roce/rdma_cm/addresses/resolved_route.hpp"

namespace softhca::management::rdma_cm {

namespace {

constexpr std::uint16_t kPkey = 0xffff;
constexpr std::uint32_t kNoDeviceIndex = 0xffffffff;
constexpr std::uint8_t kExactly = 2;  // selector in a path record

/// The subnet administrator's path record (15.2.5.16), as rdma_set_option() takes it.
struct PackedPath {
  static constexpr std::size_t kBytes = 64;
  static constexpr std::size_t kDestination = 8;
  static constexpr std::size_t kSource = 24;
  static constexpr std::size_t kFlowAndHops = 44;
  static constexpr std::size_t kTrafficClass = 48;
  static constexpr std::size_t kQosAndSl = 52;
  static constexpr std::size_t kMtu = 54;
  static constexpr std::size_t kRate = 55;
  static constexpr std::size_t kLifeTime = 56;
};

Gid load_gid(const std::byte* from) {
  Gid gid;
  std::memcpy(gid.bytes.data(), from, gid.bytes.size());
  return gid;
}

}  // namespace

int RouteResolution::resolve_route(const ChannelCommand& command) {
  rdma_ucm_resolve_route body;
  if (const int error = command.read(body)) return error;
  Identifier* id = nullptr;
  if (const int error = identifiers_.find_of(command, body.id, id)) return error;
  if (const int error = command.check_state(*id, {IdentifierState::kAddressResolved})) return error;
  resolved(*id, route_to(*id, environment_.adapter(id->source)));
  return 0;
}

void RouteResolution::resolved(Identifier& id, const ResolvedRoute& route) {
  id.route = route;
  id.state = IdentifierState::kRouteResolved;
  events_.queue(id, EventType::kRouteResolved);
}

/// Takes the first record for both directions. Its addresses must be the resolved ones: a program
/// may not choose another source address.
int RouteResolution::set_path(const ChannelCommand& command, Identifier& id, Body records) {
  constexpr std::uint32_t kWanted = IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL;
  if (records.size() % sizeof(ib_path_rec_data) != 0)
    return command.refuse(EINVAL, "optlen %zu, must be a multiple of %zu", records.size(),
                          sizeof(ib_path_rec_data));
  for (; !records.empty(); records = records.subspan(sizeof(ib_path_rec_data))) {
    ib_path_rec_data record;
    std::memcpy(&record, records.data(), sizeof record);
    if (record.flags != kWanted) continue;
    if (const int error = command.check_state(id, {IdentifierState::kAddressResolved}))
      return error;
    std::array<std::byte, PackedPath::kBytes> path;
    static_assert(sizeof path == sizeof record.path_rec);
    std::memcpy(path.data(), record.path_rec, sizeof path);
    const auto byte = [&](std::size_t at) { return std::to_integer<std::uint8_t>(path[at]); };
    if (load_gid(&path[PackedPath::kDestination]) != id.remote.address ||
        load_gid(&path[PackedPath::kSource]) != *id.source)
      return command.refuse(EINVAL, "the path is not between %s and %s",
                            address_text(*id.source).c_str(),
                            address_text(id.remote.address).c_str());
    const ResolvedRoute own = route_to(id, environment_.adapter(id.source));
    const std::uint8_t mtu = byte(PackedPath::kMtu) & 0x3f;
    if (mtu == 0 || mtu > own.mtu)
      return command.refuse(EINVAL, "mtu %u of the path, must be 1 to %u (an enum ibv_mtu)", mtu,
                            own.mtu);
    const auto flow_and_hops = load_be<std::uint32_t>(&path[PackedPath::kFlowAndHops]);
    const auto hops = flow_and_hops & 0xff;
    resolved(id, {.mtu = mtu,
                  .rate = static_cast<std::uint8_t>(byte(PackedPath::kRate) & 0x3f),
                  .packet_life_time = static_cast<std::uint8_t>(byte(PackedPath::kLifeTime) & 0x1f),
                  .flow_label = flow_and_hops >> 8 & 0xfffff,
                  .traffic_class = byte(PackedPath::kTrafficClass),
                  .hop_limit = hops != 0 ? static_cast<std::uint8_t>(hops) : own.hop_limit,
                  .sl = static_cast<std::uint8_t>(byte(PackedPath::kQosAndSl + 1) & 0xf)});
    return 0;
  }
  return command.refuse(EINVAL, "no path record has exactly the flags 0x%x", kWanted);
}

int RouteResolution::query_route(const ChannelCommand& command) {
  rdma_ucm_query body;
  if (const int error = command.read(body)) return error;
  Identifier* id = nullptr;
  if (const int error = identifiers_.find_of(command, body.id, id)) return error;

  rdma_ucm_query_route_resp response{};
  response.src_addr = to_sockaddr(id->local);
  response.dst_addr = to_sockaddr(id->remote);
  if (id->source) {
    const TenantAdapter adapter = environment_.adapter(id->source);
    response.node_guid = htobe64(adapter.node_guid);
    response.port_num = adapter.port;
    response.ibdev_index = kNoDeviceIndex;  // librdmacm finds it by its GUID
    ib_user_path_rec& path = response.ib_route[0];
    copy_gid(*id->source, path.sgid);
    copy_gid(id->remote.address, path.dgid);
    path.pkey = htons(kPkey);
    if (id->route) {
      response.num_paths = 1;
      path.reversible = 1;
      path.mtu_selector = path.rate_selector = path.packet_life_time_selector = kExactly;
      path.mtu = id->route->mtu;
      path.rate = id->route->rate;
      path.packet_life_time = id->route->packet_life_time;
      path.flow_label = htonl(id->route->flow_label);
      path.traffic_class = id->route->traffic_class;
      path.hop_limit = id->route->hop_limit;
      path.sl = id->route->sl;
    }
  }
  command.reply.write(response);
  return 0;
}

}  // namespace softhca::management::rdma_cm
