// SPDX-License-Identifier: Apache-2.0

#include "bench/verbs/queue_pair.hpp"

#include <cerrno>

namespace softhca::bench {

void check(int error, const char* what) {
  if (!error) return;
  errno = error;
  die(what);
}

ibv_qp* create_rc(const Device& device, const RcQueues& queues) {
  ibv_qp_init_attr init{};
  init.send_cq = queues.send_cq;
  init.recv_cq = queues.receive_cq;
  init.srq = queues.srq;
  init.qp_type = IBV_QPT_RC;
  init.cap = {queues.sends, queues.receives, 1, 1, 0};
  ibv_qp* qp = ibv_create_qp(device.pd(), &init);
  if (!qp) die("queue pair");
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  check(ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
        "queue pair to INIT");
  return qp;
}

void connect_rc(ibv_qp* qp, const Device& device, const RemoteEnd& remote, std::uint32_t psn,
                ibv_mtu mtu, std::uint8_t reads) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = mtu;
  attr.dest_qp_num = remote.qpn;
  attr.rq_psn = remote.psn;
  attr.max_dest_rd_atomic = reads;
  attr.min_rnr_timer = 1;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.grh.dgid = remote.gid;
  attr.ah_attr.grh.sgid_index = device.gid_index();
  attr.ah_attr.grh.hop_limit = 64;
  attr.ah_attr.port_num = 1;
  check(ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
        "queue pair to RTR");
  attr.qp_state = IBV_QPS_RTS;
  attr.sq_psn = psn;
  attr.timeout = 14;
  attr.retry_cnt = 7;
  attr.rnr_retry = 7;
  attr.max_rd_atomic = reads;
  check(ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                          IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
        "queue pair to RTS");
}

}  // namespace softhca::bench
