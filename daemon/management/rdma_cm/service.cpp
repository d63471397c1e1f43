#include "daemon/management/rdma_cm/service.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace softhca::management::rdma_cm {

namespace {

constexpr std::uint32_t kMostIdentifiers = 65536;

Limits checked(Limits limits) {
  limits.identifiers = std::min(limits.identifiers, kMostIdentifiers);
  limits.backlog = std::max(limits.backlog, 1u);
  return limits;
}

}  // namespace

Service::Service(Environment& environment, const Limits& limits, const cm::Limits& manager_limits)
    : environment_(environment),
      limits_(checked(limits)),
      tcp_ports_(limits.ephemeral),
      udp_ports_(limits.ephemeral),
      ipoib_ports_(limits.ephemeral),
      manager_(environment, *this, environment.adapter().node_guid, manager_limits) {}

void Service::set_limits(const Limits& limits, const cm::Limits& manager_limits) {
  limits_ = checked(limits);
  manager_.set_limits(manager_limits);
}

PortTable& Service::ports_of(PortSpace space) {
  switch (space) {
    case PortSpace::kTcp:
      return tcp_ports_;
    case PortSpace::kUdp:
      return udp_ports_;
    case PortSpace::kIpoib:
      break;
  }
  return ipoib_ports_;
}

// --- channels

ChannelId Service::open_channel(const ChannelOwner& owner) {
  ChannelId id;
  do id = ChannelId(environment_.random());
  while (id == ChannelId() || channels_.contains(id));
  channels_[id] = Channel{.id = id, .owner = owner};
  return id;
}

void Service::close_channel(ChannelId channel, Time now) {
  now_ = now;
  const auto found = channels_.find(channel);
  if (found == channels_.end()) return;
  auto& owned = found->second.identifiers;
  while (!owned.empty()) destroy(*identifiers_.find(owned.begin()->value));
  channels_.erase(found);
}

Channel* Service::channel_of(const Identifier& id) {
  const auto found = channels_.find(id.channel);
  return found == channels_.end() ? nullptr : &found->second;
}

int Service::command(ChannelId channel, std::uint32_t command, ChannelId other, Body body,
                     Reply& reply, Time now) {
  now_ = now;
  reply = {};
  const auto found = channels_.find(channel);
  if (found == channels_.end()) return EBADF;
  const auto emptied = command == RDMA_USER_CM_CMD_MIGRATE_ID ? channels_.find(other) : found;
  const bool had_events = emptied != channels_.end() && !emptied->second.events.empty();
  const int error = dispatch(found->second, command, other, body, reply);
  reply.drained = had_events && emptied->second.events.empty();
  return error;
}

int Service::dispatch(Channel& channel, std::uint32_t command, ChannelId other, Body body,
                      Reply& reply) {
  switch (command) {
    case RDMA_USER_CM_CMD_CREATE_ID:
      return create_id(channel, body, reply);
    case RDMA_USER_CM_CMD_DESTROY_ID:
      return destroy_id(channel, body, reply);
    case RDMA_USER_CM_CMD_BIND_IP:
      return bind_ip(channel, body);
    case RDMA_USER_CM_CMD_RESOLVE_IP:
      return resolve_ip(channel, body);
    case RDMA_USER_CM_CMD_RESOLVE_ROUTE:
      return resolve_route(channel, body);
    case RDMA_USER_CM_CMD_QUERY_ROUTE:
      return query_route(channel, body, reply);
    case RDMA_USER_CM_CMD_CONNECT:
      return connect(channel, body);
    case RDMA_USER_CM_CMD_LISTEN:
      return listen(channel, body);
    case RDMA_USER_CM_CMD_ACCEPT:
      return accept(channel, body);
    case RDMA_USER_CM_CMD_REJECT:
      return reject(channel, body);
    case RDMA_USER_CM_CMD_DISCONNECT:
      return disconnect(channel, body);
    case RDMA_USER_CM_CMD_INIT_QP_ATTR:
      return init_qp_attr(channel, body, reply);
    case RDMA_USER_CM_CMD_GET_EVENT:
      return get_event(channel, reply);
    case RDMA_USER_CM_CMD_SET_OPTION:
      return set_option(channel, body);
    case RDMA_USER_CM_CMD_NOTIFY:
      return notify(channel, body);
    case RDMA_USER_CM_CMD_JOIN_IP_MCAST:
      return join_multicast(channel, body, reply);
    case RDMA_USER_CM_CMD_LEAVE_MCAST:
      return leave_multicast(channel, body, reply);
    case RDMA_USER_CM_CMD_MIGRATE_ID:
      return migrate_id(channel, other, body, reply);
    case RDMA_USER_CM_CMD_GET_OPTION:  // the kernel has none, either
    case RDMA_USER_CM_CMD_QUERY:       // these need AF_IB
    case RDMA_USER_CM_CMD_BIND:
    case RDMA_USER_CM_CMD_RESOLVE_ADDR:
    case RDMA_USER_CM_CMD_JOIN_MCAST:
      return ENOSYS;
    default:
      return EINVAL;
  }
}

