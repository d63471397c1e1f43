// SPDX-License-Identifier: Apache-2.0

// What programs of the system tests share. They end with code 1 where something is not as it should
// be, and say what.
#pragma once

#include <infiniband/verbs.h>
#include <sched.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

inline constexpr std::time_t kPatience = 30;  // seconds

inline void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s (%s)\n", what, std::strerror(errno));
  std::exit(1);
}

inline ibv_context* open_device(const char* name) {
  ibv_device** const list = ibv_get_device_list(nullptr);
  expect(list != nullptr, "list of devices");
  ibv_context* context = nullptr;
  for (ibv_device** d = list; *d != nullptr; ++d)
    if (std::strcmp(ibv_get_device_name(*d), name) == 0) context = ibv_open_device(*d);
  ibv_free_device_list(list);
  expect(context != nullptr, name);
  return context;
}

/// To RTS, as both ends of a connection need it. `reads`: reads and atomics in flight, each way.
inline void bring_up(ibv_qp* qp, std::uint32_t peer, const ibv_gid& gid, int gid_index,
                     std::uint8_t reads = 1) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  if (reads > 1) attr.qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  expect(ibv_modify_qp(qp, &attr,
                       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0,
         "to INIT");
  attr = {};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = peer;
  attr.max_dest_rd_atomic = reads;
  attr.min_rnr_timer = 12;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.dgid = gid;
  attr.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(gid_index);
  attr.ah_attr.grh.hop_limit = 64;
  expect(ibv_modify_qp(qp, &attr,
                       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                           IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0,
         "to RTR");
  attr = {};
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = 17;  // 4 s with all retries, for machines that are slow
  attr.retry_cnt = attr.rnr_retry = 7;
  attr.max_rd_atomic = reads;
  expect(ibv_modify_qp(qp, &attr,
                       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                           IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0,
         "to RTS");
}

/// A UD queue pair, to RTS.
inline void bring_up_datagrams(ibv_qp* qp, std::uint32_t qkey) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qkey = qkey;
  expect(
      ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) == 0,
      "to INIT");
  attr.qp_state = IBV_QPS_RTR;
  expect(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0, "to RTR");
  attr.qp_state = IBV_QPS_RTS;
  expect(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0, "to RTS");
}

/// A send of `list`, signalled; `wr` has what else it needs.
inline void post_send(ibv_qp* qp, ibv_sge* list, int count, ibv_send_wr wr = {}) {
  wr.sg_list = list;
  wr.num_sge = count;
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  expect(ibv_post_send(qp, &wr, &bad) == 0, "posting a send");
}

inline ibv_wc wait_for(ibv_cq* cq, const char* what) {
  ibv_wc wc{};
  const std::time_t end = std::time(nullptr) + kPatience;
  int got = 0;
  while ((got = ibv_poll_cq(cq, 1, &wc)) == 0 && std::time(nullptr) < end)
    sched_yield();  // the daemon may need this processor
  expect(got == 1 && wc.status == IBV_WC_SUCCESS, what);
  return wc;
}
