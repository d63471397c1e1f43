// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/rdma_cm/connections/queue_pair_attributes.hpp"

#include <cerrno>

namespace softhca::management::rdma_cm {

namespace {

/// enum ibv_qp_attr_mask, which the kernel's headers lack.
enum Mask : std::uint32_t {
  kState = 1 << 0,
  kAccessFlags = 1 << 3,
  kPkeyIndex = 1 << 4,
  kPortNumber = 1 << 5,
  kQkey = 1 << 6,
  kAddressVector = 1 << 7,
  kPathMtu = 1 << 8,
  kTimeout = 1 << 9,
  kRetryCount = 1 << 10,
  kRnrRetry = 1 << 11,
  kRqPsn = 1 << 12,
  kMaxRdAtomic = 1 << 13,
  kMinRnrTimer = 1 << 15,
  kSqPsn = 1 << 16,
  kMaxDestRdAtomic = 1 << 17,
  kDestinationQpn = 1 << 20,
};

enum Access : std::uint32_t { kRemoteWrite = 1 << 1, kRemoteRead = 1 << 2, kRemoteAtomic = 1 << 3 };

enum QueuePairState : std::uint32_t { kInit = 1, kRtr = 2, kRts = 3, kError = 6 };

}  // namespace

ib_uverbs_ah_attr address_vector(const TenantGids& addresses, const cm::Path& path,
                                 std::uint8_t sl) {
  ib_uverbs_ah_attr to{};
  copy_gid(path.remote, to.grh.dgid);
  const TenantGid* const found = addresses.find(path.local);
  const TenantGid own = found != nullptr ? *found : TenantGid{};
  to.grh.sgid_index = own.index;
  to.grh.flow_label = path.flow_label;
  to.grh.hop_limit = path.hop_limit;
  to.grh.traffic_class = path.traffic_class;
  to.is_global = 1;
  to.sl = sl;
  to.port_num = own.port;
  return to;
}

int init_qp_attr(const ChannelCommand& command, IdentifierTable& identifiers,
                 const cm::Manager& manager, const TenantGids& addresses) {
  rdma_ucm_init_qp_attr body;
  if (const int error = command.read(body)) return error;
  if (body.qp_state > kError)
    return command.refuse(EINVAL, "qp_state %u, at most %u", body.qp_state, kError);
  Identifier* id = nullptr;
  if (const int error = identifiers.find_bound(command, body.id, id)) return error;
  ib_uverbs_qp_attr attributes{};
  attributes.qp_state = body.qp_state;
  const TenantGid* const own = id->source ? addresses.find(*id->source) : nullptr;
  attributes.port_num = own != nullptr ? own->port : 1;
  if (id->is_datagram() || !id->connection.role) {
    init_attributes(*id, attributes);
  } else {
    if (!id->connection.id) return command.refuse(EINVAL, "the connection has ended");
    const auto known = manager.queue_pair_attributes(*id->connection.id);
    if (!known || !connected_attributes(*id, *known, addresses, attributes))
      return command.refuse(
          EINVAL, "no attributes of the connection for qp_state %u yet, or no more", body.qp_state);
  }
  command.reply.write(attributes);
  return 0;
}

void init_attributes(const Identifier& id, ib_uverbs_qp_attr& to) {
  to.qp_attr_mask = kState | kPkeyIndex | kPortNumber;
  if (id.is_datagram()) {
    to.qp_attr_mask |= kQkey;
    to.qkey = kDatagramQkey;
  } else {
    to.qp_attr_mask |= kAccessFlags;
  }
}

bool connected_attributes(const Identifier& id, const cm::QueuePairAttributes& known,
                          const TenantGids& addresses, ib_uverbs_qp_attr& to) {
  switch (to.qp_state) {
    case kInit:
      if (!known.may_init) return false;
      to.qp_attr_mask = kState | kAccessFlags | kPkeyIndex | kPortNumber;
      to.qp_access_flags = kRemoteWrite;
      if (known.responder_resources != 0) to.qp_access_flags |= kRemoteRead | kRemoteAtomic;
      return true;
    case kRtr:
      if (!known.may_connect) return false;
      to.qp_attr_mask = kState | kAddressVector | kPathMtu | kDestinationQpn | kRqPsn |
                        kMaxDestRdAtomic | kMinRnrTimer;
      to.ah_attr = address_vector(addresses, known.path, known.sl);
      to.path_mtu = known.path_mtu;
      to.dest_qp_num = known.remote_qpn.value;
      // The starting PSN that an end reports is the first PSN of its peer (12.7.31).
      to.rq_psn = id.connection.local_psn.value();
      to.max_dest_rd_atomic = known.responder_resources;
      return true;
    case kRts:
      if (!known.may_connect) return false;
      to.qp_attr_mask = kState | kSqPsn | kTimeout | kRetryCount | kRnrRetry | kMaxRdAtomic;
      to.sq_psn = id.connection.remote_psn.value();
      to.timeout = id.options.ack_timeout.value_or(known.ack_timeout);
      to.retry_cnt = known.retry_count;
      to.rnr_retry = known.rnr_retry_count;
      to.max_rd_atomic = known.initiator_depth;
      return true;
    default:
      return false;
  }
}

}  // namespace softhca::management::rdma_cm
