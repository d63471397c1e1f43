// Members of multicast groups.
#include <cerrno>
#include <cstring>

#include "daemon/control/session/queue_pairs.hpp"

namespace softhca::control {

int QueuePairs::change_membership(const RequestBody& body, Membership change, int refusal) {
  abi::MulticastRequest request;
  if (!body.read(request)) return EINVAL;
  Qp* qp = find(request.qpn);
  Gid group;
  std::memcpy(group.bytes.data(), request.group, sizeof request.group);
  if (qp == nullptr || qp->engine.type != engine::QpType::kUd || !group.is_multicast())
    return EINVAL;
  bool changed = false;
  context_.on_engine(
      [&](engine::Engine& engine) { changed = (engine.multicast().*change)(qp->engine, group); });
  return changed ? 0 : refusal;
}

int QueuePairs::attach_multicast(const RequestBody& body, Reply&) {
  return change_membership(body, &engine::Multicast::attach, ENOMEM);
}

int QueuePairs::detach_multicast(const RequestBody& body, Reply&) {
  return change_membership(body, &engine::Multicast::detach, EINVAL);
}

}  // namespace softhca::control
