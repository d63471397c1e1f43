// SPDX-License-Identifier: Apache-2.0

// Members of multicast groups.
#include <cerrno>
#include <cstring>

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
  if (qp == nullptr || qp->engine.type != engine::QpType::kUd || !group.is_multicast())
    return EINVAL;
  return context_.on_engine(Change{.qp = qp->engine, .group = group});
}

int QpObjects::attach_multicast(const RequestBody& body, Reply&) {
  return change_membership<engine::AttachMulticast>(body);
}

int QpObjects::detach_multicast(const RequestBody& body, Reply&) {
  return change_membership<engine::DetachMulticast>(body);
}

}  // namespace softhca::control
