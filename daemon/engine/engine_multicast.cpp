// Multicast groups. A datagram to one goes to the wire and, here, to each queue pair attached to
// it, the sender's own included (docs/decisions.md). Membership is this daemon's alone: it tells
// nobody on the network of it.
#include <algorithm>

#include "abi/control.hpp"
#include "daemon/engine/environment.hpp"

namespace softhca::engine {
namespace {

/// Does what is sent from `port` (none: inside this daemon) reach the tenant without a wire?
bool is_reached_inside(const Tenant& tenant, std::optional<PortId> port) {
  return !port || tenant.is_on(port) || tenant.is_on(std::nullopt);
}

}  // namespace

bool Engine::attach_multicast(QueuePair& qp, const Gid& group) {
  if (std::find(qp.groups.begin(), qp.groups.end(), group) != qp.groups.end()) return true;
  if (qp.groups.size() == abi::kMaxMulticastGroups) return false;
  if (const auto found = groups_.find(group); found != groups_.end()) {
    const auto& members = found->second;
    const auto others = std::count_if(members.begin(), members.end(), [&](const QueuePair* member) {
      return member->tenant == qp.tenant;
    });
    if (others >= abi::kMaxMulticastMembers) return false;
  }
  groups_[group].push_back(&qp);
  qp.groups.push_back(group);
  return true;
}

bool Engine::detach_multicast(QueuePair& qp, const Gid& group) {
  const auto found = groups_.find(group);
  if (found == groups_.end() || std::erase(found->second, &qp) == 0) return false;
  std::erase(qp.groups, Gid(group));  // `group` may be one of them
  if (found->second.empty()) groups_.erase(found);
  return true;
}

/// False: the port is full; nothing happened.
bool Engine::run_multicast(QueuePair& qp, const transport::Request& request, AddressHandle& ah,
                           std::uint32_t qkey) {
  QpEnvironment env(*this, qp, ah.route);
  Verdict verdict = qp.ud_requester.send(env, request, kMulticastQpn, qkey);
  if (verdict == Verdict::kBusy) return false;
  if (verdict == Verdict::kOk) verdict = deliver_to_members(qp, request, ah.route.path, qkey);
  complete_command(qp, PcbId(request.cookie), verdict);
  if (verdict != Verdict::kOk) fail_later(qp, name_of(verdict));
  return true;
}

/// How the datagram ends for its sender. Only control operations change who is a member.
Verdict Engine::deliver_to_members(QueuePair& qp, const transport::Request& request,
                                   const AddressPath& path, std::uint32_t qkey) {
  const auto group = groups_.find(path.destination);
  if (group == groups_.end()) return Verdict::kOk;
  for (QueuePair* member : group->second) {
    if (!is_reached_inside(*member->tenant, path.port)) continue;
    const Verdict verdict = offer_datagram(qp, *member, request, path, qkey);
    if (verdict != Verdict::kOk) return verdict;
  }
  return Verdict::kOk;
}

/// A copy for each member that is on the network of the port.
void Engine::receive_multicast(PortBinding& binding, const wire::ParsedFrame& frame) {
  if (wire::opcode_info(frame.headers.opcode).transport != wire::Transport::kUd)
    return binding.drops.add(FrameDrop::kWrongTransport);
  if (!is_of_partition(frame)) return binding.drops.add(FrameDrop::kPartitionKey);
  const auto group = groups_.find(frame.destination);
  if (group == groups_.end()) return binding.drops.add(FrameDrop::kNoGroupMember);
  // Our own, come back or by another port on the same network: most have it already.
  const bool own = is_local(frame.source);
  const std::optional<PortId> sent_by = own ? port_of(frame.source) : std::nullopt;
  bool delivered = false;
  for (QueuePair* member : group->second) {
    if (!member->tenant->is_on(binding.id) || (own && is_reached_inside(*member->tenant, sent_by)))
      continue;
    if (frame.is_congested()) notify_sender(binding, *member, frame);
    receive_packet(*member, frame);
    delivered = true;
  }
  if (!delivered) binding.drops.add(FrameDrop::kNoGroupMember);
}

/// By which port a tenant of ours sends as `source`; none: by no port.
std::optional<PortId> Engine::port_of(const Gid& source) const {
  for (const auto& binding : ports_)
    for (const Tenant* tenant : tenants_)
      if (tenant->has_address(source, binding->id)) return binding->id;
  return std::nullopt;
}

}  // namespace softhca::engine
