// SPDX-License-Identifier: Apache-2.0

// Two queue pairs of one process, connected to each other, and writes by them.
#pragma once

#include "tests/system/programs.hpp"

struct Pair {
  ibv_cq* cq;
  ibv_qp* from;
  ibv_qp* to;
};

/// Two queue pairs that are connected to each other.
inline Pair make_pair(ibv_pd* pd, int gid_index) {
  ibv_gid gid{};
  expect(ibv_query_gid(pd->context, 1, gid_index, &gid) == 0, "the GID");
  ibv_qp_init_attr init{};
  init.qp_type = IBV_QPT_RC;
  init.send_cq = init.recv_cq = ibv_create_cq(pd->context, 4, nullptr, nullptr, 0);
  init.cap.max_send_wr = init.cap.max_send_sge = 1;
  Pair pair{init.send_cq, ibv_create_qp(pd, &init), ibv_create_qp(pd, &init)};
  expect(pair.from != nullptr && pair.to != nullptr, "the queue pairs");
  bring_up(pair.from, pair.to->qp_num, gid, gid_index);
  bring_up(pair.to, pair.from->qp_num, gid, gid_index);
  return pair;
}

/// Its completion may be an error.
inline ibv_wc_status write_to(const Pair& pair, ibv_sge from, std::uint64_t addr,
                              std::uint32_t rkey) {
  ibv_send_wr wr{};
  wr.sg_list = &from;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.rdma = {addr, rkey};
  ibv_send_wr* bad = nullptr;
  expect(ibv_post_send(pair.from, &wr, &bad) == 0, "posting a write");
  ibv_wc wc{};
  const std::time_t end = std::time(nullptr) + kPatience;
  while (ibv_poll_cq(pair.cq, 1, &wc) == 0) expect(std::time(nullptr) < end, "a completion");
  return wc.status;
}

inline void end_pair(const Pair& pair) {
  expect(ibv_destroy_qp(pair.from) == 0 && ibv_destroy_qp(pair.to) == 0 &&
             ibv_destroy_cq(pair.cq) == 0,
         "ending the queue pairs");
}
