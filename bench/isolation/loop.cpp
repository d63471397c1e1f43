// SPDX-License-Identifier: Apache-2.0

#include "bench/isolation/loop.hpp"

#include <algorithm>
#include <cerrno>
#include <string>
#include <thread>

#include "bench/verbs/queue_pair.hpp"

namespace softhca::bench {

void await_event(ibv_comp_channel* channel) {
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  if (ibv_get_cq_event(channel, &cq, &context)) die("get_cq_event");
  ibv_ack_cq_events(cq, 1);
  check(ibv_req_notify_cq(cq, 0), "req_notify_cq");
}

Loop::Loop(const Device& device, const Demand& demand, int more_access)
    : demand_(demand),
      areas_(area_pairs(demand.size, demand.queue_pairs)),
      buffer_(std::size_t{areas_} * 2 * demand.size),
      in_flight_(demand.queue_pairs),
      chain_(demand.chain) {
  mr_ = ibv_reg_mr(device.pd(), buffer_.data(), buffer_.size(),
                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | more_access);
  if (!mr_) die("memory region");
  channel_ = ibv_create_comp_channel(device.context());
  if (!channel_) die("completion channel");
  const std::uint32_t signals = demand.queue_pairs * (demand.depth / demand.chain);
  cq_ = ibv_create_cq(device.context(), static_cast<int>(signals), nullptr, channel_, 0);
  if (!cq_) die("completion queue");
  for (std::uint32_t i = 0; i < demand.queue_pairs; ++i) {
    senders_.push_back(create_rc(device, cq_, demand.depth, 1));
    receivers_.push_back(create_rc(device, cq_, 1, 1));
    connect_rc(receivers_[i], device, {senders_[i]->qp_num, 1, device.gid()}, 1, IBV_MTU_1024);
    connect_rc(senders_[i], device, {receivers_[i]->qp_num, 1, device.gid()}, 1, IBV_MTU_1024);
  }
}

Loop::~Loop() {
  for (const auto* list : {&senders_, &receivers_})
    for (ibv_qp* qp : *list) ibv_destroy_qp(qp);
  ibv_destroy_cq(cq_);
  ibv_destroy_comp_channel(channel_);
  ibv_dereg_mr(mr_);
}

void Loop::post(std::uint32_t qp, ibv_wr_opcode opcode) {
  const auto from = reinterpret_cast<std::uint64_t>(buffer_.data()) + offset(qp);
  ibv_sge sge{from, demand_.size, mr_->lkey};
  for (std::uint32_t i = 0; i < demand_.chain; ++i) {
    const bool last = i + 1 == demand_.chain;
    ibv_send_wr& wr = chain_[i];
    wr = {};
    wr.wr_id = qp;
    wr.next = last ? nullptr : &chain_[i + 1];
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = opcode;
    wr.send_flags = last ? IBV_SEND_SIGNALED : 0;
    wr.wr.rdma = {from + demand_.size, mr_->rkey};
  }
  ibv_send_wr* bad = nullptr;
  check(ibv_post_send(senders_[qp], chain_.data(), &bad), "post_send");
  in_flight_[qp] += demand_.chain;
}

void Loop::fill(std::uint32_t qp, ibv_wr_opcode opcode) {
  while (in_flight_[qp] + demand_.chain <= demand_.depth) post(qp, opcode);
}

void Loop::flood() {
  check(ibv_req_notify_cq(cq_, 0), "req_notify_cq");
  for (std::uint32_t qp = 0; qp < demand_.queue_pairs; ++qp) fill(qp, IBV_WR_RDMA_WRITE);
  for (;;) {
    reap();
    for (std::uint32_t qp = 0; qp < demand_.queue_pairs; ++qp) fill(qp, IBV_WR_RDMA_WRITE);
  }
}

void Loop::trickle(std::chrono::milliseconds pause) {
  check(ibv_req_notify_cq(cq_, 0), "req_notify_cq");
  for (;;) {
    post(0, IBV_WR_RDMA_WRITE);
    while (in_flight_[0] != 0) reap();
    std::this_thread::sleep_for(pause);
  }
}

/// Polls completions; if there are none, waits for some.
void Loop::reap() {
  ibv_wc completions[32];
  const int n = ibv_poll_cq(cq_, 32, completions);
  errno = 0;
  if (n < 0) die("poll_cq");
  if (n == 0) await_event(channel_);
  for (int i = 0; i < n; ++i) {
    const ibv_wc& wc = completions[i];
    if (wc.status != IBV_WC_SUCCESS)
      die(std::string("completion: ") + ibv_wc_status_str(wc.status));
    in_flight_[wc.wr_id] -= demand_.chain;
  }
}

}  // namespace softhca::bench
