// SPDX-License-Identifier: Apache-2.0

// A command begins with the call that names its opcode, and the setters add to it. It enters the
// send queue when the next command begins or all are complete. ibv_wr_complete() reports the first
// mistake, and then posts nothing.
#include "libverbs-provider/verbs/work_requests.hpp"

#include <cerrno>

#include "libverbs-provider/context.hpp"
#include "libverbs-provider/explain.hpp"
#include "libverbs-provider/operations.hpp"
#include "libverbs-provider/verbs/pieces.hpp"
#include "libverbs-provider/verbs/send_commands.hpp"

namespace softhca::provider {
namespace {

Qp& from(ibv_qp_ex* qp) { return *to_qp(&qp->qp_base); }

/// Keeps the first mistake: `refused()` explains it and returns an errno value.
template <class Refused>
[[gnu::cold]] void fail(Qp& qp, Refused&& refused) {
  if (qp.open.error == 0) qp.open.error = refused();
}

/// Puts the current command, which is complete now, into the send queue.
void finish(Qp& qp) {
  OpenCommand& open = qp.open;
  if (!open.begun) return;
  open.begun = false;
  const bool each_addressed = qp.type == IBV_QPT_UD || qp.type == IBV_QPT_XRC_SEND;
  const bool addressed = (open.header.flags & abi::kCommandAddressed) != 0;
  if (each_addressed && !addressed && !in(kWindowOpcodes, open.header.opcode))
    fail(qp, [&] {
      return refuse(EINVAL, "%s without ibv_wr_set_%s", name_of_opcode(open.header.opcode),
                    qp.type == IBV_QPT_UD ? "ud_addr, or with a NULL address handle" : "xrc_srqn");
    });
  if (open.error != 0) return;
  show_payload(qp, true);
  open.in_vcb = false;
  append(qp, open.header, open.wr_id);
}

/// Begins a command and returns its header. After a mistake, later writes to the header have no
/// effect.
abi::CommandHeader& begin(ibv_qp_ex* ex, unsigned opcode) {
  Qp& qp = from(ex);
  finish(qp);
  if (!in(extended_opcodes_of(qp.type), opcode))
    fail(qp, [&] { return refuse_opcode(qp, opcode); });
  if (is_full(qp.send)) fail(qp, [&] { return refuse_full(qp.send); });
  OpenCommand& open = qp.open;
  open.begun = true;
  open.wr_id = ex->wr_id;
  open.header = {};
  open.header.opcode = static_cast<std::uint8_t>(opcode);
  open.header.flags = command_flags(qp, ex->wr_flags & ~unsigned{IBV_SEND_INLINE});
  begin_pieces(qp);
  return open.header;
}

// Show the segments of the header by their content.
void show_remote(ibv_qp_ex* ex) { show_header(from(ex), 2, 4); }
void show_operands(ibv_qp_ex* ex) { show_header(from(ex), 2, 6); }
void show_key_and_imm(ibv_qp_ex* ex) { show_header(from(ex), 3, 4); }
void show_address(ibv_qp_ex* ex) { show_header(from(ex), 6, 8); }

void begin_remote(ibv_qp_ex* ex, unsigned opcode, std::uint32_t rkey, std::uint64_t addr) {
  abi::CommandHeader& header = begin(ex, opcode);
  header.rkey = rkey;
  header.remote_addr = addr;
}

int refuse_payload(const Qp& qp) {
  if ((qp.open.header.flags & abi::kCommandInline) != 0)
    return refuse(EINVAL, "inline data of more than max_inline_data %u bytes", qp.send.max_inline);
  return refuse(EINVAL, "more entries than max_send_sge %u", qp.send.max_sge);
}

/// Returns the place for `bytes` more of payload, or null after a mistake.
std::byte* extend(Qp& qp, std::size_t bytes, std::size_t most) {
  OpenCommand& open = qp.open;
  if (!open.begun)
    fail(qp, [] { return refuse(EINVAL, "data or entries without an operation"); });
  else if (bytes > most - open.header.payload_bytes)
    fail(qp, [&] { return refuse_payload(qp); });
  if (open.error != 0) return nullptr;
  std::byte* at = next_payload(qp.send) + open.header.payload_bytes;
  open.header.payload_bytes = static_cast<std::uint16_t>(open.header.payload_bytes + bytes);
  return at;
}

void set_data(Qp& qp, const void* data, std::size_t bytes) {
  if (!in(kPushOpcodes, qp.open.header.opcode))
    fail(qp, [&] {
      return refuse(EINVAL, "inline data with %s, which has no data to send",
                    name_of_opcode(qp.open.header.opcode));
    });
  qp.open.header.flags |= abi::kCommandInline;
  std::byte* at = extend(qp, bytes, qp.send.max_inline);
  if (at == nullptr || bytes == 0) return;
  std::memcpy(at, data, bytes);
  show_payload(qp, false);
}

void wr_rdma_read(ibv_qp_ex* ex, std::uint32_t rkey, std::uint64_t addr) {
  begin_remote(ex, IBV_WR_RDMA_READ, rkey, addr);
  show_remote(ex);
}

void wr_rdma_write(ibv_qp_ex* ex, std::uint32_t rkey, std::uint64_t addr) {
  begin_remote(ex, IBV_WR_RDMA_WRITE, rkey, addr);
  show_remote(ex);
}

void wr_rdma_write_imm(ibv_qp_ex* ex, std::uint32_t rkey, std::uint64_t addr, __be32 imm) {
  begin_remote(ex, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, addr);
  from(ex).open.header.imm = imm;
  show_remote(ex);
}

void wr_atomic_cmp_swp(ibv_qp_ex* ex, std::uint32_t rkey, std::uint64_t addr, std::uint64_t compare,
                       std::uint64_t swap) {
  begin_remote(ex, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, addr);
  from(ex).open.header.compare_add = compare;
  from(ex).open.header.swap = swap;
  show_operands(ex);
}

void wr_atomic_fetch_add(ibv_qp_ex* ex, std::uint32_t rkey, std::uint64_t addr, std::uint64_t add) {
  begin_remote(ex, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, addr);
  from(ex).open.header.compare_add = add;
  show_operands(ex);
}

void wr_atomic_write(ibv_qp_ex* ex, std::uint32_t rkey, std::uint64_t addr, const void* value) {
  begin_remote(ex, IBV_WR_ATOMIC_WRITE, rkey, addr);
  show_remote(ex);
  set_data(from(ex), value, sizeof(std::uint64_t));
}

void wr_flush(ibv_qp_ex* ex, std::uint32_t rkey, std::uint64_t addr, std::size_t bytes,
              std::uint8_t placement, std::uint8_t selectivity) {
  begin_remote(ex, kWrFlush, rkey, addr);
  constexpr std::uint8_t kPlacements = 3, kSelectivities = 2;
  if (placement == 0 || placement > kPlacements || selectivity >= kSelectivities)
    fail(from(ex), [&] {
      return refuse(EINVAL, "type %u and level %u of a flush: must be 1 to %u and 0 to %u",
                    placement, selectivity, kPlacements, kSelectivities - 1u);
    });
  from(ex).open.header.compare_add = bytes;
  from(ex).open.header.swap = abi::flush_word(placement, selectivity);
  show_operands(ex);
}

void wr_local_inv(ibv_qp_ex* ex, std::uint32_t rkey) {
  begin(ex, IBV_WR_LOCAL_INV).rkey = rkey;
  show_key_and_imm(ex);
}

void wr_bind_mw(ibv_qp_ex* ex, ibv_mw* mw, std::uint32_t rkey, const ibv_mw_bind_info* info) {
  abi::CommandHeader& header = begin(ex, IBV_WR_BIND_MW);
  const bool type_2 = mw != nullptr && mw->type == IBV_MW_TYPE_2;
  Qp& qp = from(ex);
  if (!type_2)
    fail(qp, [] { return refuse(EINVAL, "mw must be a memory window of type 2"); });
  else if (qp.open.error == 0)
    qp.open.error = fill_bind(header, mw, rkey, *info);
  show_operands(ex);
}

void wr_send(ibv_qp_ex* ex) { begin(ex, IBV_WR_SEND); }

void wr_send_imm(ibv_qp_ex* ex, __be32 imm) {
  begin(ex, IBV_WR_SEND_WITH_IMM).imm = imm;
  show_key_and_imm(ex);
}

void wr_send_inv(ibv_qp_ex* ex, std::uint32_t rkey) {
  begin(ex, IBV_WR_SEND_WITH_INV).rkey = rkey;
  show_key_and_imm(ex);
}

void wr_set_ud_addr(ibv_qp_ex* ex, ibv_ah* ah, std::uint32_t remote_qpn, std::uint32_t qkey) {
  OpenCommand& open = from(ex).open;
  if (ah == nullptr) return;
  open.header.flags |= abi::kCommandAddressed;
  open.header.address_handle = ah->handle;
  open.header.remote_qpn = remote_qpn & kQpnBits;
  open.header.remote_qkey = qkey;
  show_address(ex);
}

void wr_set_xrc_srqn(ibv_qp_ex* ex, std::uint32_t remote_srqn) {
  OpenCommand& open = from(ex).open;
  if (from(ex).type != IBV_QPT_XRC_SEND || !open.begun)
    return fail(from(ex), [&] {
      return refuse(EINVAL, "ibv_wr_set_xrc_srqn %s",
                    open.begun ? "on a queue pair that is not XRC_SEND" : "without an operation");
    });
  open.header.flags |= abi::kCommandAddressed;
  open.header.remote_srq = remote_srqn;
  show_address(ex);
}

/// True, and a mistake, if the command has data or entries already.
bool has_payload(Qp& qp) {
  if (qp.open.header.payload_bytes == 0) return false;
  fail(qp, [] { return refuse(EINVAL, "the work request has data or entries already"); });
  return true;
}

void set_entry(Qp& qp, const ibv_sge& sge) {
  const abi::ScatterGather entry{sge.addr, sge.length, sge.lkey};
  std::byte* at = extend(qp, sizeof entry, qp.send.max_sge * sizeof entry);
  if (at == nullptr) return;
  std::memcpy(at, &entry, sizeof entry);
  show_payload(qp, false);
}

void wr_set_sge_list(ibv_qp_ex* ex, std::size_t count, const ibv_sge* list) {
  Qp& qp = from(ex);
  if (has_payload(qp)) return;
  qp.open.header.flags &= static_cast<std::uint8_t>(~abi::kCommandInline);
  for (std::size_t i = 0; i < count; ++i) set_entry(qp, list[i]);
}

void wr_set_sge(ibv_qp_ex* ex, std::uint32_t lkey, std::uint64_t addr, std::uint32_t length) {
  const ibv_sge sge{addr, length, lkey};
  wr_set_sge_list(ex, 1, &sge);
}

void wr_set_inline_data(ibv_qp_ex* ex, void* data, std::size_t bytes) {
  if (!has_payload(from(ex))) set_data(from(ex), data, bytes);
}

void wr_set_inline_data_list(ibv_qp_ex* ex, std::size_t count, const ibv_data_buf* list) {
  if (has_payload(from(ex))) return;
  for (std::size_t i = 0; i < count; ++i) set_data(from(ex), list[i].addr, list[i].length);
}

void wr_start(ibv_qp_ex* ex) {
  Qp& qp = from(ex);
  qp.send.lock.lock();
  qp.open.first = qp.send.next;
  qp.open.begun = false;
  qp.open.in_vcb = false;
  qp.open.begun_vcbs = 0;
  qp.open.error = may_post(qp);
}

/// Drops all commands since ibv_wr_start().
void forget(Qp& qp) {
  withdraw_pieces(qp);
  qp.send.next = qp.open.first;
}

int wr_complete(ibv_qp_ex* ex) {
  Qp& qp = from(ex);
  finish(qp);
  int error = qp.open.error;
  if (error == 0)
    error = finish_pieces(qp);
  else
    forget(qp);
  qp.send.lock.unlock();
  return report("ibv_wr_complete", error);
}

void wr_abort(ibv_qp_ex* ex) {
  Qp& qp = from(ex);
  forget(qp);
  qp.send.lock.unlock();
}

constexpr struct {
  std::uint64_t operation;
  unsigned opcode;
} kOperations[] = {
    {IBV_QP_EX_WITH_RDMA_WRITE, IBV_WR_RDMA_WRITE},
    {IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_WRITE_WITH_IMM},
    {IBV_QP_EX_WITH_SEND, IBV_WR_SEND},
    {IBV_QP_EX_WITH_SEND_WITH_IMM, IBV_WR_SEND_WITH_IMM},
    {IBV_QP_EX_WITH_RDMA_READ, IBV_WR_RDMA_READ},
    {IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_CMP_AND_SWP},
    {IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_FETCH_AND_ADD},
    {IBV_QP_EX_WITH_SEND_WITH_INV, IBV_WR_SEND_WITH_INV},
    {IBV_QP_EX_WITH_LOCAL_INV, IBV_WR_LOCAL_INV},
    {IBV_QP_EX_WITH_BIND_MW, IBV_WR_BIND_MW},
    {IBV_QP_EX_WITH_ATOMIC_WRITE, IBV_WR_ATOMIC_WRITE},
    {kQpExWithFlush, kWrFlush},
};

}  // namespace

int check_send_operations(ibv_qp_type type, std::uint64_t operations) {
  for (const auto& known : kOperations)
    if (in(extended_opcodes_of(type), known.opcode)) operations &= ~known.operation;
  if (operations == 0) return 0;
  return refuse(EOPNOTSUPP, "send_ops_flags has operations 0x%llx, which type %s does not have",
                static_cast<unsigned long long>(operations), name_of_type(type));
}

/// Sets all operations, even those that were not requested: an operation that is not possible
/// reports its own error. Atomic write and flush are set only on request: old versions of the
/// library have the flags in their place, and never request them.
void install_send_operations(Qp& qp, std::uint64_t operations) {
  ibv_qp_ex& ex = qp.base.qp_ex;
  qp.base.set_flags(abi34::kQpIsExtended);
  if ((operations & IBV_QP_EX_WITH_ATOMIC_WRITE) != 0) ex.wr_atomic_write = wr_atomic_write;
  if ((operations & kQpExWithFlush) != 0) qp.base.set_flush(wr_flush);
  ex.wr_atomic_cmp_swp = wr_atomic_cmp_swp;
  ex.wr_atomic_fetch_add = wr_atomic_fetch_add;
  ex.wr_bind_mw = wr_bind_mw;
  ex.wr_local_inv = wr_local_inv;
  ex.wr_rdma_read = wr_rdma_read;
  ex.wr_rdma_write = wr_rdma_write;
  ex.wr_rdma_write_imm = wr_rdma_write_imm;
  ex.wr_send = wr_send;
  ex.wr_send_imm = wr_send_imm;
  ex.wr_send_inv = wr_send_inv;
  ex.wr_set_ud_addr = wr_set_ud_addr;
  ex.wr_set_xrc_srqn = wr_set_xrc_srqn;
  ex.wr_set_inline_data = wr_set_inline_data;
  ex.wr_set_inline_data_list = wr_set_inline_data_list;
  ex.wr_set_sge = wr_set_sge;
  ex.wr_set_sge_list = wr_set_sge_list;
  ex.wr_start = wr_start;
  ex.wr_complete = wr_complete;
  ex.wr_abort = wr_abort;
}

}  // namespace softhca::provider
