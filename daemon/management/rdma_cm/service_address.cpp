// BIND_IP, RESOLVE_IP, RESOLVE_ROUTE: addresses and ports of identifiers.
#include <algorithm>
#include <cerrno>

#include "daemon/management/rdma_cm/service.hpp"

namespace softhca::management::rdma_cm {

namespace {

constexpr std::uint16_t kFirstUnprivilegedPort = 1024;
/// Linux's for RoCE: of a path, code.
constexpr std::uint8_t kPacketLifeTime = 18;
constexpr Duration kLongestResolve = std::chrono::hours(1);

}  // namespace

// --- the tenant's addresses

const LocalAddress* Service::own_address(const Gid& gid) const {
  for (const LocalAddress& own : environment_.addresses())
    if (own.gid == gid) return &own;
  return nullptr;
}

const LocalAddress* Service::loopback_address(const SocketAddress& address) const {
  const LocalAddress* found = nullptr;
  for (const LocalAddress& own : environment_.addresses()) {
    if (own.gid.is_ipv4() != address.address.is_ipv4()) continue;
    if (!own.gid.is_link_local()) return &own;
    if (found == nullptr) found = &own;
  }
  return found;
}

// --- BIND_IP

int Service::bind_ip(Channel& channel, Body body) {
  rdma_ucm_bind_ip command;
  if (!read_body(body, command)) return EINVAL;
  const std::optional<SocketAddress> address = from_sockaddr(command.addr);
  if (!address) return EINVAL;
  Identifier* id = nullptr;
  if (const int error = find(channel, command.id, id)) return error;
  return bind(*id, channel.owner, *address);
}

int Service::bind(Identifier& id, const ChannelOwner& owner, SocketAddress address) {
  if (id.state != IdentifierState::kIdle) return EINVAL;
  const bool loopback = address.is_loopback();
  std::optional<Gid> source;
  if (!address.is_any()) {
    const LocalAddress* const own =
        loopback ? loopback_address(address) : own_address(address.address);
    if (own == nullptr) return EADDRNOTAVAIL;
    source = address.address = own->gid;
  }
  id.local = address;
  if (const int error = take_port(id, owner)) {
    id.local = {};
    return error;
  }
  id.source = source;
  id.loopback_only = loopback;
  id.remote = any_address(address.family);
  id.state = IdentifierState::kBound;
  return 0;
}

PortTable::Claim Service::claim_of(const Identifier& id) {
  return {.at = id.local, .reuse = id.reuse_address, .af_only = id.keeps_to_family()};
}

void Service::claim_changed(const Identifier& id) {
  if (id.holds_port) ports_of(id.space).change(id.number.value, claim_of(id));
}

int Service::take_port(Identifier& id, const ChannelOwner& owner) {
  const PortTable::Claim claim = claim_of(id);
  PortTable& ports = ports_of(id.space);
  if (id.local.port == 0) {
    id.local.port = ports.bind_any(id.number.value, claim, environment_.random());
    if (id.local.port == 0) return EADDRNOTAVAIL;
  } else {
    if (id.local.port < kFirstUnprivilegedPort && !owner.may_bind_low_ports) return EACCES;
    if (const int error = ports.bind(id.number.value, claim)) return error;
  }
  id.holds_port = true;
  return 0;
}

// --- RESOLVE_IP

int Service::resolve_ip(Channel& channel, Body body) {
  rdma_ucm_resolve_ip command;
  if (!read_body(body, command)) return EINVAL;
  const std::optional<SocketAddress> from = from_sockaddr(command.src_addr);
  const std::optional<SocketAddress> to = from_sockaddr(command.dst_addr);
  if (!to || (!from && command.src_addr.sin6_family != AF_UNSPEC)) return EINVAL;
  Identifier* id = nullptr;
  if (const int error = find(channel, command.id, id)) return error;
  if (!takes_events(*id)) return ENOMEM;
  if (id->state == IdentifierState::kIdle) {
    SocketAddress source = from ? *from : any_address(to->family);
    if (!from) source.scope = to->scope;
    if (const int error = bind(*id, channel.owner, source)) return error;
  }
  if (id->state != IdentifierState::kBound || id->local.family != to->family) return EINVAL;

  id->remote = *to;
  if (const int error = choose_route(*id)) {
    id->remote = any_address(to->family);
    return error;
  }
  id->state = IdentifierState::kResolvingAddress;
  if (id->remote.address.is_multicast() || own_address(id->remote.address) != nullptr) {
    address_found(*id);
    return 0;
  }
  const auto wait = std::clamp<Duration>(std::chrono::milliseconds(command.timeout_ms),
                                         std::chrono::milliseconds(1), kLongestResolve);
  id->resolve_deadline = now_ + wait;
  resolving_.emplace(id->resolve_deadline, id->number);
  environment_.resolve(id->chosen_source, id->remote.address, ResolveCookie(id->cookie()));
  return 0;
}

int Service::choose_route(Identifier& id) {
  SocketAddress& to = id.remote;
  if (to.is_any() || to.is_loopback()) {
    const LocalAddress* own = loopback_address(to);
    if (id.source && id.source->is_ipv4() == to.address.is_ipv4()) own = own_address(*id.source);
    if (own == nullptr) return ENETUNREACH;
    to.address = own->gid;
  }
  if (!id.source && own_address(to.address) != nullptr) {
    id.chosen_source = to.address;
    return 0;
  }
  const std::optional<Gid> found = id.source ? id.source : environment_.source_for(to.address);
  if (!found || found->is_ipv4() != to.address.is_ipv4() || own_address(*found) == nullptr)
    return ENETUNREACH;
  id.chosen_source = *found;
  return 0;
}

void Service::resolved(ResolveCookie cookie, bool reachable) {
  Identifier* const id = identifiers_.find_cookie(cookie.value);
  if (id == nullptr || id->state != IdentifierState::kResolvingAddress) return;
  if (reachable)
    address_found(*id);
  else
    address_not_found(*id);
}

void Service::stop_resolving(Identifier& id) {
  resolving_.erase({id.resolve_deadline, id.number});
  id.resolve_deadline = kNever;
}

void Service::address_found(Identifier& id) {
  stop_resolving(id);
  id.source = id.local.address = id.chosen_source;
  claim_changed(id);
  id.state = IdentifierState::kAddressResolved;
  queue(id, EventType::kAddrResolved);
}

void Service::address_not_found(Identifier& id) {
  stop_resolving(id);
  id.state = IdentifierState::kBound;
  queue(id, EventType::kAddrError, -ETIMEDOUT);
}

// --- RESOLVE_ROUTE

int Service::resolve_route(Channel& channel, Body body) {
  rdma_ucm_resolve_route command;
  if (!read_body(body, command)) return EINVAL;
  Identifier* id = nullptr;
  if (const int error = find_bound(channel, command.id, id)) return error;
  if (id->state != IdentifierState::kAddressResolved) return EINVAL;
  id->route = route_to(*id);
  id->state = IdentifierState::kRouteResolved;
  queue(*id, EventType::kRouteResolved);
  return 0;
}

namespace {

/// Tells connections of the same ends apart, for networks that spread them over paths; the
/// program's own if it names one, else as Linux makes it.
std::uint32_t flow_label_of(const Identifier& id) {
  constexpr std::uint32_t kMask = 0xfffff;
  const std::uint32_t own = ntohl(id.local.flow_info) & kMask;
  return own != 0 ? own : (id.local.port * 31U + id.remote.port) & kMask;
}

}  // namespace

Route Service::route_to(const Identifier& id) const {
  const Adapter adapter = environment_.adapter();
  Route route{.mtu = adapter.path_mtu,
              .rate = adapter.packet_rate,
              .packet_life_time = kPacketLifeTime,
              .flow_label = flow_label_of(id),
              .traffic_class = id.traffic_class};
  // The acknowledge timeout is twice the life time, for the way there and back.
  if (id.ack_timeout.value_or(0) != 0)
    route.packet_life_time = static_cast<std::uint8_t>(*id.ack_timeout - 1);
  return route;
}

cm::Path Service::path_of(const Identifier& id) const {
  const Route route = id.route.value_or(route_to(id));
  return {.local = *id.source,
          .remote = id.remote.address,
          .flow_label = route.flow_label,
          .traffic_class = route.traffic_class,
          .hop_limit = route.hop_limit};
}

}  // namespace softhca::management::rdma_cm
