// SPDX-License-Identifier: Apache-2.0

// Members of multicast groups.
#include <cerrno>
#include <cstring>
#include <type_traits>

#include "daemon/device/objects/qp_objects.hpp"
#include "daemon/engine/requests/queue_pair_requests.hpp"

namespace softhca::control {

template <class Change>
int QpObjects::change_membership(const RequestBody& body) {
  abi::MulticastRequest request;
  if (!body.read(request)) return EINVAL;
  QpObject* qp = find(request.qpn);
  Gid group;
  std::memcpy(group.bytes.data(), request.group, sizeof request.group);
  if (qp == nullptr) return context_.refuse_unknown("queue pair");
  if (qp->engine.type != engine::QpType::kUd)
    return context_.refuse(EINVAL, "a queue pair of type %s, must be UD", name_of(qp->engine.type));
  if (!group.is_multicast()) return context_.refuse(EINVAL, "gid is not that of a multicast group");
  switch (const int error = context_.on_engine(Change{.qp = qp->engine, .group = group})) {
    case EINVAL:
      return context_.refuse(error, "the queue pair is not attached to the group");
    case ENOMEM:
      return context_.refuse(error,
                             "a queue pair joins at most %u groups, and a group has at most "
                             "%u queue pairs of the tenant",
                             abi::kMaxMulticastGroups, abi::kMaxMulticastMembers);
    case EOPNOTSUPP:
      return context_.refuse(error,
                             "UDP sockets, the tenant's only ports, receive no group packets");
    case 0:
      std::erase(qp->groups, group);
      if (std::is_same_v<Change, engine::AttachMulticast>) qp->groups.push_back(group);
      write(*qp);
      return 0;
    default:
      return error;
  }
}

int QpObjects::attach_multicast(const RequestBody& body, Reply&) {
  return change_membership<engine::AttachMulticast>(body);
}

int QpObjects::detach_multicast(const RequestBody& body, Reply&) {
  return change_membership<engine::DetachMulticast>(body);
}

}  // namespace softhca::control
