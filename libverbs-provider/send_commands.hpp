// Putting commands into a send queue and announcing them: what ibv_post_send() and the ibv_wr_
// calls have in common. Everything here REQUIRES the lock of the send queue.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "abi/checksum.hpp"
#include "libverbs-provider/queues.hpp"

namespace softhca::provider {

// Sets of values of enum ibv_wr_opcode.
inline constexpr unsigned kRdmaOpcodes = 1u << IBV_WR_RDMA_WRITE |
                                         1u << IBV_WR_RDMA_WRITE_WITH_IMM | 1u << IBV_WR_RDMA_READ |
                                         1u << IBV_WR_ATOMIC_WRITE;
inline constexpr unsigned kAtomicOpcodes =
    1u << IBV_WR_ATOMIC_CMP_AND_SWP | 1u << IBV_WR_ATOMIC_FETCH_AND_ADD;
inline constexpr unsigned kSendOpcodes = 1u << IBV_WR_SEND | 1u << IBV_WR_SEND_WITH_IMM;
inline constexpr unsigned kWindowOpcodes = 1u << IBV_WR_BIND_MW | 1u << IBV_WR_LOCAL_INV;
/// What may carry its data inline.
inline constexpr unsigned kPushOpcodes =
    kSendOpcodes | 1u << IBV_WR_SEND_WITH_INV | 1u << IBV_WR_RDMA_WRITE |
    1u << IBV_WR_RDMA_WRITE_WITH_IMM | 1u << IBV_WR_ATOMIC_WRITE;

// Of rdma-core 45 and later; the header may be of an earlier version.
inline constexpr unsigned kWrFlush = 14;                   ///< IBV_WR_FLUSH
inline constexpr std::uint64_t kQpExWithFlush = 1u << 11;  ///< IBV_QP_EX_WITH_FLUSH
static_assert(kQpExWithFlush < IBV_QP_EX_WITH_ATOMIC_WRITE);

/// What ibv_post_send() takes.
constexpr unsigned opcodes_of(ibv_qp_type type) {
  switch (type) {
    case IBV_QPT_RC:
      return kSendOpcodes | kRdmaOpcodes | kAtomicOpcodes | kWindowOpcodes |
             1u << IBV_WR_SEND_WITH_INV;
    case IBV_QPT_UC:
      return kSendOpcodes | kWindowOpcodes | 1u << IBV_WR_RDMA_WRITE |
             1u << IBV_WR_RDMA_WRITE_WITH_IMM;
    case IBV_QPT_XRC_SEND:
      return opcodes_of(IBV_QPT_RC) & ~(1u << IBV_WR_ATOMIC_WRITE);
    case IBV_QPT_UD:
      return kSendOpcodes;
    default:
      return 0;
  }
}

/// What the ibv_wr_ calls take.
constexpr unsigned extended_opcodes_of(ibv_qp_type type) {
  return opcodes_of(type) | (type == IBV_QPT_RC ? 1u << kWrFlush : 0);
}

constexpr bool in(unsigned set, unsigned opcode) { return opcode < 32 && (set >> opcode & 1) != 0; }

/// Whether commands may be posted now: 0 or an errno value.
int may_post(const Qp& qp);

/// CommandHeader::flags of enum ibv_send_flags.
inline std::uint8_t command_flags(const Qp& qp, unsigned send_flags) {
  std::uint8_t flags = 0;
  if ((send_flags & IBV_SEND_FENCE) != 0) flags |= abi::kCommandFence;
  if (qp.signal_all || (send_flags & IBV_SEND_SIGNALED) != 0) flags |= abi::kCommandSignaled;
  if ((send_flags & IBV_SEND_SOLICITED) != 0) flags |= abi::kCommandSolicited;
  if ((send_flags & IBV_SEND_INLINE) != 0) flags |= abi::kCommandInline;
  return flags;
}

inline std::byte* slot_of(const SendQueue& queue, std::uint32_t sequence) {
  return queue.ring + std::size_t{sequence & queue.mask} * queue.stride;
}

inline bool is_full(const SendQueue& queue) {
  return queue.next - queue.completed.load(std::memory_order_acquire) >= queue.max_wr;
}

/// Where the payload of the next command goes.
inline std::byte* next_payload(const SendQueue& queue) {
  return slot_of(queue, queue.next) + sizeof(abi::CommandHeader);
}

/// Tells the engine that the next command is posted now.
void tell_posted(const SendQueue& queue);

/// Makes `header`, whose payload stands in the queue already, the next command. REQUIRES: there is
/// room.
inline void append(Qp& qp, abi::CommandHeader& header, std::uint64_t wr_id) {
  SendQueue& queue = qp.send;
  header.qpn = qp.qpn;
  header.sequence = queue.next;
  header.checksum = abi::command_checksum(header, next_payload(queue));
  std::memcpy(slot_of(queue, queue.next), &header, sizeof header);
  queue.wr_ids[queue.next & queue.mask] = wr_id;
  if (abi::is_sampled(queue.next)) tell_posted(queue);
  ++queue.next;
}

/// What a bind command says. EINVAL: `rkey` cannot be a key of this window, or there is no region.
int fill_bind(abi::CommandHeader& header, const ibv_mw* mw, std::uint32_t rkey,
              const ibv_mw_bind_info& info);

/// Tells the engine of the commands from `first` on: a short chain goes to virtual collect buffers,
/// a long one is announced by a doorbell. 0 or an errno value.
int announce(Qp& qp, std::uint32_t first);
int announce_by_doorbell(const Qp& qp, std::uint32_t first);

}  // namespace softhca::provider