// --- identifiers

int Service::find(const Channel& channel, std::uint32_t number, Identifier*& found) {
  found = identifiers_.find(number);
  // A request that was not reported yet is nobody's: its number says nothing.
  if (found == nullptr || found->channel == ChannelId()) return ENOENT;
  if (found->channel != channel.id) return EINVAL;
  return found->state == IdentifierState::kRemoved ? ENXIO : 0;
}

int Service::find_bound(const Channel& channel, std::uint32_t number, Identifier*& found) {
  if (const int error = find(channel, number, found)) return error;
  return found->source ? 0 : EINVAL;
}

int Service::create_id(Channel& channel, Body body, Reply& reply) {
  rdma_ucm_create_id command;
  if (!read_body(body, command)) return EINVAL;
  switch (command.ps) {
    case RDMA_PS_TCP:
    case RDMA_PS_UDP:
    case RDMA_PS_IPOIB:
      break;
    default:
      return EINVAL;  // RDMA_PS_IB as well: librdmacm then does without AF_IB
  }
  if (removed_) return ENODEV;
  if (identifiers_.size() >= limits_.identifiers) {
    environment_.note_refused(Refusal::kIdentifiers);
    return EMFILE;
  }
  Identifier& id = identifiers_.make();
  id.channel = channel.id;
  id.uid = command.uid;
  id.space = static_cast<PortSpace>(command.ps);
  channel.identifiers.insert(id.number);
  reply.write(rdma_ucm_create_id_resp{.id = id.number.value});
  return 0;
}

int Service::destroy_id(Channel& channel, Body body, Reply& reply) {
  rdma_ucm_destroy_id command;
  if (!read_body(body, command)) return EINVAL;
  Identifier* id = nullptr;
  if (const int error = find(channel, command.id, id); error != 0 && error != ENXIO) return error;
  reply.write(rdma_ucm_destroy_id_resp{.events_reported = id->events_reported});
  destroy(*id);
  return 0;
}

void Service::destroy(Identifier& id) {
  if (id.state == IdentifierState::kListen) leave_listening(id);
  stop_resolving(id);
  end_connection(id);
  give_back_admission(id);
  if (id.holds_port) ports_of(id.space).release(id.number.value, id.local.port);
  for (const MembershipNumber membership : id.memberships) memberships_.erase(membership);
  drop_events(id);
  if (Channel* const channel = channel_of(id)) channel->identifiers.erase(id.number);
  identifiers_.erase(id.number);
}

void Service::leave_listening(Identifier& id) {
  const auto found = listeners_.find({id.space, id.local.port});
  std::erase(found->second, id.number);
  if (found->second.empty()) listeners_.erase(found);
  --listener_count_;
}

void Service::end_connection(Identifier& id) {
  if (!id.connection) return;
  const std::optional<cm::State> state = manager_.state(*id.connection);
  manager_.destroy(*id.connection, now_);
  forget_connection(id);
  if (!state) return;
  switch (*state) {
    case cm::State::kReqSent:
    case cm::State::kMraReqReceived:
      return environment_.note_reject_sent(wire::CmRejectReason::kTimeout);
    case cm::State::kRepReceived:
    case cm::State::kReqReceived:
    case cm::State::kMraReqSent:
    case cm::State::kRepSent:
    case cm::State::kMraRepReceived:
      return environment_.note_reject_sent(wire::CmRejectReason::kConsumer);
    default:
      return;
  }
}

void Service::forget_connection(Identifier& id) {
  id.connection.reset();
  give_back_admission(id);
}

void Service::give_back_admission(Identifier& id) {
  if (!id.admitted) return;
  close_half(id);
  admission_.give_back(*id.admitted);
  id.admitted.reset();
}

void Service::close_half(Identifier& id) {
  if (!std::exchange(id.half_open, false)) return;
  admission_.close_half(*id.admitted, id.remote.address);
}

// --- the rest of the world

void Service::receive(std::span<const std::byte> mad, const cm::Path& path, Qpn source, Time now) {
  now_ = now;
  manager_.receive(mad, path, source, now);
}

void Service::expire(Time now) {
  now_ = now;
  while (!resolving_.empty() && resolving_.begin()->first <= now)
    address_not_found(*identifiers_.find(resolving_.begin()->second.value));
  manager_.expire(now);
}

Time Service::next_deadline() const {
  const Time mine = resolving_.empty() ? kNever : resolving_.begin()->first;
  return std::min(mine, manager_.next_deadline());
}

}  // namespace softhca::management::rdma_cm
