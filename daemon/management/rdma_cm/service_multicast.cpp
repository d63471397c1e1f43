// JOIN_IP_MCAST and LEAVE_MCAST. What joins a group on the wire is the queue pair that is attached
// to it; here a program learns the group's address and key.
#include <cerrno>

#include "daemon/management/rdma_cm/service.hpp"

namespace softhca::management::rdma_cm {

namespace {

constexpr std::uint32_t kMulticastQpn = 0xffffff;

}  // namespace

int Service::join_multicast(Channel& channel, Body body, Reply& reply) {
  rdma_ucm_join_ip_mcast command;
  if (!read_body(body, command)) return EINVAL;
  const std::optional<SocketAddress> group = from_sockaddr(command.addr);
  if (!group || !group->address.is_multicast()) return EINVAL;
  Identifier* id = nullptr;
  if (const int error = find_bound(channel, command.id, id)) return error;
  if (!id->is_datagram() ||
      (id->state != IdentifierState::kBound && id->state != IdentifierState::kAddressResolved))
    return EINVAL;
  if (group->address.is_ipv4() != id->source->is_ipv4()) return EINVAL;
  if (!takes_events(*id)) return ENOMEM;
  if (memberships_.size() >= limits_.identifiers) {
    environment_.note_refused(Refusal::kIdentifiers);
    return EMFILE;
  }

  MembershipNumber number;
  do number = MembershipNumber(membership_numbers_++);
  while (memberships_.contains(number));
  memberships_[number] = {.owner = id->number, .uid = command.uid};
  id->memberships.push_back(number);
  reply.write(rdma_ucm_create_id_resp{.id = number.value});

  rdma_ucm_event_resp response{};
  response.uid = command.uid;
  response.id = number.value;
  response.event = static_cast<std::uint32_t>(EventType::kMulticastJoin);
  cm::Path path = path_of(*id);
  path.remote = group->address;
  path.flow_label = 0;
  response.param.ud.ah_attr = address_vector(path, 0);
  response.param.ud.qp_num = kMulticastQpn;
  response.param.ud.qkey = kDatagramQkey;
  push(channel, *id, {.membership = number, .response = response});
  return 0;
}

int Service::leave_multicast(Channel& channel, Body body, Reply& reply) {
  rdma_ucm_destroy_id command;
  if (!read_body(body, command)) return EINVAL;
  const MembershipNumber number(command.id);
  const auto membership = memberships_.find(number);
  if (membership == memberships_.end()) return ENOENT;
  Identifier* id = nullptr;
  if (const int error = find(channel, membership->second.owner.value, id)) return error;
  reply.write(rdma_ucm_destroy_id_resp{.events_reported = membership->second.events_reported});
  std::erase_if(id->queued, [&](std::uint64_t sequence) {
    const auto event = channel.events.find(sequence);
    if (event->second.membership != number) return false;
    channel.events.erase(event);
    return true;
  });
  std::erase(id->memberships, number);
  memberships_.erase(membership);
  return 0;
}

}  // namespace softhca::management::rdma_cm
