// SPDX-License-Identifier: Apache-2.0

// Puts commands into a send queue and announces them: the common part of ibv_post_send() and the
// ibv_wr_ calls. All functions here REQUIRE the lock of the send queue.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "abi/checksum.hpp"
#include "libverbs-provider/verbs/queues.hpp"

namespace softhca::provider {

// Sets of values of enum ibv_wr_opcode.
inline constexpr unsigned kRdmaOpcodes = 1u << IBV_WR_RDMA_WRITE |
                                         1u << IBV_WR_RDMA_WRITE_WITH_IMM | 1u << IBV_WR_RDMA_READ |
                                         1u << IBV_WR_ATOMIC_WRITE;
inline constexpr unsigned kAtomicOpcodes =
    1u << IBV_WR_ATOMIC_CMP_AND_SWP | 1u << IBV_WR_ATOMIC_FETCH_AND_ADD;
inline constexpr unsigned kSendOpcodes = 1u << IBV_WR_SEND | 1u << IBV_WR_SEND_WITH_IMM;
inline constexpr unsigned kWindowOpcodes = 1u << IBV_WR_BIND_MW | 1u << IBV_WR_LOCAL_INV;
/// Opcodes that may carry their data inline.
inline constexpr unsigned kPushOpcodes =
    kSendOpcodes | 1u << IBV_WR_SEND_WITH_INV | 1u << IBV_WR_RDMA_WRITE |
    1u << IBV_WR_RDMA_WRITE_WITH_IMM | 1u << IBV_WR_ATOMIC_WRITE;

// Values of rdma-core 45 and later; this build's header may be of an earlier version.
inline constexpr unsigned kWrFlush = 14;                   ///< IBV_WR_FLUSH
inline constexpr std::uint64_t kQpExWithFlush = 1u << 11;  ///< IBV_QP_EX_WITH_FLUSH
static_assert(kQpExWithFlush < IBV_QP_EX_WITH_ATOMIC_WRITE);

/// A packet has this part of a queue pair number. Cards ignore the rest of `remote_qpn`.
inline constexpr std::uint32_t kQpnBits = 0xffffff;

/// Returns the opcodes of ibv_post_send() for a type.
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

/// Returns the opcodes of the ibv_wr_ calls for a type.
constexpr unsigned extended_opcodes_of(ibv_qp_type type) {
  return opcodes_of(type) | (type == IBV_QPT_RC ? 1u << kWrFlush : 0);
}

constexpr bool in(unsigned set, unsigned opcode) { return opcode < 32 && (set >> opcode & 1) != 0; }

/// Returns the name of a work request: "IBV_WR_SEND".
const char* name_of_opcode(unsigned opcode);

/// Checks whether commands may be posted now. Returns 0 or an errno value.
int may_post(const Qp& qp);
/// Refuses an opcode that the type does not have. Returns EINVAL.
int refuse_opcode(const Qp& qp, unsigned opcode);
/// Refuses a command, as all elements of the send queue are in use. Returns ENOMEM.
int refuse_full(const Sq& queue);

/// Returns CommandHeader::flags for enum ibv_send_flags.
inline std::uint8_t command_flags(const Qp& qp, unsigned send_flags) {
  std::uint8_t flags = 0;
  if ((send_flags & IBV_SEND_FENCE) != 0) flags |= abi::kCommandFence;
  if (qp.signal_all || (send_flags & IBV_SEND_SIGNALED) != 0) flags |= abi::kCommandSignaled;
  if ((send_flags & IBV_SEND_SOLICITED) != 0) flags |= abi::kCommandSolicited;
  if ((send_flags & IBV_SEND_INLINE) != 0) flags |= abi::kCommandInline;
  return flags;
}

inline std::byte* slot_of(const Sq& queue, std::uint32_t sequence) {
  return queue.ring + std::size_t{sequence & queue.mask} * queue.stride;
}

inline bool is_full(const Sq& queue) {
  return queue.next - queue.completed.load(std::memory_order_acquire) >= queue.max_wr;
}

/// Returns the place of the next command's payload.
inline std::byte* next_payload(const Sq& queue) {
  return slot_of(queue, queue.next) + sizeof(abi::CommandHeader);
}

/// Stores for the engine that the next command is posted now.
void tell_posted(const Sq& queue);

/// Makes `header` the next command. REQUIRES: its payload is in the queue, and there is room.
inline void append(Qp& qp, abi::CommandHeader& header, std::uint64_t wr_id) {
  Sq& queue = qp.send;
  header.qpn = qp.qpn;
  header.sequence = queue.next;
  header.checksum = abi::command_checksum(header, next_payload(queue));
  std::memcpy(slot_of(queue, queue.next), &header, sizeof header);
  queue.wr_ids[queue.next & queue.mask] = wr_id;
  if (abi::is_sampled(queue.next)) tell_posted(queue);
  ++queue.next;
}

/// Fills in a bind command. Returns EINVAL if `rkey` cannot be a key of this window, or there is no
/// region.
int fill_bind(abi::CommandHeader& header, const ibv_mw* mw, std::uint32_t rkey,
              const ibv_mw_bind_info& info);

/// Announces the commands from `first` on: a short chain in virtual collect buffers, a long one by
/// a doorbell. Returns 0 or an errno value.
int announce(Qp& qp, std::uint32_t first);
int announce_by_doorbell(Qp& qp, std::uint32_t first);
/// True if the engine may still have to fetch commands that a doorbell announced. It would take a
/// later one that comes in a VCB out of turn, and fetch it again (B3). False if it was rung for
/// want of a VCB and the process has more now: then they are tried.
bool doorbell_pends(const Qp& qp);

}  // namespace softhca::provider
