// SPDX-License-Identifier: Apache-2.0

// The state of identifiers, channels, memberships and events, for a StateWriter or a StateReader:
// without what follows from other state, such as the identifiers of a channel. The objects are
// constant for a StateWriter.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "daemon/roce/cm/state_records.hpp"
#include "daemon/roce/rdma_cm/channel.hpp"
#include "daemon/roce/rdma_cm/identifier.hpp"

namespace softhca::management::rdma_cm {

template <class Archive, class A>
void state_of_address(Archive& archive, A& address) {
  archive(address.family, address.port, address.address, address.flow_info, address.scope);
}

template <class Archive, class R>
void state_of_route(Archive& archive, R& route) {
  archive(route.mtu, route.rate, route.packet_life_time, route.flow_label, route.traffic_class,
          route.hop_limit, route.sl);
}

template <class Archive, class I>
void state_of_identifier(Archive& archive, I& id) {
  archive(id.number, id.generation, id.channel, id.uid, id.space, id.state);
  state_of_address(archive, id.local);
  state_of_address(archive, id.remote);
  archive(id.source, id.address_gone, id.holds_port, id.loopback_only);
  auto& options = id.options;
  archive(options.traffic_class, options.reuse_address, options.af_only, options.ack_timeout);
  archive(id.resolution.source, id.resolution.deadline, id.listener.backlog, id.listener.waiting);
  auto& connection = id.connection;
  archive(connection.role, connection.id, connection.admitted, connection.half_open, connection.qpn,
          connection.srq, connection.local_psn, connection.remote_psn, connection.began);
  archive(id.events_reported);
}

inline void state_of(cm::StateWriter& writer, const Identifier& id) {
  state_of_identifier(writer, id);
  writer(id.route.has_value());
  if (id.route) state_of_route(writer, *id.route);
}
inline void state_of(cm::StateReader& reader, Identifier& id) {
  state_of_identifier(reader, id);
  bool has_route = false;
  reader(has_route);
  if (has_route) state_of_route(reader, id.route.emplace());
}

template <class Archive, class C>
void state_of_channel(Archive& archive, C& channel) {
  auto& owner = channel.owner;
  archive(channel.id, owner.process, owner.user, owner.may_bind_low_ports, owner.level);
}

template <class Archive, class M>
void state_of_membership(Archive& archive, M& membership) {
  archive(membership.owner, membership.uid, membership.events_reported);
}

inline void state_of(cm::StateWriter& writer, const Answer& answer) {
  const auto body = std::span(answer.reply.body).first(answer.reply.bytes);
  writer(answer.tag, answer.error, answer.reply.drained, answer.reply.refusal,
         std::vector(body.begin(), body.end()));
}
inline bool read_state(cm::StateReader& reader, Answer& answer) {
  std::vector<std::byte> body;
  reader(answer.tag, answer.error, answer.reply.drained, answer.reply.refusal, body);
  if (!reader.is_complete() || body.size() > ChannelReply::kMaxBytes) return false;
  answer.reply.bytes = body.size();
  std::ranges::copy(body, answer.reply.body.begin());
  return true;
}

template <class Archive, class E>
void state_of_event(Archive& archive, E& event) {
  archive(event.owner, event.membership, event.request, event.response);
}

}  // namespace softhca::management::rdma_cm
