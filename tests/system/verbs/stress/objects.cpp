// SPDX-License-Identifier: Apache-2.0

#include "tests/system/verbs/stress/objects.hpp"

namespace softhca::stress {
namespace {

constexpr std::uint8_t kTimeout =
    16;  // 268 ms, eight times: the adapter may have to wait for a core
constexpr std::uint8_t kForEver = 7;  // of retries for a receiver that is not ready

Context open(const std::string& name) {
  ibv_device** const list = made(ibv_get_device_list(nullptr), "ibv_get_device_list");
  ibv_context* context = nullptr;
  for (ibv_device** d = list; *d != nullptr && context == nullptr; ++d)
    if (name == ibv_get_device_name(*d)) context = ibv_open_device(*d);
  ibv_free_device_list(list);
  return Context(made(context, "ibv_open_device"));
}

void to_init(ibv_qp* qp) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  if (qp->qp_type != IBV_QPT_UC)
    attr.qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  must(ibv_modify_qp(qp, &attr,
                     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
       "ibv_modify_qp to INIT");
}

void to_receive(ibv_qp* qp, const Path& peer, ibv_mtu mtu, std::uint8_t reads_at_once) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = mtu;
  attr.dest_qp_num = peer.qpn;
  attr.rq_psn = peer.psn;
  attr.ah_attr = route_to(peer.gid);
  attr.max_dest_rd_atomic = reads_at_once;
  attr.min_rnr_timer = 1;
  int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  if (qp->qp_type == IBV_QPT_RC || qp->qp_type == IBV_QPT_XRC_RECV)
    mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  must(ibv_modify_qp(qp, &attr, mask), "ibv_modify_qp to RTR");
}

void to_send(ibv_qp* qp, std::uint32_t psn, std::uint8_t reads_at_once) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTS;
  attr.sq_psn = psn;
  attr.timeout = kTimeout;
  attr.retry_cnt = attr.rnr_retry = kForEver;
  attr.max_rd_atomic = reads_at_once;
  int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
  if (qp->qp_type == IBV_QPT_RC || qp->qp_type == IBV_QPT_XRC_SEND)
    mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  if (qp->qp_type == IBV_QPT_XRC_RECV) mask |= IBV_QP_TIMEOUT;
  must(ibv_modify_qp(qp, &attr, mask), "ibv_modify_qp to RTS");
}

}  // namespace

Device::Device(const std::string& name) : context(open(name)) {
  must(ibv_query_gid(context.get(), 1, 0, &gid), "ibv_query_gid");
}

ibv_ah_attr route_to(const ibv_gid& gid) {
  ibv_ah_attr attr{};
  attr.is_global = 1;
  attr.port_num = 1;
  attr.grh.dgid = gid;
  attr.grh.hop_limit = 64;
  return attr;
}

void to_state(ibv_qp* qp, ibv_qp_state state) {
  ibv_qp_attr attr{};
  attr.qp_state = state;
  must(ibv_modify_qp(qp, &attr, IBV_QP_STATE),
       "ibv_modify_qp to state " + std::to_string(static_cast<int>(state)));
}

void bring_up(ibv_qp* qp, const Path& peer, std::uint32_t own_psn, ibv_mtu mtu,
              std::uint8_t reads_at_once) {
  to_init(qp);
  to_receive(qp, peer, mtu, reads_at_once);
  if (qp->qp_type != IBV_QPT_XRC_RECV) to_send(qp, own_psn, reads_at_once);
}

void bring_up(ibv_qp* qp, std::uint32_t qkey) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qkey = qkey;
  must(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
       "ibv_modify_qp to INIT");
  to_state(qp, IBV_QPS_RTR);
  attr.qp_state = IBV_QPS_RTS;
  must(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), "ibv_modify_qp to RTS");
}

}  // namespace softhca::stress
