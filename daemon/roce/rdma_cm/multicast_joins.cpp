// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/rdma_cm/multicast_joins.hpp"

#include <cerrno>

#include "daemon/roce/rdma_cm/addresses/resolved_route.hpp"
#include "daemon/roce/rdma_cm/connections/queue_pair_attributes.hpp"

namespace softhca::management::rdma_cm {

namespace {

constexpr std::uint32_t kMulticastQpn = 0xffffff;

}  // namespace

int MulticastJoins::join(const ChannelCommand& command) {
  rdma_ucm_join_ip_mcast body;
  if (!read_body(command.body, body)) return EINVAL;
  const std::optional<SocketAddress> group = from_sockaddr(body.addr);
  if (!group || !group->address.is_multicast()) return EINVAL;
  Identifier* id = nullptr;
  if (const int error = identifiers_.find_bound(command.channel.id, body.id, id)) return error;
  if (!id->is_datagram() ||
      (id->state != IdentifierState::kBound && id->state != IdentifierState::kAddressResolved))
    return EINVAL;
  if (group->address.is_ipv4() != id->source->is_ipv4()) return EINVAL;
  if (!events_.has_room(*id)) return ENOMEM;
  if (memberships_.size() >= limits_.identifiers) {
    environment_.note_refused(Refusal::kIdentifiers);
    return EMFILE;
  }
  const MembershipNumber number = add(*id, body.uid);
  command.reply.write(rdma_ucm_create_id_resp{.id = number.value});

  rdma_ucm_event_resp response{};
  response.uid = body.uid;
  response.id = number.value;
  response.event = static_cast<std::uint32_t>(EventType::kMulticastJoin);
  cm::Path path = path_of(*id, environment_.adapter(id->source));
  path.remote = group->address;
  path.flow_label = 0;
  response.param.ud.ah_attr = address_vector(addresses_, path, 0);
  response.param.ud.qp_num = kMulticastQpn;
  response.param.ud.qkey = kDatagramQkey;
  events_.push(command.channel, *id, {.membership = number, .response = response});
  return 0;
}

MembershipNumber MulticastJoins::add(Identifier& id, std::uint64_t uid) {
  MembershipNumber number;
  do number = MembershipNumber(next_number_++);
  while (memberships_.contains(number));
  memberships_[number] = {.owner = id.number, .uid = uid};
  id.memberships.push_back(number);
  return number;
}

int MulticastJoins::leave(const ChannelCommand& command) {
  rdma_ucm_destroy_id body;
  if (!read_body(command.body, body)) return EINVAL;
  const MembershipNumber number(body.id);
  const auto membership = memberships_.find(number);
  if (membership == memberships_.end()) return ENOENT;
  Identifier* id = nullptr;
  if (const int error =
          identifiers_.find_of(command.channel.id, membership->second.owner.value, id))
    return error;
  command.reply.write(
      rdma_ucm_destroy_id_resp{.events_reported = membership->second.events_reported});
  events_.drop_if(command.channel, *id,
                  [&](const QueuedEvent& event) { return event.membership == number; });
  std::erase(id->memberships, number);
  memberships_.erase(membership);
  return 0;
}

void MulticastJoins::leave_all(const Identifier& id) {
  for (const MembershipNumber number : id.memberships) memberships_.erase(number);
}

}  // namespace softhca::management::rdma_cm
