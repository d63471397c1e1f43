// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/rdma_cm/service.hpp"

#include <algorithm>
#include <array>
#include <cerrno>

#include "daemon/roce/rdma_cm/connections/queue_pair_attributes.hpp"

namespace softhca::management::rdma_cm {

namespace {

constexpr std::uint32_t kMostIdentifiers = 65536;

RdmaCmLimits checked(RdmaCmLimits limits) {
  limits.identifiers = std::min(limits.identifiers, kMostIdentifiers);
  limits.backlog = std::max(limits.backlog, 1u);
  return limits;
}

}  // namespace

Service::Service(RdmaCmEnvironment& environment, const RdmaCmLimits& limits,
                 const cm::CmLimits& manager_limits)
    : limits_(checked(limits)),
      manager_(environment, *this, environment.adapter({}).node_guid, manager_limits),
      channels_(environment),
      identifiers_(environment.records()),
      addresses_(environment),
      ports_(environment, channels_, identifiers_, limits.ephemeral),
      events_(environment, channels_, identifiers_),
      core_{.environment = environment,
            .limits = limits_,
            .addresses = addresses_,
            .channels = channels_,
            .identifiers = identifiers_,
            .events = events_},
      admission_(environment, limits_),
      binding_(addresses_, ports_, identifiers_),
      resolution_(environment, addresses_, ports_, binding_, identifiers_, events_),
      routes_(environment, identifiers_, events_),
      options_(identifiers_, ports_, routes_),
      listeners_(environment, limits_, binding_, ports_, identifiers_),
      multicast_(core_),
      connections_(environment, addresses_, identifiers_, admission_, manager_),
      connection_events_(environment, addresses_, identifiers_, events_, admission_),
      requests_(core_, listeners_, admission_),
      event_commands_(identifiers_, events_, multicast_),
      lifecycle_(core_, {.ports = ports_,
                         .resolution = resolution_,
                         .listeners = listeners_,
                         .multicast = multicast_,
                         .admission = admission_,
                         .connections = connections_}) {}

void Service::set_limits(const RdmaCmLimits& limits, const cm::CmLimits& manager_limits) {
  limits_ = checked(limits);
  manager_.set_limits(manager_limits);
}

// --- processes

ChannelId Service::open_channel(const ChannelOwner& owner) {
  const ChannelId id = channels_.open(owner);
  record_changes();
  return id;
}

bool Service::close_channel(ChannelId id, Time now) {
  Channel* const channel = channels_.find(id);
  if (channel == nullptr) return true;
  const bool done = lifecycle_.destroy_some(*channel, now);
  if (done) channels_.close(id);
  record_changes();
  return done;
}

int Service::command(ChannelId id, const Command& asked, ChannelReply& reply, Time now) {
  reply = {};
  Channel* const channel = channels_.find(id);
  if (channel == nullptr) return EBADF;
  if (const auto earlier = std::exchange(channel->earlier, {});
      earlier && earlier->tag == asked.tag) {
    reply = earlier->reply;
    return earlier->error;
  }
  Channel* const other = channels_.find(asked.other);
  Channel* const emptied = asked.command == RDMA_USER_CM_CMD_MIGRATE_ID ? other : channel;
  const bool had_events = emptied != nullptr && !emptied->events.empty();
  in_call_ = true;
  const int error = dispatch(
      asked.command,
      {.channel = *channel, .other = other, .body = asked.body, .reply = reply, .now = now});
  in_call_ = false;
  reply.drained = had_events && emptied->events.empty();
  if (core_.environment.records() != nullptr)
    channels_.record_answer(id, {.tag = asked.tag, .error = error, .reply = reply});
  record_changes();
  return error;
}

bool Service::has_events(ChannelId channel) const {
  const Channel* const found = channels_.find(channel);
  return found != nullptr && !found->events.empty();
}

int Service::dispatch(std::uint32_t command, const ChannelCommand& with) {
  struct Entry {
    std::uint32_t command;
    int (*run)(Service& service, const ChannelCommand& command);
  };
  using C = const ChannelCommand&;
  static constexpr auto kUnsupported = [](Service&, C c) {
    return c.refuse(ENOSYS, "no such operation");
  };
  static constexpr auto kTable = std::to_array<Entry>({
      {RDMA_USER_CM_CMD_CREATE_ID, [](Service& s, C c) { return s.lifecycle_.create_id(c); }},
      {RDMA_USER_CM_CMD_DESTROY_ID, [](Service& s, C c) { return s.lifecycle_.destroy_id(c); }},
      {RDMA_USER_CM_CMD_BIND_IP, [](Service& s, C c) { return s.binding_.bind_ip(c); }},
      {RDMA_USER_CM_CMD_RESOLVE_IP, [](Service& s, C c) { return s.resolution_.resolve_ip(c); }},
      {RDMA_USER_CM_CMD_RESOLVE_ROUTE, [](Service& s, C c) { return s.routes_.resolve_route(c); }},
      {RDMA_USER_CM_CMD_QUERY_ROUTE, [](Service& s, C c) { return s.routes_.query_route(c); }},
      {RDMA_USER_CM_CMD_CONNECT, [](Service& s, C c) { return s.connections_.connect(c); }},
      {RDMA_USER_CM_CMD_LISTEN, [](Service& s, C c) { return s.listeners_.listen(c); }},
      {RDMA_USER_CM_CMD_ACCEPT, [](Service& s, C c) { return s.connections_.accept(c); }},
      {RDMA_USER_CM_CMD_REJECT, [](Service& s, C c) { return s.connections_.reject(c); }},
      {RDMA_USER_CM_CMD_DISCONNECT, [](Service& s, C c) { return s.connections_.disconnect(c); }},
      {RDMA_USER_CM_CMD_INIT_QP_ATTR,
       [](Service& s, C c) { return init_qp_attr(c, s.identifiers_, s.manager_, s.addresses_); }},
      {RDMA_USER_CM_CMD_GET_EVENT, [](Service& s, C c) { return s.event_commands_.get_event(c); }},
      {RDMA_USER_CM_CMD_SET_OPTION, [](Service& s, C c) { return s.options_.set_option(c); }},
      {RDMA_USER_CM_CMD_NOTIFY, [](Service& s, C c) { return s.connections_.notify(c); }},
      {RDMA_USER_CM_CMD_JOIN_IP_MCAST, [](Service& s, C c) { return s.multicast_.join(c); }},
      {RDMA_USER_CM_CMD_LEAVE_MCAST, [](Service& s, C c) { return s.multicast_.leave(c); }},
      {RDMA_USER_CM_CMD_MIGRATE_ID,
       [](Service& s, C c) { return s.event_commands_.migrate_id(c); }},
      {RDMA_USER_CM_CMD_GET_OPTION, kUnsupported},  // the kernel has none either
      {RDMA_USER_CM_CMD_QUERY, kUnsupported},       // these need AF_IB
      {RDMA_USER_CM_CMD_BIND, kUnsupported},
      {RDMA_USER_CM_CMD_RESOLVE_ADDR, kUnsupported},
      {RDMA_USER_CM_CMD_JOIN_MCAST, kUnsupported},
  });
  const auto* const found = std::ranges::find(kTable, command, &Entry::command);
  return found != kTable.end() ? found->run(*this, with)
                               : with.refuse(EINVAL, "no such command: %u", command);
}

// --- network and timers

void Service::receive(std::span<const std::byte> mad, const cm::Path& path, Qpn source, Time now) {
  manager_.receive(mad, path, source, now);
  record_changes();
}

void Service::resolved(ResolveCookie cookie, bool reachable) {
  resolution_.resolved(cookie, reachable);
  if (!in_call_) record_changes();
}

void Service::expire(Time now) {
  if (lifecycle_.is_removing()) lifecycle_.remove_some(now);
  resolution_.expire(now);
  manager_.expire(now);
  record_changes();
}

Time Service::next_deadline() const {
  if (lifecycle_.is_removing()) return Time{};
  return std::min(resolution_.next_deadline(), manager_.next_deadline());
}

cm::Answer Service::on_request(const cm::ConnectionRequest& request) {
  return requests_.on_request(request);
}

cm::Answer Service::on_sidr_request(const cm::SidrRequest& request) {
  return requests_.on_sidr_request(request);
}

void Service::on_over_limit(cm::OverLimit limit) { requests_.on_over_limit(limit); }

void Service::on_event(const cm::Event& event) { connection_events_.on_event(event); }

// --- the adapter that follows

/// Records what may have changed, as one change. Called at the end of each call, before the process
/// has its reply.
void Service::record_changes() {
  if (core_.environment.records() == nullptr) return;
  channels_.record_changes();
  identifiers_.record_changes();
  multicast_.record_changes();
  events_.record_changes();
  manager_.record_changes();
  core_.environment.records()->commit();
}

bool Service::restore(cm::StateKind kind, std::uint64_t number, std::span<const std::byte> state,
                      Time now) {
  switch (kind) {
    case cm::StateKind::kChannel:
      return channels_.restore(state) != nullptr;
    case cm::StateKind::kIdentifier:
      return identifiers_.restore(state) != nullptr;
    case cm::StateKind::kMembership:
      return multicast_.restore(MembershipNumber(static_cast<std::uint32_t>(number)), state);
    case cm::StateKind::kEvent: {
      const QueuedEvent* const event = events_.restore(number, state);
      return event != nullptr && (!event->membership || multicast_.has(*event->membership));
    }
    case cm::StateKind::kConnection:
      return manager_.restore(state, now);
    case cm::StateKind::kAnswer:
      return channels_.restore_answer(number, state);
  }
  return false;
}

void Service::end_restoring(Time now) {
  in_call_ = true;
  identifiers_.end_restoring();
  identifiers_.change_each([&](Identifier& id) { resume(id, now); });
  // A connection of which the identifier has no record.
  std::vector<cm::CommId> without;
  manager_.for_each([&](const cm::ConnectionView& connection) {
    const Identifier* const id = identifiers_.find_cookie(connection.cookie);
    if (connection.has_user && (id == nullptr || id->connection.id != connection.id))
      without.push_back(connection.id);
  });
  for (const cm::CommId id : without) (void)manager_.destroy(id, now);
  in_call_ = false;
  record_changes();
}

/// Takes up what follows from an identifier.
void Service::resume(Identifier& id, Time now) {
  if (Channel* const channel = channels_.of(id)) channel->identifiers.insert(id.number);
  if (!ports_.restore(id)) id.holds_port = false;
  if (id.state == IdentifierState::kListen) listeners_.restore(id);
  if (id.connection.admitted) admission().restore(*id.connection.admitted, id.connection.half_open);
  resolution_.restore(id);
  if (!id.connection.id || manager_.view(*id.connection.id)) return;
  // The record of the connection found no room.
  connection_events_.on_event({.kind = cm::Event::Kind::kUnreachable,
                               .id = *id.connection.id,
                               .cookie = id.cookie(),
                               .state = cm::State::kReqSent,
                               .now = now});
}

// --- the operator

void Service::addresses_changed() {
  resolution_.addresses_changed();
  record_changes();
}

void Service::device_removed() { lifecycle_.device_removed(); }

void Service::rename_level(const std::string& from, const std::string& to) {
  admission().rename(from, to);
  channels_.for_each([&](Channel& channel) {
    if (channel.owner.level == from) channel.owner.level = to;
  });
  identifiers_.change_each([&](Identifier& id) {
    if (id.connection.admitted == from) id.connection.admitted = to;
  });
  record_changes();
}

void Service::for_each_connection(const std::function<void(const ConnectionInfo&)>& visit) const {
  identifiers_.for_each([&](const Identifier& id) {
    if (const auto info = connection_of(id, channels_, manager_)) visit(*info);
  });
}

void Service::for_each_listener(const std::function<void(const ListenerInfo&)>& visit) const {
  identifiers_.for_each([&](const Identifier& id) {
    if (const auto info = listener_of(id, channels_)) visit(*info);
  });
}

}  // namespace softhca::management::rdma_cm
