// SPDX-License-Identifier: Apache-2.0

// The calls of extended completion queues, from ibv_start_poll() to ibv_end_poll().
#include <cerrno>

#include "libverbs-provider/context.hpp"
#include "libverbs-provider/explain.hpp"
#include "libverbs-provider/operations.hpp"
#include "libverbs-provider/verbs/clock.hpp"
#include "libverbs-provider/verbs/polling.hpp"

namespace softhca::provider {
namespace {

Cq& from(ibv_cq_ex* cq) { return *reinterpret_cast<Cq*>(cq); }

void enter(Cq& cq) {
  if (!cq.single_threaded) cq.lock.lock();
}
void leave(Cq& cq) {
  if (!cq.single_threaded) cq.lock.unlock();
}

/// Takes the next completion. Returns 0 or ENOENT. Frees the element at once, because a long batch
/// must not fill the ring.
int take_next(Cq& cq) {
  const std::uint32_t before = cq.ring.consumer;
  const bool taken = take_completion(cq, cq.current, cq.current_timestamp);
  if (cq.ring.consumer != before)
    cq.ring.header->consumer.store(cq.ring.consumer, std::memory_order_release);
  if (!taken) return ENOENT;
  cq.base.cq_ex.status = cq.current.status;
  cq.base.cq_ex.wr_id = cq.current.wr_id;
  return 0;
}

int start_poll(ibv_cq_ex* ex, ibv_poll_cq_attr* attr) {
  Cq& cq = from(ex);
  if (attr->comp_mask != 0)
    return failed("ibv_start_poll", refuse(EINVAL, "comp_mask 0x%x, must be 0", attr->comp_mask));
  if (cq.context->forked.load(std::memory_order_relaxed)) return refuse_poll(cq);
  enter(cq);
  if (take_next(cq) == 0) {
    cq.empty_polls = 0;
    return 0;
  }
  ++cq.empty_polls;
  leave(cq);
  const int error = poll_in_vain(cq);
  return error != 0 ? error : ENOENT;
}

int next_poll(ibv_cq_ex* ex) { return take_next(from(ex)); }

void end_poll(ibv_cq_ex* ex) { leave(from(ex)); }

ibv_wc_opcode read_opcode(ibv_cq_ex* ex) { return from(ex).current.opcode; }
std::uint32_t read_vendor_err(ibv_cq_ex* ex) { return from(ex).current.vendor_err; }
std::uint32_t read_byte_len(ibv_cq_ex* ex) { return from(ex).current.byte_len; }
__be32 read_imm_data(ibv_cq_ex* ex) { return from(ex).current.imm_data; }
std::uint32_t read_qp_num(ibv_cq_ex* ex) { return from(ex).current.qp_num; }
std::uint32_t read_src_qp(ibv_cq_ex* ex) { return from(ex).current.src_qp; }
unsigned read_wc_flags(ibv_cq_ex* ex) { return from(ex).current.wc_flags; }
std::uint32_t read_slid(ibv_cq_ex* ex) { return from(ex).current.slid; }
std::uint8_t read_sl(ibv_cq_ex* ex) { return from(ex).current.sl; }
std::uint8_t read_dlid_path_bits(ibv_cq_ex* ex) { return from(ex).current.dlid_path_bits; }
std::uint64_t read_completion_ts(ibv_cq_ex* ex) { return from(ex).current_timestamp; }

/// Returns the timestamp on the real-time clock. Timestamps are monotonic, and the difference of
/// both clocks changes whenever the real-time clock is set.
std::uint64_t read_completion_wallclock_ns(ibv_cq_ex* ex) {
  const std::uint64_t age = nanoseconds(CLOCK_MONOTONIC) - from(ex).current_timestamp;
  return nanoseconds(CLOCK_REALTIME) - age;
}

}  // namespace

void install_poll_operations(Cq& cq, std::uint64_t wc_flags) {
  ibv_cq_ex& ex = cq.base.cq_ex;
  ex.start_poll = start_poll;
  ex.next_poll = next_poll;
  ex.end_poll = end_poll;
  ex.read_opcode = read_opcode;
  ex.read_vendor_err = read_vendor_err;
  ex.read_wc_flags = read_wc_flags;
  if ((wc_flags & IBV_WC_EX_WITH_BYTE_LEN) != 0) ex.read_byte_len = read_byte_len;
  if ((wc_flags & IBV_WC_EX_WITH_IMM) != 0) ex.read_imm_data = read_imm_data;
  if ((wc_flags & IBV_WC_EX_WITH_QP_NUM) != 0) ex.read_qp_num = read_qp_num;
  if ((wc_flags & IBV_WC_EX_WITH_SRC_QP) != 0) ex.read_src_qp = read_src_qp;
  if ((wc_flags & IBV_WC_EX_WITH_SLID) != 0) ex.read_slid = read_slid;
  if ((wc_flags & IBV_WC_EX_WITH_SL) != 0) ex.read_sl = read_sl;
  if ((wc_flags & IBV_WC_EX_WITH_DLID_PATH_BITS) != 0) ex.read_dlid_path_bits = read_dlid_path_bits;
  if ((wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP) != 0)
    ex.read_completion_ts = read_completion_ts;
  if ((wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK) != 0)
    ex.read_completion_wallclock_ns = read_completion_wallclock_ns;
}

}  // namespace softhca::provider
