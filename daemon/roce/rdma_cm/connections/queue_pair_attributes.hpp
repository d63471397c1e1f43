// SPDX-License-Identifier: Apache-2.0

// INIT_QP_ATTR: attributes that bring a program's queue pair to INIT, RTR and RTS; and address
// vectors.
#pragma once

#include <cstdint>
#include <cstring>

#include "daemon/roce/cm/manager.hpp"
#include "daemon/roce/rdma_cm/addresses/tenant_gids.hpp"
#include "daemon/roce/rdma_cm/channel_command.hpp"
#include "daemon/roce/rdma_cm/identifier_table.hpp"
#include "daemon/roce/rdma_cm/layouts.hpp"

namespace softhca::management::rdma_cm {

template <class Bytes>
void copy_gid(const Gid& from, Bytes& to) {
  static_assert(sizeof to == sizeof from.bytes);
  std::memcpy(to, from.bytes.data(), sizeof to);
}

ib_uverbs_ah_attr address_vector(const TenantGids& addresses, const cm::Path& path,
                                 std::uint8_t sl);

/// Sets the attributes of INIT, whatever state was requested: before there is a connection, and for
/// datagrams.
void init_attributes(const Identifier& id, ib_uverbs_qp_attr& to);
/// Sets the attributes of the state in `to`, for a connection with the manager's data `known`.
/// Returns false if the connection is not ready for that state.
bool connected_attributes(const Identifier& id, const cm::QueuePairAttributes& known,
                          const TenantGids& addresses, ib_uverbs_qp_attr& to);

/// Handles INIT_QP_ATTR.
int init_qp_attr(const ChannelCommand& command, IdentifierTable& identifiers,
                 const cm::Manager& manager, const TenantGids& addresses);

}  // namespace softhca::management::rdma_cm
