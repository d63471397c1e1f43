// The first two steps of a command's way: every command is written into the send queue; a short
// chain goes to virtual collect buffers as well, a long one is announced by a doorbell.
#include <sched.h>

#include <bit>
#include <cerrno>
#include <cstring>

#include "abi/checksum.hpp"
#include "libverbs-provider/context.hpp"
#include "libverbs-provider/operations.hpp"
#include "libverbs-provider/queues.hpp"

namespace softhca::provider {
namespace {

/// Longer chains go by doorbell: one announcement, and the buffers are left to others.
constexpr std::uint32_t kLongestVcbChain = 4;
/// While waiting for room in the doorbell ring: yields between two looks at the daemon.
constexpr unsigned kYieldsBeforeCheck = 1024;

constexpr unsigned kRdmaOpcodes =
    1u << IBV_WR_RDMA_WRITE | 1u << IBV_WR_RDMA_WRITE_WITH_IMM | 1u << IBV_WR_RDMA_READ;
constexpr unsigned kAtomicOpcodes =
    1u << IBV_WR_ATOMIC_CMP_AND_SWP | 1u << IBV_WR_ATOMIC_FETCH_AND_ADD;
constexpr unsigned kSendOpcodes = 1u << IBV_WR_SEND | 1u << IBV_WR_SEND_WITH_IMM;
/// What may carry its data inline.
constexpr unsigned kPushOpcodes = kSendOpcodes | 1u << IBV_WR_SEND_WITH_INV |
                                  1u << IBV_WR_RDMA_WRITE | 1u << IBV_WR_RDMA_WRITE_WITH_IMM;

constexpr unsigned opcodes_of(ibv_qp_type type) {
  switch (type) {
    case IBV_QPT_RC:
      return kSendOpcodes | kRdmaOpcodes | kAtomicOpcodes | 1u << IBV_WR_SEND_WITH_INV;
    case IBV_QPT_UC:
      return kSendOpcodes | (kRdmaOpcodes & ~(1u << IBV_WR_RDMA_READ));
    default:
      return kSendOpcodes;
  }
}

constexpr bool in(unsigned set, unsigned opcode) { return opcode < 32 && (set >> opcode & 1) != 0; }

constexpr bool may_post_send(int state) {
  return state == IBV_QPS_RTS || state == IBV_QPS_SQD || state == IBV_QPS_SQE ||
         state == IBV_QPS_ERR;
}

std::uint8_t command_flags(const Qp& qp, const ibv_send_wr& wr) {
  std::uint8_t flags = 0;
  if ((wr.send_flags & IBV_SEND_FENCE) != 0) flags |= abi::kCommandFence;
  if (qp.signal_all || (wr.send_flags & IBV_SEND_SIGNALED) != 0) flags |= abi::kCommandSignaled;
  if ((wr.send_flags & IBV_SEND_SOLICITED) != 0) flags |= abi::kCommandSolicited;
  if ((wr.send_flags & IBV_SEND_INLINE) != 0) flags |= abi::kCommandInline;
  return flags;
}

/// Fields that depend on the opcode.
void fill_remote(const Qp& qp, const ibv_send_wr& wr, abi::CommandHeader& header) {
  if (in(kRdmaOpcodes, wr.opcode)) {
    header.remote_addr = wr.wr.rdma.remote_addr;
    header.rkey = wr.wr.rdma.rkey;
  } else if (in(kAtomicOpcodes, wr.opcode)) {
    header.remote_addr = wr.wr.atomic.remote_addr;
    header.rkey = wr.wr.atomic.rkey;
    header.compare_add = wr.wr.atomic.compare_add;
    header.swap = wr.wr.atomic.swap;
  }
  if (wr.opcode == IBV_WR_SEND_WITH_INV)
    header.rkey = wr.invalidate_rkey;
  else
    header.imm = wr.imm_data;
  if (qp.type == IBV_QPT_UD) {
    header.remote_qpn = wr.wr.ud.remote_qpn;
    header.remote_qkey = wr.wr.ud.remote_qkey;
    header.address_handle = wr.wr.ud.ah->handle;
  }
}

/// Inline data or entries, behind the header; the number of bytes in use.
std::uint16_t write_payload(const ibv_send_wr& wr, std::byte* payload) {
  std::size_t bytes = 0;
  for (int i = 0; i < wr.num_sge; ++i) {
    const ibv_sge& sge = wr.sg_list[i];
    if ((wr.send_flags & IBV_SEND_INLINE) != 0) {
      if (sge.length != 0)
        std::memcpy(payload + bytes, reinterpret_cast<const void*>(sge.addr), sge.length);
      bytes += sge.length;
    } else {
      const abi::ScatterGather entry{sge.addr, sge.length, sge.lkey};
      std::memcpy(payload + bytes, &entry, sizeof entry);
      bytes += sizeof entry;
    }
  }
  return static_cast<std::uint16_t>(bytes);
}

/// 0 or an errno value.
int check(const Qp& qp, const ibv_send_wr& wr) {
  if (wr.opcode == IBV_WR_LOCAL_INV || wr.opcode == IBV_WR_BIND_MW || wr.opcode == IBV_WR_TSO)
    return EOPNOTSUPP;
  if (!in(opcodes_of(qp.type), wr.opcode)) return EINVAL;
  if (wr.num_sge < 0) return EINVAL;
  if (qp.type == IBV_QPT_UD && wr.wr.ud.ah == nullptr) return EINVAL;
  if ((wr.send_flags & IBV_SEND_INLINE) == 0)
    return static_cast<std::uint32_t>(wr.num_sge) <= qp.send.max_sge ? 0 : EINVAL;
  if (!in(kPushOpcodes, wr.opcode)) return EINVAL;
  std::uint64_t bytes = 0;
  for (int i = 0; i < wr.num_sge; ++i) bytes += wr.sg_list[i].length;
  return bytes <= qp.send.max_inline ? 0 : EINVAL;
}

std::byte* slot(const SendQueue& queue, std::uint32_t sequence) {
  return queue.ring + std::size_t{sequence & queue.mask} * queue.stride;
}

/// Writes one command into the send queue. REQUIRES: the queue's lock held. 0 or an errno value.
int write_command(Qp& qp, const ibv_send_wr& wr) {
  SendQueue& queue = qp.send;
  if (const int error = check(qp, wr)) return error;
  if (queue.next - queue.completed.load(std::memory_order_acquire) >= queue.max_wr) return ENOMEM;
  std::byte* at = slot(queue, queue.next);
  abi::CommandHeader header{};
  header.opcode = static_cast<std::uint8_t>(wr.opcode);
  header.flags = command_flags(qp, wr);
  header.payload_bytes = write_payload(wr, at + sizeof header);
  header.qpn = qp.qpn;
  header.sequence = queue.next;
  fill_remote(qp, wr, header);
  header.checksum = abi::command_checksum(header, at + sizeof header);
  std::memcpy(at, &header, sizeof header);
  queue.wr_ids[queue.next & queue.mask] = wr.wr_id;
  ++queue.next;
  return 0;
}

std::size_t command_bytes(const std::byte* command) {
  abi::CommandHeader header;
  std::memcpy(&header, command, sizeof header);
  return sizeof header + header.payload_bytes;
}

/// Hands the commands [first, end) over in VCBs; false when there are not enough free.
bool collect(Qp& qp, std::uint32_t first, std::uint32_t end) {
  Session& session = qp.context->session;
  const std::uint64_t claimed = session.claim_vcbs(end - first);
  if (claimed == 0) return false;
  std::uint64_t left = claimed;
  for (std::uint32_t sequence = first; sequence != end; ++sequence, left &= left - 1) {
    const std::byte* command = slot(qp.send, sequence);
    session.write_vcb(static_cast<unsigned>(std::countr_zero(left)), command,
                      command_bytes(command));
  }
  session.hand_over(claimed);
  return true;
}

/// Waits for room in the ring; false when the daemon is gone.
bool ring(Qp& qp) {
  Context& context = *qp.context;
  for (unsigned yields = 1; !context.session.ring_doorbell(qp.qpn, qp.send.next); ++yields) {
    context.session.wake_if_parked();
    if (yields % kYieldsBeforeCheck == 0 && context.control.hung_up()) return false;
    sched_yield();
  }
  return true;
}

/// REQUIRES: the queue's lock held. 0 or an errno value.
int announce(Qp& qp, std::uint32_t first) {
  const std::uint32_t end = qp.send.next;
  if (first == end) return 0;
  if (end - first <= kLongestVcbChain && collect(qp, first, end)) return 0;
  return ring(qp) ? 0 : EIO;
}

}  // namespace

int post_send(ibv_qp* ibv_qp, ibv_send_wr* wr, ibv_send_wr** bad) {
  Qp& qp = *to_qp(ibv_qp);
  int error = 0;
  if (qp.context->control.lost())
    error = EIO;
  else if (!may_post_send(qp.state.load(std::memory_order_acquire)))
    error = EINVAL;
  if (error != 0) {
    *bad = wr;
    return error;
  }
  Guard guard(qp.send.lock);
  const std::uint32_t first = qp.send.next;
  ibv_send_wr* const begin = wr;
  while (wr != nullptr && (error = write_command(qp, *wr)) == 0) wr = wr->next;
  if (error != 0) *bad = wr;
  const int lost = announce(qp, first);
  if (lost != 0) *bad = begin;
  return lost != 0 ? lost : error;
}

}  // namespace softhca::provider
