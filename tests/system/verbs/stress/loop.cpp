// SPDX-License-Identifier: Apache-2.0

#include "tests/system/verbs/stress/loop.hpp"

namespace softhca::stress {

Loop::Loop(const Device& device, ibv_pd* pd, Completions& completions, ibv_qp_cap cap)
    : device_(device), completions_(completions) {
  ibv_qp_init_attr init{};
  init.qp_type = IBV_QPT_RC;
  init.send_cq = init.recv_cq = completions.cq();
  init.cap = cap;
  qp_.reset(made(ibv_create_qp(pd, &init), "ibv_create_qp"));
  connect();
  completions_.admit(qp_->qp_num, &sent_, &received_);
}

Loop::~Loop() {
  const std::uint32_t number = qp_->qp_num;
  qp_.reset();
  completions_.forget(number, &sent_);
}

void Loop::connect() { bring_up(qp_.get(), {device_.gid, qp_->qp_num, 1}, 1, IBV_MTU_1024, 4); }

void Loop::reset() {
  to_state(qp_.get(), IBV_QPS_RESET);
  completions_.clear(sent_, received_);
  posted_.clear();
  connect();
}

void Loop::post(ibv_send_wr wr, ibv_sge local) {
  ibv_send_wr* bad = nullptr;
  wr.wr_id = ++serial_;
  wr.sg_list = &local;
  wr.num_sge = local.length != 0 ? 1 : 0;
  wr.send_flags |= IBV_SEND_SIGNALED;
  must(ibv_post_send(qp_.get(), &wr, &bad), "ibv_post_send");
  posted_.push_back(wr.wr_id);
}

void Loop::write(ibv_sge from, const std::byte* to, std::uint32_t key, unsigned flags) {
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = flags;
  wr.wr.rdma = {reinterpret_cast<std::uintptr_t>(to), key};
  post(wr, from);
}

void Loop::read(ibv_sge to, const std::byte* from, std::uint32_t key) {
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_RDMA_READ;
  wr.wr.rdma = {reinterpret_cast<std::uintptr_t>(from), key};
  post(wr, to);
}

std::uint32_t Loop::bind(ibv_mw* window, ibv_mr* region, const std::byte* begin, std::size_t bytes,
                         unsigned access) {
  const ibv_mw_bind_info info{region, reinterpret_cast<std::uintptr_t>(begin), bytes, access};
  if (window->type == IBV_MW_TYPE_1) {
    ibv_mw_bind bind{++serial_, IBV_SEND_SIGNALED, info};
    must(ibv_bind_mw(qp_.get(), window, &bind), "ibv_bind_mw");
    posted_.push_back(bind.wr_id);
    return window->rkey;
  }
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_BIND_MW;
  wr.bind_mw.mw = window;
  wr.bind_mw.rkey = ibv_inc_rkey(window->rkey);
  wr.bind_mw.bind_info = info;
  post(wr, {});
  return wr.bind_mw.rkey;
}

void Loop::invalidate(std::uint32_t key) {
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_LOCAL_INV;
  wr.invalidate_rkey = key;
  post(wr, {});
}

ibv_wc_status Loop::finish() {
  ibv_wc_status first = IBV_WC_SUCCESS;
  for (const auto end = Clock::now() + kPatience; !posted_.empty();) {
    completions_.poll();
    const auto wc = completions_.take(sent_);
    if (!wc && Clock::now() > end) throw Fault("no completion of a queue pair with itself");
    if (!wc) {
      pause();
      continue;
    }
    if (wc->wr_id != posted_.front()) throw Fault("a completion out of order, twice or lost");
    if (first != IBV_WC_SUCCESS && wc->status != IBV_WC_WR_FLUSH_ERR)
      throw Fault("a command that was to be flushed");
    if (first == IBV_WC_SUCCESS) first = wc->status;
    posted_.pop_front();
  }
  return first;
}

}  // namespace softhca::stress
