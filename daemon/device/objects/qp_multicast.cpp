// SPDX-License-Identifier: Apache-2.0

// Members of multicast groups.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "daemon/device/objects/qp_objects.hpp"

namespace softhca::control {
namespace {

/// True if all ports of the tenant are UDP sockets. Such a socket is bound to an address, and
/// receives no packet to a group.
bool has_only_udp_sockets(const engine::Engine& engine, const engine::Tenant& tenant) {
  return !tenant.addresses.empty() &&
         std::ranges::all_of(tenant.addresses, [&](const engine::Tenant::Address& address) {
           return address.port &&
                  engine.ports()[address.port->value]->port->kernel_headers() != nullptr;
         });
}

}  // namespace

int QueuePairs::change_membership(const RequestBody& body, Membership change, int refusal) {
  abi::MulticastRequest request;
  if (!body.read(request)) return EINVAL;
  QpObject* qp = find(request.qpn);
  Gid group;
  std::memcpy(group.bytes.data(), request.group, sizeof request.group);
  if (qp == nullptr || qp->engine.type != engine::QpType::kUd || !group.is_multicast())
    return EINVAL;
  int result = refusal;
  context_.on_engine([&](engine::Engine& engine) {
    if (change == &engine::Multicast::attach && has_only_udp_sockets(engine, context_.tenant()))
      result = EOPNOTSUPP;
    else if ((engine.multicast().*change)(qp->engine, group))
      result = 0;
  });
  return result;
}

int QueuePairs::attach_multicast(const RequestBody& body, Reply&) {
  return change_membership(body, &engine::Multicast::attach, ENOMEM);
}

int QueuePairs::detach_multicast(const RequestBody& body, Reply&) {
  return change_membership(body, &engine::Multicast::detach, EINVAL);
}

}  // namespace softhca::control
