// SPDX-License-Identifier: Apache-2.0

#include <cerrno>
#include <cstring>

#include "libverbs-provider/context.hpp"
#include "libverbs-provider/operations.hpp"
#include "libverbs-provider/verbs/queues.hpp"

namespace softhca::provider {
namespace {

bool entries_fit(const ibv_recv_wr& wr, std::uint32_t max_sge) {
  return wr.num_sge >= 0 && static_cast<std::uint32_t>(wr.num_sge) <= max_sge;
}

/// Writes one receive. Returns 0 or an errno value. REQUIRES: queue.lock held.
int write_receive(Rq& queue, const ibv_recv_wr& wr) {
  if (!entries_fit(wr, queue.max_sge)) return EINVAL;
  if (queue.next - queue.completed.load(std::memory_order_acquire) >= queue.max_wr) return ENOMEM;
  const std::uint32_t place = queue.next & queue.mask;
  write_receive_element(queue.elements + std::size_t{place} * queue.stride, queue.next, wr);
  queue.wr_ids[place] = wr.wr_id;
  ++queue.next;
  return 0;
}

/// Writes one receive. Returns 0 or an errno value. REQUIRES: srq.lock held.
int write_receive(Srq& srq, const ibv_recv_wr& wr) {
  if (!entries_fit(wr, srq.max_sge)) return EINVAL;
  if (srq.outstanding() >= srq.max_wr) return ENOMEM;
  const std::uint32_t index = srq.free_slots[--srq.free_count];
  const std::uint32_t place = srq.next & srq.mask;
  write_receive_element(srq.elements + std::size_t{place} * srq.stride, index, wr);
  srq.wr_ids[index] = wr.wr_id;
  ++srq.next;
  return 0;
}

/// Posts the chain to a locked queue. Returns 0 or an errno value; then *bad is the refused
/// element.
template <class Queue>
int write_chain(Queue& queue, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  int error = 0;
  while (wr != nullptr && (error = write_receive(queue, *wr)) == 0) wr = wr->next;
  if (error != 0) *bad = wr;
  queue.header->producer.store(queue.next, std::memory_order_release);
  return error;
}

}  // namespace

void write_receive_element(std::byte* slot, std::uint32_t index, const ibv_recv_wr& wr) {
  const abi::ReceiveElement element{index, static_cast<std::uint32_t>(wr.num_sge), 0};
  std::memcpy(slot, &element, sizeof element);
  slot += sizeof element;
  for (int i = 0; i < wr.num_sge; ++i) {
    const abi::ScatterGather entry{wr.sg_list[i].addr, wr.sg_list[i].length, wr.sg_list[i].lkey};
    std::memcpy(slot + static_cast<std::size_t>(i) * sizeof entry, &entry, sizeof entry);
  }
}

int post_recv(ibv_qp* ibv_qp, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  Qp& qp = *to_qp(ibv_qp);
  int state = IBV_QPS_RESET;
  int error = 0;
  {
    Guard guard(qp.receive.lock);
    state = qp.state.load(std::memory_order_acquire);
    if (qp.context->control.lost())
      error = EIO;
    else if (state == IBV_QPS_RESET || qp.receive.header == nullptr)
      error = EINVAL;
    if (error != 0) {
      *bad = wr;
      return report(error);
    }
    error = write_chain(qp.receive, wr, bad);
  }
  // The engine must flush these at once, and may be asleep.
  if (state == IBV_QPS_ERR || qp.flushing.load(std::memory_order_relaxed)) {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    qp.context->session.wake_if_parked();
  }
  return report(error);
}

int post_srq_recv(ibv_srq* ibv_srq, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  Srq& srq = *to_srq(ibv_srq);
  if (srq.context->control.lost()) {
    *bad = wr;
    return report(EIO);
  }
  Guard guard(srq.lock);
  return report(write_chain(srq, wr, bad));
}

}  // namespace softhca::provider
