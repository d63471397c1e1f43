// INIT_QP_ATTR: how a program brings its queue pair to INIT, RTR and RTS; and address vectors.
#pragma once

#include <cstdint>
#include <cstring>

#include "daemon/management/cm/manager.hpp"
#include "daemon/management/rdma_cm/command.hpp"
#include "daemon/management/rdma_cm/identifier_table.hpp"
#include "daemon/management/rdma_cm/layouts.hpp"
#include "daemon/management/rdma_cm/local_addresses.hpp"

namespace softhca::management::rdma_cm {

inline constexpr std::uint8_t kPort = 1;  ///< adapters have one

template <class Bytes>
void copy_gid(const Gid& from, Bytes& to) {
  static_assert(sizeof to == sizeof from.bytes);
  std::memcpy(to, from.bytes.data(), sizeof to);
}

ib_uverbs_ah_attr address_vector(const LocalAddresses& addresses, const cm::Path& path,
                                 std::uint8_t sl);

/// Attributes of INIT, whatever state is asked for: before there is a connection, and for
/// datagrams.
void init_attributes(const Identifier& id, ib_uverbs_qp_attr& to);
/// Attributes of the state in `to`, for a connection of which the manager knows `known`. False: the
/// connection has not come that far.
bool connected_attributes(const Identifier& id, const cm::QueuePairAttributes& known,
                          const LocalAddresses& addresses, ib_uverbs_qp_attr& to);

/// The command INIT_QP_ATTR.
int init_qp_attr(const Command& command, IdentifierTable& identifiers, const cm::Manager& manager,
                 const LocalAddresses& addresses);

}  // namespace softhca::management::rdma_cm
