// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/rdma_cm/multicast_joins.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "daemon/base/address_text.hpp"
#include "daemon/roce/rdma_cm/addresses/resolved_route.hpp"
#include "daemon/roce/rdma_cm/connections/queue_pair_attributes.hpp"
#include "daemon/roce/rdma_cm/identifier_state.hpp"

namespace softhca::management::rdma_cm {

namespace {

constexpr std::uint32_t kMulticastQpn = 0xffffff;

}  // namespace

int MulticastJoins::join(const ChannelCommand& command) {
  rdma_ucm_join_ip_mcast body;
  if (const int error = command.read(body)) return error;
  SocketAddress group;
  if (const int error = command.read_address("addr", body.addr, group)) return error;
  if (!group.address.is_multicast())
    return command.refuse(EINVAL, "addr %s is not a multicast group",
                          address_text(group.address).c_str());
  Identifier* id = nullptr;
  if (const int error = identifiers_.find_bound(command, body.id, id)) return error;
  if (!id->is_datagram())
    return command.refuse(EINVAL,
                          "an identifier of RDMA_PS_TCP, must be of RDMA_PS_UDP or RDMA_PS_IPOIB");
  if (const int error =
          command.check_state(*id, {IdentifierState::kBound, IdentifierState::kAddressResolved}))
    return error;
  if (group.address.is_ipv4() != id->source->is_ipv4())
    return command.refuse(EINVAL, "addr %s and the identifier's address %s are of two families",
                          address_text(group.address).c_str(), address_text(*id->source).c_str());
  if (const int error = events_.check_room(command, *id)) return error;
  if (memberships_.size() >= limits_.identifiers) {
    environment_.note_refused(Refusal::kIdentifiers);
    return command.refuse(EMFILE,
                          "tenant limit of %u group memberships reached (connections.identifiers)",
                          limits_.identifiers);
  }
  const MembershipNumber number = add(*id, body.uid);
  command.reply.write(rdma_ucm_create_id_resp{.id = number.value});

  rdma_ucm_event_resp response{};
  response.uid = body.uid;
  response.id = number.value;
  response.event = static_cast<std::uint32_t>(EventType::kMulticastJoin);
  cm::Path path = path_of(*id, environment_.adapter(id->source));
  path.remote = group.address;
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
  touched_.add(number.value);
  id.memberships.push_back(number);
  return number;
}

int MulticastJoins::leave(const ChannelCommand& command) {
  rdma_ucm_destroy_id body;
  if (const int error = command.read(body)) return error;
  const MembershipNumber number(body.id);
  const auto membership = memberships_.find(number);
  if (membership == memberships_.end())
    return command.refuse(ENOENT, "no such membership: left, or never joined");
  Identifier* id = nullptr;
  if (const int error = identifiers_.find_of(command, membership->second.owner.value, id))
    return error;
  command.reply.write(
      rdma_ucm_destroy_id_resp{.events_reported = membership->second.events_reported});
  events_.drop_if(command.channel, *id,
                  [&](const QueuedEvent& event) { return event.membership == number; });
  std::erase(id->memberships, number);
  memberships_.erase(membership);
  touched_.add(number.value);
  return 0;
}

void MulticastJoins::leave_all(const Identifier& id) {
  for (const MembershipNumber number : id.memberships) {
    memberships_.erase(number);
    touched_.add(number.value);
  }
}

void MulticastJoins::record_changes() {
  for (const std::uint64_t number : touched_.take()) {
    const auto found = memberships_.find(MembershipNumber(static_cast<std::uint32_t>(number)));
    if (found == memberships_.end()) {
      environment_.records()->forget(cm::StateKind::kMembership, number);
      continue;
    }
    cm::StateWriter state;
    state_of_membership(state, std::as_const(found->second));
    environment_.records()->record(cm::StateKind::kMembership, number, state.bytes());
  }
}

bool MulticastJoins::restore(MembershipNumber number, std::span<const std::byte> state) {
  cm::StateReader reader(state);
  Membership membership;
  state_of_membership(reader, membership);
  Identifier* const owner = identifiers_.find(membership.owner.value);
  if (!reader.is_complete() || owner == nullptr) return false;
  if (!memberships_.emplace(number, membership).second) return false;
  owner->memberships.push_back(number);
  next_number_ = std::max(next_number_, number.value + 1);
  return true;
}

}  // namespace softhca::management::rdma_cm
