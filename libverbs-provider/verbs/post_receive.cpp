// SPDX-License-Identifier: Apache-2.0

#include <cerrno>
#include <cstring>

#include "libverbs-provider/context.hpp"
#include "libverbs-provider/explain.hpp"
#include "libverbs-provider/operations.hpp"
#include "libverbs-provider/verbs/queues.hpp"

namespace softhca::provider {
namespace {

bool entries_fit(const ibv_recv_wr& wr, std::uint32_t max_sge) {
  return wr.num_sge >= 0 && static_cast<std::uint32_t>(wr.num_sge) <= max_sge;
}

int refuse_entries(const ibv_recv_wr& wr, const char* attribute, std::uint32_t max_sge) {
  return refuse(EINVAL, "wr.num_sge %d, must be 0 to %s %u", wr.num_sge, attribute, max_sge);
}

int refuse_full(const char* attribute, std::uint32_t max_wr) {
  return refuse(ENOMEM, "the queue is full: %u receives (%s) have no polled completion", max_wr,
                attribute);
}

/// Writes one receive. Returns 0 or an errno value. REQUIRES: queue.lock held.
int write_receive(Rq& queue, const ibv_recv_wr& wr) {
  if (!entries_fit(wr, queue.max_sge)) return refuse_entries(wr, "max_recv_sge", queue.max_sge);
  if (queue.next - queue.completed.load(std::memory_order_acquire) >= queue.max_wr)
    return refuse_full("max_recv_wr", queue.max_wr);
  const std::uint32_t place = queue.next & queue.mask;
  write_receive_element(queue.elements + std::size_t{place} * queue.stride, queue.next, wr);
  queue.wr_ids[place] = wr.wr_id;
  ++queue.next;
  return 0;
}

/// Writes one receive. Returns 0 or an errno value. REQUIRES: srq.lock held.
int write_receive(Srq& srq, const ibv_recv_wr& wr) {
  if (!entries_fit(wr, srq.max_sge)) return refuse_entries(wr, "max_sge", srq.max_sge);
  if (srq.outstanding() >= srq.max_wr) return refuse_full("max_wr", srq.max_wr);
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
      error = refuse_lost();
    else if (qp.receive.header == nullptr)
      error =
          qp.srq != nullptr
              ? refuse(EINVAL, "the queue pair has a shared receive queue: ibv_post_srq_recv")
              : refuse(EINVAL, "a queue pair of type %s has no receives", name_of_type(qp.type));
    else if (state == IBV_QPS_RESET)
      error = refuse(EINVAL, "the queue pair is in RESET, must be in INIT or later");
    if (error != 0) {
      *bad = wr;
      return failed("ibv_post_recv", error);
    }
    error = write_chain(qp.receive, wr, bad);
  }
  // The engine must flush these at once, and may be asleep.
  if (state == IBV_QPS_ERR || qp.flushing.load(std::memory_order_relaxed)) {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    qp.context->session.wake_if_parked();
  }
  return report("ibv_post_recv", error);
}

int post_srq_recv(ibv_srq* ibv_srq, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  Srq& srq = *to_srq(ibv_srq);
  if (srq.context->control.lost()) {
    *bad = wr;
    return failed("ibv_post_srq_recv", refuse_lost());
  }
  Guard guard(srq.lock);
  return report("ibv_post_srq_recv", write_chain(srq, wr, bad));
}

}  // namespace softhca::provider
