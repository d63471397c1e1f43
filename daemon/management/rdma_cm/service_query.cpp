// QUERY_ROUTE and INIT_QP_ATTR.
#include <arpa/inet.h>

#include <cerrno>

#include "daemon/management/rdma_cm/service.hpp"

namespace softhca::management::rdma_cm {

namespace {

constexpr std::uint8_t kPort = 1;  // adapters have one
constexpr std::uint16_t kPkey = 0xffff;
constexpr std::uint32_t kNoDeviceIndex = 0xffffffff;
constexpr std::uint8_t kExactly = 2;  // selectors of a path record

/// enum ibv_qp_attr_mask, of which the kernel's headers have no copy.
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

template <class Bytes>
void copy_gid(const Gid& from, Bytes& to) {
  static_assert(sizeof to == sizeof from.bytes);
  std::memcpy(to, from.bytes.data(), sizeof to);
}

}  // namespace

// --- QUERY_ROUTE

int Service::query_route(Channel& channel, Body body, Reply& reply) {
  rdma_ucm_query command;
  if (!read_body(body, command)) return EINVAL;
  Identifier* id = nullptr;
  if (const int error = find(channel, command.id, id)) return error;

  rdma_ucm_query_route_resp response{};
  response.src_addr = to_sockaddr(id->local);
  response.dst_addr = to_sockaddr(id->remote);
  if (id->source) {
    response.node_guid = htobe64(environment_.adapter().node_guid);
    response.port_num = kPort;
    response.ibdev_index = kNoDeviceIndex;  // found by its GUID
    ib_user_path_rec& path = response.ib_route[0];
    copy_gid(*id->source, path.sgid);
    copy_gid(id->remote.address, path.dgid);
    path.pkey = htons(kPkey);
    if (id->route) {
      response.num_paths = 1;
      path.reversible = 1;
      path.mtu_selector = path.rate_selector = path.packet_life_time_selector = kExactly;
      path.mtu = id->route->mtu;
      path.rate = id->route->rate;
      path.packet_life_time = id->route->packet_life_time;
      path.flow_label = htonl(id->route->flow_label);
      path.traffic_class = id->route->traffic_class;
      path.hop_limit = id->route->hop_limit;
      path.sl = id->route->sl;
    }
  }
  reply.write(response);
  return 0;
}

// --- INIT_QP_ATTR

ib_uverbs_ah_attr Service::address_vector(const cm::Path& path, std::uint8_t sl) const {
  ib_uverbs_ah_attr to{};
  copy_gid(path.remote, to.grh.dgid);
  const LocalAddress* const own = own_address(path.local);
  to.grh.sgid_index = own != nullptr ? own->index : 0;
  to.grh.flow_label = path.flow_label;
  to.grh.hop_limit = path.hop_limit;
  to.grh.traffic_class = path.traffic_class;
  to.is_global = 1;
  to.sl = sl;
  to.port_num = kPort;
  return to;
}

int Service::init_qp_attr(Channel& channel, Body body, Reply& reply) {
  rdma_ucm_init_qp_attr command;
  if (!read_body(body, command)) return EINVAL;
  if (command.qp_state > kError) return EINVAL;
  Identifier* id = nullptr;
  if (const int error = find_bound(channel, command.id, id)) return error;
  ib_uverbs_qp_attr attributes{};
  attributes.qp_state = command.qp_state;
  attributes.port_num = kPort;
  if (id->is_datagram() || !id->role)
    init_attributes(*id, attributes);
  else if (!connected_attributes(*id, attributes))
    return EINVAL;
  reply.write(attributes);
  return 0;
}

/// Before there is a connection, and for datagrams: of INIT, whatever the state asked for.
void Service::init_attributes(const Identifier& id, ib_uverbs_qp_attr& to) const {
  to.qp_attr_mask = kState | kPkeyIndex | kPortNumber;
  if (id.is_datagram()) {
    to.qp_attr_mask |= kQkey;
    to.qkey = kDatagramQkey;
  } else {
    to.qp_attr_mask |= kAccessFlags;
  }
}

/// False: not in this state of the connection.
bool Service::connected_attributes(const Identifier& id, ib_uverbs_qp_attr& to) const {
  if (!id.connection) return false;
  const auto known = manager_.queue_pair_attributes(*id.connection);
  if (!known) return false;
  switch (to.qp_state) {
    case kInit:
      if (!known->may_init) return false;
      to.qp_attr_mask = kState | kAccessFlags | kPkeyIndex | kPortNumber;
      to.qp_access_flags = kRemoteWrite;
      if (known->responder_resources != 0) to.qp_access_flags |= kRemoteRead | kRemoteAtomic;
      return true;
    case kRtr:
      if (!known->may_connect) return false;
      to.qp_attr_mask = kState | kAddressVector | kPathMtu | kDestinationQpn | kRqPsn |
                        kMaxDestRdAtomic | kMinRnrTimer;
      to.ah_attr = address_vector(known->path, known->sl);
      to.path_mtu = known->path_mtu;
      to.dest_qp_num = known->remote_qpn.value;
      // The starting PSN that an end tells is the one its peer is to send from (12.7.31).
      to.rq_psn = id.local_psn.value();
      to.max_dest_rd_atomic = known->responder_resources;
      return true;
    case kRts:
      if (!known->may_connect) return false;
      to.qp_attr_mask = kState | kSqPsn | kTimeout | kRetryCount | kRnrRetry | kMaxRdAtomic;
      to.sq_psn = id.remote_psn.value();
      to.timeout = id.ack_timeout.value_or(known->ack_timeout);
      to.retry_cnt = known->retry_count;
      to.rnr_retry = known->rnr_retry_count;
      to.max_rd_atomic = known->initiator_depth;
      return true;
    default:
      return false;
  }
}

}  // namespace softhca::management::rdma_cm
