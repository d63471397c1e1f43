// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/cm/matching.hpp"

#include "daemon/base/endian.hpp"

namespace softhca::management::cm {
namespace {

/// Returns the connection with this local id if its peer is at the other end of the path.
Connection* find_local(ConnectionTable& connections, std::uint32_t local, const Path& path) {
  Connection* c = connections.find(CommId(local));
  if (c == nullptr || c->is_service_id_resolution() || !same_ends(c->path, path)) return nullptr;
  return c;
}

}  // namespace

bool same_ends(const Path& a, const Path& b) { return a.local == b.local && a.remote == b.remote; }

Connection* match(ConnectionTable& connections, std::uint32_t local, std::uint32_t remote,
                  const Path& path) {
  Connection* c = find_local(connections, local, path);
  return c != nullptr && remote != 0 && c->remote_comm_id == remote ? c : nullptr;
}

Connection* match_answer(ConnectionTable& connections, std::uint32_t local, std::uint32_t remote,
                         const Path& path) {
  Connection* c = find_local(connections, local, path);
  const bool fits = c != nullptr && (c->remote_comm_id == 0 || c->remote_comm_id == remote);
  return fits ? c : nullptr;
}

Connection* match_rejected(ConnectionTable& connections, const wire::CmRej& m, const Path& path) {
  if (connections.find(CommId(m.remote_comm_id)) != nullptr)
    return match_answer(connections, m.remote_comm_id, m.local_comm_id, path);
  // A peer that withdraws its REQ knows no id of this side.
  if (m.remote_comm_id != 0 || m.reason != wire::CmRejectReason::kTimeout) return nullptr;
  Connection* c =
      connections.find_peer({path.remote, load_be<std::uint64_t>(m.info.data()), m.local_comm_id});
  return c != nullptr && c->is_half_open() && same_ends(c->path, path) ? c : nullptr;
}

}  // namespace softhca::management::cm
