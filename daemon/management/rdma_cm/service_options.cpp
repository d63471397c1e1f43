// SET_OPTION.
#include <cerrno>

#include "daemon/base/endian.hpp"
#include "daemon/management/rdma_cm/service.hpp"

namespace softhca::management::rdma_cm {

namespace {

constexpr std::uint8_t kLongestAckTimeout = 31;

/// False when the value is not of T's size.
template <class T>
bool read_value(std::span<const std::byte> value, T& to) {
  if (value.size() != sizeof to) return false;
  std::memcpy(&to, value.data(), sizeof to);
  return true;
}

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

int Service::set_option(Channel& channel, Body body) {
  rdma_ucm_set_option command;
  if (!read_body(body, command)) return EINVAL;
  if (body.size() - sizeof command < command.optlen) return EINVAL;
  const Body value = body.subspan(sizeof command, command.optlen);
  Identifier* id = nullptr;
  if (const int error = find(channel, command.id, id)) return error;
  if (command.level == RDMA_OPTION_ID) return set_id_option(*id, command.optname, value);
  if (command.level == RDMA_OPTION_IB && command.optname == RDMA_OPTION_IB_PATH)
    return set_ib_path(*id, value);
  return ENOSYS;
}

int Service::set_id_option(Identifier& id, std::uint32_t name, Body value) {
  std::uint8_t byte = 0;
  std::int32_t flag = 0;
  switch (name) {
    case RDMA_OPTION_ID_TOS:
      if (!read_value(value, byte)) return EINVAL;
      id.traffic_class = byte;
      return 0;
    case RDMA_OPTION_ID_REUSEADDR:
      if (!read_value(value, flag)) return EINVAL;
      if (id.state != IdentifierState::kIdle && (flag == 0 || id.state == IdentifierState::kListen))
        return EINVAL;
      id.reuse_address = flag != 0;
      claim_changed(id);
      return 0;
    case RDMA_OPTION_ID_AFONLY:
      if (!read_value(value, flag)) return EINVAL;
      if (id.state != IdentifierState::kIdle && id.state != IdentifierState::kBound) return EINVAL;
      id.af_only = flag != 0;
      claim_changed(id);
      return 0;
    case RDMA_OPTION_ID_ACK_TIMEOUT:
      if (!read_value(value, byte)) return EINVAL;
      if (id.is_datagram() || byte > kLongestAckTimeout) return EINVAL;
      id.ack_timeout = byte;
      return 0;
    default:
      return ENOSYS;
  }
}

/// Of the records, the first one for both directions counts. Its addresses must be those that were
/// resolved: a program does not choose whose packets it sends.
int Service::set_ib_path(Identifier& id, Body value) {
  constexpr std::uint32_t kWanted = IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL;
  if (value.size() % sizeof(ib_path_rec_data) != 0) return EINVAL;
  for (; !value.empty(); value = value.subspan(sizeof(ib_path_rec_data))) {
    ib_path_rec_data record;
    std::memcpy(&record, value.data(), sizeof record);
    if (record.flags != kWanted) continue;
    if (!id.source || id.state != IdentifierState::kAddressResolved) return EINVAL;
    std::array<std::byte, PackedPath::kBytes> path;
    static_assert(sizeof path == sizeof record.path_rec);
    std::memcpy(path.data(), record.path_rec, sizeof path);
    const auto byte = [&](std::size_t at) { return std::to_integer<std::uint8_t>(path[at]); };
    if (load_gid(&path[PackedPath::kDestination]) != id.remote.address ||
        load_gid(&path[PackedPath::kSource]) != *id.source)
      return EINVAL;
    const Route own = route_to(id);
    const std::uint8_t mtu = byte(PackedPath::kMtu) & 0x3f;
    if (mtu == 0 || mtu > own.mtu) return EINVAL;
    const auto flow_and_hops = load_be<std::uint32_t>(&path[PackedPath::kFlowAndHops]);
    const auto hops = flow_and_hops & 0xff;
    id.route =
        Route{.mtu = mtu,
              .rate = static_cast<std::uint8_t>(byte(PackedPath::kRate) & 0x3f),
              .packet_life_time = static_cast<std::uint8_t>(byte(PackedPath::kLifeTime) & 0x1f),
              .flow_label = flow_and_hops >> 8 & 0xfffff,
              .traffic_class = byte(PackedPath::kTrafficClass),
              .hop_limit = hops != 0 ? static_cast<std::uint8_t>(hops) : own.hop_limit,
              .sl = static_cast<std::uint8_t>(byte(PackedPath::kQosAndSl + 1) & 0xf)};
    id.state = IdentifierState::kRouteResolved;
    queue(id, EventType::kRouteResolved);
    return 0;
  }
  return EINVAL;
}

}  // namespace softhca::management::rdma_cm
