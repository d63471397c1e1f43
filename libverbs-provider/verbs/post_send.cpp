// SPDX-License-Identifier: Apache-2.0

// The first step of a command (docs/architecture.md): writes it into the send queue.
// send_commands.cpp has the second step, which announces it.
#include <cerrno>
#include <cstring>

#include "libverbs-provider/context.hpp"
#include "libverbs-provider/explain.hpp"
#include "libverbs-provider/operations.hpp"
#include "libverbs-provider/verbs/send_commands.hpp"

namespace softhca::provider {
namespace {

/// Sets the fields that depend on the opcode.
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
  if (qp.type == IBV_QPT_XRC_SEND) {
    header.flags |= abi::kCommandAddressed;
    header.remote_srq = wr.qp_type.xrc.remote_srqn;
  }
  if (qp.type == IBV_QPT_UD) {
    header.flags |= abi::kCommandAddressed;
    header.remote_qpn = wr.wr.ud.remote_qpn & kQpnBits;
    header.remote_qkey = wr.wr.ud.remote_qkey;
    header.address_handle = wr.wr.ud.ah->handle;
  }
}

/// Writes inline data or entries behind the header. Returns the number of bytes.
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

/// Checks a work request. Returns 0 or an errno value.
int check(const Qp& qp, const ibv_send_wr& wr) {
  if (wr.opcode == IBV_WR_TSO) return refuse(EOPNOTSUPP, "wr.opcode IBV_WR_TSO is not supported");
  if (!in(opcodes_of(qp.type), wr.opcode)) return refuse_opcode(qp, wr.opcode);
  if (wr.num_sge < 0) return refuse(EINVAL, "wr.num_sge %d is negative", wr.num_sge);
  if (qp.type == IBV_QPT_UD && wr.wr.ud.ah == nullptr) return refuse(EINVAL, "wr.wr.ud.ah is NULL");
  if ((wr.send_flags & IBV_SEND_INLINE) == 0) {
    if (static_cast<std::uint32_t>(wr.num_sge) <= qp.send.max_sge) return 0;
    return refuse(EINVAL, "wr.num_sge %d, at most max_send_sge %u", wr.num_sge, qp.send.max_sge);
  }
  if (!in(kPushOpcodes, wr.opcode))
    return refuse(EINVAL, "IBV_SEND_INLINE with %s, which has no data to send",
                  name_of_opcode(wr.opcode));
  std::uint64_t bytes = 0;
  for (int i = 0; i < wr.num_sge; ++i) bytes += wr.sg_list[i].length;
  if (bytes <= qp.send.max_inline) return 0;
  return refuse(EINVAL, "inline data of %llu bytes, at most max_inline_data %u",
                static_cast<unsigned long long>(bytes), qp.send.max_inline);
}

/// Writes a command without data. Returns 0 or an errno value.
int write_window_command(Qp& qp, const ibv_send_wr& wr) {
  if (!in(opcodes_of(qp.type), wr.opcode)) return refuse_opcode(qp, wr.opcode);
  if (is_full(qp.send)) return refuse_full(qp.send);
  abi::CommandHeader header{};
  header.opcode = static_cast<std::uint8_t>(wr.opcode);
  header.flags = command_flags(qp, wr.send_flags & ~unsigned{IBV_SEND_INLINE});
  header.rkey = wr.invalidate_rkey;
  if (wr.opcode == IBV_WR_BIND_MW) {
    // ibv_bind_mw() binds windows of type 1.
    if (wr.bind_mw.mw == nullptr || wr.bind_mw.mw->type != IBV_MW_TYPE_2)
      return refuse(EINVAL, "wr.bind_mw.mw must be a memory window of type 2");
    const auto& bind = wr.bind_mw;
    if (const int error = fill_bind(header, bind.mw, bind.rkey, bind.bind_info)) return error;
  }
  append(qp, header, wr.wr_id);
  return 0;
}

/// Writes one command into the send queue. Returns 0 or an errno value.
int write_command(Qp& qp, const ibv_send_wr& wr) {
  if (in(kWindowOpcodes, wr.opcode)) return write_window_command(qp, wr);
  if (const int error = check(qp, wr)) return error;
  if (is_full(qp.send)) return refuse_full(qp.send);
  abi::CommandHeader header{};
  header.opcode = static_cast<std::uint8_t>(wr.opcode);
  header.flags = command_flags(qp, wr.send_flags);
  header.payload_bytes = write_payload(wr, next_payload(qp.send));
  fill_remote(qp, wr, header);
  append(qp, header, wr.wr_id);
  return 0;
}

}  // namespace

int post_send(ibv_qp* ibv_qp, ibv_send_wr* wr, ibv_send_wr** bad) {
  Qp& qp = *to_qp(ibv_qp);
  Guard guard(qp.send.lock);
  int error = may_post(qp);
  if (error != 0) {
    *bad = wr;
    return failed("ibv_post_send", error);
  }
  const std::uint32_t first = qp.send.next;
  ibv_send_wr* const begin = wr;
  while (wr != nullptr && (error = write_command(qp, *wr)) == 0) wr = wr->next;
  if (error != 0) *bad = wr;
  const int lost = announce(qp, first);
  if (lost != 0) *bad = begin;
  return report("ibv_post_send", lost != 0 ? lost : error);
}

}  // namespace softhca::provider
