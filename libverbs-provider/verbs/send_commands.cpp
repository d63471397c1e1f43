// SPDX-License-Identifier: Apache-2.0

#include "libverbs-provider/verbs/send_commands.hpp"

#include <sched.h>

#include <cerrno>
#include <iterator>

#include "libverbs-provider/context.hpp"
#include "libverbs-provider/explain.hpp"
#include "libverbs-provider/verbs/clock.hpp"

namespace softhca::provider {
namespace {

/// Yields between two checks of the daemon, while waiting for room in the doorbell ring.
constexpr unsigned kYieldsBeforeCheck = 1024;

std::size_t command_bytes(const std::byte* command) {
  abi::CommandHeader header;
  std::memcpy(&header, command, sizeof header);
  return sizeof header + header.payload_bytes;
}

/// Hands the commands [first, end) over in VCBs. False: too few are free, or the engine took one
/// away.
bool hand_over_in_vcbs(Qp& qp, std::uint32_t first, std::uint32_t end) {
  ClientSession& session = qp.context->session;
  const ClaimedVcbs claimed = session.claim_vcbs(end - first);
  if (claimed.bits == 0) return false;
  std::uint32_t sequence = first;
  claimed.for_each([&](unsigned vcb) {
    const std::byte* command = slot_of(qp.send, sequence++);
    session.write_vcb(vcb, command, command_bytes(command));
  });
  return session.hand_over(claimed.bits);
}

/// Rings a doorbell; waits for room in the ring. Returns 0, or an errno value if the daemon has
/// ended.
int ring(Qp& qp, abi::DoorbellCause cause) {
  Context& context = *qp.context;
  const abi::Doorbell doorbell = abi::make_doorbell(qp.qpn, qp.send.next, cause);
  for (unsigned yields = 1; !context.session.ring_doorbell(doorbell); ++yields) {
    context.session.wake_if_parked();
    if (yields % kYieldsBeforeCheck == 0 && context.control.hung_up()) return refuse_lost();
    sched_yield();
  }
  qp.send.rung = qp.send.next;
  return 0;
}

}  // namespace

const char* name_of_opcode(unsigned opcode) {
  constexpr const char* kNames[] = {"IBV_WR_RDMA_WRITE",
                                    "IBV_WR_RDMA_WRITE_WITH_IMM",
                                    "IBV_WR_SEND",
                                    "IBV_WR_SEND_WITH_IMM",
                                    "IBV_WR_RDMA_READ",
                                    "IBV_WR_ATOMIC_CMP_AND_SWP",
                                    "IBV_WR_ATOMIC_FETCH_AND_ADD",
                                    "IBV_WR_LOCAL_INV",
                                    "IBV_WR_BIND_MW",
                                    "IBV_WR_SEND_WITH_INV",
                                    "IBV_WR_TSO",
                                    "IBV_WR_DRIVER1",
                                    "opcode 12",
                                    "opcode 13",
                                    "IBV_WR_FLUSH",
                                    "IBV_WR_ATOMIC_WRITE"};
  return opcode < std::size(kNames) ? kNames[opcode] : "an unknown opcode";
}

int refuse_opcode(const Qp& qp, unsigned opcode) {
  return refuse(EINVAL, "wr.opcode %u (%s): a queue pair of type %s has no such operation", opcode,
                name_of_opcode(opcode), name_of_type(qp.type));
}

int refuse_full(const Sq& queue) {
  return refuse(ENOMEM,
                "the send queue is full: %u work requests (max_send_wr) have no polled completion",
                queue.max_wr);
}

int may_post(const Qp& qp) {
  if (qp.context->control.lost()) return refuse_lost();
  const int state = qp.state.load(std::memory_order_acquire);
  const bool takes =
      state == IBV_QPS_RTS || state == IBV_QPS_SQD || state == IBV_QPS_SQE || state == IBV_QPS_ERR;
  if (takes) return 0;
  return refuse(EINVAL, "the queue pair is in %s, must be in RTS, SQD, SQE or ERR",
                name_of_state(state));
}

int fill_bind(abi::CommandHeader& header, const ibv_mw* mw, std::uint32_t rkey,
              const ibv_mw_bind_info& info) {
  constexpr std::uint32_t kOwnersBits = 0xff;
  if (mw == nullptr) return refuse(EINVAL, "mw is NULL");
  if (((mw->rkey ^ rkey) & ~kOwnersBits) != 0)
    return refuse(EINVAL, "rkey 0x%x differs from mw->rkey 0x%x in more than the last 8 bits", rkey,
                  mw->rkey);
  if (info.mr == nullptr && info.length != 0)
    return refuse(EINVAL, "bind_info.mr is NULL, with bind_info.length %llu",
                  static_cast<unsigned long long>(info.length));
  header.rkey = rkey;
  header.remote_addr = info.addr;
  header.compare_add = info.length;
  header.imm = info.mw_access_flags;
  header.swap = info.mr != nullptr ? info.mr->lkey : 0;
  return 0;
}

void tell_posted(const Sq& queue) {
  queue.tail->posted.store(abi::post_stamp(queue.next, nanoseconds(CLOCK_MONOTONIC)),
                           std::memory_order_relaxed);
}

int announce(Qp& qp, std::uint32_t first) {
  const std::uint32_t end = qp.send.next;
  if (first == end) return 0;
  if (end - first > kLongestVcbChain || doorbell_pends(qp) || !hand_over_in_vcbs(qp, first, end))
    return announce_by_doorbell(qp, first);
  qp.send.lacked = Sq::kHasNotLacked;
  return 0;
}

int announce_by_doorbell(Qp& qp, std::uint32_t first) {
  Sq& queue = qp.send;
  if (queue.next - first > kLongestVcbChain) return ring(qp, abi::DoorbellCause::kChain);
  if (queue.lacked == Sq::kHasNotLacked && doorbell_pends(qp))
    return ring(qp, abi::DoorbellCause::kOther);
  // The daemon grants more VCBs to a process that rings for this cause.
  queue.lacked = qp.context->session.granted_vcbs();
  return ring(qp, abi::DoorbellCause::kNoVcb);
}

bool doorbell_pends(const Qp& qp) {
  const Sq& queue = qp.send;
  const std::uint32_t ahead = queue.rung - queue.completed.load(std::memory_order_acquire);
  return static_cast<std::int32_t>(ahead) > 0 && qp.context->session.granted_vcbs() <= queue.lacked;
}

}  // namespace softhca::provider
