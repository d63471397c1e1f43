// Members of multicast groups.
#include <cerrno>
#include <cstring>

#include "daemon/control/session.hpp"

namespace softhca::control {

int Session::read_membership(const RequestBody& body, Qp*& qp, Gid& group) const {
  abi::MulticastRequest request;
  if (!body.read(request)) return EINVAL;
  qp = find_qp(request.qpn);
  std::memcpy(group.bytes.data(), request.group, sizeof request.group);
  const bool usable =
      qp != nullptr && qp->engine.type == engine::QpType::kUd && group.is_multicast();
  return usable ? 0 : EINVAL;
}

int Session::attach_multicast(const RequestBody& body, Reply&) {
  Qp* qp = nullptr;
  Gid group;
  if (const int error = read_membership(body, qp, group)) return error;
  bool attached = false;
  on_engine([&](engine::Engine& engine) { attached = engine.attach_multicast(qp->engine, group); });
  return attached ? 0 : ENOMEM;
}

int Session::detach_multicast(const RequestBody& body, Reply&) {
  Qp* qp = nullptr;
  Gid group;
  if (const int error = read_membership(body, qp, group)) return error;
  bool detached = false;
  on_engine([&](engine::Engine& engine) { detached = engine.detach_multicast(qp->engine, group); });
  return detached ? 0 : EINVAL;
}

}  // namespace softhca::control
