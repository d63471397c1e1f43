// SPDX-License-Identifier: Apache-2.0

#include <sched.h>

#include <cerrno>

#include "libverbs-provider/context.hpp"
#include "libverbs-provider/explain.hpp"
#include "libverbs-provider/operations.hpp"
#include "libverbs-provider/verbs/polling.hpp"

namespace softhca::provider {
namespace {

/// Two busy polling threads on one core cost 8 ms for each switch. If they yield after some empty
/// polls, a switch costs microseconds.
constexpr std::uint32_t kEmptyPollsBeforeYield = 16;
/// Empty polls between two checks whether the daemon still runs.
constexpr std::uint32_t kEmptyPollsBeforeCheck = 1 << 14;

/// Frees the element of the send queue, and those before it. Returns its wr_id.
std::uint64_t complete_send(Sq& queue, std::uint32_t sequence) {
  const std::uint64_t wr_id = queue.wr_ids[sequence & queue.mask];
  // One completion also frees all earlier, unsignalled commands.
  queue.completed.store(sequence + 1, std::memory_order_release);
  return wr_id;
}

std::uint64_t complete_receive(Qp& qp, std::uint32_t index) {
  if (qp.srq != nullptr) return return_slot(*qp.srq, index);
  Rq& queue = qp.receive;
  const std::uint64_t wr_id = queue.wr_ids[index & queue.mask];
  queue.completed.store(index + 1, std::memory_order_release);
  return wr_id;
}

/// Returns the packet type of a datagram, which RoCE adapters report in the service level, a field
/// without another use in RoCE (IBA A17.4.5.1 asks for the distinction). Bit 3: UDP; bits 0 to 2: 1
/// for IPv6, 2 for IPv4. UCX uses it to find the address in the routing header.
std::uint8_t packet_type(const PolledCompletion& completion) {
  constexpr std::uint8_t kUdpIpv6 = 8 | 1;
  constexpr std::uint8_t kUdpIpv4 = 8 | 2;
  if ((completion.flags & abi::kCompletionGrh) == 0) return 0;
  return (completion.flags & abi::kCompletionIpv4) != 0 ? kUdpIpv4 : kUdpIpv6;
}

/// Finds the object of the completion, and its wr_id. False: the object no longer exists. An XRC
/// receive belongs to its shared receive queue; the queue pair may be another process's.
bool take_back(const Context& context, const PolledCompletion& completion, std::uint64_t& wr_id) {
  if (completion.is_receive == kDiscarded) return false;
  if (completion.is_receive == abi::kCompletionOfXrcReceive) {
    Srq* srq = context.xrc_srqs.find(completion.source_qp);
    if (srq != nullptr) wr_id = return_slot(*srq, completion.index);
    return srq != nullptr;
  }
  Qp* qp = context.qps.find(completion.qpn);
  if (qp == nullptr) return false;
  if (completion.status != IBV_WC_SUCCESS) qp->flushing.store(true, std::memory_order_relaxed);
  wr_id = completion.is_receive != 0 ? complete_receive(*qp, completion.index)
                                     : complete_send(qp->send, completion.index);
  return true;
}

/// Converts a completion. False: its object no longer exists.
bool translate(const Context& context, const PolledCompletion& completion, ibv_wc& wc) {
  if (!take_back(context, completion, wc.wr_id)) return false;
  wc.status = static_cast<ibv_wc_status>(completion.status);
  wc.opcode = static_cast<ibv_wc_opcode>(completion.opcode);
  const bool failed = completion.status != IBV_WC_SUCCESS;
  wc.vendor_err = failed ? completion.imm : 0;
  wc.byte_len = completion.byte_len;
  wc.imm_data = failed ? 0 : completion.imm;  // in a union with invalidated_rkey
  wc.qp_num = completion.qpn;
  const bool xrc = completion.is_receive == abi::kCompletionOfXrcReceive;
  wc.src_qp = xrc ? 0 : completion.source_qp;
  wc.wc_flags = completion.flags & ~std::uint32_t{abi::kCompletionIpv4};
  wc.pkey_index = 0;
  wc.slid = 0;
  wc.sl = packet_type(completion);
  wc.dlid_path_bits = 0;
  return true;
}

int take(Cq& cq, int entries, ibv_wc* wc) {
  Guard guard(cq.lock);
  int count = 0;
  std::uint64_t timestamp = 0;
  const std::uint32_t first = cq.ring.consumer;
  while (count < entries && take_completion(cq, wc[count], timestamp)) ++count;
  if (cq.ring.consumer != first)
    cq.ring.header->consumer.store(cq.ring.consumer, std::memory_order_release);
  cq.empty_polls = count == 0 ? cq.empty_polls + 1 : 0;
  return count;
}

}  // namespace

bool take_completion(Cq& cq, ibv_wc& wc, std::uint64_t& timestamp) {
  while (cq.backlog_next != cq.backlog_count) {
    const PolledCompletion& completion = cq.backlog[cq.backlog_next++];
    timestamp = completion.timestamp;
    if (translate(*cq.context, completion, wc)) return true;
  }
  while (const abi::CompletionElement* element = cq.ring.peek(cq.ring.consumer)) {
    ++cq.ring.consumer;
    const PolledCompletion completion = copy_completion(*element);
    timestamp = completion.timestamp;
    if (translate(*cq.context, completion, wc)) return true;
  }
  return false;
}

/// Explains only the first failure, because programs repeat polls at any rate. Returns EIO.
int refuse_poll(Cq& cq) {
  if (!cq.poll_explained.exchange(true, std::memory_order_relaxed))
    return failed("ibv_poll_cq", refuse_lost());
  errno = EIO;
  return EIO;
}

int poll_in_vain(Cq& cq) {
  const std::uint32_t empty = cq.empty_polls;
  if (empty % kEmptyPollsBeforeYield == 1) {
    // An engine on this processor cannot do anything before the thread yields.
    const bool shares = cq.context->placement.after_empty_poll(cq.context->session);
    if (shares || empty != 1) sched_yield();
  }
  // Completions of an ended daemon are delivered before its end is reported.
  if (empty % kEmptyPollsBeforeCheck == 0) {
    if (!cq.context->session.can_wake()) cq.context->control.give_up();
    cq.context->control.hung_up();
  }
  return cq.context->control.lost() ? refuse_poll(cq) : 0;
}

int poll_cq(ibv_cq* ibv_cq, int entries, ibv_wc* wc) {
  Cq& cq = *to_cq(ibv_cq);
  if (cq.context->forked.load(std::memory_order_relaxed)) return -refuse_poll(cq);
  const int count = take(cq, entries, wc);
  return count != 0 || entries <= 0 ? count : -poll_in_vain(cq);
}

}  // namespace softhca::provider
